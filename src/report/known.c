#include "report/known.h"

#include <stdlib.h>
#include <string.h>

struct suppression *known_frame(struct known *k, uint32_t frame)
{
    if (!k->suppressions || !k->suppressions->count)
        return NULL;
    if (frame >= k->room) {
        size_t room = names_count(k->names) + 256;
        int32_t *more = realloc(k->by_frame, room * sizeof *more);
        if (!more)
            return NULL;
        memset(more + k->room, 0xff, (room - k->room) * sizeof *more);
        k->by_frame = more;
        k->room = room;
    }
    int32_t *found = &k->by_frame[frame];
    if (*found < 0) {
        const struct name_frame *f = names_frame(k->names, frame);
        *found = 0;
        for (size_t i = 0; i < k->suppressions->count && !*found; i++) {
            const char *pattern = k->suppressions->items[i].pattern;
            if (suppression_matches(pattern, f->function) ||
                suppression_matches(pattern, f->file) || suppression_matches(pattern, f->module))
                *found = (int32_t)i + 1;
        }
    }
    return *found ? &k->suppressions->items[*found - 1] : NULL;
}

struct suppression *known_stack(struct known *k, uint32_t stack)
{
    const struct trace_image *image;
    if (!k->suppressions || !k->suppressions->count)
        return NULL;
    image = names_image(k->names);
    uint32_t steps = 0;
    for (uint32_t node = stack; node && node <= image->stacks && steps++ <= image->stacks;
         node = image->nodes[node].parent) {
        const uint32_t *ids;
        size_t n = names_of(k->names, node, &ids);
        for (size_t i = 0; i < n; i++) {
            struct suppression *s = known_frame(k, ids[i]);
            if (s)
                return s;
        }
    }
    return NULL;
}

void known_count(struct known *k, struct suppression *s, uint64_t blocks, uint64_t bytes)
{
    s->blocks += blocks;
    s->bytes += bytes;
    k->blocks += blocks;
    k->bytes += bytes;
}

void known_release(struct known *k)
{
    free(k->by_frame);
    k->by_frame = NULL;
    k->room = 0;
}
