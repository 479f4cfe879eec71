/* thread.c - Seizes, stops, inspects and detaches threads of another process by ptrace. A
 * seizing can block on an exec in the process; a timer with SIGURG then interrupts it, and the
 * handler leaves the system call by siglongjmp. All waits have bounds, and threads that stop too
 * late are detached later. */
#include "remote/thread.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/stop.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/proc.h"

enum {
    RSEQ_CS_OFFSET = 8,
    SHORT_LOOKS = 100,
    SHORT_NS = 20000,
    LONG_NS = 1000000,
    STUCK_NS = 20000000, /* a seizing that takes longer waits for an exec */
    STOP_MS = 1000       /* long enough for a busy machine; then another thread is asked */
};

const unsigned long thread_options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;

ssize_t thread_list(const struct handle *h, pid_t **tids)
{
    size_t count = 0, room = 0;
    char path[64];
    *tids = NULL;
    snprintf(path, sizeof path, "/proc/%d/task", (int)h->pid);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (!ARRAY_ROOM(*tids, count + 1, room)) {
            closedir(d);
            errno = ENOMEM;
            return -1;
        }
        (*tids)[count++] = tid;
    }
    if (!d)
        return -1;
    closedir(d);
    return (ssize_t)count;
}

/* ---- seizing ---- */

/* The state that the handler reads, of the thread that seizes. Its timer stays: a process can have
 * thousands of threads. */
static struct {
    struct thread *held;
    size_t count;
    uint64_t since_ns;
    pid_t owner; /* the thread that made the timer; a fork has none */
    timer_t timer;
    sigjmp_buf away;
    volatile sig_atomic_t active;
} seizing;

static void again_in(uint64_t ns)
{
    const struct itimerspec when = {.it_value.tv_nsec = (long)ns};
    timer_settime(seizing.timer, 0, &when, NULL);
}

/* Waits for those that died, also after they had stopped: an exec kills the other threads. The
 * kernel gives a stop that was not seen yet as well, and but once. */
static void bury(struct thread *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = 0;
        struct thread *t = &held[i];
        const pid_t got = t->gone ? 0 : waitpid(t->tid, &status, __WALL | WNOHANG);
        if (got > 0 || (got < 0 && errno == ECHILD))
            thread_note(t, got, status);
    }
}

/* The kernel makes a seizing wait for an exec of the process, and the exec for the end of its
 * threads, of which some are held: they are waited for here. The exec may also wait for a file
 * that the process chose: that has a bound. The kernel begins an interrupted seizing again, so it
 * is left by a jump. */
static void on_stuck(int number)
{
    const int saved = errno;
    (void)number;
    if (!seizing.active)
        return;
    bury(seizing.held, seizing.count);
    again_in(STUCK_NS);
    if (thread_asked_to_end() ||
        clock_monotonic_ns() - seizing.since_ns > THREAD_SEIZE_MS * 1000000ull) {
        seizing.active = 0;
        siglongjmp(seizing.away, 1);
    }
    errno = saved;
}

static bool has_timer(void)
{
    const struct sigaction handled = {.sa_handler = on_stuck, .sa_flags = SA_RESTART};
    struct sigevent to = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    const pid_t self = (pid_t)syscall(SYS_gettid);
    if (seizing.owner == self)
        return true;
    to._sigev_un._tid = self; // NOLINT(bugprone-reserved-identifier)
    if (timer_create(CLOCK_MONOTONIC, &to, &seizing.timer))
        return false;
    sigaction(SIGURG, &handled, NULL);
    seizing.owner = self;
    return true;
}

/* After a jump: it may have been seized. */
static bool is_traced(pid_t tid)
{
    siginfo_t about;
    return !waitid(P_PID, (id_t)tid, &about, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL);
}

