/* loop.h - beside the program while it runs.
 *
 * Owns: the poll loop of `mallow record`, signals, the table of processes, and when a recording is
 * over. Refuses: to be in the way. It never waits for the program's memory or locks, and wakes up a
 * hundred times a second at most while nothing is wrong. One thread. */
#ifndef MALLOW_RECORD_LOOP_H
#define MALLOW_RECORD_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "image.h"

struct loop_result {
    int wait_status;       /* the program's status, as of waitpid */
    uint32_t images;       /* program images that were recorded */
    uint32_t left_running; /* background processes when the user ended the recording */
    uint32_t unrecorded;   /* processes that could not join */
    uint64_t lost_calls;   /* as far as it is known here */
    int unwritten_errno;   /* the last reason for which a chunk could not be written; 0: none */
};

struct draft;

/* Opened before the program runs: without them the recording could not see its end, nor be
 * interrupted. */
struct loop_descriptors {
    int epoll, signals;
};
#define LOOP_CLOSED ((struct loop_descriptors){-1, -1})

/* The signals must be blocked: signals_take. 0, or -1 with *err, and nothing is open. */
int loop_open(struct loop_descriptors *d, struct error *err);
void loop_close(struct loop_descriptors *d);

struct loop_options {
    const struct loop_descriptors *open;
    pid_t program;
    const char *session_path; /* value of MALLOW_SESSION that the processes were given */
    /* prints the one line about background processes */
    void (*say)(void *arg, bool wrong, const char *line);
    void *say_arg;
    /* Not NULL: the program is not our child. It is called for each process that still runs at
     * the end. interrupted_ns: when the user ended the recording (CLOCK_MONOTONIC); 0: it ended
     * by itself. */
    void (*leave)(void *arg, pid_t pid, uint64_t interrupted_ns);
    void *leave_arg;
    /* As of struct record_options; may be NULL. */
    void (*size)(void *arg, pid_t pid, bool is_program, uint64_t rss_bytes, const char *output);
    void *size_arg;
    const char *output;        /* for it */
    void (*beside)(void *arg); /* called in every round; NULL: none */
    void *beside_arg;
    struct draft *draft;  /* NULL: the recording is sealed at its end */
    uint64_t duration_ns; /* not 0: the recording ends after this time */
};

/* Watches until the program and every recorded descendant has ended, or the user ends it. */
void loop_run(struct recording *r, const struct loop_options *o, struct loop_result *result);

#endif
