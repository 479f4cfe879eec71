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