static int seize(pid_t tid, struct thread *held, size_t count)
{
    sigset_t one, before;
    volatile int number = 0;
    if (!has_timer())
        return errno;
    seizing.held = held;
    seizing.count = count;
    seizing.since_ns = clock_monotonic_ns();
    sigemptyset(&one);
    sigaddset(&one, SIGURG);
    pthread_sigmask(SIG_UNBLOCK, &one, &before);
    if (!sigsetjmp(seizing.away, 0)) {
        seizing.active = 1;
        again_in(STUCK_NS);
        if (ptrace(PTRACE_SEIZE, tid, NULL, thread_options))
            number = errno;
        seizing.active = 0;
    } else if (!is_traced(tid)) {
        number = EBUSY;
    }
    again_in(0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number;
}

/* A thread that executed a program while it was being seized has the id of its process since, also
 * if that was held: it is let go under that. */
static void let_successor_go(pid_t process, struct thread *held, size_t count)
{
    struct thread next = {.tid = process};
    const uint64_t until_ns = clock_monotonic_ns() + THREAD_LET_GO_MS * 1000000ull;
    int status = 0;
    if (!ptrace(PTRACE_INTERRUPT, process, NULL, NULL) &&
        thread_await_status(&next, &status, until_ns, true) && next.stopped)
        thread_let_go(&next, until_ns);
    for (size_t i = 0; i < count; i++)
        if (held[i].tid == process) {
            held[i].stopped = false;
            held[i].gone = held[i].executed = true;
        }
}

int thread_seize(struct thread *t, pid_t process, pid_t tid, struct thread *held, size_t count)
{
    *t = (struct thread){.tid = tid};
    const int number = seize(tid, held, count);
    t->since_ns = clock_monotonic_ns();
    if (!number && ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) && tid != process && !is_traced(tid)) {
        let_successor_go(process, held, count);
        t->gone = t->executed = true;
    }
    return number;
}

/* ---- stops ---- */

long thread_call(const struct handle *h, pid_t tid)
{
    char name[64], text[256];
    snprintf(name, sizeof name, "task/%d/syscall", (int)tid);
    if (proc_read(h->pid, name, text, sizeof text) <= 0)
        return -2;
    return strncmp(text, "running", 7) != 0 ? strtol(text, NULL, 10) : -1;
}

bool thread_stops(int signal)
{
    return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

bool thread_faulted(const struct thread *t, int status)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    siginfo_t info;
    bool is = false;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        is |= WIFSTOPPED(status) && !(status >> 16) && WSTOPSIG(status) == signals[i];
    return is && !ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &info) && info.si_code > 0;
}

void thread_note(struct thread *t, pid_t got, int status)
{
    const int event = status >> 16;
    if (got != t->tid || !WIFSTOPPED(status)) {
        t->gone = true;
    } else if (event == PTRACE_EVENT_EXEC) { /* the new image goes on as if nothing had been */
        ptrace(PTRACE_DETACH, t->tid, NULL, NULL);
        t->gone = t->executed = true;
    } else {
        t->stopped = true;
        t->group = event == PTRACE_EVENT_STOP && thread_stops(WSTOPSIG(status));
        if (!event && WSTOPSIG(status) != THREAD_CALL_STOP)
            t->signal = WSTOPSIG(status);
    }
}

static bool look(struct thread *t, int *status)
{
    if (t->stopped || t->gone)
        return true;
    const pid_t got = waitpid(t->tid, status, __WALL | WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    thread_note(t, got, *status);
    return true;
}

bool thread_look(struct thread *t)
{
    int status = 0;
    return look(t, &status);
}

bool thread_asked_to_end(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t pending;
    sigpending(&pending);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now;
        if (sigismember(&pending, ends[i]) && !sigaction(ends[i], NULL, &now) &&
            now.sa_handler != SIG_IGN)
            return true;
    }
    return false;
}

/* Threads that have not stopped in time: they are let go when they do. Of this process. */
static struct {
    struct thread thread[16];
    unsigned count;
} late;

static void look_at_late(void)
{
    for (unsigned i = late.count; i-- > 0;) {
        struct thread *t = &late.thread[i];
        if (!thread_look(t))
            continue;
        if (t->stopped) {
            thread_registers(t);
            thread_let_go(t, 0);
        }
        *t = late.thread[--late.count];
    }
}

void thread_nap(uint64_t ns)
{
    sigset_t news;
    const struct timespec time = {.tv_nsec = (long)ns};
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    sigtimedwait(&news, NULL, &time);
    look_at_late();
}

static bool await(struct thread *t, int *status, uint64_t until_ns, bool ends)
{
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    /* In the heap's calls another thread of ours may take the news. */
    const unsigned shorts = ends && sigismember(&blocked, SIGCHLD) ? 0 : SHORT_LOOKS;
    for (unsigned looks = 0; !look(t, status); looks++) {
        if (clock_monotonic_ns() > until_ns || (ends && thread_asked_to_end()))
            return false;
        thread_nap(looks < shorts ? SHORT_NS : LONG_NS);
    }
    return true;
}

bool thread_await(struct thread *t, uint64_t until_ns)
{
    int status = 0;
    return await(t, &status, until_ns, true);
}

const struct thread *thread_await_all(struct thread *t, size_t count, uint64_t until_ns)
{
    for (unsigned looks = 0;; looks++) {
        const struct timespec brief = {.tv_nsec = looks < SHORT_LOOKS ? SHORT_NS : LONG_NS};
        const struct thread *runs = NULL;
        if (looks % SHORT_LOOKS == SHORT_LOOKS - 1)
            bury(t, count);
        for (size_t i = 0; i < count; i++)
            if (!thread_look(&t[i]) && !runs)
                runs = &t[i];
        if (!runs || clock_monotonic_ns() > until_ns || thread_asked_to_end())
            return runs;
        nanosleep(&brief, NULL);
    }
}

