/* run.c - Runs a watch: starts the program or finds processes, polls, reports at intervals, and
 * ends. Signals arrive by a signalfd. No watched process is ever waited for. */
#include "watch/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/launch.h"
#include "trust/place.h"
#include "watch/held.h"
#include "watch/pressed.h"

#define MS_NS          1000000ull
#define MINUTE_NS      (60 * 1000 * MS_NS)
#define ROUND_MS       50
#define FIND_NS        (100 * MS_NS)  /* between looks for new processes */
#define LEISURE_NS     (1000 * MS_NS) /* the same, of all processes */
#define CONTAINERS_NS  (10000 * MS_NS)
#define BELOW_NS       500000000ull  /* between looks for processes in containers */
#define JOIN_GRACE_NS  (300 * MS_NS) /* for processes that have not joined yet, at the end */
#define FREES_REPORTED 64u           /* so many of the latest */
#define SCREEN_NS      (10000 * MS_NS)
#define RISE           1.1 /* a new high-water mark is reported once it exceeds the last by this factor */

struct watch_run {
    struct watch_options o;
    struct follow follow;
    struct pressed *pressed;
    struct launch launch; /* pid 0: no program of ours */
    bool reaped;
    uint64_t stopped_ns; /* the user said stop; 0: not yet */
    int wait_status, signals;
    bool paused;
    bool changed;    /* the settings are not those that a program was started with */
    int session_dir; /* locked; -1: none */
    char session[PATH_MAX], assignment[PATH_MAX + 64];
    uint64_t started_ns, next_old_ns, next_find_ns, next_below_ns, next_tick_ns;
    unsigned reports; /* the reports of old blocks, by the clock */
    uint32_t processes;
};

const char *watch_life_name(const struct watch_process *p)
{
    static const char *const names[] = {"running", "ended", "exec"};
    return names[p->life];
}

const char *watch_kind_name(enum watch_kind kind)
{
    static const char *const names[] = {"old", "all", "high-water", "frees", "final"};
    return names[kind];
}

const char *watch_error_name(uint32_t kind)
{
    switch (kind) {
    case MLW_WATCH_OVERFLOW: return "heap-buffer-overflow";
    case MLW_WATCH_UNDERFLOW: return "heap-buffer-underflow";
    case MLW_WATCH_USE_AFTER_FREE: return "heap-use-after-free";
    case MLW_WATCH_DOUBLE_FREE: return "double-free";
    default: return "invalid-free";
    }
}

static void say(struct watch_run *r, bool wrong, const char *line)
{
    r->o.listener.say(r->o.listener.arg, wrong, line);
}

/* ---- reports ---- */

/* The node of a site that may have been given to another stack. */
static uint32_t site_node(struct watch_process *p, uint32_t index, uint32_t version)
{
    struct mlw_watch_site s;
    if (segment_site(&p->segment, index, &s) != SEGMENT_WHOLE || s.version != version)
        return 0;
    return stacks_node(&p->stacks, &p->segment, &s.stack);
}

struct collecting {
    struct watch_process *p;
    struct watch_report *out;
    uint64_t most;
};

static void collect_free(void *arg, const struct mlw_watch_free *call)
{
    struct collecting *c = arg;
    struct watch_report *out = c->out;
    struct watch_sites *s = &out->sites;
    uint32_t i = 0;
    if (out->freed_count == c->most)
        return;
    struct watch_freed *f = &out->freed[out->freed_count++];
    f->call = *call;
    f->allocation = site_node(c->p, call->site, call->site_version);
    f->release = site_node(c->p, call->free_site, call->free_site_version);
    while (i < s->count && s->items[i].stack != f->allocation)
        i++;
    if (i == s->count)
        s->items[s->count++] = (struct watch_site){.stack = f->allocation};
    estimate_add(&s->items[i].chosen, call->size, call->weight);
    estimate_add(&s->total, call->size, call->weight);
    s->chosen = s->count;
}

static int by_number(const void *a, const void *b)
{
    const struct watch_freed *x = a, *y = b;
    return (x->call.number > y->call.number) - (x->call.number < y->call.number);
}

