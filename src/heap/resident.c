/* resident.c - see resident.h. */
#include "heap/resident.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "arch/page.h"

enum {
    PAGE_SHIFT = ARCH_PAGE_SHIFT,
    PART_SHIFT = 27,
    PART_PAGES = 1 << (PART_SHIFT - PAGE_SHIFT),
    PARTS = 1 << (ARCH_ADDRESS_BITS - PART_SHIFT),
    ENTRIES = 4096
};

#define PRESENT ((uint64_t)1 << 63)
#define SWAPPED ((uint64_t)1 << 62)

struct part {
    uint64_t here[PART_PAGES / 64], swapped[PART_PAGES / 64];
};

struct resident {
    int fd; /* /proc/PID/pagemap */
    pthread_mutex_t lock;
    _Atomic(struct part *) *parts; /* PARTS, by address >> PART_SHIFT; NULL: not yet asked */
};

struct resident *resident_new(pid_t pid)
{
    char path[64];
    struct resident *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    r->fd = open(path, O_RDONLY | O_CLOEXEC);
    r->parts = calloc(PARTS, sizeof *r->parts);
    pthread_mutex_init(&r->lock, NULL);
    if (r->fd < 0 || !r->parts) {
        resident_free(r);
        return NULL;
    }
    return r;
}

void resident_free(struct resident *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->parts && i < PARTS; i++)
        free(r->parts[i]);
    free(r->parts);
    if (r->fd >= 0)
        close(r->fd);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void set(uint64_t *bits, size_t i) { bits[i / 64] |= (uint64_t)1 << i % 64; }

/* A part of which the kernel does not say all counts as here. */
static struct part *ask(struct resident *r, uint64_t number)
{
    struct part *part = calloc(1, sizeof *part);
    uint64_t *entries = malloc(ENTRIES * sizeof *entries);
    uint64_t first = number << (PART_SHIFT - PAGE_SHIFT);
    for (size_t i = 0; part && i < PART_PAGES;) {
        ssize_t n = -1;
        if (entries)
            n = pread(r->fd, entries, ENTRIES * sizeof *entries,
                      (off_t)((first + i) * sizeof *entries));
        if (n < (ssize_t)sizeof *entries) {
            while (i < PART_PAGES)
                set(part->here, i++);
            break;
        }
        for (size_t k = 0; k < (size_t)n / sizeof *entries && i < PART_PAGES; k++, i++) {
            if (entries[k] & PRESENT)
                set(part->here, i);
            if (entries[k] & SWAPPED)
                set(part->swapped, i);
        }
    }
    free(entries);
    return part;
}

enum resident_state resident_page(struct resident *r, uint64_t address)
{
    uint64_t number = address >> PART_SHIFT;
    size_t page = address >> PAGE_SHIFT & (PART_PAGES - 1);
    if (number >= PARTS)
        return RESIDENT_HERE;
    struct part *part = atomic_load_explicit(&r->parts[number], memory_order_acquire);
    if (!part) {
        pthread_mutex_lock(&r->lock);
        part = atomic_load_explicit(&r->parts[number], memory_order_acquire);
        if (!part) {
            part = ask(r, number);
            atomic_store_explicit(&r->parts[number], part, memory_order_release);
        }
        pthread_mutex_unlock(&r->lock);
        if (!part)
            return RESIDENT_HERE;
    }
    if (part->here[page / 64] >> page % 64 & 1)
        return RESIDENT_HERE;
    return part->swapped[page / 64] >> page % 64 & 1 ? RESIDENT_SWAPPED : RESIDENT_NOT;
}
