#include "page/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define SITES_MOST (UINT16_MAX - 1u)

static int sums_no_memory(struct error *err)
{
    return error_memory_for(err, "the call sites of moments");
}

int moment_sites_new(struct moment_sites *s, struct names *names, struct error *err)
{
    const uint32_t stacks = names_image(names)->stacks;
    *s = (struct moment_sites){.names = names,
                               .stacks = stacks,
                               .site_of = malloc(((size_t)stacks + 1) * sizeof *s->site_of),
                               .known = calloc((size_t)stacks + 1, sizeof *s->known)};
    if (!s->site_of || !s->known) {
        moment_sites_release(s);
        return sums_no_memory(err);
    }
    memset(s->site_of, 0xff, ((size_t)stacks + 1) * sizeof *s->site_of);
    return 0;
}

void moment_sites_release(struct moment_sites *s)
{
    free(s->site_of);
    free(s->known);
    free(s->by_frame);
    free(s->sites);
    free(s->order);
    memset(s, 0, sizeof *s);
}

/* Number of the site of a frame (NO_NAME: none); UINT16_MAX when there are too many, -1 without
 * memory. */
static int32_t frame_site_number(struct moment_sites *s, uint32_t frame)
{
    const size_t at = frame == NO_NAME ? 0 : (size_t)frame + 1;
    if (at >= s->frame_room) {
        const size_t room = names_count(s->names) + 64;
        uint32_t *by_frame = realloc(s->by_frame, room * sizeof *by_frame);
        if (!by_frame)
            return -1;
        memset(by_frame + s->frame_room, 0, (room - s->frame_room) * sizeof *by_frame);
        s->by_frame = by_frame;
        s->frame_room = room;
    }
    if (s->by_frame[at])
        return (int32_t)s->by_frame[at] - 1;
    if (s->count == SITES_MOST)
        return UINT16_MAX;
    if (s->count == s->room) {
        size_t sites = s->room, order = sites;
        if (!ARRAY_ROOM(s->sites, s->count + 1, sites) ||
            !ARRAY_ROOM(s->order, s->count + 1, order))
            return -1;
        s->room = sites;
    }
    s->sites[s->count] = (struct moment_site){.frame = frame, .number = (uint32_t)s->count};
    s->by_frame[at] = (uint32_t)++s->count;
    return (int32_t)s->count - 1;
}

static bool find_moment_site(struct moment_sites *s, uint32_t stack)
{
    uint32_t node, position;
    const uint32_t frame = stack ? names_site(s->names, stack, &node, &position) : NO_NAME;
    const int32_t number = names_failed(s->names) ? -1 : frame_site_number(s, frame);
    s->known[stack] = true;
    s->site_of[stack] = (uint16_t)number;
    return number >= 0;
}

int moment_sites_add(struct moment_sites *s, const struct pinned *p,
                     const struct pinned_block *blocks, size_t count, struct error *err)
{
    for (size_t i = 0; i < s->count; i++)
        s->sites[i].sums = (struct pinned_stack){0};
    for (size_t i = 0; i < count; i++)
        if (!s->known[blocks[i].stack] && !find_moment_site(s, blocks[i].stack))
            return sums_no_memory(err);
    for (uint32_t i = 0; i < p->stacks.count; i++) {
        const struct pinned_stack *of = &p->stacks.of[i];
        if (s->site_of[of->stack] == UINT16_MAX)
            continue;
        struct pinned_stack *sums = &s->sites[s->site_of[of->stack]].sums;
        sums->live_blocks += of->live_blocks;
        sums->live_bytes += of->live_bytes;
        sums->pinned_bytes += of->pinned_bytes;
        sums->below_bytes += of->below_bytes;
    }
    return 0;
}

static uint64_t kept_free_bytes(const struct moment_site *s)
{
    return s->sums.pinned_bytes + s->sums.below_bytes;
}

/* For equals the one that was seen first: what else was named before does not matter. */
static int compare_kept_bytes(const void *a, const void *b)
{
    const struct moment_site *x = a, *y = b;
    if (kept_free_bytes(x) != kept_free_bytes(y))
        return kept_free_bytes(x) < kept_free_bytes(y) ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

void moment_sites_keepers(struct json *j, struct moment_sites *s, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        if (kept_free_bytes(&s->sites[i]))
            s->order[n++] = s->sites[i];
    if (n)
        qsort(s->order, n, sizeof *s->order, compare_kept_bytes);
    json_open_array(j, "keepers");
    for (size_t i = 0; i < n && i < most; i++) {
        const struct moment_site *of = &s->order[i];
        json_open_array(j, NULL);
        json_number(j, NULL, of->number);
        json_number(j, NULL, of->sums.pinned_bytes);
        json_number(j, NULL, of->sums.below_bytes);
        json_number(j, NULL, of->sums.live_bytes);
        json_number(j, NULL, of->sums.live_blocks);
        json_close_array(j);
    }
    json_close_array(j);
    json_number(j, "keepers_total", n);
}

bool moment_sites_frames(struct json *j, const struct moment_sites *s, struct frame_texts *texts)
{
    json_open_array(j, "sites");
    for (size_t i = 0; i < s->count; i++) {
        if (s->sites[i].frame == NO_NAME)
            json_null(j, NULL);
        else if (!frame_texts_frame(j, texts, s->names, s->sites[i].frame))
            return false;
    }
    json_close_array(j);
    return true;
}
