/* record.c - see record.h. The order in which a recording is set up, watched, and sealed. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/proc.h"
#include "draft.h"
#include "inject/inject.h"
#include "inject/reasons.h"
#include "kernel_source.h"
#include "launch/launch.h"
#include "lend.h"
#include "limit/groups.h"
#include "loop.h"
#include "record/image.h"
#include "trace/trace.h"
#include "trust/place.h"
#include "trust/process.h"

#define RESERVE_BYTES 8192u /* END chunks of some thirty processes, for a full disk */

int record_output(const char *output, const char *name, int pid, char *out, size_t room,
                  struct error *err)
{
    char pattern[MLW_PATH_BYTES];
    size_t n = 0;
    if (output)
        n = (size_t)snprintf(pattern, sizeof pattern, "%s", output);
    else {
        char plain[200];
        snprintf(plain, sizeof plain, "%s", path_base_name(name));
        for (char *p = plain; *p; p++)
            if (*p == '%' || *p == '/')
                *p = '_';
        n = (size_t)snprintf(pattern, sizeof pattern, "mallow.%s.%%p.mlw", plain);
    }
    size_t used = 0;
    if (pattern[0] != '/') {
        if (!getcwd(out, room))
            return error_system(err, "cannot determine the current directory");
        used = strlen(out);
        if (used + 1 < room)
            out[used++] = '/';
    }
    bool fits = n < sizeof pattern;
    for (const char *p = pattern; *p && fits; p++) {
        char piece[24] = {*p, 0};
        if (p[0] == '%' && p[1] == 'p') {
            snprintf(piece, sizeof piece, "%d", pid);
            p++;
        } else if (p[0] == '%' && p[1] == '%')
            p++;
        size_t length = strlen(piece);
        fits = used + length < room;
        if (fits)
            memcpy(out + used, piece, length);
        used += length;
    }
    if (!fits)
        return error_set(err, ERROR_USAGE, "the path of the output file is too long");
    out[used] = 0;
    return 0;
}

int record_open(const char *path, struct trust_place *place, struct error *err)
{
    if (trust_place_open(place, path, err))
        return -1;
    int fd = trust_output(place, 0666, err);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        error_set(err, ERROR_USAGE, "%s is being written by another recording", path);
    } else if (fd >= 0 && ftruncate(fd, 0)) {
        error_system(err, "cannot empty %s", path);
    } else if (fd >= 0) {
        (void)flock(fd, LOCK_SH); /* without locks (some network file systems) it works as well */
        return fd;
    }
    if (fd >= 0)
        close(fd);
    trust_place_close(place);
    return -1;
}

void record_unmake(const struct trust_place *place, int fd)
{
    struct trust_identity id;
    struct error ignored;
    if (trust_identify(fd, &id))
        (void)trust_remove(place->dir, place->name, &id, &ignored);
}

static uint64_t limit_number(const struct rlimit *limit)
{
    return limit->rlim_cur == RLIM_INFINITY ? MLW_NO_LIMIT : (uint64_t)limit->rlim_cur;
}

/* The limits of the program's memory. before: limits of ours that it will have; NULL: it runs. */
static struct mlw_limits limits_of(pid_t program, const struct limits_before *before)
{
    struct mlw_limits l = {0};
    struct limit_groups groups;
    struct rlimit limit;
    if (limit_groups_of(program, &groups)) {
        const uint64_t bytes = limit_bytes(&groups);
        l.memory = bytes >= LIMIT_NONE ? MLW_NO_LIMIT : bytes;
    }
    if (before) {
        l.address = limit_number(&before->address_space);
        l.data = limit_number(&before->data);
    } else {
        l.address = prlimit(program, RLIMIT_AS, NULL, &limit) ? 0 : limit_number(&limit);
        l.data = prlimit(program, RLIMIT_DATA, NULL, &limit) ? 0 : limit_number(&limit);
    }
    return l;
}

