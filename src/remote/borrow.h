/* borrow.h - a stopped thread of another process, made to call functions or the kernel, and put
 * back.
 *
 * Owns: what makes our death harmless. From borrow_prepare on, the thread has on its stack what it
 * needs to go on by itself: a true signal frame, into which all that it is made to do returns. The
 * death of this process at any moment does it no harm; while this process lives, it puts everything
 * back itself. Errors: false, and the caller knows why it asked. One thread, that of thread.h. */
#ifndef MALLOW_REMOTE_BORROW_H
#define MALLOW_REMOTE_BORROW_H

#include <sys/types.h>

#include "format/attach.h"
#include "remote/target.h"
#include "remote/thread.h"

enum { BORROW_ROOM = 2560, BORROW_XSTATE_MAX = 16 << 10 };

enum borrowed_where {
    BORROWED_STILL, /* where it was */
    BORROWED_AWAY,  /* on its way: it goes on by what lies on its stack, wherever it is. It may have
                       a stop that we have not seen, also in another image */
    BORROWED_BACK,  /* a function has come back: it stands at the entry of the signal return */
    BORROWED_LEFT,  /* it has left a system call */
    BORROWED_STAYS, /* in a function that has done its work */
    BORROWED_FAULTED /* the code that it was made to run failed in the processor */
};

struct borrowed {
    const struct handle *process; /* these four are set before borrow_prepare, and stay theirs */
    struct thread *thread;        /* it stands still */
    uint64_t sigreturn;           /* code.h */
    uint64_t errno_at;            /* 0: the code that it runs leaves errno alone */
    uint64_t mask;
    uint64_t room;  /* BORROW_ROOM bytes of its stack, for arguments of functions */
    uint64_t stack; /* where functions begin: the return address lies there */
    enum borrowed_where where;
    pid_t made; /* the last child that it made, where its options report one (ptrace); 0: none */
    int errno_was;
    size_t xstate_bytes;
    uint8_t xstate[BORROW_XSTATE_MAX];
};

/* Writes what the thread needs to go on by itself. */
bool borrow_prepare(struct borrowed *b);

/* Calls a function with up to two arguments. Its result is not known. False: the thread is gone; or
 * the function failed in the processor, and borrow_put_back puts the thread back; or it has not
 * come back within limit_ns: it then goes on by itself when it does. */
bool borrow_call(struct borrowed *b, uint64_t function, uint64_t a, uint64_t c, uint64_t limit_ns);

/* Makes a system call, which must not wait, by the code at `call` ("syscall; ret"). False: as
 * borrow_call. */
bool borrow_system_call(struct borrowed *b, uint64_t call, long number, const uint64_t a[4],
                        uint64_t limit_ns, int64_t *result);

/* Calls a function of libmallow-attach*.so, which answers, and says that the thread stays
 * (format/attach.h): it runs without a stop until then. False: as borrow_call. No other call may
 * follow. */
struct borrow_request {
    struct target *image; /* the image of the process */
    uint64_t argument, answer_at, token, limit_ns;
};
bool borrow_call_staying(struct borrowed *b, uint64_t function, const struct borrow_request *q,
                         struct mlw_attach_answer *answer);

/* Puts the thread back to where it was, if it stands; the caller lets it go. */
void borrow_put_back(struct borrowed *b);

#endif
