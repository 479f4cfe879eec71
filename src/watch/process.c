/* process.c - Opens a segment, proves which process it belongs to, and copies its live samples
 * and ended blocks. The process may change or truncate the segment at any time. Memory is
 * charged to the process's user before it is taken. */
#include "watch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/cmdline.h"
#include "base/proc.h"
#include "watch/held.h"

#define Q8 256.0
/* In which an end is noted by the process that writes from outside: it may have to wait for a
 * processor. */
#define NOTED_NS 30000000000ull

static uint32_t state_of(const struct watch_process *p) { return p->segment.head.state; }

static bool is_gone(const struct watch_process *p)
{
    if (p->pidfd >= 0)
        return proc_fd_has_ended(p->pidfd);
    if (!p->elsewhere && !p->unseen)
        return !p->who.pid || trust_process_has_ended(&p->who);
    return p->segment.head.held ? !held_by_other(p->segment.fd) : state_of(p) == MLW_WATCH_EXITED;
}

/* ---- who it is ---- */

#define TICK_NS 10000000u /* to which /proc knows when a process started */

/* True if its clock is ours: in a time namespace it may differ. */
static bool has_our_clock(pid_t pid)
{
    char ours[64], its[64];
    return proc_link(0, "ns/time", ours, sizeof ours) <= 0 ||
           proc_link(pid, "ns/time", its, sizeof its) <= 0 || !strcmp(ours, its);
}

static bool is_trusted(uid_t owner) { return owner == 0 || owner == geteuid(); }

/* True if what the segment says is so: its file belongs to root, to the caller or to a user of the
 * process; the process calls itself by that id; it had started when the segment was made. */
static bool is_of(const struct segment *s, const struct trust_process *who)
{
    const struct mlw_watch *h = &s->head;
    const uid_t owner = s->identity.owner;
    const bool named =
        (pid_t)h->pid == who->inner_pid || (!h->pid_namespace && (pid_t)h->pid == who->pid);
    return named && (is_trusted(owner) || trust_process_is_of(who, owner)) &&
           ((h->start_ns + TICK_NS >= who->start_ns && h->start_ns <= clock_monotonic_ns()) ||
            !has_our_clock(who->pid));
}

static int begin(struct watch_process **process, const struct segment *s, int dir, const char *name,
                 struct error *err)
{
    struct watch_process *p = calloc(1, sizeof *p);
    *process = p;
    if (!p) {
        struct segment left = *s;
        segment_close(&left);
        return error_memory(err);
    }
    p->segment = *s;
    p->dir = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 3);
    if (p->dir >= 0)
        snprintf(p->name, sizeof p->name, "%s", name);
    p->start_ns = s->head.start_ns;
    p->joined_ns = clock_monotonic_ns();
    p->wait_status = p->pidfd = -1;
    p->pid = (pid_t)s->head.pid;
    p->ppid = (pid_t)s->head.ppid;
    p->is_claim = true;
    if (!stacks_begin(&p->stacks, &p->segment, &p->charge, err))
        return 0;
    process_close(p);
    *process = NULL;
    return -1;
}

static void join(struct watch_process *p, const struct trust_process *who)
{
    p->pidfd = (int)syscall(SYS_pidfd_open, who->pid, 0);
    if (p->pidfd >= 0 && !trust_process_lives(who)) {
        close(p->pidfd); /* it may be of the next one of that number */
        p->pidfd = -1;
    }
    p->who = *who;
    p->is_claim = false;
    if (p->elsewhere) {
        p->ppid = inner_parent(who);
        return;
    }
    p->pid = who->pid;
    p->ppid = who->ppid;
    p->stacks.image.pid = (uint32_t)p->pid;
}

/* By the owner of its memory, which that user can write; and by the users that it has now: it can
 * itself. */
bool process_is_bounded(const struct watch_process *p, uid_t *user)
{
    *user = p->segment.identity.owner;
    for (int i = 0; p->who.pid && is_trusted(*user) && i < 4; i++)
        *user = p->who.uid[i];
    return !is_trusted(*user);
}

bool process_is_invented(const struct watch_process *p)
{
    return p->is_claim && !p->found_dead && !is_trusted(p->segment.identity.owner);
}