/* The latest releases, and the blocks by who had allocated them. */
static int collect_frees(struct watch_process *p, struct watch_report *out, struct error *err)
{
    uint64_t end = p->segment.head.next_free, from = 0, missed;
    const uint32_t all = p->segment.table[SEGMENT_FREES].count;
    const uint64_t most = all < FREES_REPORTED ? all : FREES_REPORTED;
    if (end > most)
        from = end - most;
    out->freed = calloc(most + 1, sizeof *out->freed);
    out->sites.items = calloc(most + 1, sizeof *out->sites.items);
    if (!out->freed || !out->sites.items)
        return error_memory(err);
    struct collecting c = {p, out, most};
    segment_each_free(&p->segment, from, end, collect_free, &c, &missed);
    qsort(out->freed, out->freed_count, sizeof *out->freed, by_number);
    return 0;
}

/* A limit that followed every free would jump by half, up and down, while few were seen: it moves
 * when it is wrong by a factor of two. */
static uint64_t old_age(const struct watch_run *r, struct watch_process *p,
                        struct watch_report *out)
{
    const struct age_choice now = age_choose(&p->lifetimes);
    if (!p->old.most_ns || now.age_ns / 2 >= p->old.age_ns || now.age_ns <= p->old.age_ns / 2)
        p->old = now;
    out->automatic = !r->o.old_ns;
    out->choice = p->old;
    out->choice.lifetimes = now.lifetimes;
    return r->o.old_ns ? r->o.old_ns : out->choice.age_ns;
}

int watch_run_report(struct watch_run *r, struct watch_process *p, enum watch_kind kind,
                     enum watch_reported_kind reported, struct watch_report *out, struct error *err)
{
    *out = (struct watch_report){
        .kind = kind, .process = p, .since_ns = p->reported[reported].time_ns};
    process_drain(p);
    out->older_than_ns = old_age(r, p, out);
    struct watch_choice choice = {.older_than_ns = kind == WATCH_OLD ? out->older_than_ns : 0,
                                  .known_too = kind != WATCH_OLD,
                                  .order = r->o.order,
                                  .reported = reported};
    if (process_look(p, err))
        return -1;
    if (kind == WATCH_FREES)
        return collect_frees(p, out, err);
    if (sites_of(&out->sites, p, &choice, err))
        return -1;
    if (reported >= REPORTED_SCREEN_OLD && out->since_ns && p->time_ns - out->since_ns < SCREEN_NS)
        return 0; /* growth on the screen is of the last seconds, not of the last look */
    return sites_reported(&out->sites, p, &choice, err);
}

void watch_report_free(struct watch_report *r)
{
    sites_free(&r->sites);
    free(r->freed);
    r->freed = NULL;
}

/* From now on blocks that are old now are left out; so growth is counted from the remaining ones,
 * or the next report would say that the program had freed them. */
static int mark_known(struct watch_run *r, struct watch_process *p, uint64_t older_than_ns,
                      struct error *err)
{
    int status = 0;
    p->known_before_ns = p->time_ns > older_than_ns ? p->time_ns - older_than_ns : 0;
    for (int reported = 0; reported < REPORTED_KINDS && !status; reported++) {
        struct watch_sites sites;
        const struct watch_choice choice = {.older_than_ns = older_than_ns,
                                            .order = r->o.order,
                                            .reported = (enum watch_reported_kind)reported};
        if ((reported != REPORTED_OLD && reported != REPORTED_SCREEN_OLD) ||
            !p->reported[reported].time_ns)
            continue;
        status = sites_of(&sites, p, &choice, err) || sites_reported(&sites, p, &choice, err);
        sites_free(&sites);
    }
    return status ? -1 : 0;
}

static void report(struct watch_run *r, struct watch_process *p, enum watch_kind kind, bool marking)
{
    struct watch_report out;
    struct error err = {0};
    if (watch_run_report(r, p, kind, kind == WATCH_OLD ? REPORTED_OLD : REPORTED_ALL, &out, &err))
        say(r, true, err.text);
    else if (!p->charge.refused) /* it is let go of in the next round, with a word */
        r->o.listener.report(r->o.listener.arg, &out, marking);
    if (marking && !p->charge.refused && mark_known(r, p, out.older_than_ns, &err))
        say(r, true, err.text);
    watch_report_free(&out);
}

