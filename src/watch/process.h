/* process.h - one watched process image: its live samples, its latest events, its identity.
 *
 * Owns: its shared memory, its stacks, the copy of its live samples, the state of earlier reports
 * (growth since the last one, known blocks, errors), the lifetimes seen. Refuses: to wait. The
 * process may be running, dying or dead at any moment. One thread. */
#ifndef MALLOW_WATCH_PROCESS_H
#define MALLOW_WATCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cmdline.h"
#include "base/error.h"
#include "trust/place.h"
#include "trust/process.h"
#include "watch/account.h"
#include "watch/age.h"
#include "watch/inner.h"
#include "watch/segment.h"
#include "watch/stacks.h"

struct watch_block { /* a live sampled block */
    uint64_t address, size, weight;
    uint64_t born_ns; /* CLOCK_MONOTONIC */
    uint32_t stack;   /* node of process.stacks; 0: not known */
    uint32_t tid;
};

struct watch_sums { /* a stack's sums since the process began; samples that were freed included */
    uint32_t stack;
    uint64_t samples, bytes;                  /* sampled */
    double allocated_bytes, allocated_blocks; /* estimated */
    double freed_bytes, freed_blocks;
    double freed_byte_seconds;
    uint64_t freed_samples,
        freed_elsewhere; /* freed bytes whose block another thread had allocated */
};

/* The figures of each stack in the latest report of a kind, by node. */
struct watch_reported {
    double *bytes;
    uint32_t room;
    uint64_t time_ns; /* when that report was made; 0: there was none */
};

enum watch_reported_kind {
    REPORTED_OLD,
    REPORTED_ALL,
    REPORTED_SCREEN_OLD,
    REPORTED_SCREEN_ALL,
    REPORTED_KINDS
};

enum watch_life { WATCH_RUNNING, WATCH_ENDED, WATCH_REPLACED /* by an exec */ };

struct watch_process {
    struct segment segment;
    struct stacks stacks;
    int dir; /* the directory that its file is in, as `name`; -1: none from which it is removed */
    char name[NAME_MAX + 1];
    struct trust_process who; /* from /proc; pid 0: the process had ended, or cannot be seen here */
    pid_t keeper;             /* the watch that removes the file while it lives; 0: this one */
    pid_t pid;                /* as this process sees it */
    pid_t ppid;               /* in the same namespace as pid; 0: it has no parent there */
    bool elsewhere;           /* it is in another pid namespace, and pid is its id there */
    bool unseen; /* the namespace is not known, or /proc hides it; the process holds its segment */
    bool is_claim; /* only the segment says pid and ppid: no process is seen here */
    uint64_t start_ns;
    int pidfd; /* -1: none to be had */
    enum watch_life life;
    int wait_status;         /* as of waitpid, once ended; -1: not known */
    uint32_t unguarded_said; /* enum mlw_watch_unguarded bits that have been reported */
    bool remove;             /* the file is removed after the last report */
    bool hold;               /* its end is not reported while this is set */
    bool asked;              /* watched by its id or as the program, not only as a descendant */
    bool is_program;         /* started by `mallow watch -- PROGRAM` */
    uint64_t joined_ns;      /* when this reader found it */
    bool outside;            /* another process writes its shared memory, and notes its end there */
    uint64_t gone_ns;        /* outside: when it was first seen to have ended */
    bool found_dead; /* it had ended when it was found; its time is that of its death, as far as
                        known */
    uint64_t exec_seen_ns; /* when it was first seen to have become another program; 0: not so */
    uint64_t exec_cpu_ns;  /* processor time of the process until then */
    bool out_of_memory;    /* the kernel killed it because memory was short */
    struct pressed_group *group; /* a group of pressed.h; NULL: none is known */
    struct charge charge;        /* refused: it has no samples, and is soon let go of */

    /* Results of the latest process_look. */
    uint64_t time_ns;
    struct mlw_watch_counters counters;
    struct watch_block *blocks;
    uint32_t block_count, block_room;
    struct watch_sums *sums;
    uint32_t sum_count, sum_room;
    uint32_t blocks_charged, sums_charged;
    uint32_t torn; /* records whose writer never finished */

    struct lifetimes lifetimes;
    struct age_choice old;            /* the age from which blocks are old, as it was chosen last */
    uint64_t next_free, missed_frees; /* read so far; overwritten before they were read */
    uint64_t next_error, missed_errors;
    uint64_t known_before_ns; /* blocks that are older than this are not reported */
    struct watch_reported reported[REPORTED_KINDS];
    const char **title;            /* the arguments when it was last looked at; NULL: it was not */
    char comm[CMDLINE_COMM_BYTES]; /* the kernel's name of it, then; "": not known */
    double high_water_bytes;       /* the largest estimate that was seen */
    double high_water_reported;
};

/* Opens the segment `name` of the directory dir, which stays the caller's. It compares the
 * segment's claims with /proc. If no process matches them, the segment counts as left by one
 * that ended (found_dead). A process in another pid namespace is looked up in `inner`. Returns 0
 * with *p, 1 if the process has not finished making the segment, or -1 with *err. */
int process_open(struct watch_process **p, int dir, const char *name, struct inner *inner,
                 struct error *err);
/* True if the segment claims a living process that cannot be seen here, and belongs to a user
 * other than root or the caller. */
bool process_is_invented(const struct watch_process *p);
/* Makes the watched process `who`, which maps this segment. It takes the segment over, even on
 * failure. dir and name are as above, or -1 and NULL if the file must not be removed. Returns -1
 * with *err if the segment is not of that process. */
int process_adopt(struct watch_process **p, const struct segment *s, int dir, const char *name,
                  const struct trust_process *who, struct error *err);
/* Sets the user whose account bounds the process. Returns false for processes of root and of the
 * caller, which have no bound. */
bool process_is_bounded(const struct watch_process *p, uid_t *user);
/* Frees the process, and removes its file if p->remove is set. NULL is fine. */
void process_close(struct watch_process *p);

/* Asks whether the process still runs this image; sets life (never back to running). */
void process_check(struct watch_process *p);

/* True if the process itself noted its end: it was not killed. */
bool process_said_goodbye(const struct watch_process *p);

/* Copies the live samples and the sums. If they exceed the account of the process's user, it
 * copies nothing and sets charge.refused. Returns -1 with *err without memory. */
int process_look(struct watch_process *p, struct error *err);

/* Reads the releases since the last call and adds their lifetimes. */
void process_drain(struct watch_process *p);

/* Returns an estimate of the live bytes from two counters, which is cheap. It lacks blocks that
 * a fork inherited. */
double process_footprint(const struct watch_process *p);

/* Returns the resident size of a running process; 0: not known. */
uint64_t process_rss(const struct watch_process *p);
/* Returns the resident size with each shared page divided among the processes that share it, so
 * that processes can be added up. It takes the kernel some milliseconds for each GB. Returns
 * process_rss if the kernel does not know it. */
uint64_t process_share(const struct watch_process *p);

/* Returns how many samples could not be taken, for whatever reason. */
uint64_t watch_dropped(const struct watch_process *p);

/* Returns the mean number of bytes between two samples, as requested. now: the present one,
 * which the library raises while many samples are live. */
uint64_t watch_period(const struct watch_process *p, bool now);
/* Returns the name of a process: the last part of the path by which its program was called. */
const char *watch_process_name(const struct watch_process *p);
/* Returns the same name, or the title that the process had at the last look, cut to `room`
 * bytes. */
const char *watch_process_title(const struct watch_process *p, char *to, size_t room);

#endif