bool thread_await_status(struct thread *t, int *status, uint64_t until_ns, bool whole)
{
    t->stopped = false;
    return await(t, status, until_ns, !whole);
}

/* An exec ends the leader, also one that stands still for us, and gives its id to the thread that
 * executes: registers that are set under that id may be the new image's. A late thread can be in an
 * exec; in any other call, and out of it, it stops first. */
static bool late_may_execute(const struct handle *h)
{
    for (unsigned i = 0; i < late.count; i++) {
        const long call = thread_call(h, late.thread[i].tid);
        if (call < 0 || call == SYS_execve || call == SYS_execveat)
            return true;
    }
    return false;
}

enum thread_stopped thread_stop(struct thread *t, const struct handle *h, pid_t tid)
{
    look_at_late();
    for (unsigned i = 0; i < late.count; i++)
        if (late.thread[i].tid == tid)
            return THREAD_LATE;
    if (tid == h->pid && late_may_execute(h))
        return THREAD_LATE;
    const int refused = thread_seize(t, h->pid, tid, late.thread, late.count);
    if (refused) {
        errno = refused;
        return refused == ESRCH ? THREAD_GONE : THREAD_REFUSED;
    }
    if (!thread_await(t, t->since_ns + STOP_MS * 1000000ull)) {
        if (late.count == sizeof late.thread / sizeof *late.thread)
            return THREAD_BUSY; /* our end frees it */
        late.thread[late.count++] = *t;
        return THREAD_LATE;
    }
    if (t->gone)
        return THREAD_GONE;
    if (thread_registers(t))
        return THREAD_STANDS;
    thread_let_go(t, thread_let_go_until());
    return THREAD_GONE;
}

void thread_leave_late(uint64_t limit_ns)
{
    const uint64_t until_ns = clock_monotonic_ns() + limit_ns;
    for (look_at_late(); late.count && clock_monotonic_ns() < until_ns && !thread_asked_to_end();)
        thread_nap(LONG_NS);
}

bool thread_registers(struct thread *t)
{
    if (t->gone || ptrace(PTRACE_GETREGS, t->tid, NULL, &t->registers))
        return false;
    /* A signal, also one that stopped the process, ends such a call by itself. */
    if (!t->signal && !t->group && arch_stop_undo(&t->registers))
        ptrace(PTRACE_SETREGS, t->tid, NULL, &t->registers);
    return true;
}

bool thread_interrupted(const struct thread *t)
{
    const int64_t call = (int64_t)t->registers.orig_rax, result = (int64_t)t->registers.rax;
    return call >= 0 && result <= -512 && result >= -516 && result != -515;
}

bool thread_in_sequence(const struct handle *h, pid_t tid)
{
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, pad;
    } rseq = {0};
    uint64_t section = 0;
    if (ptrace((enum __ptrace_request)0x420f, tid, sizeof rseq, &rseq) < 0)
        return errno != EIO && errno != EINVAL; /* a kernel that cannot say has none to ask for */
    return rseq.pointer && (!handle_read(h, rseq.pointer + RSEQ_CS_OFFSET, &section, 8) || section);
}

/* ---- letting go ---- */

/* An exec of another thread of the process, and what seizes that, wait for a dead one to be waited
 * for. */
static void reap(pid_t tid, uint64_t until_ns)
{
    for (unsigned looks = 0;; looks++) {
        int status;
        const struct timespec brief = {.tv_nsec = looks < SHORT_LOOKS ? SHORT_NS : LONG_NS};
        const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if ((got < 0 && errno != EINTR) || (got == tid && !WIFSTOPPED(status)) ||
            clock_monotonic_ns() > until_ns)
            return;
        if (got == tid) /* it lives, and is not ours any more */
            ptrace(PTRACE_DETACH, tid, NULL, NULL);
        else
            nanosleep(&brief, NULL);
    }
}

uint64_t thread_let_go_until(void)
{
    return clock_monotonic_ns() + (thread_asked_to_end() ? 0 : THREAD_LET_GO_MS * 1000000ull);
}

void thread_let_go(struct thread *t, uint64_t until_ns)
{
    if (t->gone || ptrace(PTRACE_DETACH, t->tid, NULL, (void *)(intptr_t)t->signal)) // NOLINT
        reap(t->tid, until_ns);
    t->stopped = false;
    t->gone = true;
}