void watch_run_command(struct watch_run *r, enum watch_command command)
{
    static const uint32_t off = 0, on = 1;
    if (command == WATCH_TOGGLE && r->o.source) {
        say(r, true, "sampling cannot be switched from outside the processes");
        return;
    }
    if (command == WATCH_TOGGLE)
        r->paused = !r->paused;
    if (command == WATCH_STOP)
        r->stopped_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < r->follow.count; i++) {
        struct watch_process *p = r->follow.items[i];
        switch (command) {
        case WATCH_TELL_OLD: report(r, p, WATCH_OLD, false); break;
        case WATCH_TELL_ALL: report(r, p, WATCH_ALL, false); break;
        case WATCH_TELL_FREES: report(r, p, WATCH_FREES, false); break;
        case WATCH_MARK_KNOWN: report(r, p, WATCH_OLD, true); break;
        case WATCH_TOGGLE:
            segment_change(&p->segment,
                           &(struct segment_change){.enabled = r->paused ? &off : &on});
            break;
        case WATCH_STOP: break;
        }
    }
}

void watch_run_order(struct watch_run *r, enum watch_order order) { r->o.order = order; }

/* ---- processes ---- */

/* Reports once why a process has no guards that was to have them. */
static void say_unguarded(struct watch_run *r, struct watch_process *p)
{
    const uint32_t now = p->segment.head.unguarded & ~p->unguarded_said;
    if (!r->o.guard_share || !*r->o.guard_share)
        return;
    for (unsigned i = 0; i < SEGMENT_UNGUARDED; i++)
        if (now >> i & 1) {
            char line[256];
            snprintf(line, sizeof line, "process %d: nothing more is guarded: %s", (int)p->pid,
                     segment_unguarded[i].text);
            say(r, true, line);
        }
    p->unguarded_said |= now;
}

static void report_errors(struct watch_run *r, struct watch_process *p)
{
    say_unguarded(r, p);
    const uint64_t end = p->segment.head.next_error, all = p->segment.table[SEGMENT_ERRORS].count;
    if (end < p->next_error || !all)
        return;
    if (end - p->next_error > all) {
        p->missed_errors += end - p->next_error - all;
        p->next_error = end - all;
    }
    for (; p->next_error < end; p->next_error++) {
        struct watch_caught c = {.process = p};
        if (segment_error(&p->segment, p->next_error, &c.error) != SEGMENT_WHOLE) {
            p->missed_errors++;
            continue;
        }
        c.access = stacks_node(&p->stacks, &p->segment, &c.error.access);
        c.allocation = stacks_node(&p->stacks, &p->segment, &c.error.allocation);
        c.release = stacks_node(&p->stacks, &p->segment, &c.error.release);
        r->o.listener.caught(r->o.listener.arg, &c);
    }
}

static void say_trouble(struct watch_run *r, const struct watch_process *p)
{
    static const char *const texts[] = {
        "no addresses could be set aside for samples: nothing is sampled",
        ("its seccomp filter forbids what the library needs: it samples with the memory that it "
         "had before, cuts stacks, guards nothing and follows no children"),
        "the unwinder found no memory: stacks are short",
        "guard pages were refused: memory errors are only found when blocks are freed",
        "/dev/shm is full: samples are dropped",
        "a MALLOW_WATCH_ variable was not understood",
        "it limited or locked its address space, so that the library gave its own back"};
    const uint32_t trouble = p->segment.head.trouble;
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        if (trouble >> i & 1) {
            char line[256];
            snprintf(line, sizeof line, "process %d: %s", (int)p->pid, texts[i]);
            say(r, true, line);
        }
}

static void change_settings(struct watch_run *r, struct watch_process *p)
{
    if ((r->o.period_bytes || r->o.guard_share || r->o.guard_side || r->o.on_error) &&
        !segment_change(&p->segment, &(struct segment_change){.period = r->o.period_bytes,
                                                              .guard_share = r->o.guard_share,
                                                              .guard_side = r->o.guard_side,
                                                              .on_error = r->o.on_error}))
        say(r, true, "the settings of the process cannot be changed: its memory is read-only here");
}

void watch_run_change(struct watch_run *r, const struct watch_options *options)
{
    if (r->o.every_ns != options->every_ns && options->every_ns)
        r->next_old_ns = clock_monotonic_ns() + options->every_ns;
    r->o.every_ns = options->every_ns;
    r->o.old_ns = options->old_ns;
    r->o.high_water = options->high_water;
    r->o.high_water_bytes = options->high_water_bytes;
    r->o.period_bytes = options->period_bytes;
    r->o.guard_share = options->guard_share;
    r->o.guard_side = options->guard_side;
    r->o.on_error = options->on_error;
    r->changed = true;
    for (uint32_t i = 0; i < r->follow.count; i++)
        if (r->follow.items[i]->life == WATCH_RUNNING)
            change_settings(r, r->follow.items[i]);
}

