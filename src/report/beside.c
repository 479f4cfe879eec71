/* beside.c - Runs work in a thread if the trace has one to spare, else in the caller when it
 * asks for the result. The result is the same either way. */
#include "report/beside.h"

#include "base/thread.h"

static void *run(void *arg)
{
    struct beside *b = arg;
    b->work(b->arg);
    trace_give_threads(b->t, 1);
    return NULL;
}

void beside_begin(struct beside *b, struct trace *t, void (*work)(void *arg), void *arg)
{
    *b = (struct beside){.t = t, .work = work, .arg = arg};
    if (!trace_take_threads(t, 1))
        return;
    b->runs = !thread_start(&b->thread, run, b);
    if (!b->runs)
        trace_give_threads(t, 1);
}

void beside_wait(struct beside *b)
{
    if (!b->runs)
        return;
    trace_give_threads(b->t, 1);
    pthread_join(b->thread, NULL);
    (void)trace_take_threads(b->t, 1); /* a cursor that had it is closed */
    b->runs = false;
}

void beside_end(struct beside *b)
{
    if (b->runs)
        beside_wait(b);
    else
        b->work(b->arg);
}
