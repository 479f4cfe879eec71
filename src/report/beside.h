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

/* Starts the work, or notes it for beside_end. `b` need not be initialized. The trace and `arg`
 * must outlive beside_end. */
void beside_begin(struct beside *b, struct trace *t, void (*work)(void *arg), void *arg);
/* Waits for the work, or does it now if no thread had it. */
void beside_end(struct beside *b);
/* Waits for the thread if one runs, and does no work itself: for a caller that gives up. It may
 * be called after beside_end. */
void beside_wait(struct beside *b);

#endif
