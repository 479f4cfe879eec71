/* resident.c - Answers whether a page of a process is present, by bits that it asks of the
 * kernel in parts of 128 MiB. A part is published by an atomic pointer, so readers take no lock.
 * The kernel's answer is kept for a bounded number of parts. */
#include "remote/resident.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "arch/page.h"
#include "base/present.h"
#include "remote/handle.h"

enum {
    PAGE_SHIFT = ARCH_PAGE_SHIFT,
    PART_SHIFT = 27,
    PART_PAGES = 1 << (PART_SHIFT - PAGE_SHIFT),
    PARTS = 1 << (ARCH_ADDRESS_BITS - PART_SHIFT),
    ENTRIES = 4096,
    KEPT_MOST = 1 << 14 /* parts, of 8 KiB */
};

struct part {
    uint64_t here[PART_PAGES / 64], swapped[PART_PAGES / 64];
};

struct resident {
    struct present present;
    pthread_mutex_t lock;
    size_t kept; /* parts of their own */
    _Atomic(struct part *)
        *parts; /* PARTS, by address >> PART_SHIFT; NULL: not yet asked. NULL: the process runs */
};

static struct part nothing; /* a part in which there is no page */

struct resident *resident_new(const struct handle *process, bool runs)
{
    struct resident *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    present_open(&r->present, process->pid);
    r->parts = runs ? NULL : calloc(PARTS, sizeof *r->parts);
    pthread_mutex_init(&r->lock, NULL);
    if (r->present.fd < 0 || !(r->parts || runs)) {
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
        if (r->parts[i] != &nothing)
            free(r->parts[i]);
    free(r->parts);
    present_close(&r->present);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

static void set(uint64_t *bits, size_t i) { bits[i / 64] |= (uint64_t)1 << i % 64; }

struct present *resident_present(struct resident *r) { return &r->present; }

/* One page, of a part that is not kept. */
static enum resident_state ask_page(const struct resident *r, uint64_t address)
{
    uint64_t entry;
    if (pread(r->present.fd, &entry, sizeof entry,
              (off_t)((address >> PAGE_SHIFT) * sizeof entry)) != sizeof entry)
        return RESIDENT_HERE;
    return entry & PRESENT_ENTRY_HERE     ? RESIDENT_HERE
           : present_entry_swapped(entry) ? RESIDENT_SWAPPED
                                          : RESIDENT_NOT;
}

/* A part of which the kernel does not say all counts as here. */
static struct part *ask(struct resident *r, uint64_t number)
{
    struct part *part = calloc(1, sizeof *part);
    uint64_t *entries = malloc(ENTRIES * sizeof *entries);
    uint64_t first = number << (PART_SHIFT - PAGE_SHIFT);
    for (size_t i = 0; part && i < PART_PAGES;) {
        ssize_t n = -1;
        if (entries)
            n = pread(r->present.fd, entries, ENTRIES * sizeof *entries,
                      (off_t)((first + i) * sizeof *entries));
        if (n < (ssize_t)sizeof *entries) {
            while (i < PART_PAGES)
                set(part->here, i++);
            break;
        }
        for (size_t k = 0; k < (size_t)n / sizeof *entries && i < PART_PAGES; k++, i++) {
            if (entries[k] & PRESENT_ENTRY_HERE)
                set(part->here, i);
            if (present_entry_swapped(entries[k]))
                set(part->swapped, i);
        }
    }
    free(entries);
    return part;
}

/* NULL: it cannot be kept. */
static struct part *part_of(struct resident *r, uint64_t number)
{
    uint64_t from, to;
    if (r->present.scans && present_next(&r->present, number << PART_SHIFT,
                                         (number + 1) << PART_SHIFT, &from, &to) == PRESENT_NONE)
        return &nothing;
    if (r->kept >= KEPT_MOST)
        return NULL;
    r->kept++;
    return ask(r, number);
}

enum resident_state resident_page(struct resident *r, uint64_t address)
{
    uint64_t number = address >> PART_SHIFT;
    size_t page = address >> PAGE_SHIFT & (PART_PAGES - 1);
    if (number >= PARTS)
        return RESIDENT_HERE;
    if (!r->parts)
        return ask_page(r, address);
    struct part *part = atomic_load_explicit(&r->parts[number], memory_order_acquire);
    if (!part) {
        pthread_mutex_lock(&r->lock);
        part = atomic_load_explicit(&r->parts[number], memory_order_acquire);
        if (!part) {
            part = part_of(r, number);
            atomic_store_explicit(&r->parts[number], part, memory_order_release);
        }
        pthread_mutex_unlock(&r->lock);
        if (!part)
            return ask_page(r, address);
    }
    if (part->here[page / 64] >> page % 64 & 1)
        return RESIDENT_HERE;
    return part->swapped[page / 64] >> page % 64 & 1 ? RESIDENT_SWAPPED : RESIDENT_NOT;
}
