/* run.h - `mallow watch` from its beginning to its end: the program's start, the loop, the reports.
 *
 * Owns: when something is reported, signals, the session's directory, what old means. Refuses: to
 * print; all output goes to the listener, whose pointers hold for the call only. It never waits for
 * a watched process, and none notices when it goes away. One thread. */
#ifndef MALLOW_WATCH_RUN_H
#define MALLOW_WATCH_RUN_H

#include "limit/pressure.h"
#include "watch/follow.h"
#include "watch/sites.h"

enum watch_kind { WATCH_OLD, WATCH_ALL, WATCH_HIGH_WATER, WATCH_FREES, WATCH_FINAL };

struct watch_freed { /* a recent release of a sampled block */
    struct mlw_watch_free call;
    uint32_t allocation, release; /* nodes; 0: not known any more */
};

struct watch_report {
    enum watch_kind kind;
    struct watch_process *process;
    struct watch_sites sites;  /* for FREES the freed blocks by who allocated them */
    uint64_t older_than_ns;    /* OLD: the age */
    bool automatic;            /* OLD: the age was chosen by the program's lifetimes, */
    struct age_choice choice;  /* in this way */
    uint64_t since_ns;         /* when the report of this kind before it was made; 0: none */
    struct watch_freed *freed; /* FREES: latest last */
    uint32_t freed_count;
};

struct watch_caught { /* a memory error */
    struct watch_process *process;
    struct mlw_watch_error error;
    uint32_t access, allocation, release; /* nodes */
};

enum watch_command {
    WATCH_TELL_OLD,
    WATCH_TELL_ALL,   /* SIGHUP */
    WATCH_MARK_KNOWN, /* SIGUSR1 */
    WATCH_TELL_FREES, /* SIGUSR2 */
    WATCH_STOP,
    WATCH_TOGGLE /* sampling off and on again, in every process */
};

struct watch_listener {
    void *arg;
    void (*joined)(void *arg, const struct watch_process *p);
    /* A report. marking: its blocks are about to be marked as known. */
    void (*report)(void *arg, const struct watch_report *r, bool marking);
    void (*caught)(void *arg, const struct watch_caught *c);
    /* A threshold of `when` is crossed; the line names it. May be NULL without thresholds. */
    void (*pressed)(void *arg, struct watch_process *p, const char *line);
    /* The process is dropped and gets no more reports. The listener must free all that refers to
     * it. */
    void (*refused)(void *arg, const struct watch_process *p);
    void (*say)(void *arg, bool wrong, const char *line);
    /* tick: called every tick_ns, unless that is 0; key: `input` is readable. */
    void (*tick)(void *arg);
    void (*key)(void *arg);
    /* `served` is readable, or a round has ended, which happens several times a second. */
    void (*serve)(void *arg);
    /* SIGHUP was sent. NULL: SIGHUP reports all live samples. */
    void (*reload)(void *reload_arg);
    void *reload_arg;
};

/* A source that writes segments for processes from outside them, into a directory. */
struct watch_source {
    void *arg;
    int (*begin)(void *arg, const char *directory, struct error *err); /* 0, or -1 with *err */
    bool (*works)(void *arg); /* false: the source has ended by itself */
    void (*end)(void *arg);   /* ends the source; it has stopped writing when this returns */
};

struct watch_options {
    const pid_t *pids; /* watched, or, when pid_count is 0: */
    size_t pid_count;
    uint64_t since_ns; /* by CLOCK_MONOTONIC, when they began to be watched; 0: now */
    const struct watch_source *source; /* all processes that it reports; NULL: */
    bool everyone;                     /* all that share memory which may be read; else: */
    char *const *argv;                 /* a program to be run, NULL-terminated, */
    const char *library;               /* with this library preloaded */
    const struct watch_select *select; /* a selection among all; NULL: all */
    uint64_t every_ns; /* between reports of old blocks; 0: after 1, 2, 5 minutes, then every 10 */
    uint64_t old_ns;   /* 0: chosen by the lifetimes of the program's blocks */
    bool high_water;
    uint64_t high_water_bytes; /* none below this */
    struct pressure when;      /* thresholds of listener.pressed */
    /* Settings for the processes; NULL: none. */
    const uint64_t *period_bytes;
    const uint32_t *guard_share, *guard_side, *on_error;
    enum watch_order order;
    int input;  /* a descriptor that is read by listener.key; -1: none */
    int served; /* one that listener.serve looks after; -1: none */
    uint64_t tick_ns;
    struct watch_listener listener;
};

struct watch_run;

struct watch_result {
    int exit_status;    /* the program's exit status, 128+N; or 125, 126, 127 */
    bool ran;           /* the program was executed, or the process was found */
    uint32_t processes; /* that were watched */
    uint32_t left_running;
    uint64_t interrupted_ns; /* CLOCK_MONOTONIC: the user ended it; 0: it ended by itself */
};

/* options must outlive the run. The list of processes is filled only while watch_run_loop runs.
 * Returns NULL with *err. */
struct watch_run *watch_run_new(const struct watch_options *options, struct error *err);
void watch_run_free(struct watch_run *r);

/* Starts the program, or finds the processes, and returns when all have ended or the user ends
 * the watch. Returns -1 with *err if nothing was watched. */
int watch_run_loop(struct watch_run *r, struct watch_result *result, struct error *err);

/* For the listener: */
/* Takes over every_ns, old_ns, high_water, high_water_bytes and the settings for the processes.
 * The settings apply to present and future processes. The pointers stay the caller's. */
void watch_run_change(struct watch_run *r, const struct watch_options *options);
void watch_run_command(struct watch_run *r, enum watch_command command);
void watch_run_order(struct watch_run *r, enum watch_order order);
uint32_t watch_run_count(const struct watch_run *r);
struct watch_process *watch_run_process(const struct watch_run *r, uint32_t index);
/* Makes a report of the present, as the commands do. The caller calls watch_report_free. Returns
 * -1 with *err without memory. */
int watch_run_report(struct watch_run *r, struct watch_process *p, enum watch_kind kind,
                     enum watch_reported_kind reported, struct watch_report *out,
                     struct error *err);
void watch_report_free(struct watch_report *r);

/* "old", "all", "high-water", "frees", "final"; "heap-buffer-overflow", ... */
const char *watch_kind_name(enum watch_kind kind);
/* "running", "ended" or "exec". */
const char *watch_life_name(const struct watch_process *p);
const char *watch_error_name(uint32_t mlw_watch_error_kind);

#endif
