/* fault.c - SIGSEGV: accesses to guard pages, and the program's own handler; SIGABRT.
 *
 * Our handler is installed before the first block is guarded. From then on requests of the program
 * by sigaction and signal are kept here and returned to it, and the kernel is given our handler
 * with the program's mask and flags; so a fault that is none of ours goes on as it would have gone.
 * Requests by an inline system call are not seen; nor is anything caught in a thread that blocks
 * SIGSEGV: the kernel ends the process then.
 *
 * Where SIGABRT has its default, a handler of ours looks at live guarded blocks once more before it
 * ends the process by that. A program that asks for the signal gets it, and never sees ours. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "arch/registers.h"
#include "arch/stack.h"
#include "watcher.h"

typedef int sigaction_function(int, const struct sigaction *, struct sigaction *);
typedef void handler_function(int);

static struct {
    volatile uint32_t stage; /* 0 not installed, 1 under way, 2 installed, 3 refused */
    volatile uint32_t turn;  /* the program's action is action[turn & 1] */
    struct sigaction action[2];
} fault;

static sigaction_function *real_sigaction(void)
{
    static sigaction_function *f;
    if (!f)
        f = (sigaction_function *)(uintptr_t)next_symbol("sigaction");
    return f;
}

static void on_fault(int signal_number, siginfo_t *info, void *context);

static void keep_action(const struct sigaction *a)
{
    fault.action[(fault.turn + 1) & 1] = *a;
    __atomic_store_n(&fault.turn, fault.turn + 1, __ATOMIC_RELEASE);
}

static const struct sigaction *kept_action(void)
{
    return &fault.action[__atomic_load_n(&fault.turn, __ATOMIC_ACQUIRE) & 1];
}

/* Our handler with what of the program's action the kernel has to know. */
static ARCH_ALIGNS_STACK int install(const struct sigaction *of)
{
    struct sigaction ours = *of;
    bool theirs = of->sa_handler != SIG_DFL && of->sa_handler != SIG_IGN;
    ours.sa_sigaction = on_fault;
    ours.sa_flags = (theirs ? of->sa_flags & ~SA_RESETHAND : SA_ONSTACK) | SA_SIGINFO;
    if (!theirs)
        memset(&ours.sa_mask, 0, sizeof ours.sa_mask);
    return real_sigaction()(SIGSEGV, &ours, 0);
}

/* ---- SIGABRT ---- */

static void on_abort(int signal_number, siginfo_t *info, void *context);

static bool is_on_abort(const struct sigaction *a) { return a->sa_sigaction == on_abort; }

static ARCH_ALIGNS_STACK void abort_usual(void)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    real_sigaction()(SIGABRT, &usual, 0);
}

static void on_abort(int signal_number, siginfo_t *info, void *context)
{
    const int saved = errno;
    (void)info, (void)context;
    guarded_check();
    abort_usual();
    /* it is blocked here, and comes when this returns */
    sys_tgkill((int)sys_getpid(), (int)sys_gettid(), signal_number);
    errno = saved;
}

