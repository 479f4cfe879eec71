/* attach.c - see attach.h. */
#include "record/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "import/rows.h"
#include "launch/launch.h"
#include "record/sink.h"
#include "trace/trace.h"

#define MS_NS      1000000ull
#define LOOK_MS    10
#define FLUSH_NS   (1000 * MS_NS) /* what a kill of mallow costs at most */
#define FASTEST_NS (10 * MS_NS)
#define IDLE_NS    (100 * MS_NS)
#define ARGUMENTS  (64u << 10)

/* Numbers of the kernel's ids; open addressing, id 0 is none. */
struct numbers {
    uint64_t *key;
    uint32_t *value;
    size_t n, room;
};

struct attach {
    const struct attach_options *o;
    struct rows *rows;
    struct probe_options probe;
    struct probe_result result;
    struct numbers threads, stacks, nodes, modules;
    uint32_t node_count, module_count;
    uint64_t start_ns, now_ns, exec_ns; /* exec_ns: when it became another program; 0: not so */
    uint64_t next_sample_ns, sample_ns, flush_ns;
    struct mlw_resident last;
    bool failed; /* no memory */
    int statm;
};

/* The place of a key's value, 0 when it is new. NULL without memory. */
static uint32_t *number_of(struct numbers *m, uint64_t key)
{
    if (m->n * 2 >= m->room) {
        struct numbers more = {.n = m->n, .room = m->room ? m->room * 2 : 256};
        more.key = calloc(more.room, sizeof *more.key);
        more.value = calloc(more.room, sizeof *more.value);
        if (!more.key || !more.value) {
            free(more.key);
            free(more.value);
            return NULL;
        }
        for (size_t i = 0; i < m->room; i++) {
            size_t at = (m->key[i] * 0x9e3779b97f4a7c15u >> 20) & (more.room - 1);
            while (m->key[i] && more.key[at])
                at = (at + 1) & (more.room - 1);
            if (m->key[i]) {
                more.key[at] = m->key[i];
                more.value[at] = m->value[i];
            }
        }
        free(m->key);
        free(m->value);
        *m = more;
    }
    size_t at = (key * 0x9e3779b97f4a7c15u >> 20) & (m->room - 1);
    while (m->key[at] && m->key[at] != key)
        at = (at + 1) & (m->room - 1);
    if (!m->key[at]) {
        m->key[at] = key;
        m->n++;
    }
    return &m->value[at];
}

static void numbers_release(struct numbers *m)
{
    free(m->key);
    free(m->value);
}

/* Reads a small file of /proc; returns its bytes, behind which a NUL is put. */
static size_t read_proc(const char *path, char *to, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t k = 0;
    while (fd >= 0 && n + 1 < room && (k = read(fd, to + n, room - 1 - n)) > 0)
        n += (size_t)k;
    if (fd >= 0)
        close(fd);
    to[n] = 0;
    return n;
}

/* ---- the calls ---- */

static uint32_t thread_of(struct attach *a, uint32_t tid)
{
    uint32_t *at = number_of(&a->threads, tid);
    if (!at) {
        a->failed = true;
        return 0;
    }
    if (!*at) {
        char path[64], name[64];
        snprintf(path, sizeof path, "/proc/%u/task/%u/comm", a->o->pid, tid);
        read_proc(path, name, sizeof name);
        name[strcspn(name, "\n")] = 0;
        *at = rows_thread(a->rows, tid, name) + 1;
    }
    return *at - 1;
}

static uint32_t module_of(struct attach *a, uint32_t thread, const char *path)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *p = path; p && *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001b3u;
    uint32_t *at = path ? number_of(&a->modules, hash | 1) : NULL;
    if (!at)
        return 0;
    if (!*at) {
        *at = ++a->module_count;
        rows_module(a->rows, thread, *at, path, 0);
    }
    return *at;
}

/* The node of a stack that the kernel kept, made when it is met first. */
static uint32_t stack_of(struct attach *a, uint32_t thread, uint64_t id)
{
    struct probe_frame frames[PROBE_DEPTH_MAX];
    uint32_t *at = id ? number_of(&a->stacks, id) : NULL;
    if (!at)
        return 0;
    if (*at)
        return *at;
    size_t n = probe_stack_now(&a->result, id, frames, PROBE_DEPTH_MAX);
    size_t outer = a->o->stacks == MLW_STACKS_CALLER && n > 2 ? 2 : n;
    uint32_t node = 0;
    for (size_t i = outer; i-- > 1;) { /* the innermost is the function that is called */
        const uint32_t module = module_of(a, thread, frames[i].path);
        const uint64_t key =
            ((uint64_t)node << 32 | module) * 0xff51afd7ed558ccdu + frames[i].address;
        uint32_t *known = number_of(&a->nodes, key ? key : 1);
        if (!known) {
            a->failed = true;
            return 0;
        }
        if (!*known) {
            *known = ++a->node_count;
            rows_frame(a->rows, thread, *known, node, frames[i].address, module);
        }
        node = *known;
    }
    *at = node;
    return node;
}

