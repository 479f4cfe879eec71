/* groups.c - see groups.h. Reads /proc/PID/cgroup and files of /sys/fs/cgroup. */
#include "limit/groups.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc.h"
#include "trust/file.h"

/* Where version 2 is: alone, or beside version 1. */
static const char *const unified_roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
static const char memory_root[] = "/sys/fs/cgroup/memory";
enum { ROOTS = sizeof unified_roots / sizeof *unified_roots };

/* The first bytes of a file of the kernel; false when there is none. */
static bool read_group_file(const char *path, char *text, size_t room)
{
    const struct trust_rule rule = {.owners = TRUST_ANYBODY};
    struct error ignored;
    const int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, &ignored);
    if (fd < 0)
        return false;
    const size_t n = trust_read(fd, text, room - 1, 0);
    text[n] = 0;
    close(fd);
    return n != 0;
}

static bool read_group(const char *root, const char *group, const char *file, char *text,
                       size_t room)
{
    char path[PATH_MAX];
    const int n = *group ? snprintf(path, sizeof path, "%s%s/%s", root,
                                    strcmp(group, "/") != 0 ? group : "", file)
                         : -1;
    return n > 0 && (size_t)n < sizeof path && read_group_file(path, text, room);
}

/* True if the comma-separated list has the name. */
static bool lists(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        if (n == length && !memcmp(at, name, n))
            return true;
        at += n;
        if (!*at)
            return false;
    }
}

/* A line of /proc/PID/cgroup, NUMBER:CONTROLLERS:PATH. */
static void take_cgroup_line(char *line, struct limit_groups *groups)
{
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path || path[1] != '/' || strlen(path + 1) >= LIMIT_GROUP_MAX || strstr(path, "/.."))
        return;
    *path++ = 0;
    names++;
    if (!*names)
        snprintf(groups->unified, sizeof groups->unified, "%s", path);
    else if (lists(names, "memory"))
        snprintf(groups->memory, sizeof groups->memory, "%s", path);
}

bool limit_groups_of(pid_t pid, struct limit_groups *groups)
{
    char text[8192];
    groups->unified[0] = groups->memory[0] = 0;
    if (proc_read(pid, "cgroup", text, sizeof text) <= 0)
        return false;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        take_cgroup_line(line, groups);
    }
    return *groups->unified || *groups->memory;
}

bool limit_groups_same(const struct limit_groups *a, const struct limit_groups *b)
{
    return !strcmp(a->unified, b->unified) && !strcmp(a->memory, b->memory);
}

/* ---- the limit ---- */

static const struct version { /* its files; cache: of files, names in memory.stat */
    const char *limit, *usage, *cache[2];
} versions[] = {{"memory.limit_in_bytes",
                 "memory.usage_in_bytes",
                 {"total_inactive_file", "total_active_file"}},
                {"memory.max", "memory.current", {"inactive_file", "active_file"}}};

/* The number behind the name and a blank in a line of its own. */
static bool number_behind(const char *text, const char *name, uint64_t *number)
{
    const size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, n) && line[n] == ' ') {
            *number = strtoull(line + n + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

/* The memory of this very group that the kernel cannot take back at once. */
static uint64_t in_use(const struct version *v, const char *root, const char *group)
{
    char text[8192];
    uint64_t used =
        read_group(root, group, v->usage, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
    if (used && read_group(root, group, "memory.stat", text, sizeof text))
        for (unsigned i = 0; i < 2; i++) {
            uint64_t cache = 0;
            number_behind(text, v->cache[i], &cache);
            used -= cache < used ? cache : used;
        }
    return used;
}

/* Questions to the groups on the way up. */
struct search {
    bool used; /* their use is asked for, too */
    uint64_t least, least_left;
    uint64_t near_used, near_limit; /* the group nearest to its limit */
};

/* A group and those above it. */
static void search_up(const struct version *v, const char *root, const char *group,
                      struct search *s)
{
    char at[LIMIT_GROUP_MAX], text[64];
    snprintf(at, sizeof at, "%s", group);
    while (*at) {
        if (read_group(root, at, v->limit, text, sizeof text)) {
            char *end;
            const uint64_t bytes = strtoull(text, &end, 10);
            const bool limited = end != text && bytes && bytes < LIMIT_NONE / 2;
            const uint64_t used = limited && s->used ? in_use(v, root, at) : 0;
            const uint64_t left = bytes - (used < bytes ? used : bytes);
            if (limited && bytes < s->least)
                s->least = bytes;
            if (limited && left < s->least_left)
                s->least_left = left;
            if (limited && (!s->near_limit || (double)used * (double)s->near_limit >
                                                  (double)s->near_used * (double)bytes)) {
                s->near_used = used;
                s->near_limit = bytes;
            }
        }
        char *slash = strrchr(at, '/');
        slash[slash == at && at[1]] = 0; /* "/a" goes on as "/", and that ends it */
    }
}

static struct search search_groups(const struct limit_groups *groups, bool used)
{
    struct search s = {.used = used, .least = LIMIT_NONE, .least_left = LIMIT_NONE};
    search_up(&versions[0], memory_root, groups->memory, &s);
    for (unsigned i = 0; i < ROOTS; i++)
        search_up(&versions[1], unified_roots[i], groups->unified, &s);
    return s;
}

uint64_t limit_bytes(const struct limit_groups *groups)
{
    return search_groups(groups, false).least;
}

uint64_t limit_left(const struct limit_groups *groups)
{
    return search_groups(groups, true).least_left;
}

bool limit_use(const struct limit_groups *groups, uint64_t *used_bytes, uint64_t *limit)
{
    const struct search s = search_groups(groups, true);
    *used_bytes = s.near_used;
    *limit = s.near_limit;
    return s.near_limit;
}

/* ---- what happened ---- */

bool limit_stall(const struct limit_groups *groups, unsigned *hundredths)
{
    char text[256];
    bool found = false;
    for (unsigned i = 0; i < ROOTS && !found; i++)
        found = read_group(unified_roots[i], groups->unified, "memory.pressure", text, sizeof text);
    if (!found && !read_group_file("/proc/pressure/memory", text, sizeof text))
        return false;
    const char *average = strstr(text, "some avg10=");
    if (!average)
        return false;
    char *end;
    const unsigned long whole = strtoul(average + 11, &end, 10);
    *hundredths = (unsigned)(whole > 100 ? 100 : whole) * 100;
    if (*end == '.' && end[1] && end[2])
        *hundredths += (unsigned)(end[1] - '0') * 10 + (unsigned)(end[2] - '0');
    return true;
}

bool limit_kills(const struct limit_groups *groups, uint64_t *count)
{
    char text[1024];
    for (unsigned i = 0; i < ROOTS; i++)
        if (read_group(unified_roots[i], groups->unified, "memory.events", text, sizeof text))
            return number_behind(text, "oom_kill", count);
    return read_group(memory_root, groups->memory, "memory.oom_control", text, sizeof text) &&
           number_behind(text, "oom_kill", count);
}

uint64_t limit_available(void)
{
    static const char name[] = "MemAvailable:";
    char text[4096];
    struct limit_groups groups;
    uint64_t least = LIMIT_NONE;
    const char *at =
        read_group_file("/proc/meminfo", text, sizeof text) ? strstr(text, name) : NULL;
    if (at)
        least = strtoull(at + sizeof name - 1, NULL, 10) * 1024;
    if (limit_groups_of(getpid(), &groups)) {
        const uint64_t left = limit_left(&groups);
        least = left < least ? left : least;
    }
    return least;
}
