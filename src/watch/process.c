#include "watch/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "watch/held.h"

#define Q8       256.0
#define NOTED_NS 1000000000ull /* in which an end is noted by who writes from outside */

static uint32_t state_of(const struct watch_process *p)
{
    return __atomic_load_n(&p->segment.head->state, __ATOMIC_ACQUIRE);
}

static bool is_gone(const struct watch_process *p)
{
    struct pollfd gone = {.fd = p->pidfd, .events = POLLIN};
    if (p->pidfd >= 0)
        return poll(&gone, 1, 0) > 0;
    if (!p->elsewhere)
        return kill(p->pid, 0) && errno == ESRCH;
    return p->segment.head->held ? !held_is(p->segment.path) : state_of(p) == MLW_WATCH_EXITED;
}

int process_open(struct watch_process **process, const char *path, pid_t pid, struct error *err)
{
    struct watch_process *p = calloc(1, sizeof *p);
    *process = NULL;
    if (!p)
        return error_set(err, ERROR_MEMORY, "out of memory");
    int status = segment_open(&p->segment, path, err);
    if (!status && stacks_begin(&p->stacks, &p->segment, err)) {
        segment_close(&p->segment);
        status = -1;
    }
    if (status) {
        free(p);
        return status;
    }
    p->pid = pid ? pid : (pid_t)p->segment.head->pid;
    p->stacks.image.pid = (uint32_t)p->pid;
    p->start_ns = p->segment.head->start_ns;
    p->joined_ns = clock_monotonic_ns();
    p->wait_status = -1;
    p->elsewhere = !pid && held_elsewhere(p->segment.head);
    p->pidfd = p->elsewhere ? -1 : (int)syscall(SYS_pidfd_open, p->pid, 0);
    p->found_dead = p->elsewhere ? is_gone(p) : kill(p->pid, 0) && errno == ESRCH;
    *process = p;
    return 0;
}

void process_close(struct watch_process *p)
{
    if (!p)
        return;
    if (p->remove)
        unlink(p->segment.path);
    if (p->pidfd >= 0)
        close(p->pidfd);
    segment_close(&p->segment);
    stacks_release(&p->stacks);
    for (int i = 0; i < TOLD_KINDS; i++)
        free(p->told[i].bytes);
    free(p->blocks);
    free(p->sums);
    free(p);
}

void process_check(struct watch_process *p)
{
    if (p->life != WATCH_RUNNING)
        return;
    if (!is_gone(p))
        return;
    if (p->outside && state_of(p) == MLW_WATCH_LIVE) {
        uint64_t now = clock_monotonic_ns();
        p->gone_ns = p->gone_ns ? p->gone_ns : now;
        if (now - p->gone_ns < NOTED_NS)
            return;
    }
    p->life = state_of(p) == MLW_WATCH_EXEC ? WATCH_REPLACED : WATCH_ENDED;
    /* exit() does not tell the library its status, which then says 0 */
    uint32_t status = __atomic_load_n(&p->segment.head->exit_status, __ATOMIC_RELAXED) & 0xff;
    if (state_of(p) == MLW_WATCH_EXITED && status)
        p->wait_status = (int)(status << 8);
    else if (state_of(p) == MLW_WATCH_KILLED)
        p->wait_status = (int)(status & 0x7f);
    else if (p->outside && state_of(p) == MLW_WATCH_EXITED)
        p->wait_status = 0;
}

bool process_said_goodbye(const struct watch_process *p) { return state_of(p) == MLW_WATCH_EXITED; }

double process_footprint(const struct watch_process *p)
{
    const struct mlw_watch_counters *c = &p->segment.head->counters;
    uint64_t freed = __atomic_load_n(&c->free_weight, __ATOMIC_RELAXED);
    uint64_t made = __atomic_load_n(&c->sample_weight, __ATOMIC_RELAXED);
    return made > freed ? (double)(made - freed) : 0;
}

/* ---- what is live ---- */

/* Sums of sites by index of the table, while a copy is taken. */
struct look {
    uint32_t *node, *version; /* [sites]; version 0: the site was not read */
};

