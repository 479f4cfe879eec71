/* sampled.c - Reads the samples of a watched process from its shared segment, and sums them up
 * by call stack. A segment whose process id differs belongs to a parent before a fork, and is
 * refused. */
#include "heap/show/sampled.h"

#include <stdlib.h>
#include <unistd.h>

#include "watch/maps.h"
#include "watch/process.h"

/* The samples as they are now. False: there are none to be had. */
static bool look(struct heap_samples *s, pid_t pid)
{
    struct trust_process who;
    struct maps m;
    struct maps_place place;
    struct segment segment;
    struct error ignored;
    if (trust_process(pid, &who, &ignored) || maps_read(pid, &m, &ignored) || !*m.path ||
        maps_open(&who, &m, &segment, &place, &ignored))
        return false;
    if (place.dir >= 0)
        close(place.dir);
    if ((pid_t)segment.head.pid != who.inner_pid) { /* a fork that has not made its own yet */
        segment_close(&segment);
        return false;
    }
    return !process_adopt(&s->process, &segment, -1, NULL, &who, &ignored) &&
           !process_look(s->process, &ignored);
}

static int by_stack(const void *a, const void *b)
{
    const struct heap_sampled_site *x = a, *y = b;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static uint64_t age_of(const struct watch_process *p, const struct watch_block *b)
{
    return p->time_ns > b->born_ns ? p->time_ns - b->born_ns : 0;
}

/* One for each block, then one for each stack. */
static void add_up(struct heap_samples *s)
{
    const struct watch_process *p = s->process;
    for (uint32_t i = 0; i < p->block_count; i++) {
        const struct watch_block *b = &p->blocks[i];
        const uint64_t age = s->blocks[i].age_ns;
        struct heap_sampled_site *site = &s->sites[i];
        *site = (struct heap_sampled_site){.stack = b->stack, .oldest_ns = age, .youngest_ns = age};
        estimate_add(&site->live, b->size, b->weight);
        estimate_add(&s->all, b->size, b->weight);
    }
    if (p->block_count > 1)
        qsort(s->sites, p->block_count, sizeof *s->sites, by_stack);
    for (uint32_t i = 0; i < p->block_count; i++) {
        struct heap_sampled_site *last = s->site_count ? &s->sites[s->site_count - 1] : NULL;
        const struct heap_sampled_site *next = &s->sites[i];
        if (!last || last->stack != next->stack) {
            s->sites[s->site_count++] = *next;
            continue;
        }
        estimate_merge(&last->live, &next->live);
        if (next->oldest_ns > last->oldest_ns)
            last->oldest_ns = next->oldest_ns;
        if (next->youngest_ns < last->youngest_ns)
            last->youngest_ns = next->youngest_ns;
    }
}

bool heap_samples_read(void *arg, uint32_t pid, struct heap_sampled *sampled)
{
    struct heap_samples *s = arg;
    heap_samples_release(s);
    if (!look(s, (pid_t)pid)) {
        heap_samples_release(s);
        return false;
    }
    const struct watch_process *p = s->process;
    s->blocks = calloc((size_t)p->block_count + 1, sizeof *s->blocks);
    s->sites = calloc((size_t)p->block_count + 1, sizeof *s->sites);
    if (!s->blocks || !s->sites) {
        heap_samples_release(s);
        return false;
    }
    for (uint32_t i = 0; i < p->block_count; i++)
        s->blocks[i] = (struct heap_sampled_block){.address = p->blocks[i].address,
                                                   .bytes = p->blocks[i].size,
                                                   .age_ns = age_of(p, &p->blocks[i]),
                                                   .stack = p->blocks[i].stack};
    add_up(s);
    *sampled =
        (struct heap_sampled){.image = &p->stacks.image, .at = s->blocks, .count = p->block_count};
    for (unsigned i = 0; i < 2; i++)
        sampled->kept[i] =
            (struct heap_span){p->segment.head.kept[i].start, p->segment.head.kept[i].end};
    return true;
}

const struct heap_sampled_site *heap_samples_of(const struct heap_samples *s, uint32_t stack)
{
    const struct heap_sampled_site wanted = {.stack = stack};
    return s->site_count ? bsearch(&wanted, s->sites, s->site_count, sizeof *s->sites, by_stack)
                         : NULL;
}

const struct trace_image *heap_samples_image(const struct heap_samples *s)
{
    return s->process ? &s->process->stacks.image : NULL;
}

uint64_t heap_samples_period(const struct heap_samples *s)
{
    return watch_period(s->process, true);
}

void heap_samples_release(struct heap_samples *s)
{
    process_close(s->process);
    free(s->blocks);
    free(s->sites);
    *s = (struct heap_samples){0};
}
