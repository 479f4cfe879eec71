/* outside.c - Turns the kernel's reports about processes, threads and calls into rows of a
 * recording, and samples the processes' sizes. It numbers threads, stacks and modules for each
 * process image. An exec or an exit ends the image. Failures of memory are kept until
 * outside_failed is asked. */
#include "record/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/index.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/cmdline.h"
#include "base/proc.h"
#include "record/smaps.h"
#include "trace/trace.h"
#include "trust/process.h"

#define MS_NS          1000000ull
#define SPLIT_STEP     (1ull << 20)
#define SPLIT_CREDIT   (20 * MS_NS)
#define SPLIT_REST     (50 * MS_NS)
#define SPLITS_OF_TIME 64u /* answers that no peak calls for: one in this share of the time */
#define FASTEST_NS     (10 * MS_NS)
#define IDLE_NS        (100 * MS_NS)
#define ARGUMENTS      (64u << 10)
#define TITLE          1024u
#define CALLED_NS      (100 * MS_NS) /* between two looks at what it is called */

struct numbers { /* numbers for the kernel's ids */
    struct number {
        uint64_t key;
        uint32_t value;
    } * at;
    uint32_t count, room;
    struct index index;
};

/* A program image: a process from its beginning, or an exec, to its end, or the next. */
struct process {
    uint32_t pid, ppid, image;  /* image: of the rows */
    bool ended, executed, gone; /* gone: at the last look */
    uint64_t calls, lost_stacks;
    struct numbers threads, stacks, nodes, modules;
    char *exe, *arguments;
    size_t argument_bytes;
    char title[TITLE]; /* its arguments when it was last looked at; cut */
    size_t title_bytes;
    char comm[CMDLINE_COMM_BYTES];
    uint64_t called_ns;
    int statm;
    struct trust_process who; /* pid 0: it had ended when it was looked at */
    struct mlw_resident last;
    uint64_t next_sample_ns, sample_ns;
    struct mlw_split held; /* the latest split, when it is not in the file */
    bool holds;
    uint64_t held_ns;               /* when it was made */
    uint64_t split_rss, split_most; /* at the latest split; the most at any */
    uint64_t asked_ns, written_ns;
};

struct outside {
    const struct outside_options *o;
    struct rows *rows;
    const struct probe_result *probe;
    struct process *process; /* the first is the one that was named */
    size_t count, room;
    struct numbers by_pid; /* 1 + index; a child that shares its parent's memory is its parent */
    uint32_t node_count, module_count;
    unsigned running;
    uint64_t start_ns, start_realtime_ns;
    struct smaps_buffer smaps;
    uint64_t split_spent_ns, split_cost_ns; /* processor time: all; the latest */
    uint64_t reported_lost, lost_stacks;
    bool failed, named_ended, over; /* over: without children, it has become another program */
};

/* The place of a key's value, 0 when it is new; until the next call. NULL without memory. */
static uint32_t *numbers_place(struct numbers *m, uint64_t key)
{
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&m->index, key, &at)) != INDEX_NONE;)
        if (m->at[i].key == key)
            return &m->at[i].value;
    if (!ARRAY_ROOM(m->at, m->count + (size_t)1, m->room) || !index_add(&m->index, key, m->count))
        return NULL;
    m->at[m->count] = (struct number){key, 0};
    return &m->at[m->count++].value;
}

static void numbers_drop(struct numbers *m)
{
    free(m->at);
    index_release(&m->index);
    *m = (struct numbers){0};
}

static uint64_t outside_time(const struct outside *s, uint64_t ns)
{
    return ns > s->start_ns ? ns - s->start_ns : 0;
}

/* ---- which processes ---- */

static bool read_resident(struct process *p, struct mlw_resident *now)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (statm_read(p->statm, page, now))
        return true;
    if (p->statm < 0 || trust_process_has_ended(&p->who))
        return false;
    close(p->statm); /* the thread that was asked has ended: others may go on */
    p->statm = proc_open_memory(p->who.pid, "statm");
    return statm_read(p->statm, page, now);
}

/* A copy of n bytes and a NUL; without memory, NULL. */
static char *copy_text_of(struct outside *s, const char *from, size_t n)
{
    char *to = malloc(n + 1);
    if (!to) {
        s->failed = true;
        return NULL;
    }
    memcpy(to, from, n);
    to[n] = 0;
    return to;
}