static ARCH_ALIGNS_STACK void abort_install(void)
{
    struct sigaction now, ours = {.sa_sigaction = on_abort, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (!real_sigaction()(SIGABRT, 0, &now) && now.sa_handler == SIG_DFL)
        real_sigaction()(SIGABRT, &ours, 0);
}

ARCH_ALIGNS_STACK void fault_confine(void)
{
    struct sigaction now;
    const int saved = errno;
    if (fault.stage == 2 && !real_sigaction()(SIGABRT, 0, &now) && is_on_abort(&now))
        abort_usual();
    errno = saved;
}

ARCH_ALIGNS_STACK bool fault_install(void)
{
    struct sigaction now;
    uint32_t no = 0;
    if (likely(fault.stage == 2))
        return true;
    if (fault.stage || sys_closed)
        return false;
    if (!__atomic_compare_exchange_n(&fault.stage, &no, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    int saved = errno;
    bool installed = real_sigaction() && !real_sigaction()(SIGSEGV, 0, &now);
    if (installed) {
        keep_action(&now);
        installed = !install(&now);
    }
    if (installed)
        abort_install();
    else
        watch_trouble(MLW_WATCH_NO_GUARD);
    __atomic_store_n(&fault.stage, installed ? 2 : 3, __ATOMIC_RELEASE);
    errno = saved;
    return installed;
}

/* ---- the program's own action ---- */

static ARCH_ALIGNS_STACK void pass_signal_on(int signal_number, siginfo_t *info, void *context)
{
    struct sigaction a = *kept_action(), usual;
    bool by_the_kernel = info->si_code > 0;
    if (a.sa_handler == SIG_IGN && !by_the_kernel)
        return;
    if (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN) {
        guarded_check();
        if (sys_closed) /* the signal is blocked here: a fault of our own ends the process by it */
            arch_fault();
        memset(&usual, 0, sizeof usual);
        usual.sa_handler = SIG_DFL;
        real_sigaction()(signal_number, &usual, 0);
        if (!by_the_kernel) /* else the instruction faults once more */
            sys_tgkill((int)sys_getpid(), (int)sys_gettid(), signal_number);
        return;
    }
    if (a.sa_flags & SA_RESETHAND) {
        memset(&usual, 0, sizeof usual);
        usual.sa_handler = SIG_DFL;
        keep_action(&usual);
    }
    if (a.sa_flags & SA_SIGINFO)
        a.sa_sigaction(signal_number, info, context);
    else
        a.sa_handler(signal_number);
}

/* ---- ours ---- */

static ARCH_ALIGNS_STACK void report_fault(struct guard_slot *g, uint64_t at,
                                           const ucontext_t *context, uint64_t sp, uint64_t bp)
{
    struct mlw_watch_stack access;
    bool freed = g->state == GUARD_FREED;
    const struct sample *s = freed ? 0 : tables_sample(g->sample);
    struct error_facts e = {.kind = freed             ? MLW_WATCH_USE_AFTER_FREE
                                    : at < g->address ? MLW_WATCH_UNDERFLOW
                                                      : MLW_WATCH_OVERFLOW,
                            .flags = MLW_WATCH_ERROR_GUARDED | MLW_WATCH_ERROR_BLOCK |
                                     (arch_fault_was_write(context) ? MLW_WATCH_ERROR_WRITE : 0u) |
                                     (freed ? MLW_WATCH_ERROR_FREED : 0u),
                            .signal = SIGSEGV,
                            .access_address = at,
                            .address = g->address,
                            .size = g->size,
                            .allocated_ns = freed ? g->time_ns
                                            : s   ? s->time_ns
                                                  : 0,
                            .allocated_tid = freed ? g->tid
                                             : s   ? s->tid
                                                   : 0,
                            .freed_ns = freed ? g->free_ns : 0,
                            .freed_tid = freed ? g->free_tid : 0,
                            .access = &access};
    uint32_t site = freed ? g->site : s ? s->site : NO_INDEX;
    e.allocation = site == NO_INDEX ? 0 : tables_stack(site);
    e.release = !freed || g->free_site == NO_INDEX ? 0 : tables_stack(g->free_site);
    stack_take(sp, bp, 1, &access); /* without the frame that the kernel returns through */
    error_report(&e);
}

static __attribute__((noinline)) bool is_ours(const siginfo_t *info, const ucontext_t *context,
                                              uint64_t sp, uint64_t bp)
{
    uint64_t at = (uint64_t)info->si_addr;
    if (info->si_signo != SIGSEGV || (info->si_code != SEGV_ACCERR && info->si_code != SEGV_MAPERR))
        return false;
    struct guard_slot *g = guard_find(at);
    if (!g || g->state == GUARD_FREE)
        return false;
    uint32_t no = 0;
    if (__atomic_compare_exchange_n(&g->reported, &no, 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED) &&
        watch_ready())
        report_fault(g, at, context, sp, bp);
    return !error_is_fatal() && guard_open(at);
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    uint64_t sp = (uint64_t)__builtin_frame_address(0) + 8,
             bp = *(uint64_t *)__builtin_frame_address(0);
    int saved = errno;
    if (!is_ours(info, context, sp, bp))
        pass_signal_on(signal_number, info, context);
    errno = saved;
}

/* ---- what the program asks for ---- */

/* Answers for SIGSEGV, with our handler installed. */
static ARCH_ALIGNS_STACK int install_action(const struct sigaction *action, struct sigaction *old)
{
    struct sigaction before = *kept_action();
    if (action) {
        struct sigaction asked = *action;
        keep_action(&asked);
        if (install(&asked)) {
            keep_action(&before);
            return -1;
        }
    }
    if (old)
        *old = before;
    return 0;
}

/* Shows the program its own handler in place of ours. */
static void hide(struct sigaction *a)
{
    a->sa_handler = SIG_DFL;
    a->sa_flags = 0;
}

INTERPOSED(int, sigaction, int signal_number, const struct sigaction *action, struct sigaction *old)
{
    if (unlikely(signal_number == SIGSEGV && fault.stage == 2))
        return install_action(action, old);
    const int r = real_sigaction()(signal_number, action, old);
    if (unlikely(signal_number == SIGABRT && !r && old && is_on_abort(old)))
        hide(old);
    return r;
}

INTERPOSED(int, __sigaction, int signal_number, const struct sigaction *action,
           struct sigaction *old)
{
    return entry_sigaction(signal_number, action, old);
}

static ARCH_ALIGNS_STACK handler_function *by_signal(const char *name, int signal_number,
                                                     handler_function *handler, int flags)
{
    if (signal_number != SIGSEGV || fault.stage != 2) {
        handler_function *before = ((handler_function * (*)(int, handler_function *))(
            uintptr_t)next_symbol(name))(signal_number, handler);
        return (void *)(uintptr_t)before == (void *)(uintptr_t)on_abort ? SIG_DFL : before;
    }
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags}, old;
    if (!(flags & SA_NODEFER))
        a.sa_mask.__val[0] |= 1ul << (signal_number - 1);
    return install_action(&a, &old) ? SIG_ERR : old.sa_handler;
}

INTERPOSED(handler_function *, signal, int n, handler_function *h)
{
    return by_signal("signal", n, h, SA_RESTART);
}
INTERPOSED(handler_function *, bsd_signal, int n, handler_function *h)
{
    return by_signal("signal", n, h, SA_RESTART);
}
INTERPOSED(handler_function *, ssignal, int n, handler_function *h)
{
    return by_signal("signal", n, h, SA_RESTART);
}
INTERPOSED(handler_function *, sysv_signal, int n, handler_function *h)
{
    return by_signal("sysv_signal", n, h, (int)(SA_RESETHAND | SA_NODEFER));
}
INTERPOSED(handler_function *, __sysv_signal, int n, handler_function *h)
{
    return by_signal("sysv_signal", n, h, (int)(SA_RESETHAND | SA_NODEFER));
}
