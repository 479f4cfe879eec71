/* select.h - the filters of the user, turned into what the model understands. One thread. */
#ifndef MALLOW_FRAMES_SELECT_H
#define MALLOW_FRAMES_SELECT_H

#include "analyse/pattern.h"
#include "model/model.h"
#include "names.h"

/* A selection. Zero and NULL: everything. The texts are the caller's and must outlive it. */
struct selection_options {
    uint32_t pid;
    uint64_t from_ns, to_ns; /* since the start of the recording; to_ns not included, 0: end */
    uint64_t min_bytes, below_bytes; /* requested; below_bytes not included, 0: no bound */
    uint64_t min_lifetime_ns;
    bool only_new;        /* with from_ns: leave out blocks of before */
    const char *thread;   /* a thread id, or a pattern of names; see analyse/pattern.h */
    const char *function; /* pattern: of a function in the stack */
    const char *module;   /* pattern: of a module in the stack */
    const char *source;   /* pattern: of a source file in the stack, as it is shown or recorded */
};

enum selection_of { SELECTION_TIME = 1, SELECTION_BLOCKS = 2 };
/* True: the options filter by time, or blocks by their figures and stacks; of: which of the two, or
 * both. */
bool selection_any(const struct selection_options *o, unsigned of);
bool selection_has_time(const struct selection_options *o, uint64_t time_ns);

struct selection { /* patterns, compiled once */
    const struct selection_options *options;
    struct pattern thread, function, module, source;
    bool has_thread, thread_is_tid, has_function, has_module, has_source;
    uint32_t tid;
};

/* Fails also when the recording has no process of the id asked for. */
int selection_open(struct selection *s, const struct selection_options *options,
                   const struct trace_info *info, struct error *err);
void selection_close(struct selection *s);

bool selection_has_image(const struct selection *s, const struct trace_image *image);
/* True if anything but the process is filtered. */
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

#endif