/* Early: of a process that has ended, none of this is known. */
static void identify_process(struct outside *s, struct process *p)
{
    char exe[4096];
    static char arguments[ARGUMENTS];
    struct proc_stat stat;
    if (proc_stat((pid_t)p->pid, &stat))
        p->ppid = (uint32_t)stat.ppid;
    const ssize_t length = proc_link((pid_t)p->pid, "exe", exe, sizeof exe);
    p->exe = copy_text_of(s, exe, length > 0 ? (size_t)length : 0);
    const ssize_t bytes = proc_read((pid_t)p->pid, "cmdline", arguments, sizeof arguments);
    p->argument_bytes = bytes > 0 ? (size_t)bytes : 0;
    p->arguments = copy_text_of(s, arguments, p->argument_bytes);
}

static struct process *new_process(struct outside *s, uint32_t pid)
{
    if (!ARRAY_ROOM(s->process, s->count + 1, s->room)) {
        s->failed = true;
        return NULL;
    }
    uint32_t *at = numbers_place(&s->by_pid, pid);
    if (!at) {
        s->failed = true;
        return NULL;
    }
    struct process *p = &s->process[s->count++];
    *p = (struct process){.pid = pid,
                          .statm = proc_open_memory((pid_t)pid, "statm"),
                          .sample_ns =
                              s->o->sample_interval_ns ? s->o->sample_interval_ns : FASTEST_NS};
    struct error ignored;
    if (trust_process((pid_t)pid, &p->who, &ignored))
        p->who.pid = 0;
    *at = (uint32_t)s->count;
    s->running++;
    return p;
}

/* Its PROCESS chunk; forked_from: 1 + an image, 0 none. */
static struct rows_process description(const struct outside *s, const struct process *p,
                                       uint32_t forked_from, const char *note)
{
    return (struct rows_process){.tool = "mallow " MALLOW_VERSION,
                                 .arguments = p->arguments,
                                 .argument_bytes = p->argument_bytes,
                                 .exe = p->exe,
                                 .allocator = s->probe->source,
                                 .note = note,
                                 .pid = p->pid,
                                 .ppid = p->ppid,
                                 .stack_mode = s->o->stacks,
                                 .forked_from = forked_from,
                                 .start_realtime_ns = s->start_realtime_ns};
}

#define FROM_OUTSIDE                                                                               \
    "recorded from outside, while it ran: earlier allocations are unknown, their releases "        \
    "are counted as unknown"

static const char *note_of(const struct outside *s)
{
    return s->o->no_follow ? FROM_OUTSIDE "; children of the process are not in the file"
                           : FROM_OUTSIDE;
}

static void release_process(struct process *p)
{
    if (p->statm >= 0)
        close(p->statm);
    p->statm = -1;
    numbers_drop(&p->threads);
    numbers_drop(&p->stacks);
    numbers_drop(&p->nodes);
    numbers_drop(&p->modules);
    free(p->exe);
    free(p->arguments);
    p->exe = p->arguments = NULL;
}

/* Until the probe has begun, there are no rows to put it in. */
static void take_found(struct outside *s, uint32_t pid)
{
    struct process *p = new_process(s, pid);
    if (!p)
        return;
    identify_process(s, p);
    if (read_resident(p, &p->last))
        return;
    release_process(p); /* it has ended, but for its parent */
    *numbers_place(&s->by_pid, pid) = 0;
    s->count--;
    s->running--;
}

/* The image of a process now; one that is met for the first time was there before. */
static struct process *process_now(struct outside *s, uint32_t pid, uint64_t time_ns)
{
    const uint32_t *at = numbers_place(&s->by_pid, pid);
    if (at && *at)
        return &s->process[*at - 1];
    struct process *p = new_process(s, pid);
    if (!p)
        return NULL;
    identify_process(s, p);
    const struct rows_process d = description(s, p, 0, note_of(s));
    p->image = rows_image(s->rows, &d, outside_time(s, time_ns));
    return p;
}

static void write_split(struct outside *s, struct process *p)
{
    if (p->holds)
        rows_split(s->rows, p->image, outside_time(s, p->held_ns), &p->held);
    p->holds = false;
}

