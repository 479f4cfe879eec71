/* impl.h - what the files of the view of `mallow watch` share. Not for others. */
#ifndef MALLOW_WATCH_VIEW_IMPL_H
#define MALLOW_WATCH_VIEW_IMPL_H

#include "frames/known.h"
#include "watch/view/view.h"

struct watch_named { /* the names of one process */
    const struct watch_process *process;
    struct names *names;
    struct known known;
};

struct watch_view {
    struct watch_view_options o;
    struct suppressions suppressions;
    struct watch_named **named;
    size_t named_count;
};

/* Returns the names of a process, and makes them at the first call. NULL with *err without
 * memory. */
struct watch_named *watch_named_of(struct watch_view *v, const struct watch_process *p,
                                   struct error *err);
/* Frees the names of a process; p NULL: of all. */
void watch_named_forget(struct watch_view *v, const struct watch_process *p);

/* json.c, text.c. rows: NULL for FREES. */
int watch_json_report(struct watch_view *v, const struct watch_report *r,
                      const struct watch_rows *rows, struct error *err);
int watch_json_caught(struct watch_view *v, const struct watch_caught *c, struct error *err);
int watch_text_report(struct watch_view *v, const struct watch_report *r,
                      const struct watch_rows *rows, bool marking, struct error *err);
int watch_text_caught(struct watch_view *v, const struct watch_caught *c, struct error *err);

#endif
