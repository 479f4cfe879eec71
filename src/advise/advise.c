/* advise.c - Chooses the settings, allocators and pools that the findings of a recording
 * suggest, and measures each in a replay of the calls up to that moment. The workload lies in an
 * unnamed file. */
#include "advise/advise.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frames/names.h"
#include "model/replay.h"
#include "replay/run.h"
#include "report/report.h"
#include "workload/convert.h"
#include "workload/gather.h"

static void try_setting(struct advising *a, const char *setting, const char *text)
{
    struct remedy *r = &a->remedies[a->count];
    for (size_t i = 0; i < a->count; i++)
        if (!strcmp(a->remedies[i].setting, setting))
            return;
    if (a->count == REMEDIES || strlen(setting) > sizeof r->spec - 16)
        return;
    *r = (struct remedy){.text = text};
    snprintf(r->spec, sizeof r->spec, "glibc+%s", setting);
    r->setting = r->spec + strlen("glibc+");
    if (!strncmp(setting, "glibc.", 6))
        snprintf(r->environment, sizeof r->environment, "GLIBC_TUNABLES=%s", setting);
    a->count++;
}

static void try_allocators(struct advising *a)
{
    char path[PATH_MAX];
    struct error ignored;
    for (size_t i = 0; replay_allocators[i]; i++) {
        const char *name = replay_allocators[i];
        struct remedy *r = &a->remedies[a->count];
        if (!strcmp(name, "glibc") || a->count == REMEDIES ||
            replay_find_allocator(name, path, &ignored))
            continue;
        *r = (struct remedy){.text = "another allocator"};
        snprintf(r->spec, sizeof r->spec, "%s", name);
        r->setting = r->spec;
        if (strlen(path) < sizeof r->environment - 16)
            snprintf(r->environment, sizeof r->environment, "LD_PRELOAD=%s", path);
        a->count++;
    }
}

static void try_arenas(struct advising *a, const char *text)
{
    const size_t arenas = a->list.items[0].pinned.arena_count;
    for (size_t n = 1; n < arenas && n <= 4; n *= 2) {
        char setting[64];
        snprintf(setting, sizeof setting, "glibc.malloc.arena_max=%zu", n);
        try_setting(a, setting, text);
    }
}

/* With more stacks than this only those that keep something are looked up by name. */
#define NAMED_MOST 50000u

bool advise_replays_release(const struct advising *a)
{
    const struct explained *e = &a->list.items[0];
    return e->parts[EXPLAIN_UNTOUCHED] > -(int64_t)(e->live_bytes / 20);
}

static bool is_replayed(const struct advising *a, enum advice_kind kind)
{
    return kind == ADVICE_POOL || (kind == ADVICE_RELEASE && advise_replays_release(a));
}

static bool is_advised_stack(const struct advising *a, uint32_t stack)
{
    const struct pinned_stack *s = pinned_stacks_find(&a->list.items[0].pinned.stacks, stack);
    return a->of->stacks <= NAMED_MOST ||
           (s && (s->pinned_bytes || s->below_bytes || s->all_bytes));
}

static uint32_t advised_site(const struct advising *a, uint32_t stack)
{
    uint32_t node, position;
    return is_advised_stack(a, stack) ? names_site(a->names, stack, &node, &position) : NO_NAME;
}

/* A number for each call site that the replay serves otherwise, and for all stacks of it. */
static int mark_sites(struct advising *a, struct error *err)
{
    unsigned count = 0;
    for (size_t i = 0; i < a->advice_count; i++)
        if (is_replayed(a, a->advice[i].kind))
            a->pool_of[i] = ++count;
    if (!count)
        return 0;
    a->pools = calloc((size_t)a->of->stacks + 1, 1);
    if (!a->pools)
        return error_memory(err);
    for (uint32_t stack = 1; stack <= a->of->stacks; stack++) {
        const uint32_t site = advised_site(a, stack);
        for (size_t i = 0; i < a->advice_count && site != NO_NAME; i++)
            if (a->pool_of[i] && a->advice[i].site == site)
                a->pools[stack] = (uint8_t)a->pool_of[i];
    }
    return 0;
}

static void try_site(struct advising *a, size_t advice)
{
    const bool pool = a->advice[advice].kind == ADVICE_POOL;
    const unsigned bit = 1u << ((a->pool_of[advice] - 1) & 31);
    if (!a->pool_of[advice] || a->count == REMEDIES)
        return;
    a->remedies[a->count++] = (struct remedy){.spec = "glibc",
                                              .setting = advice_setting(a->advice[advice].kind),
                                              .pooled = pool ? bit : 0,
                                              .left_out = pool ? 0 : bit};
}

