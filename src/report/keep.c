#include "report/keep.h"

bool keep_is_plain(const struct report_options *o)
{
    return !selection_any(&o->select, SELECTION_TIME | SELECTION_BLOCKS) && !o->sources &&
           !o->suppressions && !o->at;
}

uint64_t keep_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

uint64_t keep_mix_text(uint64_t h, const char *text)
{
    for (const char *s = text; s && *s; s++)
        h = keep_mix(h, (uint8_t)*s);
    return keep_mix(h, text ? 256 : 257);
}
