/* bystanders.c - the processes that a probe slows though they are not meant: Linux limits probes to
 * one process, and not to the children that it will have. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/array.h"
#include "base/proc.h"
#include "probe/cost.h"
#include "probe/kind.h"

/* Mappings are looked at until there were so many, which takes less than a second: processes may
 * have any number of them. */
enum { MAPPINGS_MAX = 1 << 20 };

/* Of PROCMAP_QUERY, which Linux has since 6.11. */
enum { QUERY_EXECUTABLE = 4, QUERY_NEXT = 16, QUERY_OF_FILE = 32 };
struct mapping_query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t device_major, device_minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define ASK_MAPPING _IOWR('f', 17, struct mapping_query)

bool engine_is_code_of(const struct stat *file, pid_t pid, const struct proc_mapping *m)
{
    char path[96];
    struct stat st;
    if (m->inode != file->st_ino || m->mode[2] != 'x')
        return false;
    if (m->device == file->st_dev)
        return true;
    /* The device of a file is not everywhere that of its mapping. */
    snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)pid,
             (unsigned long long)m->start, (unsigned long long)m->end);
    return !stat(path, &st) && st.st_ino == file->st_ino && st.st_dev == file->st_dev;
}

/* The next mapping of a file's code from an address on. False with errno: ENOENT at the end, ENOTTY
 * where the kernel cannot be asked for one. */
static bool next_code(int maps, uint64_t address, struct proc_mapping *m)
{
    struct mapping_query q = {.size = sizeof q,
                              .flags = QUERY_EXECUTABLE | QUERY_NEXT | QUERY_OF_FILE,
                              .address = address};
    if (ioctl(maps, ASK_MAPPING, &q))
        return false;
    *m = (struct proc_mapping){.start = q.start,
                               .end = q.end,
                               .offset = q.offset,
                               .device = makedev(q.device_major, q.device_minor),
                               .inode = q.inode,
                               .mode = "r-xp"};
    return true;
}

/* Whether the process executes code of the file. *budget: mappings that may still be looked at. */
static bool has_mapped(pid_t pid, const struct stat *file, size_t *budget)
{
    struct proc_maps maps;
    struct proc_mapping m = {.end = 0};
    bool found = false;
    if (!proc_maps_open(&maps, pid))
        return false;
    errno = 0;
    while (!found && *budget && next_code(fileno(maps.in), m.end, &m)) {
        found = engine_is_code_of(file, pid, &m);
        --*budget;
    }
    const bool must_read = errno == ENOTTY;
    while (must_read && !found && *budget && proc_maps_next(&maps, &m)) {
        found = engine_is_code_of(file, pid, &m);
        --*budget;
    }
    proc_maps_close(&maps);
    return found;
}

/* Whether it is one that is looked at, or this one. */
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

static int count(struct probe_engine *e, const char *path, const char *command, struct error *err)
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

static int by_number(const void *a, const void *b)
{
    const struct probe_bystander *x = a, *y = b;
    return x->processes != y->processes
               ? (x->processes < y->processes) - (x->processes > y->processes)
               : strcmp(x->command, y->command);
}

static int find(struct probe_engine *e, const char *path, struct error *err)
{
    struct stat file;
    size_t budget = MAPPINGS_MAX;
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
            bad = count(e, path, command, err);
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

static void say(const struct probe_engine *e, size_t first, const char *path)
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
    if (find(e, path, err))
        return -1;
    e->result->bystanders = e->bystanders;
    e->result->bystander_count = e->bystander_count;
    if (e->bystander_count == first)
        return 0;
    qsort(e->bystanders + first, e->bystander_count - first, sizeof *e->bystanders, by_number);
    say(e, first, path);
    return 0;
}

void engine_release_bystanders(struct probe_engine *e)
{
    for (size_t i = 0; i < e->bystander_count; i++)
        free((char *)e->bystanders[i].path);
    free(e->bystanders);
}
