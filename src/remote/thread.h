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
};

/* The system call that the thread is in; -1: none, it runs; -2: not known. */
long thread_call(const struct handle *h, pid_t tid);

/* Seizes a thread and interrupts it. held: the threads of the process that may die meanwhile: they
 * are waited for. 0, or errno; EBUSY: it cannot be had in THREAD_SEIZE_MS, or this process is asked
 * to end. */
int thread_seize(struct thread *t, pid_t process, pid_t tid, struct thread *held, size_t count);

/* A signal that stops processes. */
bool thread_stops(int signal);
/* Whether the thread, of whose stop the status is, stands at a signal that its own code brought
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
/* As thread_await, of one that was made to go on, until its next stop; no signal ends that: what it
 * was made to do is under way. */
bool thread_await_status(struct thread *t, int *status, uint64_t until_ns);

/* Reads its registers, and undoes what the stop did to a system call. False: it is gone. */
bool thread_registers(struct thread *t);

/* Whether it is in a sequence that must not be left and entered again. h: its process. */
bool thread_in_sequence(const struct handle *h, pid_t tid);

/* Lets it go on, with its signal; one that has died is waited for, up to a time. Not of one that
 * runs. */
void thread_let_go(struct thread *t, uint64_t until_ns);

/* Whether a signal that asks this process to end is blocked and has come. */
bool thread_asked_to_end(void);

#endif