static void try_pools(struct advising *a, const char *spec, const char *setting, unsigned pooled)
{
    if (a->count == REMEDIES)
        return;
    struct remedy *r = &a->remedies[a->count++];
    *r = (struct remedy){.setting = setting, .pooled = pooled};
    snprintf(r->spec, sizeof r->spec, "%s", spec);
}

/* Pages that several call sites keep are only free without all of them; and free memory may then
 * lie in fastbins, or below a chunk that stays, and be given back on request only. */
static void try_all_pools(struct advising *a)
{
    unsigned all = 0;
    for (size_t i = 0; i < a->advice_count; i++)
        if (a->advice[i].kind == ADVICE_POOL)
            all |= 1u << ((a->pool_of[i] - 1) & 31);
    if (all & (all - 1))
        try_pools(a, "glibc", advice_setting(ADVICE_POOL), all);
    if (all)
        try_pools(a, "glibc+malloc_trim=end", ADVISE_POOL_AND_TRIM, all);
}

static int choose_remedies(struct advising *a, struct error *err)
{
    const struct explained *e = &a->list.items[0];
    a->advice_count = explained_advice(a->model, e, a->names, a->advice);
    if (mark_sites(a, err))
        return -1;
    for (size_t i = 0; i < a->advice_count; i++) {
        const enum advice_kind kind = a->advice[i].kind;
        const char *text = advice_text(kind);
        switch (kind) {
        case ADVICE_TRIM: try_setting(a, "malloc_trim=end", text); break;
        case ADVICE_ARENA_MAX: try_arenas(a, text); break;
        case ADVICE_POOL:
        case ADVICE_RELEASE: try_site(a, i); break;
        case ADVICE_ALLOCATOR: try_allocators(a); break;
        case ADVICE_TRIM_THRESHOLD:
        case ADVICE_MMAP_THRESHOLD:
        case ADVICE_TCACHE:
        case ADVICE_FASTBINS: try_setting(a, advice_setting(kind), text); break;
        default: break; /* no replay shows it */
        }
    }
    try_all_pools(a);
    for (size_t i = 0; i < a->o->setting_count; i++)
        try_setting(a, a->o->settings[i], NULL);
    return 0;
}

static int read_advised_recording(struct advising *a, struct error *err)
{
    const struct model_filter all = {0};
    const struct report_options o = {.at = a->o->at};
    if (model_replay(a->trace, a->image, &all, &a->model, err) ||
        explained_find(a->trace, a->image, a->model, &o, a->names, &a->list, err))
        return -1;
    if (!a->list.count)
        return error_set(err, ERROR_USAGE, "process %u has no such moment", a->of->pid);
    if (!a->list.items[0].measured_ns)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the resident size was not measured at that moment; mallow report --at "
                         "names the nearest");
    if (!a->list.items[0].glibc)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %u ran with %s; mallow has advice for glibc's malloc only",
                         a->of->pid, a->of->allocator);
    return 0;
}

/* The calls up to the measurement, in a file without a name. */
static int write_advised_workload(struct advising *a, int *fd, struct error *err)
{
    const struct workload_options how = {
        .lossy = a->o->lossy, .to_ns = a->list.items[0].measured_ns, .pools = a->pools};
    struct workload_written written;
    if ((*fd = workload_unnamed_inherited(err)) < 0)
        return -1;
    snprintf(a->workload, sizeof a->workload, "/proc/self/fd/%d", *fd);
    return workload_convert(a->trace, a->image, a->workload, &how, &written, a->o->progress,
                            a->o->arg, err);
}

static void begin_stage(const struct advising *a, const char *name)
{
    if (a->o->stage)
        a->o->stage(a->o->arg, name);
}

static int measure_remedies(struct advising *a, struct error *err)
{
    begin_stage(a, "converting");
    int fd, status = write_advised_workload(a, &fd, err);
    if (!status) {
        const struct remedy_trial trial = {a->workload, a->o->rounds, a->o->progress, a->o->arg};
        begin_stage(a, "replaying");
        status = remedies_measure(&trial, a->remedies, a->count, &a->replayed, err);
    }
    begin_stage(a, NULL);
    if (fd >= 0)
        close(fd);
    const struct mlw_split *s = &a->of->splits[a->list.items[0].moment.split];
    a->recorded = (double)(s->heap + s->arenas + s->anonymous);
    return status;
}

int advise_run(struct advising *a, struct error *err)
{
    if (read_advised_recording(a, err) || choose_remedies(a, err))
        return -1;
    return a->count ? measure_remedies(a, err) : 0;
}

void advise_release(struct advising *a)
{
    free(a->pools);
    explained_release(&a->list);
    model_free(a->model);
}
