/* present.c - Asks the kernel which pages of another process are present. It uses the request
 * PAGEMAP_SCAN where the kernel has it, and reads entries of /proc/PID/pagemap otherwise. The
 * number of entries read one by one is bounded, because a process may claim any size. */
#include "base/present.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/proc.h"

enum {
    ENTRIES_AT_FIRST = 64,
    ENTRIES_AT_ONCE = 4096,
    PAGES_AT_ONCE = 1 << 16,
};

#define PAGES_SCAN _IOWR('f', 16, struct present_scan)

static uint64_t present_page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

int present_ask(int fd, struct present_scan *s)
{
    int n;
    s->bytes = sizeof *s;
    while ((n = ioctl(fd, PAGES_SCAN, s)) < 0 && errno == EINTR)
        ;
    return n;
}

/* How many ranges of at most one were found; -1. */
static int scan_pagemap(int fd, uint64_t at, uint64_t end, struct present_range *found)
{
    struct present_scan s = {.start = at,
                             .end = end,
                             .ranges = (uintptr_t)found,
                             .range_count = 1,
                             .max_pages = PAGES_AT_ONCE,
                             .category_inverted = PRESENT_ZEROS,
                             .category_mask = PRESENT_ZEROS,
                             .category_any = PRESENT_HERE | PRESENT_SWAPPED};
    return present_ask(fd, &s);
}

bool present_open(struct present *p, pid_t pid)
{
    const uint64_t page = present_page_bytes();
    struct present_range found;
    *p = (struct present){.fd = proc_open(pid, "pagemap"), .left = PRESENT_PAGES_MOST};
    p->scans = p->fd >= 0 && scan_pagemap(p->fd, page, 2 * page, &found) >= 0;
    return p->fd >= 0;
}

void present_close(struct present *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static bool may_ask(struct present *p, uint64_t pages)
{
    uint64_t left = p->left;
    while (left >= pages)
        if (atomic_compare_exchange_weak(&p->left, &left, left - pages))
            return true;
    p->left = 0; /* a smaller question has no answer either */
    return false;
}

static enum present_found next_entry(struct present *p, uint64_t at, uint64_t end, uint64_t *from,
                                     uint64_t *to)
{
    const uint64_t page = present_page_bytes();
    uint64_t entries[ENTRIES_AT_ONCE];
    bool begun = false;
    for (size_t most = ENTRIES_AT_FIRST; at < end;
         most = most < ENTRIES_AT_ONCE ? most * 2 : ENTRIES_AT_ONCE) {
        const uint64_t pages = (end - at + page - 1) / page;
        const size_t want = pages < most ? (size_t)pages : most;
        if (!may_ask(p, want))
            break;
        const ssize_t got =
            pread(p->fd, entries, want * sizeof *entries, (off_t)(at / page * sizeof *entries));
        if (got < (ssize_t)sizeof *entries)
            break;
        for (size_t i = 0; i < (size_t)got / sizeof *entries && at < end; i++, at += page) {
            const bool there = present_entry_there(entries[i]);
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

enum present_found present_next(struct present *p, uint64_t at, uint64_t end, uint64_t *from,
                                uint64_t *to)
{
    struct present_range found;
    *from = at;
    *to = at;
    if (p->fd < 0)
        return PRESENT_UNKNOWN;
    if (at >= end)
        return PRESENT_NONE;
    if (!p->scans)
        return next_entry(p, at, end, from, to);
    const int n = scan_pagemap(p->fd, at, end, &found);
    if (n < 0)
        return PRESENT_UNKNOWN;
    *from = n ? found.start : end;
    *to = n ? found.end : end;
    return n ? PRESENT_SOME : PRESENT_NONE;
}

bool present_all(const struct present *p, uint64_t at, uint64_t bytes)
{
    enum { AT_ONCE = 64 };
    const uint64_t page = present_page_bytes(), end = at + bytes;
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
            if (!present_entry_there(entries[i]))
                return false;
    }
    return true;
}