static int write_file_chunk(struct recording *r, const struct record_options *o,
                            const struct mlw_limits *limits, const char *session_path,
                            struct error *err)
{
    uint8_t bytes[4096];
    struct tlv t = {.bytes = bytes, .room = sizeof bytes};
    const struct mlw_clock_pair pair = r->began = clock_pair(r->clock_kind);
    uint64_t start[3] = {pair.clock, pair.monotonic_ns, 0};
    start[2] = clock_realtime_ns() - (clock_monotonic_ns() - pair.monotonic_ns);
    struct utsname u;
    char host[sizeof u.sysname + sizeof u.release + sizeof u.machine + 4] = "";
    if (!uname(&u))
        snprintf(host, sizeof host, "%s %s %s", u.sysname, u.release, u.machine);
    tlv_put_u32(&t, MLW_TLV_VERSION, o->routes ? MLW_FORMAT_ROUTED : MLW_FORMAT_PLAIN);
    tlv_put_u32(&t, MLW_TLV_CLOCK_KIND, r->clock_kind);
    tlv_put(&t, MLW_TLV_START, start, sizeof start);
    tlv_put_text(&t, MLW_TLV_HOST, host);
    tlv_put_text(&t, MLW_TLV_TOOL, "mallow " MALLOW_VERSION);
    if (r->kernel)
        tlv_put_u32(&t, MLW_TLV_KERNEL, kernel_kinds(r->kernel));
    if (o->last.ns || o->last.bytes) {
        const uint64_t last[2] = {o->last.ns, o->last.bytes};
        tlv_put(&t, MLW_TLV_LAST, last, sizeof last);
    }
    tlv_put(&t, MLW_TLV_LIMITS, limits, sizeof *limits);
    tlv_put_u32(&t, MLW_TLV_STACKS, o->stacks);
    tlv_put_u32(&t, MLW_TLV_PAGE_BYTES, (uint32_t)r->page_bytes);
    tlv_put_text(&t, MLW_TLV_SESSION, session_path);
    struct mlw_chunk c = {.type = MLW_CHUNK_FILE,
                          .base_clock = pair.clock,
                          .pair_clock = pair.clock,
                          .pair_monotonic_ns = pair.monotonic_ns};
    if (sink_write(&r->sink, &c, t.bytes, t.n)) {
        errno = r->sink.last_errno;
        return error_system(err, "cannot write the recording");
    }
    return 0;
}

static void fill_session(struct recording *r, const struct record_options *o, pid_t program,
                         const char *output)
{
    struct mlw_session *s = r->shm.session;
    s->clock_kind = r->clock_kind;
    s->parent_pid = (uint32_t)getpid();
    s->program_pid = (uint32_t)program;
    s->stack_mode = o->stacks;
    s->initial_control =
        o->paused ? MLW_CTL_STARTED | MLW_CTL_PAUSED : MLW_CTL_STARTED | MLW_CTL_ACTIVE;
    s->options = (o->environment ? MLW_OPT_ENVIRONMENT : 0) |
                 (o->no_follow ? MLW_OPT_NO_FOLLOW : 0) | (o->routes ? MLW_OPT_ROUTES : 0);
    snprintf(s->output, sizeof s->output, "%s", output);
    struct trust_identity id;
    if (trust_identify(r->sink.fd, &id)) {
        s->output_device = id.device;
        s->output_inode = id.inode;
    }
}

static int exec_failed(const struct record_options *o, int number, struct record_result *result,
                       struct error *err)
{
    result->exit_status = number == ENOENT ? 127 : 126;
    errno = number;
    return error_system(err, "cannot run '%s'", o->argv[0]);
}

/* The program in our place. Returns only when it cannot be executed. */
static void run_unrecorded(const struct record_options *o, const struct signals_before *signals,
                           const struct limits_before *limits, struct record_result *result,
                           struct error *err)
{
    char line[sizeof err->text + 64];
    snprintf(line, sizeof line, "nothing is recorded: %s", err->text);
    o->say(o->arg, true, line);
    limits_restore(limits);
    signals_restore(signals);
    execvp(o->argv[0], o->argv);
    exec_failed(o, errno, result, err);
}

/* In the child. Everything that it needs was made before the fork or lies in the session. */
static void run_child(struct launch *l, const struct launch_plan *plan, const struct shm *shm,
                      const char *preload, const char *session_path) __attribute__((noreturn));
static void run_child(struct launch *l, const struct launch_plan *plan, const struct shm *shm,
                      const char *preload, const char *session_path)
{
    launch_child_wait(l);
    const char *environment[] = {
        "LD_PRELOAD", preload, MLW_ENV_SESSION, session_path, MLW_ENV_OUTPUT, shm->session->output,
        NULL,         NULL};
    launch_child_exec(l, plan, environment);
}

/* A user who presses Ctrl-C now does not want to wait. The file stays whole, as it was written. */
static void let_keys_through(void)
{
    sigset_t keys;
    sigemptyset(&keys);
    sigaddset(&keys, SIGINT);
    sigaddset(&keys, SIGQUIT);
    sigprocmask(SIG_UNBLOCK, &keys, NULL);
}

