/* sums.h - the call sites of moments on the page, numbered, and what they keep at one moment.
 * Private to report/. */
#ifndef MALLOW_PAGE_SUMS_H
#define MALLOW_PAGE_SUMS_H

#include "analyse/pinned.h"
#include "base/json.h"
#include "show/frame_texts.h"
#include "frames/names.h"

struct moment_site { /* sums of its stacks */
    uint32_t frame;  /* id, or NO_NAME */
    uint32_t number; /* in the order in which sites were seen */
    struct pinned_stack sums;
};

struct moment_sites {
    struct names *names;
    uint32_t stacks;
    uint16_t *site_of;  /* [stacks + 1] number; UINT16_MAX: one of too many, or not asked for */
    bool *known;        /* [stacks + 1] site_of is set */
    uint32_t *by_frame; /* [frame_room] number + 1, by id + 1 */
    size_t frame_room;
    struct moment_site *sites; /* [count] */
    size_t count, room;
    struct moment_site *order; /* room to sort them; [room] */
};

int moment_sites_new(struct moment_sites *s, struct names *names, struct error *err);
void moment_sites_release(struct moment_sites *s);

/* The sums of a moment: of every call site whose blocks are there. */
int moment_sites_add(struct moment_sites *s, const struct pinned *p,
                     const struct pinned_block *blocks, size_t count, struct error *err);
/* A field `keepers`: [site, free on its pages, free below, live bytes, live blocks] of those that
 * keep most, and keepers_total. */
void moment_sites_keepers(struct json *j, struct moment_sites *s, size_t most);
/* A field `sites`: the frame of each, by its place in the table; null without a stack. False
 * without memory. */
bool moment_sites_frames(struct json *j, const struct moment_sites *s, struct frame_texts *texts);

#endif
