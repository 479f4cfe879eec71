/* pressure.c - see pressure.h. Reads /proc/PID/cgroup and files of /sys/fs/cgroup. */
#include "pressure.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/proc.h"
#include "trust/file.h"

#define NO_LIMIT (UINT64_MAX >> 1)

static int parse_one(struct pressure_rule *rule, const char *text, struct error *err)
{
    char number[64];
    const bool rss = !strncmp(text, "rss>", 4), stall = !strncmp(text, "psi>", 4);
    const size_t n = rss || stall ? strlen(text + 4) : 0;
    *rule = (struct pressure_rule){.kind = stall ? PRESSURE_STALL : PRESSURE_RSS_BYTES};
    if (n && n < sizeof number) {
        uint64_t percent;
        memcpy(number, text + 4, n + 1);
        if (number[n - 1] != '%') {
            if (rss && human_parse_size(number, &rule->bytes) && rule->bytes)
                return 0;
        } else {
            number[n - 1] = 0;
            rule->kind = stall ? PRESSURE_STALL : PRESSURE_RSS_SHARE;
            if (human_parse_count(number, &percent) && percent >= 1 && percent <= 100) {
                rule->percent = (unsigned)percent;
                return 0;
            }
        }
    }
    return error_set(
        err, ERROR_USAGE,
        "'%s' is no threshold; rss>SIZE (rss>2G), rss>P%% (of the limit of the control "
        "group, rss>90%%) or psi>P%% (of the time, psi>20%%)",
        text);
}

int pressure_parse(struct pressure *p, const char *text, struct error *err)
{
    char one[128];
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : (int)sizeof one - 1, at);
        if (p->count == PRESSURE_MAX)
            return error_set(err, ERROR_USAGE, "more than %u thresholds", PRESSURE_MAX);
        if (parse_one(&p->rules[p->count], one, err))
            return -1;
        p->count++;
        if (!at[n])
            return 0;
        at += n + 1;
    }
}

/* The first bytes of a file of the kernel; false when there is none. */
static bool read_file(const char *path, char *text, size_t room)
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

/* The group of the process below a root of version 2 (controller NULL) or 1: "/a/b". */
static bool group_of(pid_t pid, const char *controller, char *group, size_t room)
{
    char text[4096];
    if (proc_read(pid, "cgroup", text, sizeof text) <= 0)
        return false;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        *path++ = 0;
        names++;
        bool ours = controller ? false : !*names;
        for (char *save = NULL, *name = controller ? strtok_r(names, ",", &save) : NULL; name;
             name = strtok_r(NULL, ",", &save))
            ours |= !strcmp(name, controller);
        if (!ours || strstr(path, "/.."))
            continue;
        snprintf(group, room, "%s", path);
        return true;
    }
    return false;
}

/* The least of the limits of a group and of those above it. */
static uint64_t least_limit(const char *root, char *group, const char *file)
{
    uint64_t least = NO_LIMIT;
    for (;;) {
        char path[PATH_MAX + 64], text[64];
        snprintf(path, sizeof path, "%s%s/%s", root, strcmp(group, "/") != 0 ? group : "", file);
        if (read_file(path, text, sizeof text)) {
            char *end;
            const uint64_t v = strtoull(text, &end, 10);
            if (end != text && v && v < least)
                least = v;
        }
        char *slash = strrchr(group, '/');
        if (!slash || !*group)
            return least;
        *slash = 0;
    }
}

/* NO_LIMIT or more: there is none, or none is known. */
static uint64_t limit_of(pid_t pid)
{
    char group[PATH_MAX];
    uint64_t least = NO_LIMIT, v;
    if (group_of(pid, NULL, group, sizeof group))
        least = least_limit("/sys/fs/cgroup", group, "memory.max");
    if (group_of(pid, "memory", group, sizeof group) &&
        (v = least_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes")) < least)
        least = v;
    return least;
}

/* The share of the last ten seconds in which some task of the group waited for memory, in
 * hundredths of a percent; of the machine where the group has no such file. */
static bool stall_of(pid_t pid, unsigned *hundredths)
{
    char group[PATH_MAX], path[PATH_MAX + 64], text[256];
    bool found = false;
    if (group_of(pid, NULL, group, sizeof group)) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.pressure", group);
        found = read_file(path, text, sizeof text);
    }
    if (!found && !read_file("/proc/pressure/memory", text, sizeof text))
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

/* Whether the value is above, and, for a rule that has counted, clearly below again. */
static bool crossed(struct pressure_rule *rule, uint64_t value, uint64_t threshold,
                    uint64_t clearly_below)
{
    if (value <= clearly_below)
        rule->above = false;
    if (rule->above || value <= threshold)
        return false;
    return rule->above = true;
}

const struct pressure_rule *pressure_crossed(struct pressure *p, uint64_t rss_bytes, pid_t pid,
                                             char *line, size_t room)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    for (unsigned i = 0; i < p->count; i++) {
        struct pressure_rule *r = &p->rules[i];
        unsigned stall;
        uint64_t threshold = r->bytes, limit;
        switch (r->kind) {
        case PRESSURE_STALL:
            if (!pid || !stall_of(pid, &stall) ||
                !crossed(r, stall, r->percent * 100ull, r->percent * 80ull))
                break;
            snprintf(line, room, "memory was waited for %u.%02u%% of the last 10 s (psi>%u%%)",
                     stall / 100, stall % 100, r->percent);
            return r;
        case PRESSURE_RSS_SHARE:
            if (!pid || (limit = limit_of(pid)) >= NO_LIMIT)
                break;
            threshold = limit / 100 * r->percent;
            /* fall through */
        case PRESSURE_RSS_BYTES:
            if (!crossed(r, rss_bytes, threshold, threshold - threshold / 20))
                break;
            if (r->kind == PRESSURE_RSS_SHARE)
                snprintf(line, room, "the resident size is %s (rss>%u%%, which is %s)",
                         human_size(a, rss_bytes), r->percent, human_size(b, threshold));
            else
                snprintf(line, room, "the resident size is %s (rss>%s)", human_size(a, rss_bytes),
                         human_size(b, threshold));
            return r;
        }
    }
    return NULL;
}
