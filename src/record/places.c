/* places.c - Lists the heaps, module data and thread stacks of a recorded process, for the split
 * of its resident size. It reads glibc's structures from the process's memory and believes them
 * only if they agree. Overlapping places are cut, so that no page counts twice. */
#include "record/places.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/page.h"
#include "base/array.h"
#include "base/present.h"
#include "glibc/versions.h"
#include "remote/handle.h"

/* ---- stacks of threads ----
 *
 * The walk leads from the known thread pointers through glibc's rings of descriptors to the bounds
 * of all stacks, also of threads that make no call, and of stacks that wait for a new thread. Since
 * glibc 2.43 stacks have no mappings of their own. A descriptor counts if it points to itself, its
 * neighbors in the ring point back, and it lies in its stack. Pages that are not present are not
 * read. The memory is hostile, so the walk has a bound. */

enum { THREADS_MOST = 32768, HEADS_AWAY = GLIBC_RING_HEADS - 1, HEAD_BYTES = 16 };

struct walk {
    const struct handle *handle;
    const struct present *present;
    void (*found)(void *arg, uint64_t start, uint64_t end, bool in_block);
    void *arg;
    unsigned left; /* threads that may be looked at */
};

struct ring {
    uint64_t next, previous; /* addresses of others */
};

static bool read_there(const struct walk *w, uint64_t at, void *to, size_t bytes)
{
    return at >= ARCH_PAGE_BYTES && at < ARCH_ADDRESS_END - bytes && !(at & 7) &&
           present_all(w->present, at, bytes) && handle_read(w->handle, at, to, bytes);
}

/* The first and the third word of a descriptor are its own address. */
static bool is_thread(const struct walk *w, uint64_t at)
{
    uint64_t word[3];
    return read_there(w, at, word, sizeof word) && word[0] == at && word[2] == at;
}

/* True: the program gave the stack, out of a block with a mapping of its own, which is counted as a
 * block: it begins at the stack, or on the page before an address that was rounded up. */
static bool is_in_block(const struct walk *w, const struct glibc_thread_stack *stack)
{
    enum { IS_MAPPED = 2, FLAGS = 7, HEADER = 16 };
    const uint64_t first = (stack->start - 1) & ~(ARCH_PAGE_BYTES - 1),
                   tried[] = {stack->start - HEADER, first};
    for (size_t i = 0; i < sizeof tried / sizeof *tried && !stack->guard_bytes; i++) {
        uint64_t header[2];
        if (!read_there(w, tried[i], header, sizeof header) || (header[1] & FLAGS) != IS_MAPPED)
            continue;
        const uint64_t begin = tried[i] - (header[0] & ~(uint64_t)1),
                       end = tried[i] + (header[1] & ~(uint64_t)FLAGS) + HEADER;
        if (!(begin & (ARCH_PAGE_BYTES - 1)) && end >= stack->start + stack->bytes &&
            end < ARCH_ADDRESS_END)
            return true;
    }
    return false;
}

static void take_thread_stack(const struct walk *w, uint64_t at)
{
    struct glibc_thread_stack stack;
    if (!read_there(w, at + GLIBC_THREAD_STACK, &stack, sizeof stack) || !stack.start ||
        stack.start >= at || stack.bytes >= ARCH_ADDRESS_END || stack.guard_bytes >= stack.bytes ||
        stack.bytes <= at - stack.start)
        return; /* the first thread has none */
    const uint64_t page = ARCH_PAGE_BYTES - 1;
    w->found(w->arg, (stack.start + page) & ~page, (stack.start + stack.bytes) & ~page,
             is_in_block(w, &stack));
}

/* From a place in a ring onwards to its head, which is no descriptor's; stacks of all before it are
 * taken. 0: there is none, or a neighbor does not point back. */
static uint64_t walk_on(struct walk *w, uint64_t at)
{
    struct ring here, there;
    if (!read_there(w, at, &here, sizeof here))
        return 0;
    for (; w->left; w->left--) {
        if (!read_there(w, here.next, &there, sizeof there) || there.previous != at)
            return 0;
        at = here.next;
        here = there;
        if (at < GLIBC_THREAD_RING || !is_thread(w, at - GLIBC_THREAD_RING))
            return at;
        take_thread_stack(w, at - GLIBC_THREAD_RING);
    }
    return 0;
}

