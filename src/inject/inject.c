/* inject.c - see inject.h. The work is done in a process of its own: when it ends, however it does,
 * the kernel lets go of every thread that it had stopped. */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/stop.h"
#include "base/clock.h"
#include "base/proc.h"
#include "format/attach.h"
#include "remote/borrow.h"
#include "remote/code.h"
#include "inject/reasons.h"
#include "inject/refuse.h"
#include "remote/safe.h"
#include "trust/process.h"

enum { PATH_ROOM = BORROW_ROOM - sizeof(struct mlw_attach), RTLD_NOW_FLAG = 2, STAY_MS = 1000 };
#define PATIENCE_NS    15000000000ull
#define LEAVING_NS     60000000000ull /* to put back is worth more */
#define STOPS_LEAST    1000u          /* a busy machine gets up to LEAVING_NS for so many */
#define CALL_NS        30000000000ull
#define LATE_NS        10000000000ull
#define WORKER_NS      240000000000ull /* all of the above, and more: it hangs */
#define GRACE_NS       1000000000ull   /* for a worker that was asked to end */
#define LEAVE_NS       1500000000ull
#define LEAVE_LEAST_NS 1000000000ull /* the last reports may have taken their time */
#define OVER_NS        200000000ull  /* for a worker whose time is over */
#define ASKED_MS       50            /* so often a signal is looked for */

struct work {
    pid_t pid;
    const struct inject_options *o; /* NULL: the end */
    const char *library;            /* its file's name */
    struct inject_result result;
    struct injected target;
    struct thread thread;
    struct borrowed borrowed;
    /* Learned before a thread is stopped: */
    struct code_pieces code;
    uint64_t errno_offset, open, clear; /* dlopen, dlerror; of a library that is to be loaded */
    const char *why;   /* the last thread that was looked at could not be borrowed */
    int refusal;       /* errno, of the last thread that the kernel did not let be stopped */
    bool changed;      /* the process executed another program */
    uint64_t until_ns; /* it is given up; UINT64_MAX: never */
};

/* The time that is left, of at most so much. */
static uint64_t left_of(const struct work *w, uint64_t most_ns)
{
    const uint64_t now = clock_monotonic_ns(), left = w->until_ns > now ? w->until_ns - now : 0;
    return left < most_ns ? left : most_ns;
}

/* ---- which thread ---- */

/* In what order threads are tried. A stop ends some calls, as epoll_wait; that is undone at once,
 * but not if we are killed just before. So threads in these are the last, and where others wait
 * that can be borrowed at the next look, they are left alone for some rounds, or stops of others.
 */
enum rank { RANK_WAITS, RANK_RUNS, RANK_STOP_ENDS };
#define SPARED_ROUNDS 16u
#define SPARED_STOPS  100u

struct candidate {
    pid_t tid;
    enum rank rank;
};

/* The system call that the thread waits in; -1: it runs; -2: not to be stopped now. */
static long call_of(const struct handle *h, pid_t tid)
{
    char name[64], text[256], state;
    snprintf(name, sizeof name, "task/%d/stat", (int)tid);
    if (proc_read(h->pid, name, text, sizeof text) <= 0)
        return -2;
    const char *at = strrchr(text, ')');
    state = at && at[1] ? at[2] : 'X';
    if (state == 'D' || state == 'Z' || state == 'X') /* D: an exec or a vfork's child is awaited */
        return -2;
    return thread_call(h, tid);
}

static enum rank rank_of(long call)
{
    if (call < 0 || !safe_call(call))
        return RANK_RUNS;
    return arch_stop_ends(call) ? RANK_STOP_ENDS : RANK_WAITS;
}

static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1)
                              : (x->tid > y->tid) - (x->tid < y->tid);
}

/* By rank. */
static size_t list_threads(const struct handle *h, struct candidate **out)
{
    size_t count = 0;
    pid_t *tids;
    const ssize_t found = thread_list(h, &tids);
    *out = found > 0 ? malloc((size_t)found * sizeof **out) : NULL;
    for (ssize_t i = 0; *out && i < found; i++) {
        const long call = call_of(h, tids[i]);
        if (call != -2)
            (*out)[count++] = (struct candidate){tids[i], rank_of(call)};
    }
    free(tids);
    if (count)
        qsort(*out, count, sizeof **out, by_rank);
    return count;
}