static void take(void *arg, const struct probe_call *c)
{
    struct attach *a = arg;
    if (!c->op) {
        a->exec_ns = c->time_ns;
        return;
    }
    if (a->exec_ns)
        return;
    const uint32_t thread = thread_of(a, c->tid);
    const bool releases = c->op == MLW_OP_FREE || c->op == MLW_OP_REALLOC_OLD;
    const struct rows_call call = {
        .time_ns = c->time_ns > a->start_ns ? c->time_ns - a->start_ns : 0,
        .address = c->address,
        .size = c->size,
        .argument = c->argument,
        .stack = releases ? 0 : stack_of(a, thread, c->stack),
        .op = c->op,
        .path = !releases && !c->address && c->size ? MLW_PATH_FAILED : 0};
    rows_call(a->rows, thread, &call);
}

/* ---- beside them ---- */

/* False when there is nothing to read: it has ended. */
static bool read_resident(const struct attach *a, struct mlw_resident *now)
{
    char text[160];
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    ssize_t n = a->statm < 0 ? -1 : pread(a->statm, text, sizeof text - 1, 0);
    uint64_t pages[3];
    if (n <= 0)
        return false;
    text[n] = 0;
    char *at = text, *end;
    for (int i = 0; i < 3; i++, at = end) {
        pages[i] = strtoull(at, &end, 10);
        if (end == at)
            return false;
    }
    *now = (struct mlw_resident){0, pages[0] * page, pages[1] * page, pages[2] * page};
    return now->rss != 0;
}

static void sample(struct attach *a)
{
    struct mlw_resident now;
    a->next_sample_ns = a->now_ns + a->sample_ns;
    if (!read_resident(a, &now))
        return;
    const bool same = now.rss == a->last.rss && now.vmsize == a->last.vmsize;
    if (!same)
        rows_resident(a->rows, a->now_ns - a->start_ns, now.vmsize, now.rss, now.rss_shared);
    a->last = now;
    if (!a->o->sample_interval_ns)
        a->sample_ns = !same ? FASTEST_NS : a->sample_ns * 2 > IDLE_NS ? IDLE_NS : a->sample_ns * 2;
}

