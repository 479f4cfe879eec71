/* execute.h - the loop over records: decodes, waits for slots, calls the allocator, counts. */
#ifndef MALLOW_REPLAY_EXECUTE_H
#define MALLOW_REPLAY_EXECUTE_H

#include "replay/engine.h"

/* Executes the next n records of the seat's chunk, which must be there. */
void execute_records(struct engine_seat *s, uint32_t n);

/* In the seat's own thread, before its first record and after its last, and after each wait that is
 * not the allocator's. */
void execute_begin(struct engine_seat *s);
void execute_end(struct engine_seat *s);
void execute_waited(struct engine_seat *s);

/* Waits until ready(arg), counts it when the thread slept. */
void engine_wait(struct engine_seat *s, enum engine_sleep why, uint64_t key,
                 bool (*ready)(void *arg), void *arg);

/* Starts the thread of the workload on its seat; waits for the seat's former thread to end. Says
 * what failed and ends the process when no thread can be made. `starter` is NULL before the start.
 */
void engine_start_thread(struct engine *e, struct engine_seat *starter, uint32_t thread);

/* The calling thread has executed its first record; and: waits until `threads` threads have. */
void engine_began(struct engine *e);
void engine_await_begun(struct engine_seat *s, uint32_t threads);

/* Ends the process with a message on stderr; for what cannot happen to a checked workload. */
void engine_die(const char *what) __attribute__((noreturn));

struct execute_call {
    unsigned code; /* enum mlw_op or workload_code */
    bool sized;
    uint64_t size_bytes, alignment; /* alignment: 0 where the call has none */
    uint64_t record, thread; /* its number among the thread's records, the thread's: from 1 */
};

/* The call that a signal interrupted in the calling thread. False: it was not in a record.
 * For a signal handler. */
bool execute_under_way(struct execute_call *call);

/* The cost of a pair of clock readings, in cycles. */
uint64_t execute_overhead(void);

#endif
