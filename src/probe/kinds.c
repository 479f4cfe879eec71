/* kinds.c - the table of kinds: one line each. */
#include <string.h>

#include "probe/kind.h"

const struct probe_kind *const probe_kinds[] = {
    &probe_kind_sizes,  &probe_kind_calls,  &probe_kind_arenas,  &probe_kind_brk, &probe_kind_slab,
    &probe_kind_faults, &probe_kind_swapin, &probe_kind_reclaim, &probe_kind_rss, NULL,
};

const struct probe_kind *probe_kind_find(const char *name)
{
    for (const struct probe_kind *const *k = probe_kinds; *k; k++)
        if (!strcmp((*k)->name, name))
            return *k;
    return NULL;
}

const char *probe_kind_name(const struct probe_kind *k) { return k->name; }
const char *probe_kind_summary(const struct probe_kind *k) { return k->summary; }
uint32_t probe_kind_by(const struct probe_kind *k) { return k->by; }
uint32_t probe_kind_may_by(const struct probe_kind *k) { return k->may_by; }
bool probe_kind_uses_library(const struct probe_kind *k) { return k->uses_library; }
bool probe_kind_has_mmap(const struct probe_kind *k) { return k->has_mmap; }
unsigned probe_kind_stream(const struct probe_kind *k) { return k->stream; }
uint32_t probe_kind_stream_by(const struct probe_kind *k) { return k->stream_by; }
bool probe_kind_has_live(const struct probe_kind *k) { return k->has_live; }
bool probe_kind_has_sizes(const struct probe_kind *k) { return k->has_sizes; }
