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
    /* The process ended or became another program. Its memory stays until this returns. */
    void (*ended)(void *arg, struct watch_process *p);
    /* The process is dropped, or was never on the list, because its user's account is spent.
     * again: this was called for it before. */
    void (*refused)(void *arg, const struct watch_process *p, bool again);
};

/* A process that was refused, kept until it ends. It is not examined again before its user's
 * account has the room that it needed. */
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
    int dir;           /* the directory to search for new processes; -1: none */
    pid_t keeper;      /* the pid that keeps that directory; 0: this watch, or none */
    bool own;          /* the directory is this watch's own: all processes in it are watched */
    bool everyone;     /* all processes that live and may be read are watched, not only families */
    const struct watch_select *select; /* a selection among them; NULL: all */
    bool outside;       /* a process outside the watched ones writes the directory's files */
    const char *prefix; /* the prefix of the names of files in it */
    struct accounts accounts;
    struct follow_refused *refused;
    uint32_t refused_count, refused_room;
    pid_t *waited; /* processes that carry the library and have not joined yet */
    size_t waited_count;
};

void follow_begin(struct follow *f, struct follow_listener listener);

/* Follows every process that has a segment in the directory of this watch's session. */
void follow_session(struct follow *f, int directory);

/* Follows every process of this user (as root, of all users) that has its segment in /dev/shm.
 * Returns 0, or -1 with *err. */
int follow_everyone(struct follow *f, struct error *err);

/* Looks for such processes in containers with a /dev/shm of their own. It needs root, and reads
 * all of /proc; call it a few times a minute. */
void follow_containers(struct follow *f);

/* Follows the process `pid`, and the children that it makes from now on. A process that has
 * ended and left its memory behind is followed as well, and ends in the next round. Returns 0,
 * or -1 with *err, which also says what to do. */
int follow_pid(struct follow *f, pid_t pid, struct error *err);

/* Looks for processes that ended and, with find_new, for new ones, which costs a read of the
 * directory. If one ended it always looks for new ones, because a child that joined and ended
 * since can only be attributed by its parent. */
void follow_round(struct follow *f, bool find_new);

/* Looks among a process's descendants for watched ones that follow_round does not see, because
 * they are in a container with a /dev/shm of its own. It costs a few reads of /proc for each
 * descendant; call it once a second. */
void follow_below(struct follow *f, pid_t pid);

/* Drops all processes and removes the files of those that ended. Files of processes that still
 * run stay. */
void follow_release(struct follow *f);

/* Parses the name of a segment: prefix, then PID-CLOCK. The prefix is "" in a session's
 * directory, and that of /dev/shm otherwise. Returns false for other names. */
#define FOLLOW_FILE_NAME "mallow-watch-"
bool follow_name(const char *prefix, const char *name, pid_t *pid, uint64_t *clock);
/* Finds the process that made a session, by the name of its directory. Returns false for other
 * names. */
bool follow_session_maker(const char *name, pid_t *maker);

/* Opens /dev/shm; -1 with *err. */
int follow_shared(struct error *err);

/* Returns how many processes still run. */
uint32_t follow_running(const struct follow *f);

#endif
