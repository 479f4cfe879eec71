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

/* Parses the value of `--at` (NULL: none given). A mark must be in the recording. Returns 0, or
 * -1 with *err. */
int explained_wish(const char *at, const struct trace_info *info, struct explain_wish *wish,
                   struct error *err);

/* Explains the resident size at moments of the image. m: finished; names: of the same image, and
 * used by this only (names_again), because the order in which frames are met breaks ties. Under
 * a filter other than time the list stays empty. */
int explained_find(struct trace *t, uint32_t image, const struct model *m,
                   const struct report_options *o, struct names *names, struct explained_list *list,
                   struct error *err);
void explained_release(struct explained_list *list);

/* Starts explained_find in a thread if one is free, with names of its own, so that the caller
 * may go on and use `names`. All arguments must outlive it. The list must be zeroed; the caller
 * releases it in any case. Returns NULL with *err set. */
struct explaining;
struct explaining *explaining_begin(struct trace *t, uint32_t image, const struct model *m,
                                    const struct report_options *o, struct names *names,
                                    struct explained_list *list, struct error *err);
/* Waits, and fills the list with call sites as ids of `names`. Frees e. Returns 0, or -1 with
 * *err. */
int explaining_end(struct explaining *e, struct error *err);
/* Waits and frees e, for a caller that does not need the list any more. NULL is fine. */
void explaining_drop(struct explaining *e);

/* Does the same step by step, for a caller that reads the image with a pinned_visitor anyway. It
 * fills list->items[].moment; a moment that was asked for (--at) may still get another split.
 * Returns NULL with *err set. */
struct explained_search;
struct explained_search *explained_begin(struct trace *t, uint32_t image, const struct model *m,
                                         const struct report_options *o, struct names *names,
                                         struct explained_list *list, struct error *err);
/* Returns the times at which the caller must call explained_look, in order; none if the index
 * had the answers. */
size_t explained_looks(const struct explained_search *x, const uint64_t **times_ns);
/* Takes the findings at a time; call it from the reader's visit of that time. */
int explained_look(struct explained_search *x, size_t look, struct pinned_reader *r,
                   const struct pinned *p, const struct pinned_block *blocks, size_t count,
                   struct error *err);
/* Fills the list and frees x. done: explained_look was called for each time. NULL is fine. */
void explained_end(struct explained_search *x, bool done);

/* Writes the field `explained`, an array. texts: of this process's frames, shared with other
 * fields. */
int json_explained(struct json *j, const struct model *m, const struct explained_list *list,
                   struct frame_texts *texts, struct names *names, uint64_t limit,
                   struct error *err);

/* Calls advice_find with call sites distinguished by their names. */
size_t explained_advice(const struct model *m, const struct explained *e, struct names *names,
                        struct advice list[ADVICE_MOST]);

/* Prints a heading and lines for each explained moment. */
void section_explained(const struct page *p, const struct model *m,
                       const struct explained_list *list, struct names *names);

#endif
