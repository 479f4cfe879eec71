/* perfmap.c - Reads /tmp/perf-PID.map, in which a JIT compiler names its code, and finds the
 * name at an address. Any user can create a file of that name, so a map counts only if root or
 * the user of the process owns it. The size that is read has a bound. */
#include "symbol/perfmap.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "trust/process.h"

/* Reads up to 16 hex digits (after an optional 0x) at *at; needs at least one. */
static bool read_hex(const char *text, size_t end, size_t *at, uint64_t *value)
{
    size_t i = *at;
    unsigned digits = 0;
    uint64_t v = 0;
    if (end - i > 2 && text[i] == '0' && (text[i + 1] == 'x' || text[i + 1] == 'X'))
        i += 2;
    for (; i < end; i++, digits++) {
        char c = text[i];
        unsigned d;
        if (c >= '0' && c <= '9')
            d = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            d = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            d = (unsigned)(c - 'A') + 10;
        else
            break;
        if (v >> 60)
            return false;
        v = v << 4 | d;
    }
    *at = i;
    *value = v;
    return digits > 0;
}

static bool skip_spaces(const char *text, size_t end, size_t *at)
{
    size_t i = *at;
    while (i < end && (text[i] == ' ' || text[i] == '\t'))
        i++;
    bool some = i > *at;
    *at = i;
    return some;
}

/* Returns -1 only when out of memory. */
static int perfmap_read_line(struct perfmap *map, size_t begin, size_t end)
{
    uint64_t start, size;
    size_t at = begin;
    char *text = map->text;

    if (end > begin && text[end - 1] == '\r')
        end--;
    if (end == begin)
        return 0;
    if (!read_hex(text, end, &at, &start) || !skip_spaces(text, end, &at) ||
        !read_hex(text, end, &at, &size) || !skip_spaces(text, end, &at) || at == end ||
        size == 0 || start + size < start) {
        map->bad_lines++;
        return 0;
    }
    if (map->entries == UINT32_MAX)
        return 0;
    if (!ARRAY_ROOM(map->entry, map->entries + 1, map->room))
        return -1;
    map->entry[map->entries++] = (struct perfmap_entry){start, size, at};
    text[end] = '\0';
    return 0;
}

static int compare_code_starts(const void *a, const void *b)
{
    const struct perfmap_entry *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

/* For the lines for one start only the last counts: the code there was replaced. */
static int index_entries(struct perfmap *map)
{
    if (map->entries)
        qsort(map->entry, map->entries, sizeof *map->entry, compare_code_starts);
    for (size_t i = 0; i < map->entries; i++) {
        const struct perfmap_entry *e = &map->entry[i];
        if (i + 1 < map->entries && e[1].start == e->start)
            continue;
        if (interval_add(&map->ranges, e->start, e->start + e->size_bytes, (uint32_t)i) != 0)
            return -1;
    }
    return interval_flatten(&map->ranges);
}

int perfmap_parse(struct perfmap *map, char *bytes, size_t size_bytes)
{
    memset(map, 0, sizeof *map);
    map->text = bytes;
    map->text_bytes = size_bytes;
    bytes[size_bytes] = '\0';
    for (size_t at = 0; at < size_bytes;) {
        char *newline = memchr(bytes + at, '\n', size_bytes - at);
        size_t end = newline ? (size_t)(newline - bytes) : size_bytes;
        if (perfmap_read_line(map, at, end) != 0) {
            perfmap_free(map);
            return -1;
        }
        at = end + 1;
    }
    if (index_entries(map) != 0) {
        perfmap_free(map);
        return -1;
    }
    return 0;
}

/* /tmp belongs to every user, and the name can be guessed: a map counts when it is a plain file of
 * root's or of the process's user. Of a process that has ended, only the caller's own is known. */
static int open_map(const char *path, const struct trust_process *who)
{
    const struct trust_rule rule = {.what = "the map",
                                    .owners = TRUST_ROOT | (who->pid ? TRUST_USER : TRUST_CALLER),
                                    .user = who->uid[1]};
    struct error ignored;
    return trust_open(AT_FDCWD, path, TRUST_READ, &rule, &ignored);
}

static int open_map_of(uint32_t pid)
{
    char path[96];
    struct error ignored;
    struct trust_process who;
    int fd = -1;
    if (trust_process((pid_t)pid, &who, &ignored)) {
        who = (struct trust_process){.inner_pid = (pid_t)pid};
    } else { /* it names its files by its id in its own pid namespace */
        snprintf(path, sizeof path, "/proc/%u/root/tmp/perf-%d.map", pid, (int)who.inner_pid);
        fd = open_map(path, &who);
    }
    if (fd < 0) {
        snprintf(path, sizeof path, "/tmp/perf-%u.map", pid);
        fd = open_map(path, &who);
    }
    return fd;
}

static bool stamp(struct perfmap *map, int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return false;
    map->file_bytes = (uint64_t)st.st_size;
    map->file_mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    return true;
}

bool perfmap_changed(const struct perfmap *map, uint32_t pid)
{
    struct perfmap now = {0};
    if (clock_monotonic_ns() - map->read_at_ns < 20 * map->read_ns)
        return false;
    const int fd = open_map_of(pid);
    const bool known = fd >= 0 && stamp(&now, fd);
    if (fd >= 0)
        close(fd);
    return known && (now.file_bytes != map->file_bytes || now.file_mtime_ns != map->file_mtime_ns);
}

int perfmap_read(struct perfmap *map, uint32_t pid)
{
    struct perfmap found = {.read_at_ns = clock_monotonic_ns()};
    const uint64_t begun_ns = clock_thread_ns(); /* a busy machine makes no reading dear */
    const int fd = open_map_of(pid);
    memset(map, 0, sizeof *map);
    if (fd < 0)
        return -1;
    stamp(&found, fd);
    char *bytes = NULL;
    size_t used = 0, room = 0, n = 1;
    enum { STEP = 1 << 16 };
    /* Text has no zeros: what a hole in the file reads as is not read. */
    while (n && used < PERFMAP_BYTES_MAX && !(used && !bytes[used - 1])) {
        if (!ARRAY_ROOM(bytes, used + STEP + 1, room)) {
            free(bytes);
            close(fd);
            return -1;
        }
        const size_t left = PERFMAP_BYTES_MAX - used, step = room - 1 - used;
        n = trust_read(fd, bytes + used, step < left ? step : left, used);
        used += n;
    }
    char next;
    const bool cut = used == PERFMAP_BYTES_MAX && trust_read(fd, &next, 1, used) == 1;
    close(fd);
    const int status = perfmap_parse(map, bytes, used);
    map->cut = cut;
    map->file_bytes = found.file_bytes;
    map->file_mtime_ns = found.file_mtime_ns;
    map->read_at_ns = found.read_at_ns;
    map->read_ns = clock_thread_ns() - begun_ns;
    return status;
}

const char *perfmap_find(const struct perfmap *map, uint64_t address, uint64_t *start)
{
    const struct interval *found = interval_find(&map->ranges, address);
    if (!found)
        return NULL;
    *start = map->entry[found->value].start;
    return map->text + map->entry[found->value].name;
}

void perfmap_free(struct perfmap *map)
{
    free(map->text);
    free(map->entry);
    interval_free(&map->ranges);
    memset(map, 0, sizeof *map);
}
