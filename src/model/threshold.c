/* threshold.c - Follows glibc's mmap threshold through a recording, as glibc itself raises it
 * when a mapped block is freed. A block that contradicts the value ends the calculation, with
 * the reason. */
#include "model/threshold.h"

#include "base/array.h"
#include "model/tunables.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BYTES ((uint64_t)128 << 10)
#define MOST_BYTES    ((uint64_t)32 << 20)

static void add_step(struct threshold *t, uint64_t bytes, uint64_t time_ns)
{
    if (t->count && t->steps[t->count - 1].time_ns == time_ns) {
        t->steps[t->count - 1].bytes = bytes;
        return;
    }
    if (!ARRAY_ROOM(t->steps, t->count + 1, t->room)) {
        t->doubt = THRESHOLD_NO_MEMORY;
        return;
    }
    t->steps[t->count++] = (struct threshold_step){time_ns, bytes};
}

/* A setting that ends the raising, and maybe the threshold itself. */
static void apply_setting(struct threshold *t, const char *name, size_t name_bytes,
                          const char *value, uint64_t *bytes)
{
    static const char *const names[] = {"mmap_threshold", "trim_threshold", "top_pad", "mmap_max"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) != name_bytes || memcmp(name, names[i], name_bytes) != 0)
            continue;
        char *end;
        uint64_t n = strtoull(value, &end, 0);
        if (end == value || (!i && n > MOST_BYTES))
            return; /* glibc ignores it */
        if (!i)
            *bytes = n;
        t->fixed = true;
        t->start = THRESHOLD_ENVIRONMENT;
    }
}

static void read_environment(struct threshold *t, const char *const *environment, uint64_t *bytes)
{
    static const char *const old[][2] = {{"MALLOC_MMAP_THRESHOLD_=", "mmap_threshold"},
                                         {"MALLOC_TRIM_THRESHOLD_=", "trim_threshold"},
                                         {"MALLOC_TOP_PAD_=", "top_pad"},
                                         {"MALLOC_MMAP_MAX_=", "mmap_max"}};
    for (; *environment; environment++) {
        struct tunable tunable;
        for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
            const char *const value = tunables_after(*environment, old[i][0]);
            if (value)
                apply_setting(t, old[i][1], strlen(old[i][1]), value, bytes);
        }
        for (const char *at = tunables_of(*environment); tunables_next(&at, &tunable);)
            apply_setting(t, tunable.name, tunable.name_bytes, tunable.value, bytes);
    }
}

void threshold_begin(struct threshold *t, const struct trace_image *image)
{
    uint64_t bytes = DEFAULT_BYTES;
    memset(t, 0, sizeof *t);
    if (!image->allocator || strncmp(image->allocator, "glibc", 5) != 0) {
        t->doubt = THRESHOLD_OTHER_ALLOCATOR;
        return;
    }
    if (image->forked_from != UINT32_MAX)
        t->doubt = THRESHOLD_INHERITED;
    else if (image->lost_calls)
        t->doubt = THRESHOLD_LOST_CALLS;
    if (image->settings) {
        t->start = THRESHOLD_DEFAULT;
        read_environment(t, image->settings, &bytes);
    }
    add_step(t, bytes, image->start_ns);
}

void threshold_mapped(struct threshold *t, uint64_t size_bytes, uint64_t time_ns)
{
    if (t->doubt || size_bytes > MOST_BYTES)
        return;
    const uint64_t chunk_bytes = (size_bytes + 8 + 15) & ~(uint64_t)15;
    if (chunk_bytes >= t->steps[t->count - 1].bytes)
        return;
    t->doubt = THRESHOLD_CONTRADICTED;
    t->contradiction_bytes = size_bytes;
    t->contradiction_ns = time_ns;
}

void threshold_freed(struct threshold *t, uint64_t usable_bytes, uint64_t time_ns)
{
    const uint64_t chunk_bytes = usable_bytes + 16;
    if (t->doubt || t->fixed || chunk_bytes > MOST_BYTES ||
        chunk_bytes <= t->steps[t->count - 1].bytes)
        return;
    add_step(t, chunk_bytes, time_ns);
}

void threshold_release(struct threshold *t)
{
    free(t->steps);
    t->steps = NULL;
    t->count = t->room = 0;
}