static void outside_end_process(struct outside *s, struct process *p, uint64_t time_ns,
                                enum mlw_end_how how, uint32_t status)
{
    if (p->ended)
        return;
    p->ended = true;
    s->running--;
    s->named_ended |= p->pid == s->o->pid && how != MLW_END_EXEC;
    if (p->executed && !p->calls) {
        char note[640];
        snprintf(note, sizeof note,
                 "no call of its allocator was seen: only functions of %s are probed, and it may "
                 "have others",
                 s->probe->source);
        rows_note(s->rows, p->image, note);
    }
    if (p->lost_stacks) {
        char note[160];
        snprintf(note, sizeof note,
                 "%" PRIu64
                 " of its calls are recorded without a stack: there was no room for more "
                 "stacks",
                 p->lost_stacks);
        rows_note(s->rows, p->image, note);
        s->lost_stacks += p->lost_stacks;
    }
    write_split(s, p);
    if (p->title_bytes && p->called_ns <= time_ns) /* else it is what the next program is called */
        rows_called(s->rows, p->image, p->title, p->title_bytes, p->comm);
    rows_end(s->rows, p->image, outside_time(s, time_ns), how, status);
    release_process(p);
}

static void take_fork(struct outside *s, const struct probe_call *c)
{
    const struct process *p = process_now(s, c->pid, c->time_ns);
    const uint32_t child = (uint32_t)c->address;
    if (!p)
        return;
    const size_t parent = (size_t)(p - s->process);
    if (c->size) { /* until it is another program */
        uint32_t *at = numbers_place(&s->by_pid, child);
        s->failed |= !at;
        if (at)
            *at = (uint32_t)parent + 1;
        return;
    }
    struct process *made = new_process(s, child);
    if (!made)
        return;
    p = &s->process[parent];
    made->ppid = p->pid;
    made->exe = copy_text_of(s, p->exe ? p->exe : "", p->exe ? strlen(p->exe) : 0);
    made->arguments = copy_text_of(s, p->arguments ? p->arguments : "", p->argument_bytes);
    made->argument_bytes = made->arguments ? p->argument_bytes : 0;
    const struct rows_process d = description(s, made, p->image + 1, note_of(s));
    made->image = rows_image(s->rows, &d, outside_time(s, c->time_ns));
}

static void take_exec(struct outside *s, const struct probe_call *c)
{
    struct process *p = process_now(s, c->pid, c->time_ns);
    if (!p)
        return;
    const uint32_t ppid = p->pid == c->pid ? p->ppid : p->pid;
    if (p->pid == c->pid)
        outside_end_process(s, p, c->time_ns, MLW_END_EXEC, 0);
    if (s->o->no_follow) {
        s->over = true;
        return;
    }
    struct process *next = new_process(s, c->pid);
    if (!next)
        return;
    next->ppid = ppid;
    next->executed = true;
    next->exe = copy_text_of(s, c->path, strlen(c->path));
    next->arguments = copy_text_of(s, c->arguments, c->argument_bytes);
    next->argument_bytes = c->argument_bytes;
    const struct rows_process d = description(s, next, 0, NULL);
    next->image = rows_image(s->rows, &d, outside_time(s, c->time_ns));
}

/* ---- the calls ---- */

static uint32_t process_thread(struct outside *s, struct process *p, uint32_t tid)
{
    uint32_t *at = numbers_place(&p->threads, tid);
    if (!at) {
        s->failed = true;
        return 0;
    }
    if (!*at) {
        char file[32], name[64];
        snprintf(file, sizeof file, "task/%u/comm", tid);
        (void)proc_read((pid_t)p->pid, file, name, sizeof name);
        name[strcspn(name, "\n")] = 0;
        *at = rows_thread_of(s->rows, p->image, tid, name) + 1;
    }
    return *at - 1;
}

static uint32_t process_module(struct outside *s, struct process *p, uint32_t thread,
                               const char *path)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = path; c && *c; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    uint32_t *at = path ? numbers_place(&p->modules, hash | 1) : NULL;
    if (!at)
        return 0;
    if (!*at) {
        *at = ++s->module_count;
        rows_module(s->rows, thread, *at, path, 0);
    }
    return *at;
}

/* The node of a stack that the kernel kept, made when the image meets it first. */
static uint32_t process_stack(struct outside *s, struct process *p, uint32_t thread, uint64_t id)
{
    struct probe_frame frames[PROBE_DEPTH_MAX];
    uint32_t *at = id ? numbers_place(&p->stacks, id) : NULL;
    if (!at)
        return 0;
    if (*at)
        return *at;
    size_t n = probe_stack_now(s->probe, id, frames, PROBE_DEPTH_MAX);
    size_t outer = s->o->stacks == MLW_STACKS_CALLER && n > 2 ? 2 : n;
    uint32_t node = 0;
    for (size_t i = outer; i-- > 1;) { /* the innermost is the function that is called */
        const uint32_t module = process_module(s, p, thread, frames[i].path);
        const uint64_t key =
            ((uint64_t)node << 32 | module) * 0xff51afd7ed558ccdu + frames[i].address;
        uint32_t *known = numbers_place(&p->nodes, key ? key : 1);
        if (!known) {
            s->failed = true;
            return 0;
        }
        if (!*known) {
            *known = ++s->node_count;
            rows_frame(s->rows, thread, *known, node, frames[i].address, module);
        }
        node = *known;
    }
    *at = node;
    return node;
}

