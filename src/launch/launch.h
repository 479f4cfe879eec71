/* launch.h - starting the program so that it is what it would be without mallow.
 *
 * Owns: fork and exec, and restoring the state of this process that mallow changed (signals,
 * limits) in the program. Nothing here prints. */
#ifndef MALLOW_LAUNCH_LAUNCH_H
#define MALLOW_LAUNCH_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

/* How signals were before mallow changed them; the program gets them back. */
struct signals_before {
    sigset_t mask;
    struct sigaction child, pipe, xfsz;
};

/* Blocks SIGCHLD, SIGINT, SIGQUIT, SIGTERM and SIGHUP, for a loop that reads them from a signalfd;
 * ignores SIGPIPE and SIGXFSZ. */
void signals_take(struct signals_before *before);
/* A descriptor from which the loop reads them. -1 with errno. */
int signals_open(void);
void signals_restore(const struct signals_before *before);
/* The blocked signals act as they did before, for work that has no loop and leaves nothing behind;
 * signals_block: until here. */
void signals_pass(const struct signals_before *before);
void signals_block(void);

/* Limits that mallow lifts for itself as far as it may: on the size of files, on address space, on
 * open files, on data. */
struct limits_before {
    struct rlimit file_size, address_space, open_files, data;
};
void limits_lift(struct limits_before *before);
void limits_restore(const struct limits_before *before);

/* A value of LD_PRELOAD with the library (an absolute path) before its present content; the caller
 * frees *value. -1: the loader cannot take this path, or no memory. */
int launch_preload(const char *library, char **value, struct error *err);

struct launch {
    pid_t pid;
    int go, status; /* pipes: the word to go on, and errno of an exec that failed */
};

/* Forks; the child waits in launch_child_wait until the parent calls launch_go. 0 in both, or -1.
 */
int launch_fork(struct launch *l, struct error *err);

/* The child's needs, by pointers that were valid before the fork. */
struct launch_plan {
    char *const *argv;
    const struct signals_before *signals;
    const struct limits_before *limits;
};

/* In the child of launch_fork (l->pid is 0): wait returns once the parent has called launch_go;
 * exec sets the environment (NAME, VALUE, NAME, VALUE, ..., NULL) and executes, or reports its
 * errno to the parent and ends the child. */
void launch_child_wait(struct launch *l);
void launch_child_exec(struct launch *l, const struct launch_plan *plan,
                       const char *const *environment) __attribute__((noreturn));

/* In the parent: lets the child go on; 0 once PROGRAM runs, else the errno of its exec (the child
 * has been waited for). */
int launch_go(struct launch *l);

/* The longest wait for a process that has not joined. */
#define LAUNCH_LATEST_NS 10000000000ull

/* CPU time that a process has used so far; 0 when unknown. */
uint64_t launch_cpu_ns(pid_t pid);

/* True if a process may still be on its way to the first instruction of the library, however long
 * that takes by the clock: it runs, or waits for a processor or a disk, and has used less than a
 * second of CPU time since it had used before_ns. */
bool launch_is_starting(pid_t pid, uint64_t before_ns);

/* True if a process other than this one, of a higher id than `above`, has `assignment`
 * (NAME=VALUE) in its environment, or no environment because it is within an exec, and `known`
 * does not know it: a descendant of the program that has just forked, or is between exec and the
 * first instruction of the library. starting: only those of which launch_is_starting says so. */
bool launch_has_heirs(const char *assignment, pid_t above, bool starting,
                      bool (*known)(void *arg, pid_t pid), void *arg);

/* In the parent: the child ends without having run anything. */
void launch_cancel(struct launch *l);

#endif