/* Calls `found` with [start, end) of each stack, for many of them twice. in_block: the stack is
 * a part of a block with a mapping of its own. first (0: not known) and pointers [n]: thread
 * pointers. The walk of the rings begins at the first of them that is one of glibc's. */
static void stacks_find(const struct handle *handle, const struct present *present, uint64_t first,
                        const uint64_t *pointers, size_t n,
                        void (*found)(void *arg, uint64_t start, uint64_t end, bool in_block),
                        void *arg)
{
    struct walk w = {handle, present, found, arg, THREADS_MOST};
    bool walked = false;
    for (size_t i = 0; i <= n; i++) {
        const uint64_t pointer = i ? pointers[i - 1] : first;
        if (!is_thread(&w, pointer))
            continue;
        take_thread_stack(&w, pointer);
        if (walked)
            continue;
        walked = true;
        const uint64_t head = walk_on(&w, pointer + GLIBC_THREAD_RING);
        /* which of the heads it is does not matter: a word that is none leads nowhere */
        for (int away = -HEADS_AWAY; head && away <= HEADS_AWAY; away++)
            walk_on(&w, head + (uint64_t)((int64_t)away * HEAD_BYTES));
    }
}

/* ---- */

enum {
    PLACES_MOST = 65536, /* that are looked at for one split */
    ENTRIES = 512        /* entries of the pagemap, at once */
};

struct places_reading {
    struct places *places;
    const struct handle *handle;
    struct present present;
    uint64_t step;
    bool failed;
};

static bool is_whole_heap(uint64_t bytes) { return bytes && !(bytes & (ARCH_PAGE_BYTES - 1)); }

static void add_place(struct places_reading *r, uint64_t start, uint64_t end,
                      enum smaps_place_kind kind)
{
    struct places *const h = r->places;
    if (start >= end || end > ARCH_ADDRESS_END)
        return;
    if (!ARRAY_ROOM(h->at, h->n + 1, h->room)) {
        r->failed = true;
        return;
    }
    h->at[h->n++] = (struct smaps_place){start, end, kind};
}

/* glibc maps the start of a heap; the rest is reserved. */
static void look_at_heap(void *arg, uint64_t at)
{
    struct places_reading *const r = arg;
    struct glibc_heap head;
    uint64_t word;
    if (!handle_read(r->handle, at, &head, sizeof head) || head.mapped > r->step ||
        head.bytes > head.mapped || !is_whole_heap(head.bytes) || !is_whole_heap(head.mapped) ||
        head.arena >= ARCH_ADDRESS_END)
        return;
    const uint64_t first = head.arena & ~(r->step - 1);
    if (head.arena - first > GLIBC_HEAD_BYTES || head.arena == first ||
        (first != at && !(handle_read(r->handle, first, &word, sizeof word) && word == head.arena)))
        return;
    add_place(r, at, at + head.mapped, SMAPS_ARENA);
}

static void add_stack_place(void *arg, uint64_t start, uint64_t end, bool in_block)
{
    add_place(arg, start, end, in_block ? SMAPS_BLOCK : SMAPS_STACK);
}