static void joined(void *arg, struct watch_process *p)
{
    struct watch_run *r = arg;
    uint32_t self = (uint32_t)getpid();
    r->processes++;
    p->is_program = r->launch.pid && p->pid == r->launch.pid && !p->elsewhere;
    p->hold = p->is_program;
    p->asked |= p->is_program;
    if (!p->found_dead)
        segment_change(&p->segment, &(struct segment_change){.reader_pid = &self});
    pressed_joined(r->pressed, p);
    if ((!r->launch.pid || r->changed) && !p->found_dead)
        change_settings(r, p);
    say_trouble(r, p);
    say_unguarded(r, p);
    if (r->o.listener.joined)
        r->o.listener.joined(r->o.listener.arg, p);
}

/* True if a process died of a crash: then its latest frees may say why. */
static bool crashed(const struct watch_process *p)
{
    if (p->life != WATCH_ENDED)
        return false;
    if (p->wait_status >= 0)
        return WIFSIGNALED(p->wait_status) && WTERMSIG(p->wait_status) != SIGTERM &&
               WTERMSIG(p->wait_status) != SIGINT;
    return !process_said_goodbye(p);
}

static void ended(void *arg, struct watch_process *p)
{
    struct watch_run *r = arg;
    if (p->is_program && r->reaped && p->life == WATCH_ENDED)
        p->wait_status = r->wait_status;
    report_errors(r, p);
    p->out_of_memory = crashed(p) && pressed_killed(p);
    if (crashed(p))
        report(r, p, WATCH_FREES, false);
    report(r, p, WATCH_FINAL, false);
}

static void refused(void *arg, const struct watch_process *p, bool again)
{
    struct watch_run *r = arg;
    char line[256];
    r->o.listener.refused(r->o.listener.arg, p);
    snprintf(line, sizeof line,
             "process %d is not watched: this watch spends %llu MiB of memory on the processes of "
             "user %u, and they need more",
             (int)p->pid, ACCOUNT_MOST_BYTES >> 20, (unsigned)p->charge.account->user);
    if (!again)
        say(r, true, line);
}

static void look_for_high_water(struct watch_run *r, struct watch_process *p)
{
    double now = process_footprint(p);
    if (now > p->high_water_bytes)
        p->high_water_bytes = now;
    double least = p->high_water_reported * RISE;
    const double one = (double)p->segment.head.settings.period;
    if (!r->o.high_water || now < least || now < p->high_water_reported + 2 * one ||
        now < (double)r->o.high_water_bytes)
        return;
    p->high_water_reported = now;
    report(r, p, WATCH_HIGH_WATER, false);
}

static void serve_processes(struct watch_run *r)
{
    for (uint32_t i = 0; i < r->follow.count; i++) {
        struct watch_process *p = r->follow.items[i];
        process_drain(p);
        report_errors(r, p);
        look_for_high_water(r, p);
    }
}

/* ---- signals ---- */

static void take_signal(struct watch_run *r, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    bool sent =
        info->ssi_code == SI_USER || info->ssi_code == SI_QUEUE || info->ssi_code == SI_TKILL;
    bool alone = !r->launch.pid || r->reaped;
    switch (number) {
    case SIGHUP:
        if (sent && r->o.listener.reload)
            r->o.listener.reload(r->o.listener.reload_arg);
        else if (sent)
            watch_run_command(r, WATCH_TELL_ALL);
        else if (alone) /* the terminal is gone */
            r->stopped_ns = clock_monotonic_ns();
        break;
    case SIGUSR1: watch_run_command(r, WATCH_MARK_KNOWN); break;
    case SIGUSR2: watch_run_command(r, WATCH_TELL_FREES); break;
    case SIGINT:
    case SIGQUIT:
    case SIGTERM:
        if (alone)
            r->stopped_ns = clock_monotonic_ns();
        else if (sent) /* from a terminal the program has it already */
            kill(r->launch.pid, number);
        break;
    default: break; /* SIGCHLD: the program is asked for in any case */
    }
}

