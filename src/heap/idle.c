/* idle.c - Marks pages as idle through /sys/kernel/mm/page_idle, and reads later which of them
 * were touched. Pages map to frames through /proc/PID/pagemap, and a large page has its mark in
 * its first frame. A page that has no readable mark counts as touched. */
#include "heap/idle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/page.h"
#include "base/proc.h"

enum { AT_ONCE = 4096, LARGE_PAGES = 512, WORD_BITS = 64 };

/* Entries of /proc/PID/pagemap, and of /proc/kpageflags. */
#define ENTRY_PRESENT ((uint64_t)1 << 63)
#define ENTRY_FRAME   (((uint64_t)1 << 55) - 1)
#define FLAG_TAIL     ((uint64_t)1 << 16)

struct idle {
    int pagemap, bitmap, flags; /* flags -1: large pages are not known */
    size_t count;
    struct frame {
        uint64_t frame; /* that has the mark: of a large page its first */
        uint32_t page;  /* the pages at hand */
        bool idle;
    } frames[AT_ONCE];
    uint64_t words[AT_ONCE];
};

static int open_below(const char *root, const char *path, int how)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    return open(whole, how | O_CLOEXEC);
}

/* True if the kernel says which frame a page of ours is in. */
static bool knows_frames(void)
{
    volatile char here = 1;
    uint64_t entry = 0;
    int fd = proc_open(0, "pagemap");
    if (fd >= 0 &&
        pread(fd, &entry, sizeof entry,
              (off_t)((uintptr_t)&here / ARCH_PAGE_BYTES * sizeof entry)) != sizeof entry)
        entry = 0;
    if (fd >= 0)
        close(fd);
    return entry & ENTRY_PRESENT && entry & ENTRY_FRAME;
}

struct idle *idle_open(pid_t pid, const char *root, char *reason, size_t room)
{
    struct idle *i = calloc(1, sizeof *i);
    if (!i) {
        snprintf(reason, room, "out of memory");
        return NULL;
    }
    i->bitmap = open_below(root, "/sys/kernel/mm/page_idle/bitmap", O_RDWR);
    if (i->bitmap < 0)
        snprintf(reason, room, "%s",
                 errno == ENOENT ? "the kernel was built without (CONFIG_IDLE_PAGE_TRACKING)"
                                 : "it needs root");
    i->pagemap = proc_open(pid, "pagemap");
    if (i->bitmap >= 0 && i->pagemap < 0)
        snprintf(reason, room, "/proc/%d/pagemap: %s", (int)pid, strerror(errno));
    i->flags = open_below(root, "/proc/kpageflags", O_RDONLY);
    if (i->bitmap >= 0 && i->pagemap >= 0) {
        if (knows_frames())
            return i;
        snprintf(reason, room, "the kernel does not say where pages lie (CAP_SYS_ADMIN)");
    }
    idle_close(i);
    return NULL;
}

void idle_close(struct idle *i)
{
    if (!i)
        return;
    if (i->pagemap >= 0)
        close(i->pagemap);
    if (i->bitmap >= 0)
        close(i->bitmap);
    if (i->flags >= 0)
        close(i->flags);
    free(i);
}

/* The frame that has the mark of this one: the first of a large page. */
static uint64_t marked_frame(const struct idle *i, uint64_t frame)
{
    uint64_t flags[LARGE_PAGES];
    const uint64_t first = frame & ~(uint64_t)(LARGE_PAGES - 1), n = frame - first + 1;
    if (i->flags < 0 ||
        pread(i->flags, &flags[n - 1], sizeof *flags, (off_t)(frame * sizeof *flags)) !=
            sizeof *flags ||
        !(flags[n - 1] & FLAG_TAIL))
        return frame;
    if (pread(i->flags, flags, n * sizeof *flags, (off_t)(first * sizeof *flags)) !=
        (ssize_t)(n * sizeof *flags))
        return frame;
    for (uint64_t k = n; k-- > 0;)
        if (!(flags[k] & FLAG_TAIL))
            return first + k;
    return frame;
}

