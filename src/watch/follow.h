/* follow.h - the processes that are watched: finding them, and noticing their ends.
 *
 * Owns: the list of processes; where their shared memory is looked for: a directory that
 * `mallow watch -- PROGRAM` made, or, for processes that ran before, what their memory maps name,
 * and from there their children; which are let go of because their users' accounts are spent.
 * Refuses: to ask a process for anything. One thread. */
#ifndef MALLOW_WATCH_FOLLOW_H
#define MALLOW_WATCH_FOLLOW_H

#include <limits.h>

#include "watch/process.h"
#include "watch/select.h"

struct follow_listener {
    void *arg;
    void (*joined)(void *arg, struct watch_process *p);
    /* The process ended or became another program; its memory is still there, until this returns.
     */
    void (*ended)(void *arg, struct watch_process *p);
    /* It is let go of, or was never on the list: what may be spent on its user's processes is
     * spent. again: that was said of it before. */
    void (*refused)(void *arg, const struct watch_process *p, bool again);
};

/* A process that was refused, until it ends. It is not looked at before there is as much room as it
 * needed. */
struct follow_refused {
    struct trust_process who;
    struct trust_identity file;
    struct account *account;
    uint64_t needed;
};

struct follow {
    struct follow_listener listener;
    struct watch_process **items;
    uint32_t count, room;
    uint64_t since_ns; /* by CLOCK_MONOTONIC: children that began and ended since are watched */
    int dir;           /* where new ones are looked for; -1: nowhere */
    pid_t keeper;      /* the pid that keeps that directory; 0: this watch, or none */
    bool own;          /* the directory is this watch's: everybody in it is watched */
    bool everyone;     /* all that live and may be read are watched, not only families */
    const struct watch_select *select; /* these of all; NULL: all */
    bool outside;                      /* its content is not written by the processes themselves */
    const char *prefix;                /* the prefix of the names of files in it */
    struct accounts accounts;
    struct follow_refused *refused;
    uint32_t refused_count, refused_room;
    pid_t *waited; /* processes that carry the library and have not joined yet */
    size_t waited_count;
};

void follow_begin(struct follow *f, struct follow_listener listener);

/* Every process that has a segment in the directory of this watch's session. */
void follow_session(struct follow *f, int directory);

/* Every process of this user, of all users as root, that has its segment in /dev/shm. -1 with *err.
 */
int follow_everyone(struct follow *f, struct error *err);

/* Looks for such processes in containers with a /dev/shm of their own, as root: at all of /proc;
 * some times a minute is enough. */
void follow_containers(struct follow *f);

/* The process `pid`, and its children from now on. A process that has ended and left its memory
 * behind is followed as well (and ends in the next round). -1: *err says why it cannot be, and what
 * to do. */
int follow_pid(struct follow *f, pid_t pid, struct error *err);

/* Looks for new processes (looking costs a read of the directory: not more often than needed) and
 * for those that ended. Where one ended, new ones are looked for in any case: a child that joined
 * since, and has ended as well, is known by its parent. */
void follow_round(struct follow *f, bool find_new);

/* Looks below a process for some that sample where follow_round does not see it: in a container
 * with a /dev/shm of its own. A few reads of /proc for each process of the tree; once a second is
 * enough. */
void follow_below(struct follow *f, pid_t pid);

/* Lets go of all; removes what ended. keep: files of processes that still run stay where they are.
 */
void follow_release(struct follow *f);

/* The names that segments have: without a session, in /dev/shm, FOLLOW_FILE_NAME PID-CLOCK; in a
 * session's directory PID-CLOCK (prefix ""). False: it is none. */
#define FOLLOW_FILE_NAME "mallow-watch-"
bool follow_name(const char *prefix, const char *name, pid_t *pid, uint64_t *clock);
/* The process that made the session of a directory, by its name. False: it is no session's. */
bool follow_session_maker(const char *name, pid_t *maker);

/* Opens /dev/shm; -1 with *err. */
int follow_shared(struct error *err);

/* Processes that still run. */
uint32_t follow_running(const struct follow *f);

#endif