enum attempt {
    ATTEMPT_HELD,
    ATTEMPT_UNSAFE,
    ATTEMPT_LATE,
    ATTEMPT_GONE,
    ATTEMPT_CHANGED, /* the process has another image by now */
    ATTEMPT_REFUSED,
    ATTEMPT_FAILED
};

/* Memory that the library believes must lead no process further than the user who writes it. */
static bool may_share(const struct work *w, pid_t tid)
{
    struct trust_credentials now;
    const struct trust_credentials *with = w->o ? w->o->shared_with : NULL;
    return !with || (trust_credentials_of(w->pid, tid, &now) && now.user == with->user &&
                     now.group == with->group);
}

/* NULL: the thread stands at a safe point, and is prepared. */
static const char *prepare(struct work *w)
{
    const char *why = safe_to_load(&w->target, &w->thread);
    if (why)
        return why;
    w->borrowed.process = target_handle(w->target.target);
    w->borrowed.thread = &w->thread;
    w->borrowed.sigreturn = w->code.sigreturn;
    w->borrowed.errno_at = w->thread.registers.fs_base + w->errno_offset;
    return borrow_prepare(&w->borrowed) ? NULL : "its stack or registers cannot be written to";
}

static void give_back(struct work *w)
{
    borrow_put_back(&w->borrowed);
    thread_let_go(&w->thread, thread_let_go_until());
}

/* Tries to borrow this thread. Held: it stands at a safe point, prepared. */
static enum attempt attempt(struct work *w, pid_t tid, struct error *err)
{
    enum attempt status = ATTEMPT_UNSAFE;
    w->result.stops++;
    w->borrowed.where = BORROWED_STILL;
    switch (thread_stop(&w->thread, target_handle(w->target.target), tid)) {
    case THREAD_GONE: return ATTEMPT_GONE;
    case THREAD_REFUSED: w->refusal = errno; return ATTEMPT_REFUSED;
    case THREAD_LATE: return ATTEMPT_LATE;
    case THREAD_BUSY: reasons_refuse(w->pid, INJECT_STUCK, NULL, err); return ATTEMPT_FAILED;
    default: break;
    }
    if (w->thread.group) {
        status = ATTEMPT_FAILED;
        reasons_refuse(w->pid, INJECT_STOPPED, NULL, err);
    } else if (!handle_same(target_handle(w->target.target), tid)) {
        /* It stands still, so its image stays what it is until it goes on, or dies. */
        status = ATTEMPT_CHANGED;
    } else if (!may_share(w, tid)) {
        status = ATTEMPT_FAILED;
        reasons_refuse(w->pid, INJECT_RIGHTS, NULL, err);
    } else if (!(w->why = prepare(w))) {
        return ATTEMPT_HELD;
    }
    give_back(w);
    return status;
}

static bool has_patience(const struct work *w, uint64_t begun_ns)
{
    const uint64_t passed_ns = clock_monotonic_ns() - begun_ns,
                   asked_ns = w->o ? w->o->patience_ns : LEAVING_NS;
    if (!left_of(w, 1))
        return false;
    if (asked_ns)
        return passed_ns < asked_ns;
    return passed_ns < (w->result.stops < STOPS_LEAST ? LEAVING_NS : PATIENCE_NS);
}

static int say_changed(const struct work *w, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED,
                     "process %d executed another program meanwhile; nothing was changed in it",
                     (int)w->pid);
}

static int say_interrupted(const struct work *w, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED, "interrupted while attaching to process %d",
                     (int)w->pid);
}

