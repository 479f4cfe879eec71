/* inject.h - libmallow-attach.so, or libmallow-attach-record.so, put into a process that runs
 * already, and out of use again.
 *
 * Owns: who may be attached to, at which moment a thread can be borrowed, and the calls that it is
 * made to make. Refuses: what cannot be made safe, with a reason and the way that does work.
 *
 * One thread of the process is borrowed, at a point where it holds no lock of the allocator's or
 * the dynamic linker's; the others run on. On its own stack stands what the kernel would have put
 * there for a signal handler, and the functions that it is made to call return into libc's signal
 * return. So if this process dies at any moment the thread goes on by itself, where it was. While
 * this process lives, it puts everything back itself, and an interrupted system call goes on as if
 * nothing had been.
 *
 * A process may execute another program at any moment. Its memory is read and written by one
 * descriptor, which stays with the image that it was opened for; facts about an image are used
 * after a stop only when the process still has it. A new image is asked anew, if it is the same
 * user's.
 *
 * Blocks this process's signals meanwhile. SIGINT, SIGTERM and SIGHUP make the attachment end
 * within about a second, and stay pending for the caller. One thread; the caller must not be
 * waiting for other tracees. */
#ifndef MALLOW_INJECT_INJECT_H
#define MALLOW_INJECT_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "format/attach.h"
#include "trust/process.h"

struct inject_options {
    const char *library; /* absolute path */
    const char *preload; /* the library for programs that it starts; NULL: not followed */
    uint64_t period;     /* the period of samples, bytes; 0: the default */
    pid_t reader; /* the reader of the samples, from the beginning; 0: it enters itself later */
    const char *session; /* a recording's path of its shared memory; else NULL */
    /* The user who may write to that shared memory: a thread that may do more is not borrowed.
     * NULL: only users who may do more than the process. */
    const struct trust_credentials *shared_with;
    uint64_t patience_ns; /* how long to look for a thread that can be borrowed; 0: 15 s, up to 60 s
                             where so few could be looked at that it says nothing */
};

struct inject_result {
    pid_t tid;        /* the borrowed thread */
    uint64_t away_ns; /* from its stop until it went on */
    uint64_t work_ns; /* the work in ns of these, on a processor; the others it waited for one, or
                         its attacher did. UINT64_MAX: not known, the thread ended */
    uint64_t stops;   /* threads that were stopped for a look before */
    uint32_t slots;   /* bindings that were changed */
    bool already;     /* nothing was to be done */
    bool busy; /* inject_end came back until none of its threads was in a call of the library */
};

/* 0, or -1 with *err: nothing was changed, but for a library that may have been loaded and does
 * nothing. */
int inject_begin(pid_t pid, const struct inject_options *options, struct inject_result *result,
                 struct error *err);
/* The end of a command does not take longer than two seconds when the user asks for it: until when
 * its processes are tried to be left, for inject_end. interrupted_ns: of the signal
 * (CLOCK_MONOTONIC); 0, and the result: there was none, and there is time. */
uint64_t inject_leave_until(uint64_t interrupted_ns);

/* The process's calls lead to its allocator again. The library's code stays, unused. library: its
 * file's name, MLW_ATTACH_LIBRARY or MLW_ATTACH_RECORD_LIBRARY. until_ns (CLOCK_MONOTONIC): it is
 * given up then; 0: as long as it may take, which is a minute. */
int inject_end(pid_t pid, const char *library, uint64_t until_ns, struct inject_result *result,
               struct error *err);

/* For messages: "thread 12 was away for 3.1 ms (0.4 ms at work)". */
enum { INJECT_AWAY_BYTES = 96 };
const char *inject_away(const struct inject_result *result, char to[INJECT_AWAY_BYTES]);

/* True if the process could be attached to, as far as that is seen without stopping it. 0, or -1
 * with the reason. */
int inject_check(pid_t pid, const struct inject_options *options, struct error *err);

/* True if the library is in the process, by its mappings; false, too, when they cannot be read. */
bool inject_is_there(pid_t pid, const char *library);

#endif