/* Goes on where a draft is, or begins. */
static int seal(const struct record_options *o, int fd, const struct trust_place *place,
                struct draft *draft, struct programs *programs, struct record_result *result)
{
    struct trace_seal_result sealed = {0};
    let_keys_through();
    programs_final(programs);
    struct error ignored;
    if (draft_finish(draft, &sealed, o->progress, o->arg, &ignored) &&
        trace_seal(fd, place, 0, programs_namer(programs), &sealed, o->progress, o->arg,
                   &result->seal_error))
        return -1;
    result->sealed = true;
    result->file_bytes = sealed.bytes_out;
    result->calls = sealed.calls;
    result->lost_calls = sealed.lost_calls;
    return 0;
}

/* The recording is over: seals it, or what else becomes of it. */
static void conclude(const struct record_options *o, int fd, const struct trust_place *place,
                     struct draft *draft, struct programs *programs, struct record_result *result)
{
    enum record_fate fate = o->keep_raw ? RECORD_RAW : RECORD_SEALED;
    if (o->keep_raw || o->beside)
        trace_recover(fd); /* rows of processes that could not reach the session */
    struct stat st = {0};
    if (!fstat(fd, &st))
        result->file_bytes = (uint64_t)st.st_size;
    if (o->beside) {
        let_keys_through();
        const enum record_fate wanted =
            o->beside->end(o->beside->arg, result->output, result->file_bytes);
        fate = wanted == RECORD_SEALED ? fate : wanted;
    }
    if (fate == RECORD_SEALED)
        seal(o, fd, place, draft, programs, result);
    else if (fate == RECORD_REMOVED) {
        record_unmake(place, fd);
        result->removed = true;
    }
}

/* ---- the process that it is about ---- */

struct subject {
    const struct record_options *o;
    struct record_result *result;
    struct launch l; /* the start of a program */
    pid_t pid;
    char name[PATH_MAX];
    uint64_t leave_until_ns; /* for all of its processes; 0: not known yet, or there is time */
    bool is_others;          /* it runs already, and is not ours */
    struct trust_credentials others;
};

static int start_recorded_program(struct subject *s, const struct launch_plan *plan,
                                  const struct shm *shm, const char *preload,
                                  const char *session_path, struct error *err)
{
    if (launch_fork(&s->l, err))
        return -1;
    if (s->l.pid == 0)
        run_child(&s->l, plan, shm, preload, session_path);
    s->pid = s->l.pid;
    snprintf(s->name, sizeof s->name, "%s", s->o->argv[0]);
    return 0;
}

static int find_subject(struct subject *s, struct error *err)
{
    const struct record_options *o = s->o;
    const struct inject_options inject = {.library = o->attached};
    struct trust_process who;
    if (inject_check(o->pid, &inject, err) || trust_process(o->pid, &who, err))
        return -1;
    s->is_others = who.uid[1] != geteuid(); /* root's: it cannot open what we have open */
    if (s->is_others && !trust_credentials_of(o->pid, o->pid, &s->others))
        return reasons_refuse(o->pid, INJECT_RIGHTS, NULL, err);
    s->pid = o->pid;
    (void)proc_link(o->pid, "exe", s->name, sizeof s->name);
    return 0;
}

static void cancel(struct subject *s)
{
    if (s->o->argv)
        launch_cancel(&s->l);
}

/* The program runs, or the process is attached to. */
static int start_or_attach(struct subject *s, const char *session_path, struct error *err)
{
    const struct record_options *o = s->o;
    if (o->argv) {
        const int number = launch_go(&s->l);
        return number ? exec_failed(o, number, s->result, err) : 0;
    }
    const struct inject_options inject = {.library = o->attached,
                                          .preload = o->no_follow ? NULL : o->library,
                                          .session = session_path,
                                          .shared_with = s->is_others ? &s->others : NULL};
    struct inject_result done;
    if (inject_begin(o->pid, &inject, &done, err))
        return -1;
    s->result->away_ns = done.away_ns;
    char line[256], away[INJECT_AWAY_BYTES];
    snprintf(line, sizeof line,
             "attached to process %d: %s, %u bindings lead to the recorder; the end of this "
             "recording puts them back",
             (int)o->pid, inject_away(&done, away), done.slots);
    o->say(o->arg, false, line);
    return 0;
}