int process_open(struct watch_process **process, int dir, const char *name, struct inner *inner,
                 struct error *err)
{
    struct segment s;
    struct watch_process *p;
    struct trust_process who;
    struct error why = {0};
    int status = segment_open(&s, dir, name, err);
    if (status)
        return status;
    if (begin(&p, &s, dir, name, err))
        return -1;
    p->elsewhere = held_elsewhere(&s.head);
    if (p->elsewhere && inner_find(inner, &s, &who) && is_of(&s, &who))
        join(p, &who);
    else if (p->elsewhere)
        p->found_dead = is_gone(p);
    else if (!trust_process(p->pid, &who, &why) && is_of(&s, &who)) {
        join(p, &who);
        p->found_dead = is_gone(p); /* a zombie */
    } else {
        p->unseen = s.head.held && (held_somewhere(&s.head) || why.number == EACCES);
        p->found_dead = is_gone(p);
    }
    *process = p;
    return 0;
}

int process_adopt(struct watch_process **process, const struct segment *s, int dir,
                  const char *name, const struct trust_process *who, struct error *err)
{
    *process = NULL;
    if (!is_of(s, who)) {
        struct segment left = *s;
        segment_close(&left);
        return error_set(err, ERROR_UNSUPPORTED,
                         "the shared memory that process %d has mapped is not its own",
                         (int)who->pid);
    }
    if (begin(process, s, dir, name, err))
        return -1;
    join(*process, who);
    return 0;
}

static void drop_samples(struct watch_process *p)
{
    for (int i = 0; i < REPORTED_KINDS; i++) {
        free(p->reported[i].bytes);
        p->reported[i] = (struct watch_reported){0};
    }
    free(p->blocks);
    free(p->sums);
    p->blocks = NULL;
    p->sums = NULL;
    p->block_count = p->block_room = p->blocks_charged = 0;
    p->sum_count = p->sum_room = p->sums_charged = 0;
}

void process_close(struct watch_process *p)
{
    struct error ignored;
    if (!p)
        return;
    if (p->remove && p->dir >= 0)
        (void)trust_remove(p->dir, p->name, &p->segment.identity, &ignored);
    if (p->dir >= 0)
        close(p->dir);
    if (p->pidfd >= 0)
        close(p->pidfd);
    segment_close(&p->segment);
    drop_samples(p);
    stacks_release(&p->stacks);
    charge_return(&p->charge, 0);
    free(p->title);
    free(p);
}

void process_check(struct watch_process *p)
{
    if (p->life != WATCH_RUNNING)
        return;
    const bool gone = is_gone(p);
    segment_refresh(&p->segment);
    if (!gone)
        return;
    if (p->outside && state_of(p) == MLW_WATCH_LIVE) {
        uint64_t now = clock_monotonic_ns();
        p->gone_ns = p->gone_ns ? p->gone_ns : now;
        if (now - p->gone_ns < NOTED_NS)
            return;
    }
    p->life = state_of(p) == MLW_WATCH_EXEC ? WATCH_REPLACED : WATCH_ENDED;
    /* exit() does not pass its status to the library, which then says 0 */
    uint32_t status = p->segment.head.exit_status & 0xff;
    if (state_of(p) == MLW_WATCH_EXITED && status)
        p->wait_status = (int)(status << 8);
    else if (state_of(p) == MLW_WATCH_KILLED)
        p->wait_status = (int)(status & 0x7f);
    else if (p->outside && state_of(p) == MLW_WATCH_EXITED)
        p->wait_status = 0;
}

bool process_said_goodbye(const struct watch_process *p) { return state_of(p) == MLW_WATCH_EXITED; }

