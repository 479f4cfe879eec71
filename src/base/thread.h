/* thread.h - starting a thread that leaves signals to the others: they are for the thread that
 * knows what to do about them. Tools only; any thread. */
#ifndef MALLOW_BASE_THREAD_H
#define MALLOW_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* The stack that a thread has at least. Code that is bounded for the first one (symbol/demangle.c)
 * may run on any. */
#define THREAD_STACK_BYTES ((size_t)8 << 20)

/* 0, or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
/* How many processors this process may use; 1 at least. */
unsigned thread_processors(void);

#endif