/* Data of a module that its file does not hold: up to where its program headers say. */
static void look_at_data(void *arg, uint64_t base, uint64_t start, uint64_t end)
{
    enum { SEGMENTS_MOST = 32 };
    struct places_reading *const r = arg;
    Elf64_Ehdr head;
    Elf64_Phdr segment[SEGMENTS_MOST];
    uint64_t first = UINT64_MAX, least = UINT64_MAX;
    if (!present_all(&r->present, base, sizeof head) ||
        !handle_read(r->handle, base, &head, sizeof head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phnum > SEGMENTS_MOST ||
        head.e_phentsize != sizeof *segment || head.e_phoff > ARCH_PAGE_BYTES ||
        !present_all(&r->present, base + head.e_phoff, head.e_phnum * sizeof *segment) ||
        !handle_read(r->handle, base + head.e_phoff, segment, head.e_phnum * sizeof *segment))
        return;
    for (unsigned i = 0; i < head.e_phnum; i++)
        if (segment[i].p_type == PT_LOAD && segment[i].p_vaddr < least)
            least = segment[i].p_vaddr;
    first = base - (least & ~(ARCH_PAGE_BYTES - 1));
    for (unsigned i = 0; i < head.e_phnum && least != UINT64_MAX; i++) {
        const uint64_t at = first + segment[i].p_vaddr, has = at + segment[i].p_filesz,
                       until =
                           (at + segment[i].p_memsz + ARCH_PAGE_BYTES - 1) & ~(ARCH_PAGE_BYTES - 1);
        if (segment[i].p_type == PT_LOAD && start >= has && start < until)
            add_place(r, start, end < until ? end : until, SMAPS_DATA);
    }
}

/* Memory that the recorder has seen; it may be changing. */
static void take_parts(struct places_reading *r, const struct mlw_process *entry)
{
    uint32_t n = __atomic_load_n(&entry->parts, __ATOMIC_ACQUIRE);
    n = n < MLW_PARTS ? n : MLW_PARTS;
    for (uint32_t i = 0; i < n; i++)
        add_place(r,
                  __atomic_load_n(&entry->part[i].start, __ATOMIC_RELAXED) & ~(ARCH_PAGE_BYTES - 1),
                  (__atomic_load_n(&entry->part[i].end, __ATOMIC_RELAXED) + ARCH_PAGE_BYTES - 1) &
                      ~(ARCH_PAGE_BYTES - 1),
                  SMAPS_MAIN);
}

static uint64_t present(void *arg, uint64_t start, uint64_t end)
{
    const struct places_reading *const r = arg;
    uint64_t entries[ENTRIES], pages = 0;
    for (uint64_t at = start; at < end;) {
        const uint64_t left = (end - at) / ARCH_PAGE_BYTES, n = left < ENTRIES ? left : ENTRIES;
        const ssize_t got = pread(r->present.fd, entries, n * sizeof *entries,
                                  (off_t)(at / ARCH_PAGE_BYTES * sizeof *entries));
        if (!n || got < (ssize_t)sizeof *entries)
            break;
        const size_t there = (size_t)got / sizeof *entries;
        for (size_t i = 0; i < there; i++)
            pages += (entries[i] & PRESENT_ENTRY_HERE) != 0;
        at += there * ARCH_PAGE_BYTES;
    }
    return pages * ARCH_PAGE_BYTES;
}

static int compare_place_starts(const void *a, const void *b)
{
    const struct smaps_place *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* By address; what overlaps is cut off. */
static void order_places(struct places *h)
{
    size_t kept = 0;
    uint64_t until = 0;
    if (h->n > 1)
        qsort(h->at, h->n, sizeof *h->at, compare_place_starts);
    for (size_t i = 0; i < h->n; i++) {
        struct smaps_place one = h->at[i];
        one.start = one.start < until ? until : one.start;
        if (one.start >= one.end)
            continue;
        until = one.end;
        h->at[kept++] = one;
    }
    h->n = kept;
}

/* Only where the kernel says which pages there are: a stack is a part of its mapping. */
static void look_for_stacks(struct places_reading *r, const struct smaps_hints *hints)
{
    stacks_find(r->handle, &r->present, hints->first_thread, hints->thread_pointers, hints->threads,
                add_stack_place, r);
}

struct places_reading *places_begin(struct places *h, const struct handle *handle,
                                    const struct mlw_process *entry, const char *text, size_t n,
                                    struct smaps_hints *hints)
{
    const uint64_t step = __atomic_load_n(&entry->heap_bytes, __ATOMIC_RELAXED);
    const bool sized = step >= ARCH_HUGE_BYTES && !(step & (step - 1)) && step < ARCH_ADDRESS_END;
    struct places_reading *const r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct places_reading){.places = h, .handle = handle, .step = step};
    const bool asks = present_open(&r->present, handle->pid);
    h->n = 0;
    if (sized) {
        take_parts(r, entry);
        smaps_places(text, n, step, PLACES_MOST, look_at_heap, r);
    }
    if (asks) {
        look_for_stacks(r, hints);
        smaps_data(text, n, look_at_data, r);
    }
    order_places(h);
    if (r->failed || handle->memory < 0)
        return r;
    hints->knows_heaps = sized;
    hints->places = h->at;
    hints->place_count = h->n;
    hints->present = asks ? present : NULL;
    hints->present_arg = r;
    return r;
}

void places_end(struct places_reading *r)
{
    if (!r)
        return;
    present_close(&r->present);
    free(r);
}

void places_release(struct places *h)
{
    free(h->at);
    *h = (struct places){0};
}