static void leave_process(void *arg, pid_t pid, uint64_t interrupted_ns)
{
    struct subject *s = arg;
    if (!s->leave_until_ns)
        s->leave_until_ns = inject_leave_until(interrupted_ns);
    struct inject_result done;
    struct error err = {0};
    if (!inject_is_there(pid, MLW_ATTACH_RECORD_LIBRARY))
        return; /* a program that it started: the library came with it */
    if (!inject_end(pid, MLW_ATTACH_RECORD_LIBRARY, s->leave_until_ns, &done, &err)) {
        if (done.away_ns > s->result->away_ns)
            s->result->away_ns = done.away_ns;
        return;
    }
    if (kill(pid, 0) && errno == ESRCH)
        return;
    char line[sizeof err.text + 128];
    snprintf(
        line, sizeof line,
        "%s; its calls lead to the recorder, which keeps nothing, until 'mallow watch --detach "
        "%d'",
        err.text, (int)pid);
    s->result->not_left++;
    s->o->say(s->o->arg, true, line);
}

/* The resources of a recording until it is over, or could not begin. */
struct held {
    const struct record_options *o;
    struct record_result *result;
    struct recording *r;
    struct subject *who;
    struct trust_place place;
    struct draft *draft; /* NULL: it is sealed at its end */
    char *preload, session_path[64];
    struct lent lent;
    struct loop_descriptors open;
    struct signals_before signals;
    struct limits_before limits;
};

/* The memory that is shared with the program, and the program, which waits for start_or_attach().
 */
static int prepare_held_program(struct held *h, struct error *err)
{
    const struct record_options *o = h->o;
    const struct launch_plan plan = {.argv = o->argv, .signals = &h->signals, .limits = &h->limits};
    h->r->clock_kind = clock_choose();
    h->r->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    h->r->finder.began_ns = clock_monotonic_ns();
    h->r->sample_interval_ns = o->sample_interval_ns;
    h->r->library = o->library;
    h->r->files.programs = h->r->programs = programs_new();
    if (launch_preload(o->library, &h->preload, err))
        return -1;
    if (shm_create(&h->r->shm, err)) {
        if (err->kind == ERROR_UNSUPPORTED && o->argv)
            run_unrecorded(o, &h->signals, &h->limits, h->result, err);
        return -1;
    }
    snprintf(h->session_path, sizeof h->session_path, "/proc/%d/fd/%d", (int)getpid(),
             h->r->shm.fd);
    if (o->argv
            ? start_recorded_program(h->who, &plan, &h->r->shm, h->preload, h->session_path, err)
            : find_subject(h->who, err))
        return -1;
    const struct subject *who = h->who;
    if (who->is_others) {
        if (lend_begin(&h->lent, h->r->shm.fd, &who->others, &h->limits, err))
            return -1;
        snprintf(h->session_path, sizeof h->session_path, "/proc/%d/fd/%d", (int)h->lent.holder,
                 LEND_FD);
    }
    h->result->program_pid = h->who->pid;
    return 0;
}

/* The file, with its first chunk. */
static int begin_output(struct held *h, struct error *err)
{
    const struct record_options *o = h->o;
    struct recording *r = h->r;
    char *const output = h->result->output;
    if (record_output(o->output, h->who->name, h->who->pid, output, sizeof h->result->output,
                      err) ||
        (r->sink.fd = record_open(output, &h->place, err)) < 0)
        return -1;
    fill_session(r, o, h->who->pid, output);
    const struct mlw_limits limits = limits_of(h->who->pid, o->argv ? &h->limits : NULL);
    int failed = write_file_chunk(r, o, &limits, h->session_path, err);
    if (!failed) {
        sink_reserve(&r->sink, trust_again(r->sink.fd, TRUST_WRITE), RESERVE_BYTES);
        if (o->last.ns || o->last.bytes || o->when.count)
            failed = !(r->flight = flight_open(&o->last, &o->when, r, output, o->say, o->arg, err));
    }
    if (failed)
        record_unmake(&h->place, r->sink.fd);
    return failed ? -1 : 0;
}

static int begin_recording(struct held *h, struct error *err)
{
    const struct record_options *o = h->o;
    struct recording *r = h->r;
    if (prepare_held_program(h, err))
        return -1;
    if (loop_open(&h->open, err) ||
        (o->with_count && !(r->kernel = kernel_open(r, o, (uint32_t)h->who->pid, err))) ||
        begin_output(h, err)) {
        cancel(h->who);
        return -1;
    }
    r->started_ns = clock_monotonic_ns();
    if (o->argv && !o->keep_raw && !o->beside && !r->kernel && !r->flight)
        h->draft = draft_open(r, &h->place);
    if (start_or_attach(h->who, h->session_path, err)) {
        record_unmake(&h->place, r->sink.fd);
        return -1;
    }
    programs_hold_program(r->programs, h->who->pid); /* it may be short */
    h->result->ran = true;
    if (o->beside &&
        o->beside->begin(o->beside->arg, r->sink.fd, h->who->name, (int)h->who->pid, err))
        o->say(o->arg, true, err->text);
    return 0;
}

