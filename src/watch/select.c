/* select.c - Decides whether a process is watched, by its name, user and control group. */
#include "watch/select.h"

#include <stdio.h>
#include <string.h>

#include "base/proc.h"
#include "limit/groups.h"

enum { COMM_BYTES = 16 }; /* the kernel's size, NUL included: longer names are cut */

static bool has_name(const struct watch_select *s, const struct watch_process *p)
{
    char comm[64] = "";
    if (!p->who.pid || proc_read(p->who.pid, "comm", comm, sizeof comm) <= 0)
        snprintf(comm, sizeof comm, "%s", watch_process_name(p));
    comm[strcspn(comm, "\n")] = 0;
    for (size_t i = 0; i < s->comm_count; i++)
        if (!strncmp(s->comms[i], comm, COMM_BYTES - 1))
            return true;
    return false;
}

/* True if the group is the other or below it. */
static bool is_in(const char *group, const char *other)
{
    const size_t n = strlen(other);
    return *group &&
           (!strcmp(other, "/") || (!strncmp(group, other, n) && (!group[n] || group[n] == '/')));
}

bool select_process(const struct watch_select *s, const struct watch_process *p)
{
    struct limit_groups groups;
    if (s->comm_count && !has_name(s, p))
        return false;
    if (s->user && (p->who.pid ? p->who.uid[1] : p->segment.identity.owner) != *s->user)
        return false;
    return !s->cgroup || (p->who.pid && limit_groups_of(p->who.pid, &groups) &&
                          (is_in(groups.unified, s->cgroup) || is_in(groups.memory, s->cgroup)));
}
