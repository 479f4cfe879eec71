/* borrow.h - a thread of another process, stopped, made to call functions, and put back.
 *
 * From borrow_call on, the thread has on its stack what it needs to go on by itself: the death of
 * this process at any moment does it no harm. One thread. */
#ifndef MALLOW_REMOTE_BORROW_H
#define MALLOW_REMOTE_BORROW_H

#include <sys/types.h>

#include "format/attach.h"
#include "remote/image.h"
#include "remote/thread.h"

enum { BORROW_ROOM = 2560, BORROW_XSTATE_MAX = 16 << 10 };

struct borrowed {
    const struct injected *target;
    struct thread thread; /* its registers and signal are its own */
    uint64_t mask;
    uint64_t sigreturn; /* injected_sigreturn */
    uint64_t room;      /* BORROW_ROOM bytes of its stack, for arguments of functions */
    uint64_t stack;     /* where functions begin: the return address lies there */
    bool prepared, called;
    bool faulted; /* a function that it called failed in the processor, where the thread stands */
    bool back;  /* the function that it called has come back: it stands at the entry of sigreturn */
    bool stays; /* a function that it called has done its work, and it stands in it */
    uint64_t errno_at; /* 0: not known */
    int errno_was;
    size_t xstate_bytes;
    uint8_t xstate[BORROW_XSTATE_MAX];
    uint64_t since_ns;
};

enum borrow_stop {
    BORROW_STOPPED,
    BORROW_LATE, /* it did not stop in time: it is let go when it does, while this process waits. Or
                    it is the first thread, and one that is late may be in an exec */
    BORROW_BUSY, /* so many did not that no more is asked */
    BORROW_GONE, /* there is no such thread */
    BORROW_REFUSED, /* errno says why */
    BORROW_GROUP    /* the process is stopped by a signal */
};

/* Stops the thread. *waits: it was interrupted in a system call. */
enum borrow_stop borrow_stop(struct borrowed *b, const struct injected *t, pid_t tid, bool *waits);

/* Writes what the thread needs to go on by itself. */
bool borrow_prepare(struct borrowed *b);

/* Calls a function with up to two arguments. Its result is not known. False: the thread is gone; or
 * the function failed in the processor, and borrow_end puts the thread back; or it has not come
 * back within limit_ns: it then goes on by itself when it does. */
bool borrow_call(struct borrowed *b, uint64_t function, uint64_t a, uint64_t c, uint64_t limit_ns);

/* Calls a function of libmallow-attach*.so, which answers, and says that the thread stays
 * (format/attach.h): it runs without a stop until then. False: as borrow_call. No other call may
 * follow. */
struct borrow_request {
    uint64_t argument, answer_at, token, limit_ns;
};
bool borrow_call_staying(struct borrowed *b, uint64_t function, const struct borrow_request *q,
                         struct mlw_attach_answer *answer);

/* Lets the thread go on where it was. One that died is waited for. */
void borrow_end(struct borrowed *b);

/* Waits for the threads that did not stop in time. One that is still in the kernel after that goes
 * on when this process ends, and may see a call interrupted. */
void borrow_leave(uint64_t limit_ns);

#endif
