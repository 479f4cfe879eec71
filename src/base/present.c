/* present.c - see present.h. */
#include "base/present.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/proc.h"

/* Headers of older kernels lack these. */
#define PAGES_PRESENT ((uint64_t)1 << 3)
#define PAGES_SWAPPED ((uint64_t)1 << 4)
#define PAGES_ZERO    ((uint64_t)1 << 5)

/* Entries of the pagemap. */
#define ENTRY_THERE ((uint64_t)3 << 62)

enum {
    ENTRIES_AT_ONCE = 4096,
    PAGES_AT_ONCE = 1 << 16,
    ENTRIES_MOST =
        1 << 28, /* for one question of a kernel that does not skip: 1 TiB of addresses */
};

struct scan_range {
    uint64_t start, end, categories;
};

struct scan_arguments {
    uint64_t bytes, flags, start, end, walk_end, ranges, range_count, max_pages;
    uint64_t category_inverted, category_mask, category_any, return_mask;
};

#define PAGES_SCAN _IOWR('f', 16, struct scan_arguments)

static uint64_t page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

/* How many ranges of at most one were found; -1. */
static int scan(int fd, uint64_t at, uint64_t end, struct scan_range *found)
{
    struct scan_arguments s = {.bytes = sizeof s,
                               .start = at,
                               .end = end,
                               .ranges = (uintptr_t)found,
                               .range_count = 1,
                               .max_pages = PAGES_AT_ONCE,
                               .category_inverted = PAGES_ZERO,
                               .category_mask = PAGES_ZERO,
                               .category_any = PAGES_PRESENT | PAGES_SWAPPED};
    int n;
    while ((n = ioctl(fd, PAGES_SCAN, &s)) < 0 && errno == EINTR)
        ;
    return n;
}

bool present_open(struct present *p, pid_t pid)
{
    const uint64_t page = page_bytes();
    struct scan_range found;
    *p = (struct present){.fd = proc_open(pid, "pagemap")};
    p->scans = p->fd >= 0 && scan(p->fd, page, 2 * page, &found) >= 0;
    return p->fd >= 0;
}

void present_close(struct present *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static enum present_found next_entry(int fd, uint64_t at, uint64_t end, uint64_t *from,
                                     uint64_t *to)
{
    const uint64_t page = page_bytes();
    uint64_t entries[ENTRIES_AT_ONCE];
    bool begun = false;
    for (uint64_t asked = 0; at < end && asked < ENTRIES_MOST; asked += ENTRIES_AT_ONCE) {
        const uint64_t pages = (end - at + page - 1) / page;
        const size_t want = pages < ENTRIES_AT_ONCE ? (size_t)pages : ENTRIES_AT_ONCE;
        const ssize_t got =
            pread(fd, entries, want * sizeof *entries, (off_t)(at / page * sizeof *entries));
        if (got < (ssize_t)sizeof *entries)
            break;
        for (size_t i = 0; i < (size_t)got / sizeof *entries && at < end; i++, at += page) {
            const bool there = entries[i] & ENTRY_THERE;
            if (there && !begun)
                *from = at;
            if (begun && !there)
                return PRESENT_SOME;
            begun |= there;
            if (there)
                *to = at + page;
        }
        if (begun)
            return PRESENT_SOME;
    }
    if (begun)
        return PRESENT_SOME;
    *from = at;
    return at < end ? PRESENT_UNKNOWN : PRESENT_NONE;
}

enum present_found present_next(const struct present *p, uint64_t at, uint64_t end, uint64_t *from,
                                uint64_t *to)
{
    struct scan_range found;
    *from = at;
    *to = at;
    if (p->fd < 0)
        return PRESENT_UNKNOWN;
    if (at >= end)
        return PRESENT_NONE;
    if (!p->scans)
        return next_entry(p->fd, at, end, from, to);
    const int n = scan(p->fd, at, end, &found);
    if (n < 0)
        return PRESENT_UNKNOWN;
    *from = n ? found.start : end;
    *to = n ? found.end : end;
    return n ? PRESENT_SOME : PRESENT_NONE;
}

bool present_all(const struct present *p, uint64_t at, uint64_t bytes)
{
    enum { AT_ONCE = 64 };
    const uint64_t page = page_bytes(), end = at + bytes;
    uint64_t entries[AT_ONCE];
    if (p->fd < 0)
        return false;
    for (at = at / page * page; at < end;) {
        const uint64_t pages = (end - at + page - 1) / page;
        const size_t want = pages < AT_ONCE ? (size_t)pages : AT_ONCE;
        if (pread(p->fd, entries, want * sizeof *entries, (off_t)(at / page * sizeof *entries)) !=
            (ssize_t)(want * sizeof *entries))
            return false;
        for (size_t i = 0; i < want; i++, at += page)
            if (!(entries[i] & ENTRY_THERE))
                return false;
    }
    return true;
}