static int borrow_any(struct work *w, struct error *err)
{
    const uint64_t begun_ns = clock_monotonic_ns();
    bool stuck = false; /* no thread stopped, the last time */
    for (unsigned round = 0; has_patience(w, begun_ns); round++) {
        struct candidate *list;
        const size_t count = list_threads(target_handle(w->target.target), &list);
        size_t refused = 0, late = 0;
        for (size_t i = 0; i < count; i++) {
            if (list[i].rank == RANK_STOP_ENDS && list[0].rank == RANK_WAITS &&
                round < SPARED_ROUNDS && w->result.stops < SPARED_STOPS)
                break; /* so are all that follow */
            enum attempt a = attempt(w, list[i].tid, err);
            /* The tables of a file that its stack passes are read while it runs. */
            while (a == ATTEMPT_UNSAFE && injected_learn(&w->target))
                a = attempt(w, list[i].tid, err);
            if (a == ATTEMPT_HELD)
                w->result.tid = list[i].tid;
            refused += a == ATTEMPT_REFUSED;
            late += a == ATTEMPT_LATE;
            if (a == ATTEMPT_HELD || a == ATTEMPT_FAILED || a == ATTEMPT_CHANGED) {
                free(list);
                w->changed = a == ATTEMPT_CHANGED;
                return a == ATTEMPT_HELD ? 0 : w->changed ? say_changed(w, err) : -1;
            }
        }
        free(list);
        stuck = count && late == count;
        if (count && refused == count) /* not of one alone: it may just be ending */
            return refuse_process(w->pid, err) ? -1 : refuse_trace(w->pid, w->refusal, err);
        if (thread_asked_to_end())
            return say_interrupted(w, err);
        if (kill(w->pid, 0) && errno == ESRCH)
            return error_set(err, ERROR_USAGE, "process %d has ended meanwhile", (int)w->pid);
        const struct timespec brief = {.tv_nsec =
                                           round < 400 ? 500000 + round % 7 * 130000 : 10000000};
        nanosleep(&brief, NULL);
        if (round % 64 == 63 && refuse_mappings(&w->target, err))
            return -1;
    }
    if (stuck)
        return reasons_refuse(w->pid, INJECT_STUCK, NULL, err);
    return reasons_refuse(w->pid, INJECT_POINT, w->why ? w->why : "none could be stopped", err);
}

/* ---- the calls ---- */

#define LEFT_ALONE "interrupted while attaching to process %d: its thread goes on by itself"

static int too_long(struct work *w, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED,
                     w->thread.gone ? "process %d, or its thread, ended meanwhile"
                     : w->borrowed.where == BORROWED_FAULTED
                         ? "a function of process %d's C library failed when it was called; the "
                           "thread was put back"
                     : thread_asked_to_end()
                         ? LEFT_ALONE
                         : "the thread of process %d waits in the dynamic linker for "
                           "another one: it goes on by itself when that is done; try "
                           "again later",
                     (int)w->pid);
}

/* The library is loaded, inert. */
static int load(struct work *w, struct error *err)
{
    struct injected *t = &w->target;
    const uint64_t path = w->borrowed.room + sizeof(struct mlw_attach);
    if (!handle_write(target_handle(t->target), path, w->o->library, strlen(w->o->library) + 1))
        return error_set(err, ERROR_UNSUPPORTED, "the stack of process %d cannot be written to",
                         (int)w->pid);
    if (!borrow_call(&w->borrowed, w->open, path, RTLD_NOW_FLAG, left_of(w, CALL_NS)))
        return too_long(w, err);
    if (refuse_mappings(t, err))
        return -1;
    if (injected_module(t, w->library))
        return 0;
    borrow_call(&w->borrowed, w->clear, 0, 0,
                left_of(w, CALL_NS)); /* the program's own dlerror is not to find it */
    return reasons_refuse(w->pid, INJECT_LINKER, w->o->library, err);
}

static int judge(const struct work *w, const struct mlw_attach_answer *a, struct error *err)
{
    static const enum inject_reason reasons[] = {[MLW_ATTACH_VERSION_DIFFERS] = INJECT_VERSION,
                                                 [MLW_ATTACH_NO_ALLOCATOR] = INJECT_OWN,
                                                 [MLW_ATTACH_NO_MEMORY] = INJECT_MEMORY,
                                                 [MLW_ATTACH_NO_SEGMENT] = INJECT_SHARED,
                                                 [MLW_ATTACH_NO_WRITE] = INJECT_BINDINGS,
                                                 [MLW_ATTACH_NO_WIPE] = INJECT_WIPE,
                                                 [MLW_ATTACH_BUSY] = INJECT_CALLS,
                                                 [MLW_ATTACH_CONFINED] = INJECT_FILTERED};
    if (a->result == MLW_ATTACH_DONE || a->result == MLW_ATTACH_ALREADY)
        return 0;
    if (a->result < sizeof reasons / sizeof *reasons && reasons[a->result])
        return reasons_refuse(w->pid, reasons[a->result], NULL, err);
    return error_set(err, ERROR_UNSUPPORTED, "the library in process %d did not answer",
                     (int)w->pid);
}

