/* explained.h - why a process had more resident than live, at the moments that matter or were asked
 * for: found with a second pass over the image, shown as text and as JSON. Private to report/. */
#ifndef MALLOW_REPORT_EXPLAINED_H
#define MALLOW_REPORT_EXPLAINED_H

#include "analyse/advice.h"
#include "analyse/explain.h"
#include "base/json.h"
#include "frames/names.h"
#include "show/layout.h"
#include "show/frame_texts.h"
#include "report/report.h"

struct explained_list {
    struct explained items[EXPLAIN_MOST];
    size_t count;
};

/* Reads `--at` (NULL: nothing), for a recording that has such a mark. */
int explained_wish(const char *at, const struct trace_info *info, struct explain_wish *wish,
                   struct error *err);

/* Explains a finished model of the image; names: the image's as well. Where the order in which
 * frames are met decides between equals, it is names of this alone (names_again). Nothing is
 * explained under a filter of anything but time. */
int explained_find(struct trace *t, uint32_t image, const struct model *m,
                   const struct report_options *o, struct names *names, struct explained_list *list,
                   struct error *err);
void explained_release(struct explained_list *list);

/* explained_find beside something else that the caller does, `names` included: on a thread where
 * one is free, with names of its own. All that is given must outlive it. The list begins zeroed; it
 * is the caller's to release, whatever happens. NULL with *err set. */
struct explaining;
struct explaining *explaining_begin(struct trace *t, uint32_t image, const struct model *m,
                                    const struct report_options *o, struct names *names,
                                    struct explained_list *list, struct error *err);
/* The list is filled, with the call sites of `names`. */
int explaining_end(struct explaining *e, struct error *err);
/* The list is not wanted any more. NULL is fine. */
void explaining_drop(struct explaining *e);

/* The same in parts, for who reads the image with a pinned_visitor anyway. NULL with *err set.
 * list->items[].moment are filled; a moment that was asked for (--at) may still get another split.
 */
struct explained_search;
struct explained_search *explained_begin(struct trace *t, uint32_t image, const struct model *m,
                                         const struct report_options *o, struct names *names,
                                         struct explained_list *list, struct error *err);
/* The times at which explained_look is to be called, in order; none when the index knew. */
size_t explained_looks(const struct explained_search *x, const uint64_t **times_ns);
/* Within the visit of the time: takes p from the reader. */
int explained_look(struct explained_search *x, size_t look, struct pinned_reader *r,
                   const struct pinned *p, const struct pinned_block *blocks, size_t count,
                   struct error *err);
/* Fills the list; done: each look was made. NULL is fine. */
void explained_end(struct explained_search *x, bool done);

/* A field `explained`: an array. texts: of the frames, used again for others of this process. */
int json_explained(struct json *j, const struct model *m, const struct explained_list *list,
                   struct frame_texts *texts, struct names *names, uint64_t limit,
                   struct error *err);

/* advice_find, with call sites distinguished by names. */
size_t explained_advice(const struct model *m, const struct explained *e, struct names *names,
                        struct advice list[ADVICE_MOST]);

/* A heading and lines for each. */
void section_explained(const struct page *p, const struct model *m,
                       const struct explained_list *list, struct names *names);

#endif
