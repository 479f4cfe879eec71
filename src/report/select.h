/* select.h - the filters of the user, turned into what the model understands; and the pass itself.
 */
#ifndef MALLOW_REPORT_SELECT_H
#define MALLOW_REPORT_SELECT_H

#include "analyse/pattern.h"
#include "model/model.h"
#include "report/names.h"
#include "report/report.h"

struct selection { /* patterns, compiled once */
    const struct report_options *options;
    struct pattern thread, function, module;
    bool has_thread, thread_is_tid, has_function, has_module;
    uint32_t tid;
};

/* Fails also when the recording has no process of the id asked for. */
int selection_open(struct selection *s, const struct report_options *options,
                   const struct trace_info *info, struct error *err);
void selection_close(struct selection *s);

bool selection_has_image(const struct selection *s, const struct trace_image *image);
/* Whether anything but the process is filtered. */
bool selection_filters(const struct selection *s);

/* A filter for one image; its arrays belong to it. names may be NULL when no pattern is about
 * functions or modules. */
struct image_filter {
    struct model_filter filter;
    uint8_t *thread_pass, *stack_pass;
};
int selection_resolve(const struct selection *s, const struct trace_image *image,
                      struct names *names, struct image_filter *filter, struct error *err);
void selection_release(struct image_filter *filter);

/* Replays one image. On failure *m is NULL. */
int replay_image(struct trace *t, uint32_t image, const struct model_filter *filter,
                 struct model **m, struct error *err);
/* The same, with an observer of every block's life. */
int replay_observed_image(struct trace *t, uint32_t image, const struct model_filter *filter,
                          const struct model_observer *observer, struct model **m,
                          struct error *err);

#endif