uint64_t process_rss(const struct watch_process *p)
{
    char text[128];
    if (!p->who.pid || p->life != WATCH_RUNNING)
        return 0;
    const int fd = proc_open_memory(p->who.pid, "statm");
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *resident = strchr(text, ' ');
    const uint64_t pages = resident ? strtoull(resident, NULL, 10) : 0;
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_share(const struct watch_process *p)
{
    const bool runs = p->who.pid && p->life == WATCH_RUNNING;
    const uint64_t bytes = runs ? proc_proportional_bytes(p->who.pid) : 0;
    return bytes ? bytes : process_rss(p);
}

double process_footprint(const struct watch_process *p)
{
    const uint64_t freed = p->segment.head.counters.free_weight;
    const uint64_t made = p->segment.head.counters.sample_weight;
    return made > freed ? (double)(made - freed) : 0;
}

/* ---- live samples ---- */

/* True if there may be one more than `count` things of which *charged were paid for. Each is paid
 * for once, however often it is looked at. */
static bool pay(struct watch_process *p, uint32_t count, uint32_t *charged, uint32_t bytes)
{
    if (count < *charged)
        return !p->charge.refused;
    const bool paid = charge_take(&p->charge, bytes);
    *charged += paid;
    return paid;
}

/* A look at all that a segment holds. */
struct look {
    struct watch_process *p;
    uint32_t *node, *version; /* by a site's index; version 0: the site was not read */
    bool no_memory;
};

static void add_sums(struct look *l, const struct mlw_watch_site *s, uint32_t node)
{
    struct watch_process *p = l->p;
    /* each site once, and once more when it was given away during the look */
    if (p->sum_count == 2 * p->segment.table[SEGMENT_SITES].count)
        return;
    if (!pay(p, p->sum_count, &p->sums_charged, ACCOUNT_STACK_BYTES))
        return;
    if (!ARRAY_ROOM(p->sums, (size_t)p->sum_count + 1, p->sum_room)) {
        l->no_memory = true;
        return;
    }
    p->sums[p->sum_count++] = (struct watch_sums){
        .stack = node,
        .samples = s->samples,
        .bytes = s->bytes,
        .allocated_bytes = (double)s->weight,
        .allocated_blocks = (double)s->blocks_q8 / Q8,
        .freed_bytes = (double)s->freed_weight,
        .freed_blocks = (double)s->freed_blocks_q8 / Q8,
        .freed_byte_seconds = (double)s->freed_byte_us / 1e6,
        .freed_samples = s->freed_samples,
        .freed_elsewhere = s->freed_elsewhere,
    };
}

static void take_site(void *arg, uint32_t index, const void *record)
{
    struct look *l = arg;
    const struct mlw_watch_site *s = record;
    if (l->p->charge.refused)
        return;
    l->node[index] = stacks_node(&l->p->stacks, &l->p->segment, &s->stack);
    l->version[index] = s->version;
    add_sums(l, s, l->node[index]);
}

/* The node of the stack of a sample, whose site may have come after the others were read. False:
 * its site has gone to another stack. */
static bool node_of(struct look *l, const struct mlw_watch_sample *b, uint32_t *node)
{
    *node = 0;
    if (b->site >= l->p->segment.table[SEGMENT_SITES].count)
        return true;
    if (l->version[b->site] != b->site_version) {
        struct mlw_watch_site s;
        if (segment_site(&l->p->segment, b->site, &s) != SEGMENT_WHOLE ||
            s.version != b->site_version)
            return false;
        take_site(l, b->site, &s);
    }
    *node = l->node[b->site];
    return true;
}

static void take_sample(void *arg, uint32_t index, const void *record)
{
    struct look *l = arg;
    struct watch_process *p = l->p;
    const struct mlw_watch_sample *b = record;
    uint32_t node;
    if (!(b->flags & MLW_WATCH_SAMPLE_LIVE) || p->charge.refused)
        return;
    /* A site is given away only when no live sample names it. */
    if (!node_of(l, b, &node) && !segment_sample_holds(&p->segment, index, b->version))
        return; /* freed meanwhile */
    if (!pay(p, p->block_count, &p->blocks_charged, sizeof *p->blocks))
        return;
    if (!ARRAY_ROOM(p->blocks, (size_t)p->block_count + 1, p->block_room)) {
        l->no_memory = true;
        return;
    }
    p->blocks[p->block_count++] = (struct watch_block){.address = b->address,
                                                       .size = b->size,
                                                       .weight = b->weight,
                                                       .born_ns = b->time_ns,
                                                       .stack = node,
                                                       .tid = b->tid};
}

static void take_last(void *arg, const struct mlw_watch_free *f)
{
    uint64_t *last = arg;
    if (f->freed_ns > *last)
        *last = f->freed_ns;
}

/* The latest time that is written down anywhere. */
static uint64_t last_sign(const struct watch_process *p)
{
    uint64_t last = p->start_ns, missed;
    const uint64_t next = p->segment.head.next_free;
    for (uint32_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].born_ns > last)
            last = p->blocks[i].born_ns;
    if (next)
        segment_each_free(&p->segment, next - 1, next, take_last, &last, &missed);
    return last;
}

