/* run.h - waiting until a probe ends: by its process, by time, by the user. Private. */
#ifndef MALLOW_PROBE_RUN_H
#define MALLOW_PROBE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct ring_buffer;

struct run_plan {
    struct ring_buffer *ring; /* NULL: tick is called instead, every TICK_NS */
    void (*tick)(void *arg);
    uint32_t pid;                      /* ends with it; 0: none */
    bool is_child;                     /* and is waited for */
    uint64_t duration_ns, interval_ns; /* 0: none */
    int (*interval)(void *arg, struct error *err);
    void *arg;
    /* The result: */
    int wait_status; /* the child's status */
    bool interrupted;
};

/* Signals are blocked, as signals_take does. Returns 0, or -1 with *err. */
int run_wait(struct run_plan *p, struct error *err);

#endif