static void take_signals(struct watch_run *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info)
        take_signal(r, &info);
    int status;
    if (r->launch.pid && !r->reaped && waitpid(r->launch.pid, &status, WNOHANG) == r->launch.pid) {
        r->reaped = true;
        r->wait_status = status;
    }
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (const int *s =
             (const int[]){SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, 0};
         *s; s++)
        sigaddset(&set, *s);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the program ---- */

struct environment {
    const char *words[20];
    char period[24], guard[24];
    unsigned count;
};

static void set(struct environment *e, const char *name, const char *value)
{
    e->words[e->count++] = name;
    e->words[e->count++] = value;
    e->words[e->count] = NULL;
}

static void fill_environment(struct watch_run *r, struct environment *e, const char *preload)
{
    static const char *const sides[] = {[MLW_WATCH_SIDE_RIGHT] = "right",
                                        [MLW_WATCH_SIDE_LEFT] = "left",
                                        [MLW_WATCH_SIDE_BOTH] = "both"};
    set(e, "LD_PRELOAD", preload);
    set(e, MLW_ENV_WATCH_SESSION, r->session);
    if (r->o.period_bytes) {
        snprintf(e->period, sizeof e->period, "%llu", (unsigned long long)*r->o.period_bytes);
        set(e, MLW_ENV_WATCH_PERIOD, e->period);
    }
    if (r->o.guard_share) {
        snprintf(e->guard, sizeof e->guard, "%.6f",
                 (double)*r->o.guard_share / MLW_WATCH_SHARE_ALL);
        set(e, MLW_ENV_WATCH_GUARD,
            *r->o.guard_share == MLW_WATCH_SHARE_ALL ? "all"
            : *r->o.guard_share                      ? e->guard
                                                     : "off");
    }
    if (r->o.guard_side)
        set(e, MLW_ENV_WATCH_GUARD_SIDE, sides[*r->o.guard_side]);
    if (r->o.on_error)
        set(e, MLW_ENV_WATCH_ON_ERROR, *r->o.on_error == MLW_WATCH_DIE ? "die" : "continue");
}

static int make_session(struct watch_run *r, struct error *err)
{
    const struct trust_rule own = {.what = "the directory"};
    snprintf(r->session, sizeof r->session, "/dev/shm/" MLW_WATCH_SESSION_PREFIX "%d-XXXXXX",
             (int)getpid());
    if (!mkdtemp(r->session))
        return error_system(err, "cannot make a directory in /dev/shm, where the processes' "
                                 "shared memory is to be");
    r->session_dir = trust_directory(AT_FDCWD, r->session, &own, err);
    if (r->session_dir < 0)
        return -1;
    (void)held_take(r->session_dir);
    snprintf(r->assignment, sizeof r->assignment, "%s=%s", MLW_ENV_WATCH_SESSION, r->session);
    return 0;
}

/* It stays while the memory of a process is in it. */
static void remove_session(struct watch_run *r)
{
    struct trust_identity id;
    struct error ignored;
    if (r->session_dir < 0)
        return;
    int shared = follow_shared(&ignored);
    if (shared >= 0 && trust_identify(r->session_dir, &id))
        (void)trust_remove_directory(shared, strrchr(r->session, '/') + 1, &id, &ignored);
    if (shared >= 0)
        close(shared);
    close(r->session_dir);
}

/* Runs PROGRAM. -1: result->exit_status and *err say how that failed. */
static int start_program(struct watch_run *r, const struct signals_before *signals,
                         const struct limits_before *limits, struct watch_result *result,
                         struct error *err)
{
    char *preload;
    struct launch_plan plan = {.argv = r->o.argv, .signals = signals, .limits = limits};
    if (launch_preload(r->o.library, &preload, err))
        return -1;
    struct environment e = {.count = 0};
    if (make_session(r, err) || launch_fork(&r->launch, err)) {
        r->launch.pid = 0;
        free(preload);
        return -1;
    }
    fill_environment(r, &e, preload);
    if (r->launch.pid == 0) {
        launch_child_wait(&r->launch);
        launch_child_exec(&r->launch, &plan, e.words);
    }
    free(preload);
    follow_session(&r->follow, r->session_dir);
    int number = launch_go(&r->launch);
    if (number) {
        r->launch.pid = 0;
        result->exit_status = number == ENOENT ? 127 : 126;
        errno = number;
        return error_system(err, "cannot run '%s'", r->o.argv[0]);
    }
    return 0;
}

