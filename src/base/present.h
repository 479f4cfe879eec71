/* present.h - which pages of another process there are.
 *
 * Owns: asking the kernel (/proc/PID/pagemap) before memory of another process is read. Reading a
 * page that is not there makes it: of a hole in a shared mapping or file, on the reader's account,
 * as many as the process claims to have. Any thread. */
#ifndef MALLOW_BASE_PRESENT_H
#define MALLOW_BASE_PRESENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct present {
    int fd;                /* the pagemap; -1: the kernel does not say */
    bool scans;            /* the kernel skips by itself (Linux 6.7) */
    _Atomic uint64_t left; /* pages that may be asked for one by one, where it does not */
};

/* The kernel's PAGEMAP_SCAN, which headers of older kernels lack. Categories of pages: */
#define PRESENT_WRITTEN ((uint64_t)1 << 1)
#define PRESENT_HERE    ((uint64_t)1 << 3)
#define PRESENT_SWAPPED ((uint64_t)1 << 4)
#define PRESENT_ZEROS   ((uint64_t)1 << 5)
/* Flags: */
#define PRESENT_PROTECT ((uint64_t)1 << 0) /* write-protect what matches */

struct present_range {
    uint64_t start, end, categories;
};

struct present_scan {
    uint64_t bytes, flags, start, end, walk_end, ranges, range_count, max_pages;
    uint64_t category_inverted, category_mask, category_any, return_mask;
};

/* In an entry of the pagemap: the page is in memory; it is swapped; it is guarded
 * (MADV_GUARD_INSTALL), which Linux says with "swapped", and it holds nothing. Linux before 6.15
 * does not say the latter, and such a page cannot be read. */
#define PRESENT_ENTRY_HERE    ((uint64_t)1 << 63)
#define PRESENT_ENTRY_SWAPPED ((uint64_t)1 << 62)
#define PRESENT_ENTRY_GUARDED ((uint64_t)1 << 58)

static inline bool present_entry_swapped(uint64_t entry)
{
    return (entry & (PRESENT_ENTRY_SWAPPED | PRESENT_ENTRY_GUARDED)) == PRESENT_ENTRY_SWAPPED;
}

static inline bool present_entry_there(uint64_t entry)
{
    return entry & PRESENT_ENTRY_HERE || present_entry_swapped(entry);
}

/* Asks a pagemap. How many ranges were found; -1 with errno. Sets s->bytes. */
int present_ask(int fd, struct present_scan *s);

/* False with errno: the kernel does not say. To be closed in any case. */
bool present_open(struct present *p, pid_t pid);
void present_close(struct present *p);

#define PRESENT_PAGES_MOST ((uint64_t)1 << 28) /* 1 TiB of addresses; 1 to 2 s */

enum present_found { PRESENT_NONE, PRESENT_SOME, PRESENT_UNKNOWN };

/* The first pages in [at, end), page addresses, that are in memory or swapped and, where the kernel
 * skips by itself, more than the one page of zeros: [*from, *to), perhaps not all that follow one
 * another. PRESENT_UNKNOWN: before *from there are none; from there on the kernel does not say, or
 * PRESENT_PAGES_MOST have been asked for through this handle. */
enum present_found present_next(struct present *p, uint64_t at, uint64_t end, uint64_t *from,
                                uint64_t *to);

/* True: each page that holds some of these bytes is in memory or swapped. False where that is not
 * known. */
bool present_all(const struct present *p, uint64_t at, uint64_t bytes);

#endif