static void watch_until_over(struct held *h)
{
    const struct record_options *o = h->o;
    struct record_result *const result = h->result;
    struct loop_result watched = {0};
    const struct loop_options loop = {.open = &h->open,
                                      .program = h->who->pid,
                                      .session_path = h->session_path,
                                      .say = o->say,
                                      .say_arg = o->arg,
                                      .leave = o->argv ? NULL : leave_process,
                                      .leave_arg = h->who,
                                      .size = o->size,
                                      .size_arg = o->size_arg,
                                      .output = result->output,
                                      .draft = h->draft,
                                      .beside = o->beside ? o->beside->look : NULL,
                                      .beside_arg = o->beside ? o->beside->arg : NULL,
                                      .duration_ns = o->duration_ns};
    loop_run(h->r, &loop, &watched);
    result->exit_status = !o->argv                           ? 0
                          : WIFSIGNALED(watched.wait_status) ? 128 + WTERMSIG(watched.wait_status)
                                                             : WEXITSTATUS(watched.wait_status);
    result->images = watched.images;
    result->left_running = watched.left_running;
    result->unrecorded = o->no_follow ? 0 : watched.unrecorded; /* children count as such */
    result->unjoined = h->r->unjoined.programs;
    for (uint32_t i = 0, n = 0; i < h->r->unjoined.names; i++) {
        const char *why = h->r->unjoined.why[i];
        n += (uint32_t)snprintf(result->unjoined_names + n, sizeof result->unjoined_names - n,
                                "%s%s (%s)", i ? ", " : "", h->r->unjoined.name[i],
                                *why ? why : "the reason could not be found out");
    }
    result->unseen = h->r->unseen;
    unseen_files_release(&h->r->files);
    result->lost_calls = watched.lost_calls;
    result->unwritten_errno = watched.unwritten_errno;
}

#define LARGE_BYTES (64u << 20) /* a file that takes a while to be freed */

/* Closes the recording as it was written. Where the sealed one has replaced it, the kernel frees it
 * then, which takes up to seconds: a child closes it last, and mallow does not wait for that. The
 * child has no other file open, so it keeps no pipe open, either. */
static void close_written(int fd)
{
    struct stat st;
    const bool large = !fstat(fd, &st) && !st.st_nlink && st.st_size >= (off_t)LARGE_BYTES;
    const pid_t child = large ? fork() : -1;
    if (child == 0) {
        (void)setsid(); /* without a terminal, whose keys are for other processes */
        if (fd)
            (void)syscall(SYS_close_range, 0u, (unsigned)fd - 1, 0u);
        (void)syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0u);
        _exit(0);
    }
    close(fd);
}

/* Gives everything back. */
static void release_held(struct held *h)
{
    struct recording *r = h->r;
    if (r->sink.fd >= 0)
        close_written(r->sink.fd); /* and the lock: until here no reader seals it instead */
    lend_end(&h->lent);
    loop_close(&h->open);
    trust_place_close(&h->place);
    free(h->preload);
    free(r->smaps.bytes);
    places_release(&r->places);
    find_release(&r->finder);
    programs_free(r->programs);
}

int record_run(const struct record_options *o, struct record_result *result, struct error *err)
{
    static struct recording recording;
    static struct subject subject;
    struct recording *r = &recording;
    *result = (struct record_result){.exit_status = 125};
    *r = (struct recording){.sink = {.fd = -1, .reserve_fd = -1}, .shm.fd = -1};
    subject = (struct subject){.o = o, .result = result};
    struct held h = {.o = o,
                     .result = result,
                     .r = r,
                     .who = &subject,
                     .place = {.dir = -1},
                     .open = LOOP_CLOSED};
    signals_take(&h.signals);
    limits_lift(&h.limits);
    const bool failed = begin_recording(&h, err);
    if (!failed)
        watch_until_over(&h);
    result->lost_kernel_events = kernel_close(r->kernel);
    flight_close(r->flight);
    shm_close(&r->shm);
    if (r->sink.reserve_fd >= 0)
        close(r->sink.reserve_fd);
    if (failed)
        signals_restore(&h.signals);
    else
        conclude(o, r->sink.fd, &h.place, h.draft, r->programs, result);
    draft_close(h.draft);
    release_held(&h);
    return failed ? -1 : 0;
}
