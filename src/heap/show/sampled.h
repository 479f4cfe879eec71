/* sampled.h - what libmallow-watch.so or libmallow-attach.so in a process knows of its heap:
 * of its live samples, who allocated them and when, and how much they stand for. Owns: the copy of
 * the samples. One thread. */
#ifndef MALLOW_HEAP_SHOW_SAMPLED_H
#define MALLOW_HEAP_SHOW_SAMPLED_H

#include "frames/names.h"
#include "heap/heap.h"
#include "watch/estimate.h"

struct watch_process; /* watch/process.h */

struct heap_sampled_site { /* live samples of a call stack */
    uint32_t stack;
    struct estimate live;
    uint64_t oldest_ns, youngest_ns; /* ages */
};

struct heap_samples {
    struct watch_process *process; /* NULL: it carries no such library */
    struct heap_sampled_block *blocks;
    struct heap_sampled_site *sites; /* by stack */
    size_t site_count;
    struct estimate all;
};

/* Reads the samples of a process; it has the form of heap_options.sampled. arg: a struct
 * heap_samples. */
bool heap_samples_read(void *arg, uint32_t pid, struct heap_sampled *sampled);

/* Returns the samples of a stack, or NULL. */
const struct heap_sampled_site *heap_samples_of(const struct heap_samples *s, uint32_t stack);

/* Returns the image to which the stacks belong. */
const struct trace_image *heap_samples_image(const struct heap_samples *s);

uint64_t heap_samples_period(const struct heap_samples *s);

void heap_samples_release(struct heap_samples *s);

#endif
