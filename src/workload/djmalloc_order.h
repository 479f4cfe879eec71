/* djmalloc_order.h - the records of a raw trace of dj/malloc, in an order in which the calls can
 * have happened; see djmalloc_trace.c. */
#ifndef MALLOW_WORKLOAD_DJMALLOC_ORDER_H
#define MALLOW_WORKLOAD_DJMALLOC_ORDER_H

#include "workload/djmalloc.h"
#include "workload/djmalloc_record.h"

#define DJ_NO_SLOT UINT32_MAX

struct djmalloc_sink { /* who takes the calls */
    void *arg;
    /* A thread appears; the first record of all is the process's first thread's. Returns its number
     * for calls. */
    uint32_t (*thread)(void *arg, int32_t id, bool first);
    /* slot: the number returned for the block in ptr1, when that is live. vanished: the same of a
     * block that was at ptr2 and whose free never came. Both DJ_NO_SLOT for none. Returns any
     * number for the block in ptr2. */
    uint32_t (*call)(void *arg, uint32_t thread, const struct djmalloc_record *record,
                     uint32_t slot, uint32_t vanished);
};

/* True if an allocating record's call failed. */
bool djmalloc_failed(const struct djmalloc_record *record);

/* Gives every call of a raw trace (aligned to 8 bytes) to the sink. -1 with *err. */
int djmalloc_read_records(const uint8_t *data, size_t bytes, const struct djmalloc_sink *sink,
                          struct djmalloc_result *result, struct error *err);

#endif