static void put_probe_call(struct outside *s, const struct probe_call *c)
{
    struct process *p = process_now(s, c->pid, c->time_ns);
    if (!p || p->ended)
        return;
    const uint32_t thread = process_thread(s, p, c->tid);
    const bool releases = mlw_op_is(c->op, MLW_CLASS_ENDS);
    const struct rows_call call = {.time_ns = outside_time(s, c->time_ns),
                                   .address = c->address,
                                   .size = c->size,
                                   .argument = c->argument,
                                   .stack = releases ? 0 : process_stack(s, p, thread, c->stack),
                                   .op = c->op,
                                   .path =
                                       !releases && !c->address && c->size ? MLW_PATH_FAILED : 0};
    p->calls++;
    p->lost_stacks += !releases && !c->stack && s->o->stacks != MLW_STACKS_NONE;
    rows_call(s->rows, thread, &call);
}

/* Whose image the losses of a process are: the latest one of it, else of the one that was named. */
static struct process *latest_process(const struct outside *s, uint32_t pid)
{
    for (size_t i = s->count; i-- > 1;)
        if (s->process[i].pid == pid)
            return &s->process[i];
    return &s->process[0];
}

void outside_take(struct outside *s, const struct probe_call *c)
{
    uint32_t *at;
    if (s->failed)
        return;
    switch (c->what) {
    case PROBE_FOUND: take_found(s, c->pid); return;
    case PROBE_FORKED: take_fork(s, c); return;
    case PROBE_BECAME: take_exec(s, c); return;
    case PROBE_ENDED:
        at = numbers_place(&s->by_pid, c->pid);
        if (!at || !*at)
            return;
        if (s->process[*at - 1].pid == c->pid)
            outside_end_process(s, &s->process[*at - 1], c->time_ns,
                                WIFSIGNALED((int)c->size) ? MLW_END_KILLED : MLW_END_EXIT,
                                (uint32_t)c->size);
        *at = 0; /* the number may be given to another */
        return;
    case PROBE_LOST_CALLS:
        rows_lost(s->rows, latest_process(s, c->pid)->image, c->size);
        s->reported_lost += c->size;
        return;
    default: put_probe_call(s, c);
    }
}

/* ---- beside them ---- */

static bool ask_split(struct outside *s, struct process *p, uint64_t now_ns)
{
    const uint64_t before = clock_thread_ns();
    const struct smaps_hints none = {0};
    struct error ignored;
    p->asked_ns = now_ns;
    p->split_rss = p->last.rss;
    const bool had = !smaps_read(p->who.pid, &s->smaps, &ignored) &&
                     !smaps_split(s->smaps.bytes, s->smaps.n, &none, &p->held, NULL, &ignored) &&
                     trust_process_lives(&p->who);
    p->held_ns = now_ns;
    p->holds = had;
    s->split_cost_ns = clock_thread_ns() - before;
    s->split_spent_ns += s->split_cost_ns;
    return had;
}

/* True if the kernel is to split the resident size now: at a new peak of it, and now and then in
 * between. All of it costs at most a hundredth of the time, and what reaches the file grows with
 * the logarithm of time and size. */
static void look_at_split(struct outside *s, struct process *p, uint64_t now_ns)
{
    const uint64_t age = now_ns - s->start_ns, may = SPLIT_CREDIT + age / 100, rss = p->last.rss,
                   step = p->split_most / 10 > SPLIT_STEP ? p->split_most / 10 : SPLIT_STEP,
                   by = rss < p->split_rss ? p->split_rss - rss : rss - p->split_rss;
    const bool peak = rss > p->split_most + step,
               due = now_ns - p->asked_ns > SPLIT_REST &&
                     (by > p->split_rss / 100 || now_ns - p->asked_ns > age / SPLITS_OF_TIME);
    if (!p->who.pid || !(peak || due) || s->split_spent_ns + s->split_cost_ns > may ||
        !ask_split(s, p, now_ns))
        return;
    if (rss > p->split_most)
        p->split_most = rss;
    if (!peak && now_ns - p->written_ns < age / SPLITS_OF_TIME)
        return;
    p->written_ns = now_ns;
    write_split(s, p);
}

