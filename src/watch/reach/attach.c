/* attach.c - Attaches to the processes of `mallow watch -p` that run without the library, and
 * detaches at the end. Signals that would end mallow are blocked first, because processes must
 * not stay attached. */
#include "watch/reach/attach.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/proc.h"
#include "inject/inject.h"
#include "inspect/library.h"
#include "trust/process.h"
#include "watch/maps.h"

static void remember_attached(struct watch_attach *a, pid_t pid)
{
    struct trust_process who;
    struct error ignored;
    if (trust_process(pid, &who, &ignored))
        return;
    for (size_t i = 0; i < a->count; i++)
        if (a->seen[i].pid == pid && a->seen[i].start_ticks == who.start_ticks)
            return;
    if (ARRAY_ROOM(a->seen, a->count + 1, a->room))
        a->seen[a->count++] = (struct attached_process){pid, who.start_ticks};
}

static int attach_to_pid(struct watch_attach *a, pid_t pid, struct error *err)
{
    char library[PATH_MAX], preload[PATH_MAX], away[INJECT_AWAY_BYTES];
    struct inject_result result;
    if (inspect_find_library("libmallow-attach.so", library, err) ||
        inspect_find_library("libmallow-watch.so", preload, err))
        return -1;
    const struct inject_options options = {
        .library = library, .preload = preload, .period = a->period, .reader = getpid()};
    if (inject_begin(pid, &options, &result, err))
        return -1;
    remember_attached(a, pid);
    if (!a->quiet && !result.already)
        note_line(&a->note,
                  "attached to process %d: %s, %u bindings lead to the library; the end of this "
                  "watch puts them back",
                  (int)pid, inject_away(&result, away), result.slots);
    return 0;
}

/* Its memory cannot be seen: the reason that attaching would give says more. */
static void refuse_better(pid_t pid, struct error *err)
{
    const struct inject_options any = {.library = MLW_ATTACH_LIBRARY};
    struct error refused;
    if (inject_check(pid, &any, &refused))
        *err = refused;
}

/* From here on the end of this process must put things back: the watch reads these signals. */
static void hold_end_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int watch_attach(struct watch_attach *a, const pid_t *pids, size_t count, const char *guard,
                 struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct maps m;
        if (proc_has_ended(pids[i])) /* the memory that the dead left is read */
            continue;
        if (maps_read(pids[i], &m, err)) {
            refuse_better(pids[i], err);
            return -1;
        }
        if (m.library || *m.path)
            continue;
        if (guard && strcmp(guard, "off") != 0)
            return error_set(err, ERROR_UNSUPPORTED,
                             "process %d runs without the library; after attaching, its blocks "
                             "stay where its allocator put them, and none can be guarded: omit "
                             "--guard, or start it again under 'mallow watch'",
                             (int)pids[i]);
        hold_end_signals();
        if (attach_to_pid(a, pids[i], err))
            return -1;
    }
    return 0;
}

void watch_attach_joined(struct watch_attach *a, const struct watch_process *p)
{
    if (!p->found_dead && !p->elsewhere)
        remember_attached(a, p->pid);
}

int watch_attach_end(struct watch_attach *a, uint64_t interrupted_ns)
{
    const uint64_t until_ns = inject_leave_until(interrupted_ns);
    int status = 0;
    for (size_t i = 0; i < a->count; i++) {
        struct trust_process who;
        struct inject_result result;
        struct error err = {0};
        if (trust_process(a->seen[i].pid, &who, &err) ||
            who.start_ticks != a->seen[i].start_ticks ||
            !inject_is_there(who.pid, MLW_ATTACH_LIBRARY))
            continue;
        if (!inject_end(who.pid, MLW_ATTACH_LIBRARY, until_ns, &result, &err))
            continue;
        if (trust_process_lives(&who)) {
            note_line(&a->note,
                      "%s; its calls lead to the library, whose samples are read by no watch, "
                      "until 'mallow watch --detach %d'",
                      err.text, (int)who.pid);
            status = -1;
        }
    }
    free(a->seen);
    a->seen = NULL;
    a->count = a->room = 0;
    return status;
}

int watch_detach(pid_t pid, bool quiet, struct note note, struct error *err)
{
    static const char *const libraries[] = {MLW_ATTACH_LIBRARY, MLW_ATTACH_RECORD_LIBRARY};
    bool any = false;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        struct inject_result result;
        char away[INJECT_AWAY_BYTES];
        if (inject_end(pid, libraries[i], 0, &result, err))
            return -1;
        any |= !result.already;
        if (!quiet && !result.already)
            note_line(&note, "detached from process %d: %s, %u bindings are as they were", (int)pid,
                      inject_away(&result, away), result.slots);
    }
    if (!quiet && !any)
        note_line(&note, "process %d is not attached to: there was nothing to restore", (int)pid);
    return 0;
}
