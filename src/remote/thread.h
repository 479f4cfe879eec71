/* thread.h - threads of another process that are stopped by ptrace, looked at, and let go.
 *
 * Owns: the order in which the kernel wants it. A thread that died while it was held is there until
 * it was waited for; an exec of another thread of the process waits for that, and the next seizing
 * waits for the exec. An exec is announced (PTRACE_O_TRACEEXEC), and ends the hold. No call
 * waits without a bound. Threads are seized by one thread of this process, which makes all calls
 * about them; it has SIGURG and a timer for that. */
#ifndef MALLOW_REMOTE_THREAD_H
#define MALLOW_REMOTE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "remote/handle.h"

enum {
    THREAD_CALL_STOP = 0x85, /* SIGTRAP | 0x80: in or out of a system call */
    THREAD_SEIZE_MS = 5000,  /* so long the kernel may take to let a thread be seized */
    THREAD_LET_GO_MS = 1000  /* so long a dead thread is waited for */
};

/* Options of every seizing. */
extern const unsigned long thread_options;

struct thread {
    pid_t tid;
    bool stopped;
    bool gone;     /* it ended, or has left the image: there is nothing to let go of */
    bool executed; /* the process has executed another program: so it is gone */
    bool group;    /* the process is stopped by a signal */
    int signal; /* that it was about to get when it stopped, to be given when it goes on; 0: none */
    struct user_regs_struct registers; /* thread_registers */
    uint64_t since_ns;                 /* it was seized (CLOCK_MONOTONIC) */
};

/* The threads of the process, in no order: how many, or -1 with errno. The caller frees *tids in
 * any case. */
ssize_t thread_list(const struct handle *h, pid_t **tids);

/* The system call that the thread is in; -1: none, it runs; -2: not known. */
long thread_call(const struct handle *h, pid_t tid);

/* Seizes a thread and interrupts it. held: the threads of the process that may die meanwhile: they
 * are waited for. 0, or errno; EBUSY: it cannot be had in THREAD_SEIZE_MS, or this process is asked
 * to end. */
int thread_seize(struct thread *t, pid_t process, pid_t tid, struct thread *held, size_t count);

enum thread_stopped {
    THREAD_STANDS, /* its registers are read */
    THREAD_LATE,   /* it did not stop in time: it is let go when it does, while this process waits.
                      Or it is the first thread, and one that is late may be in an exec */
    THREAD_BUSY,   /* so many did not that no more is asked */
    THREAD_GONE,   /* there is no such thread */
    THREAD_REFUSED /* errno says why */
};

/* Stops one thread of a process that runs on; t->group: the process is stopped by a signal. */
enum thread_stopped thread_stop(struct thread *t, const struct handle *h, pid_t tid);

/* Waits for the threads that did not stop in time. One that is still in the kernel after that goes
 * on when this process ends, and may see a call interrupted. */
void thread_leave_late(uint64_t limit_ns);

/* A signal that stops processes. */
bool thread_stops(int signal);
/* True if the thread, of whose stop the status is, stands at a signal that its own code brought
 * about (SIGSEGV, ...), and that is not delivered yet. */
bool thread_faulted(const struct thread *t, int status);

/* Notes how waitpid answered: its result, and the status. */
void thread_note(struct thread *t, pid_t got, int status);

/* Looks once. True: it stands, or is gone. */
bool thread_look(struct thread *t);

/* Looks until it stands or is gone, or the time (CLOCK_MONOTONIC) has come, or this process is
 * asked to end by a signal that is blocked. False: it does neither. */
bool thread_await(struct thread *t, uint64_t until_ns);
/* The same of all: one may stop only when another one that died was waited for. Returns one that
 * does neither; NULL: none. */
const struct thread *thread_await_all(struct thread *t, size_t count, uint64_t until_ns);
/* As thread_await, of one that was made to go on, until its next stop. whole: no signal ends that,
 * because the end of what it was made to do must be seen. */
bool thread_await_status(struct thread *t, int *status, uint64_t until_ns, bool whole);

/* Waits for news of any thread, or so long: a stop raises SIGCHLD, which is news where that is
 * blocked. Threads that are late are let go meanwhile. */
void thread_nap(uint64_t ns);

/* Reads its registers, and undoes what the stop did to a system call. False: it is gone. */
bool thread_registers(struct thread *t);

/* True if the stop interrupted a system call, which the kernel would let begin again or go on. */
bool thread_interrupted(const struct thread *t);

/* True if it is in a sequence that must not be left and entered again. h: its process. */
bool thread_in_sequence(const struct handle *h, pid_t tid);

/* Lets it go on, with its signal; one that has died is waited for, up to a time. Not of one that
 * runs. */
void thread_let_go(struct thread *t, uint64_t until_ns);
/* The time for that: THREAD_LET_GO_MS, and none when this process is asked to end. */
uint64_t thread_let_go_until(void);

/* True if a signal that asks this process to end is blocked and has come. */
bool thread_asked_to_end(void);

#endif
