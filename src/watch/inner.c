/* inner.c - Finds the process that calls itself by a given id in another pid namespace. It lists
 * /proc once, at the first question. A match must map the segment. */
#include "watch/inner.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/proc.h"

/* 0: it cannot be seen. */
static uint64_t namespace_of(pid_t pid)
{
    static const char before[] = "pid:[";
    char text[64];
    const bool known = pid > 0 && proc_link(pid, "ns/pid", text, sizeof text) > 0 &&
                       !strncmp(text, before, sizeof before - 1);
    return known ? strtoull(text + sizeof before - 1, NULL, 10) : 0;
}

static bool take(void *arg, const struct trust_process *who)
{
    struct inner *t = arg;
    const uint64_t pid_namespace = who->levels > 1 ? namespace_of(who->pid) : 0;
    if (!pid_namespace)
        return true;
    if (!ARRAY_ROOM(t->items, t->count + 1, t->room))
        return false;
    t->items[t->count++] = (struct inner_process){*who, pid_namespace};
    return true;
}

bool inner_find(struct inner *t, const struct segment *s, struct trust_process *who)
{
    if (!t->was_read)
        trust_processes(take, t);
    t->was_read = true;
    for (size_t i = 0; i < t->count; i++) {
        const struct inner_process *p = &t->items[i];
        *who = p->who;
        if (p->pid_namespace == s->head.pid_namespace && who->inner_pid == (pid_t)s->head.pid &&
            trust_process_maps_at(who->pid, &s->identity, 0) == TRUST_MAPS_FILE)
            return true;
    }
    return false;
}

pid_t inner_parent(const struct trust_process *who)
{
    struct trust_process parent;
    struct error ignored;
    const uint64_t its = namespace_of(who->pid);
    if (!its || namespace_of(who->ppid) != its || trust_process(who->ppid, &parent, &ignored))
        return 0;
    return parent.inner_pid;
}

void inner_release(struct inner *t)
{
    free(t->items);
    *t = (struct inner){0};
}
