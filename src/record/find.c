/* find.c - Finds the process that an entry of the session belongs to, also in another pid
 * namespace. A candidate must map the entry's window of the session and give its inner id. Start
 * times exclude processes that are older than the recording. */
#include "record/find.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/proc.h"

#define TICK_NS 10000000u /* to which /proc knows when a process started */

/* How sure it is that a process is the one of an entry. */
enum likeness { NOT_IT, MAY_BE_IT, IT_IS };

bool find_is_here(struct finder *f, const struct mlw_process *entry)
{
    if (!f->pid_namespace) {
        char text[64];
        if (proc_link(0, "ns/pid", text, sizeof text) > 0) /* pid:[4026531836] */
            f->pid_namespace = strtoull(text + strcspn(text, "0123456789"), NULL, 10);
    }
    return f->pid_namespace && entry->pid_namespace == f->pid_namespace;
}

/* True if the file is this user's and not older than the recording. */
static bool is_plausible(const struct finder *f, const struct trust_process *who)
{
    return who->start_ns + TICK_NS >= f->began_ns &&
           (geteuid() == 0 || trust_process_is_of(who, geteuid()));
}

static enum likeness compare_entry(const struct finder *f, const struct shm *shm,
                                   const struct mlw_process *entry, const struct trust_process *who)
{
    struct trust_identity session;
    const uint32_t windows = __atomic_load_n(&entry->windows, __ATOMIC_ACQUIRE);
    const uint32_t window = __atomic_load_n(&entry->window[0], __ATOMIC_RELAXED);
    if (who->inner_pid != (pid_t)entry->pid || !trust_identify(shm->fd, &session))
        return NOT_IT;
    switch (trust_process_maps_at(who->pid, &session, mlw_window_offset(window))) {
    case TRUST_MAPS_FILE: return windows ? IT_IS : MAY_BE_IT;
    case TRUST_MAPS_UNKNOWN:
    case TRUST_MAPS_NOTHING: return is_plausible(f, who) ? MAY_BE_IT : NOT_IT;
    default: /* the next image of the process, after an exec; or it has not come so far */
        return is_plausible(f, who) &&
                       (!windows ||
                        __atomic_load_n(&entry->end_how, __ATOMIC_ACQUIRE) == MLW_END_EXEC)
                   ? MAY_BE_IT
                   : NOT_IT;
    }
}

static int by_inner(const void *a, const void *b)
{
    const struct trust_process *x = a, *y = b;
    return (x->inner_pid > y->inner_pid) - (x->inner_pid < y->inner_pid);
}

static bool take_candidate(void *arg, const struct trust_process *who)
{
    struct finder *f = arg;
    if (who->levels < 2)
        return true;
    if (!ARRAY_ROOM(f->all, f->count + 1, f->room))
        return false;
    f->all[f->count++] = *who;
    return true;
}

/* Lists who calls itself by other numbers than ours. */
static void look_for_processes(struct finder *f, uint64_t now_ns)
{
    if (f->looked_ns == now_ns)
        return;
    f->looked_ns = now_ns;
    f->count = 0;
    (void)trust_processes(take_candidate, f);
    if (f->count)
        qsort(f->all, f->count, sizeof *f->all, by_inner);
}

bool find_process(struct finder *f, const struct shm *shm, const struct mlw_process *entry,
                  uint64_t now_ns, struct trust_process *who)
{
    const pid_t claimed = (pid_t)entry->pid;
    struct error err;
    f->blind = false;
    if (claimed <= 0)
        return false;
    if (!entry->pid_namespace || find_is_here(f, entry)) {
        const bool unseen = trust_process(claimed, who, &err);
        f->blind = unseen && err.number != ESRCH && (!kill(claimed, 0) || errno != ESRCH);
        const enum likeness like = unseen ? NOT_IT : compare_entry(f, shm, entry, who);
        if (like == IT_IS || (like == MAY_BE_IT && entry->pid_namespace))
            return true;
        if (entry->pid_namespace)
            return false;
    }
    look_for_processes(f, now_ns);
    unsigned possible = 0;
    for (size_t i = 0; i < f->count && f->all[i].inner_pid <= claimed; i++) {
        const enum likeness like = compare_entry(f, shm, entry, &f->all[i]);
        if (like == NOT_IT)
            continue;
        possible++;
        *who = f->all[i];
        if (like == IT_IS)
            return true;
    }
    return possible == 1;
}

void find_release(struct finder *f)
{
    free(f->all);
    *f = (struct finder){0};
}
