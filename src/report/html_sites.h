/* html_sites.h - which call sites stand on a page by themselves, and where the rest is added up.
 *
 * The call sites that matter most by any of the figures are kept. Those that are left out are put
 * together: by the longest part of their stack that a kept one has as well. Nothing is lost but the
 * difference between them. */
#ifndef MALLOW_REPORT_HTML_SITES_H
#define MALLOW_REPORT_HTML_SITES_H

#include "analyse/sites.h"
#include "model/model.h"
#include "report/names.h"

struct page_group { /* a call site, or several that were folded into one */
    uint32_t tip;   /* of sites.frame[] and of page_frame[]; 0: no frame */
    uint32_t sites; /* how many it stands for */
    bool folded;    /* they are left out: what is here is their common callers, and their sum */
};

struct page_sites {
    struct sites all;
    struct page_group *groups;
    uint32_t group_count, kept, folded; /* folded: sites that are left out */
    uint32_t *group_of;                 /* [stacks + 1] */
    uint32_t *page_frame;               /* [all.frame_count + 1] number on the page; 0: not on it */
    uint32_t frame_count;               /* on the page; 1.. */
};

/* names: of the model's image. */
int page_sites_find(struct page_sites *p, const struct model *m, struct names *names,
                    struct error *err);
/* Keeps at most `limit`; may be called again with another limit. */
int page_sites_keep(struct page_sites *p, const struct model *m, size_t limit, struct error *err);
void page_sites_release(struct page_sites *p);

#endif
