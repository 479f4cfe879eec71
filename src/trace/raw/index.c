/* index.c - Finds or makes the records of images and streams in the index of a raw recording.
 * Two maps lead from the ids in the file to positions in arrays. */
#include "index.h"

struct raw_image *raw_image_of(struct raw *r, uint64_t id)
{
    uint32_t *at = pair_map_at(&r->image_map, id, 0);
    if (!at)
        return NULL;
    if (!*at) {
        struct raw_image *im = ARRAY_ADD(r->images, r->image_count, r->image_cap);
        if (!im)
            return NULL;
        im->id = id;
        im->parent = UINT32_MAX;
        im->first_clock = UINT64_MAX;
        *at = (uint32_t)r->image_count;
        return im;
    }
    return &r->images[*at - 1];
}

void raw_find_parents(struct raw *r)
{
    for (size_t i = 0; i < r->image_count; i++) {
        struct raw_image *im = &r->images[i];
        if (im->forked_from && im->forked_from != im->id)
            im->parent = pair_map_get(&r->image_map, im->forked_from, 0);
    }
}

struct raw_stream *raw_stream_of(struct raw *r, uint64_t image, uint32_t thread, uint32_t lane)
{
    const struct raw_image *im = raw_image_of(r, image);
    uint32_t *at = im ? pair_map_at(&r->stream_map, image, (uint64_t)thread << 32 | lane) : NULL;
    if (!at)
        return NULL;
    if (*at)
        return r->met[*at - 1];
    struct raw_stream *st = arena_alloc(&r->arena, sizeof *st);
    if (!st || !ARRAY_ROOM(r->met, r->stream_count + 1, r->met_cap))
        return NULL;
    *st = (struct raw_stream){.image = (uint32_t)(im - r->images), .thread = thread, .lane = lane};
    r->met[r->stream_count++] = st;
    *at = (uint32_t)r->stream_count;
    return st;
}

void raw_see_clock(struct raw_image *im, uint64_t clock)
{
    if (!clock)
        return;
    if (clock < im->first_clock)
        im->first_clock = clock;
    if (clock > im->last_clock)
        im->last_clock = clock;
}