static void add_sums(struct watch_process *p, const struct mlw_watch_site *s, uint32_t node)
{
    if (p->sum_count == p->sum_room)
        return;
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

/* Reads every site that was used; returns how many were torn. */
static uint32_t read_sites(struct watch_process *p, struct look *l)
{
    uint32_t torn = 0;
    p->sum_count = 0;
    for (uint32_t i = 0; i < p->segment.sites; i++) {
        struct mlw_watch_site s;
        enum segment_copy c = segment_site(&p->segment, i, &s);
        torn += c == SEGMENT_TORN;
        if (c != SEGMENT_WHOLE)
            continue;
        l->node[i] = stacks_node(&p->stacks, &p->segment, &s.stack);
        l->version[i] = s.version;
        add_sums(p, &s, l->node[i]);
    }
    return torn;
}

/* The node of the stack of a sample, whose site may have come after read_sites. */
static uint32_t node_of(struct watch_process *p, struct look *l, const struct mlw_watch_sample *b)
{
    if (b->site >= p->segment.sites)
        return 0;
    if (l->version[b->site] != b->site_version) {
        struct mlw_watch_site s;
        if (segment_site(&p->segment, b->site, &s) != SEGMENT_WHOLE || s.version != b->site_version)
            return 0;
        l->node[b->site] = stacks_node(&p->stacks, &p->segment, &s.stack);
        l->version[b->site] = s.version;
        add_sums(p, &s, l->node[b->site]);
    }
    return l->node[b->site];
}

static uint32_t read_samples(struct watch_process *p, struct look *l, uint32_t used)
{
    uint32_t torn = 0;
    p->block_count = 0;
    for (uint32_t i = 0; i < used; i++) {
        struct mlw_watch_sample b;
        enum segment_copy c = segment_sample(&p->segment, i, &b);
        torn += c == SEGMENT_TORN;
        if (c != SEGMENT_WHOLE || !(b.flags & MLW_WATCH_SAMPLE_LIVE))
            continue;
        uint32_t node = node_of(p, l, &b);
        if (!segment_sample_holds(&p->segment, i, b.version))
            continue; /* freed meanwhile */
        p->blocks[p->block_count++] = (struct watch_block){.address = b.address,
                                                           .size = b.size,
                                                           .weight = b.weight,
                                                           .born_ns = b.time_ns,
                                                           .stack = node,
                                                           .tid = b.tid};
    }
    return torn;
}

/* The latest time that is written down anywhere. */
static uint64_t last_sign(const struct watch_process *p)
{
    uint64_t last = p->start_ns;
    struct mlw_watch_free f;
    for (uint32_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].born_ns > last)
            last = p->blocks[i].born_ns;
    if (p->segment.head->next_free &&
        segment_free(&p->segment, p->segment.head->next_free - 1, &f) == SEGMENT_WHOLE &&
        f.freed_ns > last)
        last = f.freed_ns;
    return last;
}

int process_look(struct watch_process *p, struct error *err)
{
    uint32_t used = __atomic_load_n(&p->segment.head->samples_used, __ATOMIC_ACQUIRE);
    if (used > p->segment.samples)
        used = p->segment.samples;
    if (!p->sums) { /* each site once, and once more when it was given away during a look */
        p->sum_room = p->segment.sites * 2;
        p->sums = calloc((size_t)p->sum_room + 1, sizeof *p->sums);
    }
    if (used > p->block_room) {
        struct watch_block *blocks = realloc(p->blocks, used * sizeof *blocks);
        if (blocks) {
            p->blocks = blocks;
            p->block_room = used;
        }
    }
    struct look l = {calloc((size_t)p->segment.sites + 1, sizeof *l.node),
                     calloc((size_t)p->segment.sites + 1, sizeof *l.version)};
    int status = 0;
    if (!p->sums || used > p->block_room || !l.node || !l.version) {
        status = error_set(err, ERROR_MEMORY, "out of memory");
    } else {
        p->time_ns = clock_monotonic_ns();
        segment_counters(&p->segment, &p->counters);
        p->torn = read_sites(p, &l);
        p->torn += read_samples(p, &l, used);
        if (p->found_dead)
            p->time_ns = last_sign(p);
        if (p->stacks.failed)
            status = error_set(err, ERROR_MEMORY, "out of memory");
    }
    free(l.node);
    free(l.version);
    return status;
}

/* ---- what ended ---- */

void process_drain(struct watch_process *p)
{
    uint64_t end = __atomic_load_n(&p->segment.head->next_free, __ATOMIC_ACQUIRE);
    if (end < p->next_free || !p->segment.frees)
        return;
    if (end - p->next_free > p->segment.frees) {
        p->missed_frees += end - p->next_free - p->segment.frees;
        p->next_free = end - p->segment.frees;
    }
    for (; p->next_free < end; p->next_free++) {
        struct mlw_watch_free f;
        if (segment_free(&p->segment, p->next_free, &f) != SEGMENT_WHOLE)
            p->missed_frees++;
        else if (f.freed_ns >= f.allocated_ns)
            lifetimes_add(&p->lifetimes, f.freed_ns - f.allocated_ns);
    }
}
