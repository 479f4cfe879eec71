/* pressed.c - Groups watched processes by control group, compares each group with the
 * thresholds, and counts the kernel's kills. Shared pages are counted once only when a threshold
 * depends on it. */
#include "watch/pressed.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/proc.h"

#define SLOW_NS 1000000000ull /* between two looks when nothing is compared */

struct pressed_group {
    struct limit_groups groups;
    struct pressure rules;
    uint64_t rss_bytes; /* the RSS of the watched processes in it, in this look */
    unsigned processes;
    uint64_t kills; /* that were seen, or explained */
    bool used, crossed;
    char line[160];
};

struct pressed {
    struct pressure rules;
    struct pressed_group **items;
    size_t count, room;
    uint64_t next_ns;
};

struct pressed *pressed_new(const struct pressure *rules, struct error *err)
{
    struct pressed *s = calloc(1, sizeof *s);
    if (!s)
        error_memory(err);
    else
        s->rules = *rules;
    return s;
}

void pressed_free(struct pressed *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i]);
    free(s->items);
    free(s);
}

/* The group of a process as it is now, and its resident size; NULL: none is known, or there is no
 * memory. A process that ends loses its memory first and then its group of version 1. So the group
 * is asked for first: while there is memory, the group is still its own. */
static struct pressed_group *group_of(struct pressed *s, const struct watch_process *p,
                                      uint64_t *rss_bytes)
{
    struct limit_groups groups;
    if (!p->who.pid || !limit_groups_of(p->who.pid, &groups) || !(*rss_bytes = process_rss(p)))
        return NULL;
    for (size_t i = 0; i < s->count; i++)
        if (limit_groups_same(&s->items[i]->groups, &groups))
            return s->items[i];
    struct pressed_group *g = calloc(1, sizeof *g);
    if (!g || !ARRAY_ROOM(s->items, s->count + 1, s->room)) {
        free(g);
        return NULL;
    }
    g->groups = groups;
    g->rules = s->rules;
    (void)limit_kills(&groups, &g->kills);
    s->items[s->count++] = g;
    return g;
}

void pressed_joined(struct pressed *s, struct watch_process *p)
{
    uint64_t rss_bytes;
    p->group = group_of(s, p, &rss_bytes);
}

/* Puts every process where it is now, and lets go of groups that are empty. */
static void gather(struct pressed *s, struct watch_process *const *items, uint32_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        s->items[i]->rss_bytes = s->items[i]->processes = 0;
        s->items[i]->used = s->items[i]->crossed = false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct watch_process *p = items[i];
        uint64_t rss_bytes;
        struct pressed_group *now = p->life == WATCH_RUNNING ? group_of(s, p, &rss_bytes) : NULL;
        if (now) /* else it has just ended: that group is asked for its end */
            p->group = now;
        if (!p->group)
            continue;
        p->group->used = true;
        if (now) {
            now->rss_bytes += rss_bytes;
            now->processes++;
        }
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i]->used)
            s->items[kept++] = s->items[i];
        else
            free(s->items[i]);
    s->count = kept;
}

struct members {
    const struct pressed_group *group;
    struct watch_process *const *items;
    uint32_t count;
};

static uint64_t counted_once(void *arg)
{
    const struct members *m = arg;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct watch_process *p = m->items[i];
        if (p->group == m->group)
            sum += process_share(p);
    }
    return sum;
}

void pressed_look(struct pressed *s, uint64_t now_ns, struct watch_process *const *items,
                  uint32_t count, pressed_each *each, void *arg)
{
    if (now_ns < s->next_ns)
        return;
    s->next_ns = s->rules.count ? now_ns : now_ns + SLOW_NS;
    gather(s, items, count);
    for (size_t i = 0; i < s->count; i++) {
        struct pressed_group *g = s->items[i];
        struct members members = {g, items, count};
        const struct pressure_sizes sizes = {.now_ns = now_ns,
                                             .rss_bytes = g->rss_bytes,
                                             .processes = g->processes,
                                             .once = counted_once,
                                             .arg = &members};
        g->crossed = pressure_crossed(&g->rules, &sizes, &g->groups, g->line, sizeof g->line);
    }
    for (uint32_t i = 0; i < count; i++)
        if (items[i]->life == WATCH_RUNNING && items[i]->group && items[i]->group->crossed)
            each(arg, items[i], items[i]->group->line);
}

bool pressed_killed(const struct watch_process *p)
{
    uint64_t kills;
    if (!p->group || !limit_kills(&p->group->groups, &kills) || kills <= p->group->kills)
        return false;
    p->group->kills++;
    return true;
}