/* Title and name as they are now. What another program or process may have said by then is left. */
static void read_process_names(struct process *p, uint64_t now_ns)
{
    char text[sizeof p->title], comm[sizeof p->comm];
    if (!p->who.pid || (p->called_ns && now_ns - p->called_ns < CALLED_NS))
        return;
    p->called_ns = now_ns;
    const size_t n = proc_called(p->who.pid, text, sizeof text, comm, sizeof comm);
    if (!n || !trust_process_lives(&p->who))
        return;
    memcpy(p->title, text, n);
    p->title_bytes = n;
    memcpy(p->comm, comm, sizeof comm);
}

static void sample(struct outside *s, struct process *p, uint64_t now_ns)
{
    struct mlw_resident now;
    p->next_sample_ns = now_ns + p->sample_ns;
    if (!read_resident(p, &now))
        return;
    const bool same = now.rss == p->last.rss && now.vmsize == p->last.vmsize;
    if (!same)
        rows_resident(s->rows, p->image, outside_time(s, now_ns), &now);
    p->last = now;
    read_process_names(p, now_ns);
    look_at_split(s, p, now_ns);
    if (!s->o->sample_interval_ns)
        p->sample_ns = !same ? FASTEST_NS : p->sample_ns * 2 > IDLE_NS ? IDLE_NS : p->sample_ns * 2;
}

void outside_sample(struct outside *s, uint64_t now_ns)
{
    for (size_t i = 0; i < s->count; i++)
        if (!s->process[i].ended && now_ns >= s->process[i].next_sample_ns)
            sample(s, &s->process[i], now_ns);
}

void outside_look(struct outside *s, uint64_t now_ns)
{
    struct mlw_resident ignored;
    for (size_t i = 0; i < s->count; i++) {
        struct process *p = &s->process[i];
        const bool gone = !p->ended && !read_resident(p, &ignored) &&
                          (p->statm >= 0 || (kill((pid_t)p->pid, 0) && errno == ESRCH));
        if (gone && p->gone) /* its events were taken meanwhile */
            outside_end_process(s, p, now_ns, MLW_END_EXIT, 0);
        p->gone = gone;
    }
}

unsigned outside_running(const struct outside *s) { return s->over ? 0 : s->running; }
bool outside_has_ended(const struct outside *s) { return s->named_ended; }
uint64_t outside_lost_stacks(const struct outside *s) { return s->lost_stacks; }
unsigned outside_images(const struct outside *s) { return (unsigned)s->count; }
bool outside_failed(const struct outside *s) { return s->failed; }

/* ---- from start to end ---- */

struct outside *outside_new(const struct outside_options *o, struct error *err)
{
    struct outside *s = calloc(1, sizeof *s);
    struct process *p = NULL;
    if (s) {
        s->o = o;
        p = new_process(s, o->pid);
    }
    if (!p) {
        error_memory(err);
        outside_free(s);
        return NULL;
    }
    identify_process(s, p);
    if (!read_resident(p, &p->last)) {
        if (proc_is_hidden((pid_t)o->pid))
            error_set(err, ERROR_UNSUPPORTED, PROC_HIDDEN, (int)o->pid);
        else
            error_set(err, ERROR_UNSUPPORTED, "process %u has ended, or has no memory of its own",
                      o->pid);
        outside_free(s);
        return NULL;
    }
    return s;
}

void outside_begin(struct outside *s, struct rows *rows, const struct probe_result *probe,
                   uint64_t start_ns)
{
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    s->rows = rows;
    s->probe = probe;
    s->start_ns = start_ns;
    s->start_realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    for (size_t i = 0; i < s->count; i++) {
        struct process *p = &s->process[i];
        const struct rows_process d = description(s, p, 0, note_of(s));
        if (i)
            p->image = rows_image(rows, &d, 0);
        else
            rows_process(rows, &d);
        rows_resident(rows, p->image, 0, &p->last);
        read_process_names(p, start_ns);
        look_at_split(s, p, start_ns);
    }
}

void outside_end(struct outside *s, uint64_t now_ns, uint64_t lost)
{
    for (size_t i = 0; i < s->count; i++)
        outside_end_process(s, &s->process[i], now_ns, MLW_END_UNKNOWN, 0);
    if (lost > s->reported_lost) /* losses other than calls of one of them */
        rows_lost(s->rows, 0, lost - s->reported_lost);
}

void outside_free(struct outside *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        release_process(&s->process[i]);
    numbers_drop(&s->by_pid);
    free(s->smaps.bytes);
    free(s->process);
    free(s);
}