static int listen_to_all(struct watch_run *r, struct error *err)
{
    if (make_session(r, err))
        return -1;
    follow_session(&r->follow, r->session_dir);
    r->follow.outside = true;
    return r->o.source->begin(r->o.source->arg, r->session, err);
}

static int find_processes(struct watch_run *r, struct error *err)
{
    for (size_t i = 0; i < r->o.pid_count; i++)
        if (follow_pid(&r->follow, r->o.pids[i], err))
            return -1;
    if (r->follow.waited_count)
        say(r, false, "waiting for the first sampled allocation");
    return 0;
}

static bool is_known(void *arg, pid_t pid)
{
    const struct watch_run *r = arg;
    for (uint32_t i = 0; i < r->follow.count; i++)
        if (r->follow.items[i]->pid == pid)
            return true;
    return false;
}

/* ---- the loop ---- */

static void schedule(struct watch_run *r, uint64_t now)
{
    static const uint64_t minutes[] = {1, 2, 5, 10};
    unsigned n = r->reports++;
    if (r->o.every_ns)
        r->next_old_ns = now + r->o.every_ns;
    else if (n < sizeof minutes / sizeof *minutes)
        r->next_old_ns = r->started_ns + minutes[n] * MINUTE_NS;
    else
        r->next_old_ns = now + 10 * MINUTE_NS;
}

/* True when no process is left to watch. */
static bool all_gone(struct watch_run *r, uint64_t now, uint64_t *alone_ns, bool *said)
{
    uint32_t running = follow_running(&r->follow);
    if (r->o.everyone)
        return false;
    if (r->o.source) {
        bool works = r->o.source->works(r->o.source->arg);
        if (!works)
            say(r, true, "the reader of the probes has ended; this watch ends, too");
        return !works;
    }
    if (!r->launch.pid)
        return !running && !r->follow.waited_count;
    if (!r->reaped)
        return false;
    if (running) {
        *alone_ns = 0;
        if (!*said) {
            char line[160];
            snprintf(line, sizeof line,
                     "the program has ended; watching %u of its processes in the background "
                     "(Ctrl-C ends the watch)",
                     running);
            say(r, false, line);
            *said = true;
        }
        return false;
    }
    if (!*alone_ns)
        *alone_ns = now;
    r->next_find_ns = 0;
    const uint64_t since_ns = now - *alone_ns;
    return since_ns > LAUNCH_LATEST_NS ||
           !launch_has_heirs(r->assignment, 1, since_ns > JOIN_GRACE_NS, is_known, r);
}

static void wait_a_while(struct watch_run *r)
{
    const uint64_t end_ns = clock_monotonic_ns() + ROUND_MS * MS_NS;
    struct pollfd fds[3] = {{.fd = r->signals, .events = POLLIN},
                            {.fd = r->o.input, .events = POLLIN},
                            {.fd = r->o.served, .events = POLLIN}};
    /* Clients are answered as they come; however many do, they do not make rounds more frequent. */
    for (uint64_t now = end_ns - ROUND_MS * MS_NS; now < end_ns; now = clock_monotonic_ns()) {
        int ready = poll(fds, 3, (int)((end_ns - now + MS_NS - 1) / MS_NS));
        if (ready > 0 && fds[2].revents)
            r->o.listener.serve(r->o.listener.arg);
        if (ready <= 0 || fds[0].revents || fds[1].revents)
            break;
    }
    if (r->o.served >= 0) /* who takes too long is noticed in any case */
        r->o.listener.serve(r->o.listener.arg);
    if (fds[1].revents) {
        if (r->o.listener.key)
            r->o.listener.key(r->o.listener.arg);
        if (fds[1].revents & (POLLHUP | POLLERR | POLLNVAL))
            r->o.input = -1;
    }
}

static void find_processes_now(struct watch_run *r, uint64_t now)
{
    const bool find = now >= r->next_find_ns || now - r->started_ns < 20 * FIND_NS;
    if (find)
        r->next_find_ns = now + (r->o.everyone ? LEISURE_NS : FIND_NS);
    follow_round(&r->follow, find);
    if (now < r->next_below_ns)
        return;
    r->next_below_ns = now + (r->o.everyone ? CONTAINERS_NS : BELOW_NS);
    if (r->launch.pid && !r->reaped)
        follow_below(&r->follow, r->launch.pid);
    if (r->o.everyone)
        follow_containers(&r->follow);
}

