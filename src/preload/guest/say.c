/* say.c - a line of ours on standard error, of a program that did not ask for it.
 *
 * Standard error may be a pipe without a reader at work, or whose reader is gone, a file at its
 * size limit, or the terminal of another job. The program alone writes nothing there: so it must
 * not wait for us, and the signals that such a write raises (SIGPIPE, SIGXFSZ, SIGTTOU) must not
 * reach it. Text that cannot be written at once is dropped. */
#include "preload/guest.h"
#include "preload/sys.h"

#define PIECE       4096ul /* so many bytes a pipe that is ready takes without waiting */
#define BIT(signal) (1ul << ((signal)-1))

static long write_at_once(const char *text, size_t n)
{
    struct pollfd out = {.fd = 2, .events = POLLOUT};
    if (sys_poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
        return -EAGAIN;
    return sys_write(2, text, n < PIECE ? n : PIECE);
}

void guest_say(const char *text, size_t n)
{
    static const uint64_t held = BIT(SIGPIPE) | BIT(SIGXFSZ) | BIT(SIGTTOU);
    uint64_t before;
    long done = 1;
    if (sys_rt_sigprocmask(SIG_BLOCK, &held, &before))
        return;
    while (n && (done = write_at_once(text, n)) > 0) {
        text += done;
        n -= (size_t)done;
    }
    uint64_t raised = done == -EPIPE ? BIT(SIGPIPE) : done == -EFBIG ? BIT(SIGXFSZ) : 0;
    if (raised & ~before) {
        const struct timespec now = {0, 0};
        sys_rt_sigtimedwait(&raised, 0, &now);
    }
    sys_rt_sigprocmask(SIG_SETMASK, &before, 0);
}
