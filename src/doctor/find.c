/* find.c - asks each part of mallow what it lacks on this machine, and judges a program. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/human.h"
#include "doctor/doctor.h"
#include "heap/heap.h"
#include "inject/inject.h"
#include "inspect/library.h"
#include "push/push.h"
#include "watch/left.h"

/* True: a process of this user's could get the library. It is asked of one made for that. */
static bool injects(struct error *err)
{
    char library[PATH_MAX];
    if (inspect_find_library("libmallow-attach-record.so", library, err))
        return false;
    const struct inject_options o = {.library = library};
    const pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    const bool can =
        child > 0 ? !inject_check(child, &o, err) : error_system(err, "cannot fork") == 0;
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return can;
}

/* A process that runs is recorded by the library or from the kernel's side: where one cannot be,
 * the reason is said, and the other one works. */
static void add_injection(struct probe_cap *c)
{
    struct error err = {0};
    char was[sizeof c->why];
    const bool can = injects(&err);
    snprintf(was, sizeof was, "%s", c->why);
    if (can && c->works)
        return;
    if (can) {
        c->works = c->partly = true;
        snprintf(c->detail, sizeof c->detail,
                 "a process of this user that runs already can be recorded, by the library in it");
        snprintf(c->why, sizeof c->why, "not from the kernel's side (--how probe): %.270s", was);
    } else if (c->works) {
        c->partly = true;
        snprintf(c->why, sizeof c->why, "from the kernel's side alone: %.140s%s%.120s", err.text,
                 *was ? "; " : "", was);
    }
}

/* Adds the needs of the probes, behind the other facts. */
static void add_probe_facts(struct doctor_findings *s, bool recordings)
{
    struct probe_cap caps[PROBE_CAPS_MAX];
    size_t n = probe_caps(caps, PROBE_CAPS_MAX);
    if (recordings)
        n += probe_caps_recording(caps + n, PROBE_CAPS_MAX - n);
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(caps[i].name, "record-p"))
            add_injection(&caps[i]);
        struct machine_fact *f = &s->facts[s->fact_count++];
        *f = (struct machine_fact){.name = caps[i].name,
                                   .status = caps[i].partly  ? MACHINE_LIMITED
                                             : caps[i].works ? MACHINE_OK
                                                             : MACHINE_MISSING,
                                   .weight = MACHINE_OPTIONAL};
        snprintf(f->detail, sizeof f->detail, "%s", caps[i].detail);
        snprintf(f->why, sizeof f->why, "%s", caps[i].why);
        snprintf(f->remedy, sizeof f->remedy, "%s", caps[i].remedy);
    }
}

static void add_push_fact(struct doctor_findings *s)
{
    const char *why, *remedy, *library = push_library(&why, &remedy);
    struct machine_fact *f = &s->facts[s->fact_count++];
    *f = (struct machine_fact){
        .name = "push", .status = library ? MACHINE_OK : MACHINE_MISSING, .weight = MACHINE_USEFUL};
    snprintf(f->detail, sizeof f->detail, "%s", library ? library : why);
    if (!library) {
        snprintf(f->why, sizeof f->why, "'mallow push' sends nothing");
        snprintf(f->remedy, sizeof f->remedy, "%s", remedy);
    }
}

/* Adds the segments of processes that died under libmallow-watch.so. */
static void add_left_fact(struct doctor_findings *s)
{
    struct left left;
    struct error ignored;
    char size[HUMAN_TEXT_BYTES];
    if (left_find(&left, &ignored))
        return; /* no /dev/shm, which another fact reports */
    struct machine_fact *f = &s->facts[s->fact_count++];
    *f = (struct machine_fact){.name = "watch-left",
                               .status = left.segments ? MACHINE_LIMITED : MACHINE_OK,
                               .weight = MACHINE_USEFUL};
    if (!left.segments) {
        snprintf(f->detail, sizeof f->detail, "no watched process left memory in /dev/shm");
    } else {
        snprintf(f->detail, sizeof f->detail, "%zu watched processes died and left %s in /dev/shm",
                 left.segments, human_size(size, left.bytes));
        snprintf(f->why, sizeof f->why, "'mallow watch -p %d' still reads what the last one held",
                 (int)left.items[left.segments - 1].pid);
        snprintf(f->remedy, sizeof f->remedy, "mallow watch --left clear");
    }
    left_release(&left);
}

/* How `mallow heap --cold` sees what a process touches. */
static void add_cold_fact(struct doctor_findings *s)
{
    struct machine_fact *f = &s->facts[s->fact_count++];
    const char *way = heap_cold_way(f->detail, sizeof f->detail);
    f->name = "heap-cold";
    f->status = way ? MACHINE_OK : MACHINE_MISSING;
    f->weight = MACHINE_OPTIONAL;
    if (way && !strcmp(way, "idle"))
        snprintf(f->detail, sizeof f->detail,
                 "idle page tracking sees reads and writes of a process's memory");
    else if (way)
        snprintf(f->detail, sizeof f->detail,
                 "%s sees which memory a process writes; reads are not seen", way);
    else {
        snprintf(f->why, sizeof f->why,
                 "'mallow heap --cold' cannot say which blocks are not used");
        snprintf(f->remedy, sizeof f->remedy, "run it on Linux 6.7 or later");
    }
}

int doctor_find(struct doctor_findings *s, const char *program, bool recordings, struct error *err)
{
    s->fact_count = machine_facts(s->facts, MACHINE_FACTS_MAX);
    add_left_fact(s);
    add_push_fact(s);
    add_cold_fact(s);
    add_probe_facts(s, recordings);
    s->works = true;
    for (size_t i = 0; i < s->fact_count; i++)
        if (s->facts[i].weight == MACHINE_ESSENTIAL && s->facts[i].status == MACHINE_MISSING)
            s->works = false;
    if (!program)
        return 0;
    if (inspect_program(program, &s->program, err))
        return -1;
    s->has_program = true;
    s->verdict = inspect_judge(&s->program, s->reasons, DOCTOR_REASONS, &s->reason_count);
    return 0;
}

bool doctor_passes(const struct doctor_findings *s)
{
    return s->works && !(s->has_program && s->verdict == INSPECT_IMPOSSIBLE);
}
