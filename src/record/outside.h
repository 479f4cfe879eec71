/* outside.h - the processes of a recording that is made from outside: from the kernel's reports on
 * each to rows, and how large each is meanwhile.
 *
 * Owns: which program image each process is at the moment; numbers of its threads, stacks and
 * files; descriptors of /proc. Errors are kept: out of memory until outside_failed is asked,
 * writing until the rows are finished. One thread. */
#ifndef MALLOW_RECORD_OUTSIDE_H
#define MALLOW_RECORD_OUTSIDE_H

#include "import/rows.h"
#include "probe/probe.h"

struct outside;

struct outside_options {
    uint32_t pid; /* the process that was named */
    enum mlw_stack_mode stacks;
    bool no_follow;
    uint64_t sample_interval_ns; /* 0: chosen by what each process does */
};

/* Call it before the probe begins, because a short process ends before the first round. o must
 * outlive the result. Returns NULL with *err. */
struct outside *outside_new(const struct outside_options *o, struct error *err);
/* Call it when the probe is at work. start_ns: when it began (CLOCK_MONOTONIC). It describes the
 * process to rows. rows and probe stay the caller's and must outlive s. */
void outside_begin(struct outside *s, struct rows *rows, const struct probe_result *probe,
                   uint64_t start_ns);
void outside_take(struct outside *s, const struct probe_call *c);
/* Samples the sizes of the processes that are due. */
void outside_sample(struct outside *s, uint64_t now_ns);
/* Looks for processes whose end was not reported; call it seldom. */
void outside_look(struct outside *s, uint64_t now_ns);
/* Returns how many recorded processes run. Without children, it is 0 as soon as the process has
 * executed another program. */
unsigned outside_running(const struct outside *s);
bool outside_has_ended(const struct outside *s); /* the process that was named */
unsigned outside_images(const struct outside *s);
bool outside_failed(const struct outside *s); /* no memory */
/* Returns how many calls came without the stack that they should have. */
uint64_t outside_lost_stacks(const struct outside *s);
/* Writes the known ends, after all events were taken. lost: lost calls of all processes
 * together. */
void outside_end(struct outside *s, uint64_t now_ns, uint64_t lost);
void outside_free(struct outside *s); /* NULL is fine */

#endif