static void loop(struct watch_run *r)
{
    uint64_t alone_ns = 0;
    bool said = false;
    while (!r->stopped_ns) {
        wait_a_while(r);
        uint64_t now = clock_monotonic_ns();
        take_signals(r);
        find_processes_now(r, now);
        serve_processes(r);
        pressed_look(r->pressed, now, r->follow.items, r->follow.count, r->o.listener.pressed,
                     r->o.listener.arg);
        if (now >= r->next_old_ns) {
            schedule(r, now);
            watch_run_command(r, WATCH_TELL_OLD);
        }
        if (r->o.tick_ns && now >= r->next_tick_ns) {
            r->next_tick_ns = now + r->o.tick_ns;
            r->o.listener.tick(r->o.listener.arg);
        }
        if (all_gone(r, now, &alone_ns, &said)) {
            follow_round(&r->follow, true);
            if (r->o.source || !follow_running(&r->follow))
                break;
        }
    }
}

/* The last of everybody: of those that still run, and of the program, which is last. */
static void finish(struct watch_run *r, struct watch_result *result)
{
    static const uint32_t nobody = 0;
    if (r->o.source)
        r->o.source->end(r->o.source->arg);
    follow_round(&r->follow, true);
    result->left_running = follow_running(&r->follow);
    for (int program = 0; program < 2; program++)
        for (uint32_t i = 0; i < r->follow.count; i++) {
            struct watch_process *p = r->follow.items[i];
            if (p->is_program != (program == 1) || p->life != WATCH_RUNNING)
                continue;
            report_errors(r, p);
            report(r, p, WATCH_FINAL, false);
            segment_change(&p->segment, &(struct segment_change){.reader_pid = &nobody});
        }
    for (uint32_t i = 0; i < r->follow.count; i++) {
        r->follow.items[i]->hold = false;
        r->follow.items[i]->remove |= r->o.source != NULL; /* it has no writer any more */
    }
    follow_round(&r->follow, false);
}

struct watch_run *watch_run_new(const struct watch_options *options, struct error *err)
{
    struct watch_run *r = calloc(1, sizeof *r);
    struct pressed *pressed = r ? pressed_new(&options->when, err) : NULL;
    if (!r)
        error_memory(err);
    if (!pressed) {
        free(r);
        return NULL;
    }
    r->o = *options;
    r->pressed = pressed;
    r->signals = r->session_dir = -1;
    follow_begin(&r->follow, (struct follow_listener){r, joined, ended, refused});
    if (options->since_ns)
        r->follow.since_ns = options->since_ns;
    r->follow.select = options->select;
    return r;
}

void watch_run_free(struct watch_run *r)
{
    if (!r)
        return;
    follow_release(&r->follow);
    pressed_free(r->pressed);
    remove_session(r);
    if (r->signals >= 0)
        close(r->signals);
    free(r);
}

int watch_run_loop(struct watch_run *r, struct watch_result *result, struct error *err)
{
    struct signals_before signals;
    struct limits_before limits;
    *result = (struct watch_result){.exit_status = r->o.argv ? 125 : 1};
    signals_take(&signals);
    limits_lift(&limits);
    r->signals = open_signals();
    r->started_ns = clock_monotonic_ns();
    schedule(r, r->started_ns);
    int status = r->o.source      ? listen_to_all(r, err)
                 : r->o.everyone  ? follow_everyone(&r->follow, err)
                 : r->o.pid_count ? find_processes(r, err)
                                  : start_program(r, &signals, &limits, result, err);
    if (!status) {
        result->ran = true;
        loop(r);
        finish(r, result);
        result->exit_status = !r->launch.pid                ? 0
                              : WIFSIGNALED(r->wait_status) ? 128 + WTERMSIG(r->wait_status)
                                                            : WEXITSTATUS(r->wait_status);
        result->processes = r->processes;
        result->interrupted_ns = r->stopped_ns;
    }
    signals_restore(&signals);
    return status;
}

uint32_t watch_run_count(const struct watch_run *r) { return r->follow.count; }

struct watch_process *watch_run_process(const struct watch_run *r, uint32_t index)
{
    return index < r->follow.count ? r->follow.items[index] : NULL;
}