/* True if the allocator can say quickly how much is in use: it counts its free blocks one by one.
 */
static bool is_small(const struct handle *h)
{
    enum { MOST_KB = 1 << 20 };
    char status[8192];
    unsigned long kb = ULONG_MAX;
    if (proc_read(h->pid, "status", status, sizeof status) > 0)
        proc_status_numbers(status, "VmRSS:", &kb, 1);
    return kb < MOST_KB;
}

static int call_library(struct work *w, struct error *err)
{
    struct injected *t = &w->target;
    struct mlw_attach a = {.version = MLW_ATTACH_VERSION,
                           .period = w->o ? w->o->period : 0,
                           .stay_ms = STAY_MS,
                           .token = clock_monotonic_ns(),
                           .reader = w->o ? (uint32_t)w->o->reader : 0,
                           .blocks = UINT64_MAX,
                           .bytes = UINT64_MAX,
                           .measure = w->o && w->o->session && is_small(target_handle(t->target))};
    const struct module *m = injected_module(t, w->library);
    const uint64_t function = m ? injected_symbol(t, m->base,
                                                  w->o ? MLW_ATTACH_BEGIN : MLW_ATTACH_END, NULL)
                                : 0,
                   answer_at = m ? injected_symbol(t, m->base, MLW_ATTACH_ANSWER, NULL) : 0;
    const struct borrow_request request = {.image = t->target,
                                           .argument = w->borrowed.room,
                                           .answer_at = answer_at,
                                           .token = a.token,
                                           .limit_ns = left_of(w, CALL_NS)};
    struct mlw_attach_answer answer;
    if (w->o && w->o->session)
        snprintf(a.session, sizeof a.session, "%s", w->o->session);
    if (w->o && w->o->preload)
        snprintf(a.preload, sizeof a.preload, "LD_PRELOAD=%s", w->o->preload);
    if (!function || !answer_at ||
        !handle_write(target_handle(t->target), w->borrowed.room, &a, sizeof a))
        return reasons_refuse(w->pid, INJECT_VERSION, NULL, err);
    if (!borrow_call_staying(&w->borrowed, function, &request, &answer))
        return too_long(w, err);
    w->result.slots = answer.slots;
    w->result.already = answer.result == MLW_ATTACH_ALREADY;
    w->result.busy = !w->o && answer.busy;
    return judge(w, &answer, err);
}

/* ---- in the process of its own ---- */

/* True if the process sees the very library that is to be loaded. */
static int sees_library(const struct work *w, struct error *err)
{
    char path[PATH_MAX + 64];
    struct stat here, there;
    if (strlen(w->o->library) >= PATH_ROOM)
        return error_set(err, ERROR_UNSUPPORTED, "the path of the library is too long: %s",
                         w->o->library);
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)w->pid, w->o->library);
    if (stat(w->o->library, &here))
        return error_system(err, "find the library %s", w->o->library);
    if (stat(path, &there) || here.st_dev != there.st_dev || here.st_ino != there.st_ino)
        return reasons_refuse(w->pid, INJECT_CONTAINER, w->o->library, err);
    return 0;
}

/* Nothing is stopped, and nothing changed. *loading: the library is not there yet. */
static int check(struct work *w, bool *loading, struct error *err)
{
    struct injected *t = &w->target;
    if (!injected_hold(t, w->pid)) /* before anything is asked: the answers are this image's */
        return error_memory(err);
    const struct handle *h = target_handle(t->target);
    if (refuse_process(w->pid, err) || refuse_mappings(t, err))
        return -1;
    if (h->memory < 0)
        return refuse_trace(w->pid, EPERM, err);
    if (!h->image.bytes)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the auxiliary vector of process %d, by which its image is known, cannot "
                         "be read",
                         (int)w->pid);
    if (!handle_same(h, 0)) {
        w->changed = true;
        return say_changed(w, err);
    }
    *loading = !injected_module(t, w->library);
    if (!w->o)
        return refuse_image(t, false, w->library, err);
    if (refuse_image(t, true, w->library, err))
        return -1;
    return *loading ? sees_library(w, err) : 0;
}

