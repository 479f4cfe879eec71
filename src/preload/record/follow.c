/* follow.c - calls that change what we may rely on: fork, the end of the process, dlclose.
 *
 * Each is forwarded to the real function. The callbacks of exec.c are here, too. */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder.h"

#define FIND(f) ((__typeof__(&f))(uintptr_t)next_symbol(#f))

HIDDEN long entry_syscall(long number, long a, long b, long c, long d, long e, long f);

static bool recording(void)
{
    if (!wiped.control)
        process_wake();
    return wiped.control && !recorder.off && recorder.process;
}

/* ---- fork ---- */

INTERPOSED(pid_t, fork, void)
{
    static __typeof__(&fork) real;
    if (!real)
        real = FIND(fork);
    if (recording())
        process_fork_clock = clock_now(thread_self ? thread_self->clock_kind : recorder.clock_kind);
    pid_t pid = real ? real() : (pid_t)entry_syscall(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (!pid && !wiped.control) {
        int saved = errno;
        process_wake();
        errno = saved;
    }
    process_fork_clock = 0;
    return pid;
}

/* ---- exec, in exec.c ---- */

bool guest_follows(void) { return recording() && !(recorder.session->options & MLW_OPT_NO_FOLLOW); }

const char *const *guest_carried(unsigned *count)
{
    static const char *const carried[] = {
        "LD_PRELOAD=",    MLW_ENV_SESSION "=",   MLW_ENV_OUTPUT "=", "MALLOW_STACKS=",
        "MALLOW_PAUSED=", "MALLOW_ENVIRONMENT=", "MALLOW_PATHS="};
    *count = sizeof carried / sizeof carried[0];
    return carried;
}

const char *guest_library(void) { return "libmallow-record"; }
void guest_exec(const char *path) { process_executing(path); }
void guest_exec_failed(void) { process_not_ending(); }
const char *guest_hand_on(void) { return guest_follows() ? own_hand_on() : 0; }
void guest_not_handed(void) { own_not_handed(); }
void guest_spawned(const char *path) { joins_note(path); }

/* ---- the end, in ending.c ---- */

void guest_ending(int status, bool handlers)
{
    if (handlers && !recording())
        return;
    if (handlers)
        recorder.ending = recorder.lone; /* they may allocate: their rows leave at once */
    process_ending(MLW_END_EXIT, (uint32_t)status & 255);
}

/* ---- code and stacks that vanish ---- */

static void forget_unmapped(uint64_t start, uint64_t end, uint64_t sp)
{
    if (recorder.stack_mode != MLW_STACKS_FULL)
        return;
    struct thread *t = thread_self;
    if (!t || t->busy) {
        t = thread_enter_slow(sp);
        if (!t)
            return;
    }
    t->busy = sp;
    barrier();
    unwind_unmapped(start, end, t);
    thread_leave(t);
}

void follow_unmapped(uint64_t start, uint64_t end, uint64_t sp)
{
    if (wiped.control && !recorder.off && recorder.process)
        forget_unmapped(start, end, sp);
}

INTERPOSED(int, dlclose, void *handle)
{
    static int (*real)(void *);
    if (!real)
        real = (int (*)(void *))(uintptr_t)next_symbol("dlclose");
    if (recording())
        unseen_look();
    int r = real(handle);
    if (recording())
        forget_unmapped(0, 0, (uint64_t)__builtin_frame_address(0));
    return r;
}
