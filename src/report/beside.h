/* beside.h - work that a thread does while the caller does something else.
 *
 * Owns: the thread, and the shares of both in the threads of a trace. The work gets a thread where
 * the trace has one to spare; else the caller does it when it asks for the result, so the result is
 * the same. While the caller waits, a cursor that the work reads may have its share. One thread
 * calls. */
#ifndef MALLOW_REPORT_BESIDE_H
#define MALLOW_REPORT_BESIDE_H

#include <pthread.h>
#include <stdbool.h>

#include "trace/trace.h"

struct beside {
    struct trace *t;
    void (*work)(void *arg);
    void *arg;
    pthread_t thread;
    bool runs; /* on the thread */
};

/* The content of `b` does not matter. The trace and `arg` must outlive beside_end. */
void beside_begin(struct beside *b, struct trace *t, void (*work)(void *arg), void *arg);
/* Returns when the work is done. */
void beside_end(struct beside *b);
/* Waits for a thread that runs, and does nothing else: for a caller that gives up. Also behind
 * beside_end. */
void beside_wait(struct beside *b);

#endif