/* Waits until it is over: true when the process has ended. */
static bool wait_for_end(struct attach *a, int pidfd, int signals)
{
    struct pollfd fds[] = {{.fd = probe_descriptor(&a->result), .events = POLLIN},
                           {.fd = pidfd, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    for (;;) {
        (void)!poll(fds, 3, LOOK_MS);
        a->now_ns = clock_monotonic_ns();
        probe_consume(&a->result);
        if (a->now_ns >= a->next_sample_ns)
            sample(a);
        if (a->now_ns >= a->flush_ns) {
            rows_flush(a->rows);
            a->flush_ns = a->now_ns + FLUSH_NS;
        }
        if (fds[1].revents)
            return true;
        struct signalfd_siginfo info;
        bool interrupted = false;
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
            interrupted |= info.ssi_signo != SIGCHLD;
        if (interrupted || a->exec_ns || a->failed ||
            (a->o->duration_ns && a->now_ns - a->start_ns >= a->o->duration_ns))
            return false;
    }
}

/* The path of its program. */
static const char *name_of(uint32_t pid, char *exe, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    ssize_t length = readlink(path, exe, room - 1);
    exe[length > 0 ? length : 0] = 0;
    return exe;
}

static void describe(struct attach *a)
{
    char path[64], exe[4096];
    static char arguments[ARGUMENTS];
    struct timespec real;
    snprintf(path, sizeof path, "/proc/%u/cmdline", a->o->pid);
    const size_t n = read_proc(path, arguments, sizeof arguments);
    clock_gettime(CLOCK_REALTIME, &real);
    const struct rows_process p = {
        .tool = "mallow " MALLOW_VERSION,
        .arguments = arguments,
        .argument_bytes = n,
        .exe = name_of(a->o->pid, exe, sizeof exe),
        .allocator = a->result.source,
        .note = "recorded from outside, while it ran: what was allocated before is not known, its "
                "releases are counted as unknown; children of the process are not in the file",
        .pid = a->o->pid,
        .stack_mode = a->o->stacks,
        .start_realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec};
    rows_process(a->rows, &p);
}

static int attach(struct attach *a, struct record_result *result, struct error *err)
{
    char path[64], line[256], name[32];
    const struct attach_options *o = a->o;
    a->probe = (struct probe_options){.kind = &probe_kind_record,
                                      .pid = o->pid,
                                      .no_follow = true,
                                      .by = o->stacks == MLW_STACKS_NONE ? 0 : PROBE_BY_STACK,
                                      .call = take,
                                      .arg = a};
    /* Before it can do anything that is recorded: a short program ends before the first turn. */
    snprintf(path, sizeof path, "/proc/%u/statm", o->pid);
    a->statm = open(path, O_RDONLY | O_CLOEXEC);
    const bool resident = read_resident(a, &a->last);
    if (probe_begin(&a->probe, &a->result, err))
        return -1;
    a->start_ns = a->now_ns = clock_monotonic_ns();
    int fd = record_open(result->output, err);
    a->rows = fd < 0 ? NULL : rows_new_on(fd, result->output, err);
    if (!a->rows)
        return -1;
    describe(a);
    if (resident)
        rows_resident(a->rows, 0, a->last.vmsize, a->last.rss, a->last.rss_shared);
    snprintf(path, sizeof path, "/proc/%u/comm", o->pid);
    read_proc(path, name, sizeof name);
    name[strcspn(name, "\n")] = 0;
    snprintf(line, sizeof line,
             "recording process %u (%s): each call of its allocator takes about 1 to 4 us longer "
             "meanwhile; Ctrl-C ends the recording",
             o->pid, name);
    o->say(o->arg, false, line);
    return 0;
}

static int finish(struct attach *a, bool ended, struct record_result *result, struct error *err)
{
    const uint64_t end_ns = (a->exec_ns ? a->exec_ns : clock_monotonic_ns()) - a->start_ns;
    probe_end(&a->result);
    result->lost_calls = probe_lost(&a->result);
    result->left_running = !ended && !a->exec_ns;
    result->images = 1;
    rows_end(a->rows,
             a->exec_ns ? MLW_END_EXEC
             : ended    ? MLW_END_EXIT
                        : MLW_END_UNKNOWN,
             result->lost_calls);
    result->calls = rows_calls(a->rows);
    if (a->failed) {
        rows_abandon(a->rows);
        return error_set(err, ERROR_MEMORY, "out of memory");
    }
    if (rows_finish_raw(a->rows, end_ns, err))
        return -1;
    if (!a->o->keep_raw)
        result->sealed =
            !trace_seal(result->output, result->output, NULL, NULL, NULL, &result->seal_error);
    struct stat st;
    if (!stat(result->output, &st))
        result->file_bytes = (uint64_t)st.st_size;
    return 0;
}

int record_attach(const struct attach_options *o, struct record_result *result, struct error *err)
{
    struct signals_before before;
    struct attach *a = calloc(1, sizeof *a);
    *result = (struct record_result){.program_pid = (int)o->pid};
    if (!a)
        return error_set(err, ERROR_MEMORY, "out of memory");
    a->o = o;
    a->statm = -1;
    a->sample_ns = o->sample_interval_ns ? o->sample_interval_ns : FASTEST_NS;
    signals_take(&before);
    sigset_t set;
    sigemptyset(&set);
    for (const int *s = (const int[]){SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, 0}; *s; s++)
        sigaddset(&set, *s);
    const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    char exe[4096];
    const int pidfd = (int)syscall(SYS_pidfd_open, o->pid, 0);
    int status = pidfd < 0 ? error_system(err, "cannot watch process %u", o->pid) : 0;
    if (!status)
        status = record_output(o->output, name_of(o->pid, exe, sizeof exe), (int)o->pid,
                               result->output, sizeof result->output, err);
    if (!status)
        status = attach(a, result, err);
    if (!status)
        status = finish(a, wait_for_end(a, pidfd, signals), result, err);
    if (pidfd >= 0)
        close(pidfd);
    if (signals >= 0)
        close(signals);
    if (a->statm >= 0)
        close(a->statm);
    probe_release(&a->result);
    numbers_release(&a->threads);
    numbers_release(&a->stacks);
    numbers_release(&a->nodes);
    numbers_release(&a->modules);
    signals_restore(&before);
    free(a);
    return status;
}