/* All that can be known before a thread stands still. */
static int learn(struct work *w, bool loading, struct error *err)
{
    const struct injected *t = &w->target;
    w->errno_offset = injected_errno(t);
    if (!code_find_return(t->target, &w->code) || !w->errno_offset)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "the C library of process %d lacks the code that a borrowed thread returns through",
            (int)w->pid);
    w->open = loading ? injected_function(t, MODULE_LIBC, "dlopen", NULL) : 0;
    w->clear = loading ? injected_function(t, MODULE_LIBC, "dlerror", NULL) : 0;
    return !loading || (w->open && w->clear) ? 0
                                             : reasons_refuse(w->pid, INJECT_OLD_LIBC, NULL, err);
}

/* Nanoseconds that the thread has had a processor, so far; UINT64_MAX: not known. */
static uint64_t processor_ns(const struct work *w)
{
    char name[64], text[128];
    snprintf(name, sizeof name, "task/%d/schedstat", (int)w->result.tid);
    return proc_read(w->pid, name, text, sizeof text) > 0 ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static int attach(struct work *w, struct error *err)
{
    bool loading;
    if (check(w, &loading, err))
        return -1;
    if (loading && !w->o) {
        w->result.already = true;
        return 0;
    }
    if (learn(w, loading, err) || borrow_any(w, err))
        return -1;
    const uint64_t before_ns = processor_ns(w);
    const int status = (loading && load(w, err)) || call_library(w, err) ? -1 : 0;
    const uint64_t after_ns = processor_ns(w);
    /* Linux 6.18 may say less the second time. */
    const bool known = before_ns <= after_ns && after_ns < UINT64_MAX;
    w->result.work_ns = known ? after_ns - before_ns : UINT64_MAX;
    give_back(w);
    w->result.away_ns = clock_monotonic_ns() - w->thread.since_ns;
    return status;
}

/* A process that becomes another program meanwhile is asked everything anew, unless that is another
 * user's: that one was not asked for. */
static int run(struct work *w, struct error *err)
{
    enum { TRIES = 4 };
    struct trust_process first, now;
    struct error ignored;
    int status = -1;
    if (trust_process(w->pid, &first, err))
        return -1;
    for (unsigned i = 0; i < TRIES; i++) {
        w->changed = false;
        status = attach(w, err);
        if (!w->changed || thread_asked_to_end() || trust_process(w->pid, &now, &ignored) ||
            memcmp(first.uid, now.uid, sizeof now.uid) != 0)
            break;
        injected_close(&w->target);
    }
    return status;
}

struct answered {
    int status;
    struct inject_result result;
    struct error err;
};

static void child(struct work *w, int to)
{
    struct answered a = {.status = -1};
    signal(SIGCHLD, SIG_DFL); /* it is blocked, and waited for */
    signal(SIGTERM, SIG_DFL); /* blocked, too: thread_asked_to_end */
    a.status = run(w, &a.err);
    thread_leave_late(left_of(w, LATE_NS));
    a.result = w->result;
    const ssize_t n = write(to, &a, sizeof a);
    _exit(n == (ssize_t)sizeof a ? 0 : 1);
}

/* Until the worker has answered or ended. One that is asked to end, and that then has not, or that
 * takes too long, is killed, which leaves the process as inject.h says: false. */
static bool await_answer(pid_t worker, int from, uint64_t until_ns)
{
    const uint64_t last_ns =
        until_ns < UINT64_MAX ? until_ns + OVER_NS : clock_monotonic_ns() + WORKER_NS;
    uint64_t asked_ns = 0;
    for (;;) {
        struct pollfd answer = {.fd = from, .events = POLLIN};
        if (poll(&answer, 1, ASKED_MS) > 0)
            return true;
        const uint64_t now = clock_monotonic_ns();
        if (!asked_ns && thread_asked_to_end()) { /* the signal stays pending, for its handler */
            asked_ns = now;
            kill(worker, SIGTERM);
        }
        if (now > last_ns || (asked_ns && now - asked_ns > GRACE_NS)) {
            kill(worker, SIGKILL);
            return false;
        }
    }
}

static int inject(pid_t pid, const struct inject_options *o, const char *library, uint64_t until_ns,
                  struct inject_result *result, struct error *err)
{
    struct work *w = calloc(1, sizeof *w);
    struct answered a = {.status = -1};
    int ends[2], status;
    sigset_t all, before;
    *result = (struct inject_result){0};
    if (pid == getpid()) { /* the worker is another process */
        free(w);
        return reasons_refuse(pid, INJECT_SELF, NULL, err);
    }
    if (!w)
        return error_memory(err);
    *w = (struct work){.pid = pid, .o = o, .library = library, .until_ns = until_ns};
    if (pipe2(ends, O_CLOEXEC)) {
        free(w);
        return error_system(err, "cannot make a pipe");
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t worker = fork();
    if (!worker) {
        close(ends[0]);
        child(w, ends[1]);
    }
    free(w);
    close(ends[1]);
    ssize_t n = 0;
    bool ended_by_us = false;
    if (worker > 0) {
        ended_by_us = !await_answer(worker, ends[0], until_ns);
        n = read(ends[0], &a, sizeof a);
        while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (worker < 0)
        return error_system(err, "cannot fork");
    if (n != (ssize_t)sizeof a)
        return error_set(err, ERROR_UNSUPPORTED,
                         ended_by_us ? LEFT_ALONE
                                     : "the process that was to attach to process %d ended",
                         (int)pid);
    *result = a.result;
    if (a.status)
        *err = a.err;
    return a.status;
}

static const char *name_of(const struct inject_options *o)
{
    const char *slash = strrchr(o->library, '/');
    return slash ? slash + 1 : o->library;
}

int inject_begin(pid_t pid, const struct inject_options *options, struct inject_result *result,
                 struct error *err)
{
    return inject(pid, options, name_of(options), UINT64_MAX, result, err);
}

uint64_t inject_leave_until(uint64_t interrupted_ns)
{
    const uint64_t first = interrupted_ns + LEAVE_NS, least = clock_monotonic_ns() + LEAVE_LEAST_NS;
    return !interrupted_ns ? 0 : first > least ? first : least;
}

int inject_end(pid_t pid, const char *library, uint64_t until_ns, struct inject_result *result,
               struct error *err)
{
    const uint64_t last_ns = until_ns ? until_ns : UINT64_MAX,
                   tidy_ns = until_ns ? until_ns : clock_monotonic_ns() + LEAVING_NS;
    int status = inject(pid, NULL, library, last_ns, result, err);
    while (!status && result->busy) { /* it is out of use, but not tidy yet */
        struct inject_result again;
        const struct timespec brief = {.tv_nsec = 50000000};
        if (clock_monotonic_ns() > tidy_ns)
            return reasons_refuse(pid, INJECT_CALLS, NULL, err);
        nanosleep(&brief, NULL);
        status = inject(pid, NULL, library, last_ns, &again, err);
        result->busy = again.busy;
        result->stops += again.stops;
        if (again.away_ns > result->away_ns)
            result->away_ns = again.away_ns;
    }
    return status;
}

const char *inject_away(const struct inject_result *result, char to[INJECT_AWAY_BYTES])
{
    const int n = snprintf(to, INJECT_AWAY_BYTES, "thread %d was away for %.1f ms",
                           (int)result->tid, (double)result->away_ns / 1e6);
    if (result->work_ns < UINT64_MAX)
        snprintf(to + n, INJECT_AWAY_BYTES - (size_t)n, " (%.1f ms at work)",
                 (double)result->work_ns / 1e6);
    return to;
}

int inject_check(pid_t pid, const struct inject_options *options, struct error *err)
{
    struct work w = {.pid = pid, .o = options, .library = name_of(options), .until_ns = UINT64_MAX};
    bool loading;
    const int status = check(&w, &loading, err);
    injected_close(&w.target);
    return status;
}

bool inject_is_there(pid_t pid, const char *library)
{
    struct injected t;
    const bool there =
        injected_hold(&t, pid) && !injected_refresh(&t) && injected_module(&t, library);
    injected_close(&t);
    return there;
}
