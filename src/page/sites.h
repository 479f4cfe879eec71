/* sites.h - which frames stand on a page, and how call stacks are put together for it.
 *
 * A page has no room for a million call stacks. The frames with the largest share of any figure,
 * with all that they call, are kept: the top of the tree of callers. Stacks that leave this tree at
 * the same frame are folded into one group if they have the same call site, and only then: the sum
 * over the groups of a call site is what the call site did, to the byte. Only when the call sites
 * alone do not fit either (`sites`) are the smallest of them one group, "other". */
#ifndef MALLOW_PAGE_SITES_H
#define MALLOW_PAGE_SITES_H

#include "analyse/sites.h"
#include "frames/names.h"
#include "model/model.h"

#define PAGE_SITE_NONE  0u         /* no stack was recorded */
#define PAGE_SITE_OTHER UINT32_MAX /* several, of those that do not fit */

struct page_group {
    uint32_t tip;     /* the innermost frame that is kept: of sites.frame[]; 0: none is */
    uint32_t site;    /* id + 1 of the call site's frame, or one of the above */
    uint32_t site_at; /* where that frame stands in the tree */
    uint32_t first;   /* the site in it that comes first by its peak: in sites.items */
    uint32_t stacks;  /* how many it stands for; 0: blocks that are of no call stack */
    bool folded;      /* frames are left out behind the tip */
    bool gap;         /* the call site is behind the tip */
};

struct page_sites {
    struct sites all;
    struct page_group *groups;
    uint32_t group_count;
    uint32_t *group_of;    /* [stack_count] after page_sites_order */
    bool ordered;          /* page_sites_order was called */
    uint32_t stack_count;  /* with 0, no stack */
    uint32_t call_sites;   /* in all */
    uint32_t others;       /* those of them without a group of their own */
    uint32_t folded;       /* call stacks that are not on the page frame by frame */
    uint32_t kept;         /* frames of the tree that are */
    uint32_t *kept_frames; /* [kept] which, in order; NULL: it was not folded yet */
    uint32_t *joined; /* [joined_count] since then: of the groups of group_of, which they are */
    uint32_t joined_count;
    uint32_t *page_frame;  /* [all.frame_count + 1] number on the page; 0: not on it */
    float *weight;         /* [all.frame_count + 1] largest share of any figure, with callees */
    float *site_weight;    /* [frame_ids + 1] the same of call sites, by frame id + 1; 0: is none */
    uint32_t *site_number; /* [frame_ids + 1] 0: of those that are "other" */
    uint32_t frame_ids;
};

/* How much is kept. */
struct page_limit {
    uint32_t frames; /* the frames of the tree */
    uint32_t sites;  /* call sites */
};

/* names: of the model's image. Every call stack is a group of its own then. */
int page_sites_find(struct page_sites *p, const struct model *m, struct names *names,
                    struct error *err);
/* Folds the groups until no more frames and call sites are kept than `limit` says, which must not
 * be more than those of the call before. *to: [groups before] number of the group that each is in
 * now; the caller's to free, after an error, too. */
int page_sites_fold(struct page_sites *p, struct page_limit limit, uint32_t **to,
                    struct error *err);
/* Numbers the groups by their sites with the highest peak. Groups that are folded from then on keep
 * that order. */
int page_sites_order(struct page_sites *p, struct error *err);
/* The group of a stack. */
static inline uint32_t page_sites_group(const struct page_sites *p, uint32_t stack)
{
    const uint32_t group = p->group_of[stack];
    return p->joined ? p->joined[group] : group;
}
void page_sites_release(struct page_sites *p);

#endif
