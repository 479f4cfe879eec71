#include "report/keep.h"

bool keep_is_plain(const struct report_options *o)
{
    const struct selection_options *s = &o->select;
    return !s->from_ns && !s->to_ns && !s->min_bytes && !s->below_bytes && !s->min_lifetime_ns &&
           !s->only_new && !s->thread && !s->function && !s->module && !o->sources &&
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
