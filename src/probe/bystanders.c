/* bystanders.c - the processes that a probe slows though they are not meant: Linux limits probes to
 * one process, and not to the children that it will have. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/array.h"
#include "base/proc.h"
#include "probe/code.h"
#include "probe/cost.h"
#include "probe/kind.h"

static bool has_mapped(pid_t pid, const struct stat *file, size_t *budget)
{
    struct code_walk walk;
    struct proc_mapping m;
    if (!code_open(&walk, pid, file))
        return false;
    const bool found = code_next(&walk, budget, &m);
    code_close(&walk);
    return found;
}

/* True: it is one that is looked at, or this one. */
static bool is_meant(const struct probe_engine *e, uint32_t pid)
{
    uint32_t state;
    return pid == e->pid || pid == (uint32_t)getpid() ||
           (!e->options->all && bpf_map_lookup_elem(engine_map(e, "targets"), &pid, &state) == 0);
}

static bool has_meant_name(const struct probe_engine *e, const char *command)
{
    return e->options->command && !strncmp(command, e->options->command, PROBE_COMMAND_BYTES - 1);
}

static int count_bystanders(struct probe_engine *e, const char *path, const char *command,
                            struct error *err)
{
    for (size_t i = 0; i < e->bystander_count; i++)
        if (!strcmp(e->bystanders[i].command, command) && !strcmp(e->bystanders[i].path, path)) {
            e->bystanders[i].processes++;
            return 0;
        }
    if (!ARRAY_ROOM(e->bystanders, e->bystander_count + 1, e->bystander_room))
        return error_memory(err);
    struct probe_bystander *b = &e->bystanders[e->bystander_count++];
    *b = (struct probe_bystander){.path = strdup(path), .processes = 1};
    snprintf(b->command, sizeof b->command, "%s", command);
    return b->path ? 0 : error_memory(err);
}

static int compare_pids(const void *a, const void *b)
{
    const struct probe_bystander *x = a, *y = b;
    return x->processes != y->processes
               ? (x->processes < y->processes) - (x->processes > y->processes)
               : strcmp(x->command, y->command);
}

static int find_bystanders(struct probe_engine *e, const char *path, struct error *err)
{
    struct stat file;
    size_t budget = CODE_MAPPINGS_MAX;
    int bad = 0;
    DIR *proc = stat(path, &file) ? NULL : opendir("/proc");
    for (const struct dirent *d; !bad && proc && (d = readdir(proc));) {
        char command[PROBE_COMMAND_BYTES] = "";
        const pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
        if (pid <= 0 || is_meant(e, (uint32_t)pid) || !has_mapped(pid, &file, &budget) ||
            proc_read(pid, "comm", command, sizeof command) <= 0)
            continue;
        command[strcspn(command, "\n")] = 0;
        if (!has_meant_name(e, command))
            bad = count_bystanders(e, path, command, err);
    }
    if (proc)
        closedir(proc);
    e->result->bystanders_cut |= !budget;
    return bad;
}

static const char *remedy(const struct probe_engine *e)
{
    if (e->options->all)
        return "Linux cannot limit them to a name";
    if (e->options->no_follow)
        return "this kernel cannot limit them to this process";
    return "Linux cannot limit them to a process with the children that it will have, but to it "
           "alone (--no-follow)";
}

static void say_bystanders(const struct probe_engine *e, size_t first, const char *path)
{
    enum { NAMED = 5 };
    char names[160] = "", more[48] = "";
    uint64_t processes = 0;
    const size_t n = e->bystander_count - first;
    for (size_t i = 0; i < n; i++) {
        const struct probe_bystander *b = &e->bystanders[first + i];
        const size_t at = strlen(names);
        processes += b->processes;
        if (i < NAMED)
            snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", b->command);
    }
    if (n > NAMED)
        snprintf(more, sizeof more, " and %zu more names", n - NAMED);
    engine_say(e, "the probes slow %s%llu other process%s with %.160s as well (%s%s): %s",
               e->result->bystanders_cut ? "at least " : "", (unsigned long long)processes,
               processes == 1 ? "" : "es", path, names, more, remedy(e));
}

bool engine_reaches_one(const struct probe_engine *e)
{
    struct proc_stat s;
    if (!e->options->no_follow || !e->pid)
        return false;
    /* The kernel asks the first thread for its memory, and one that has ended has none. */
    return !e->multi ||
           (proc_stat((pid_t)e->pid, &s) && s.state != 'Z' && cost_threads_meet_probes());
}

int engine_say_bystanders(struct probe_engine *e, const char *path, struct error *err)
{
    if (!e->options->kind->uses_library || (e->options->all && !e->options->command))
        return 0; /* every process is meant */
    if (e->options->call)
        return 0; /* `record -p` says it in words of its own */
    for (size_t i = 0; i < e->bystander_count; i++)
        if (!strcmp(e->bystanders[i].path, path))
            return 0; /* the probes before these are of the same file */
    const size_t first = e->bystander_count;
    if (find_bystanders(e, path, err))
        return -1;
    e->result->bystanders = e->bystanders;
    e->result->bystander_count = e->bystander_count;
    if (e->bystander_count == first)
        return 0;
    qsort(e->bystanders + first, e->bystander_count - first, sizeof *e->bystanders, compare_pids);
    say_bystanders(e, first, path);
    return 0;
}

void engine_release_bystanders(struct probe_engine *e)
{
    for (size_t i = 0; i < e->bystander_count; i++)
        free((char *)e->bystanders[i].path);
    free(e->bystanders);
}