static int by_frame(const void *a, const void *b)
{
    const struct frame *x = a, *y = b;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int by_page(const void *a, const void *b)
{
    const struct frame *x = a, *y = b;
    return x->page < y->page ? -1 : x->page > y->page;
}

/* The frames of the pages from `at` on that are in memory, by frame; how many pages were looked at,
 * or -1. */
static ssize_t find_frames(struct idle *i, uint64_t at, uint64_t end)
{
    const uint64_t pages = (end - at) / ARCH_PAGE_BYTES;
    const size_t want = pages < AT_ONCE ? pages : AT_ONCE;
    const ssize_t n = pread(i->pagemap, i->words, want * sizeof *i->words,
                            (off_t)(at / ARCH_PAGE_BYTES * sizeof *i->words));
    const ssize_t found = n < 0 ? -1 : n / (ssize_t)sizeof *i->words;
    i->count = 0;
    for (ssize_t k = 0; k < found; k++)
        if (i->words[k] & ENTRY_PRESENT && i->words[k] & ENTRY_FRAME)
            i->frames[i->count++] = (struct frame){
                .frame = marked_frame(i, i->words[k] & ENTRY_FRAME), .page = (uint32_t)k};
    if (i->count > 1)
        qsort(i->frames, i->count, sizeof *i->frames, by_frame);
    if (!found)
        errno = EIO;
    return found ? found : -1;
}

/* A run of neighboring words of the bitmap that the frames from `from` on have; *n: how many words.
 * Returns where the next run begins. */
static size_t next_run(const struct idle *i, size_t from, size_t *n)
{
    const uint64_t first = i->frames[from].frame / WORD_BITS;
    uint64_t last = first;
    size_t to = from;
    while (to < i->count && i->frames[to].frame / WORD_BITS - last <= 1) {
        last = i->frames[to].frame / WORD_BITS;
        to++;
    }
    *n = (size_t)(last - first + 1);
    return to;
}

static off_t place_of(const struct idle *i, size_t from)
{
    return (off_t)(i->frames[from].frame / WORD_BITS * sizeof *i->words);
}

static int mark_frames(struct idle *i)
{
    for (size_t from = 0, to, n; from < i->count; from = to) {
        to = next_run(i, from, &n);
        memset(i->words, 0, n * sizeof *i->words);
        for (size_t k = from; k < to; k++)
            i->words[i->frames[k].frame / WORD_BITS - i->frames[from].frame / WORD_BITS] |=
                (uint64_t)1 << i->frames[k].frame % WORD_BITS;
        if (pwrite(i->bitmap, i->words, n * sizeof *i->words, place_of(i, from)) < 0)
            return -1;
    }
    return 0;
}

static int ask_frames(struct idle *i)
{
    for (size_t from = 0, to, n; from < i->count; from = to) {
        to = next_run(i, from, &n);
        memset(i->words, 0,
               n * sizeof *i->words); /* a page without a mark to read counts as touched */
        if (pread(i->bitmap, i->words, n * sizeof *i->words, place_of(i, from)) < 0)
            return -1;
        for (size_t k = from; k < to; k++)
            i->frames[k].idle =
                i->words[i->frames[k].frame / WORD_BITS - i->frames[from].frame / WORD_BITS] >>
                    i->frames[k].frame % WORD_BITS &
                1;
    }
    if (i->count > 1)
        qsort(i->frames, i->count, sizeof *i->frames, by_page);
    return 0;
}

int idle_mark(struct idle *i, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end;) {
        const ssize_t pages = find_frames(i, at, end);
        if (pages < 0 || mark_frames(i))
            return -1;
        at += (uint64_t)pages * ARCH_PAGE_BYTES;
    }
    return 0;
}

int idle_touched(struct idle *i, uint64_t start, uint64_t end,
                 int (*touched)(void *arg, uint64_t start, uint64_t end), void *arg)
{
    for (uint64_t at = start; at < end;) {
        const ssize_t pages = find_frames(i, at, end);
        if (pages < 0 || ask_frames(i))
            return -1;
        for (size_t k = 0; k < i->count; k++) {
            const uint64_t page = at + (uint64_t)i->frames[k].page * ARCH_PAGE_BYTES;
            const int status = i->frames[k].idle ? 0 : touched(arg, page, page + ARCH_PAGE_BYTES);
            if (status)
                return status;
        }
        at += (uint64_t)pages * ARCH_PAGE_BYTES;
    }
    return 0;
}