/* Title and name as they are now. Where the process has ended, or is another program by now, the
 * earlier ones stay. */
static void look_called(struct watch_process *p)
{
    char text[1024], comm[sizeof p->comm];
    if (p->life != WATCH_RUNNING || !p->who.pid || p->exec_seen_ns)
        return;
    const size_t n = proc_called(p->who.pid, text, sizeof text, comm, sizeof comm);
    const char **const title = n && !is_gone(p) ? cmdline_split(text, n) : NULL;
    if (!title)
        return;
    free(p->title);
    p->title = title;
    memcpy(p->comm, comm, sizeof comm);
}

int process_look(struct watch_process *p, struct error *err)
{
    look_called(p);
    const uint32_t sites = p->segment.table[SEGMENT_SITES].count, named = p->stacks.image.stacks;
    segment_refresh(&p->segment);
    if (p->charge.refused && !p->stacks.nodes)
        return 0;
    struct look l = {.p = p,
                     .node = calloc((size_t)sites + 1, sizeof *l.node),
                     .version = calloc((size_t)sites + 1, sizeof *l.version)};
    l.no_memory = !l.node || !l.version;
    if (!l.no_memory) {
        p->time_ns = clock_monotonic_ns();
        p->counters = p->segment.head.counters;
        p->sum_count = p->block_count = 0;
        p->torn = segment_each(&p->segment, SEGMENT_SITES, 0, sites, take_site, &l);
        p->torn += segment_each(&p->segment, SEGMENT_SAMPLES, 0, p->segment.head.samples_used,
                                take_sample, &l);
        if (p->found_dead)
            p->time_ns = last_sign(p);
    }
    free(l.node);
    free(l.version);
    if (p->charge.refused) { /* at once: the user's next process may find room */
        drop_samples(p);
        stacks_drop_nodes(&p->stacks);
        charge_return(&p->charge, ACCOUNT_PROCESS_BYTES + (uint64_t)named * ACCOUNT_NAME_BYTES);
    }
    return l.no_memory || p->stacks.failed ? error_memory(err) : 0;
}

/* ---- what ended ---- */

static void take_lifetime(void *arg, const struct mlw_watch_free *f)
{
    struct watch_process *p = arg;
    if (f->freed_ns >= f->allocated_ns)
        lifetimes_add(&p->lifetimes, f->freed_ns - f->allocated_ns);
}

void process_drain(struct watch_process *p)
{
    uint64_t missed;
    segment_refresh(&p->segment);
    const uint64_t end = p->segment.head.next_free;
    if (end < p->next_free || !p->segment.table[SEGMENT_FREES].count)
        return;
    segment_each_free(&p->segment, p->next_free, end, take_lifetime, p, &missed);
    p->missed_frees += missed;
    p->next_free = end;
}

uint64_t watch_period(const struct watch_process *p, bool now)
{
    const struct mlw_watch *h = &p->segment.head;
    uint64_t asked = __atomic_load_n(&h->settings.period, __ATOMIC_RELAXED);
    uint64_t period = __atomic_load_n(&h->period_now, __ATOMIC_RELAXED);
    return now && period > asked ? period : asked;
}

uint64_t watch_dropped(const struct watch_process *p)
{
    const struct mlw_watch_counters *c = &p->counters;
    return c->dropped_full + c->dropped_memory + c->dropped_nested;
}

const char *watch_process_title(const struct watch_process *p, char *to, size_t room)
{
    struct buffer b = {0};
    if (cmdline_is_title(p->stacks.image.exe, p->title))
        cmdline_append(&b, p->stacks.image.exe, p->title, true);
    else
        buffer_append_text(&b, watch_process_name(p));
    cmdline_append_comm(&b, p->stacks.image.exe, p->stacks.image.command, p->title, p->comm);
    snprintf(to, room, "%s", buffer_text(&b));
    buffer_release(&b);
    return to;
}

const char *watch_process_name(const struct watch_process *p)
{
    return cmdline_name(p->stacks.image.exe, p->stacks.image.command);
}
