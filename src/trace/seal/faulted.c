/* faulted.c - Finds the block or mapping that each page fault hit, while the events of an image
 * pass by. Small blocks are kept by page, and only for pages with faults to come. Large blocks
 * and mappings are kept in order of address. */
#include "faulted.h"

#include "arch/page.h"

#define PAGE_SHIFT  ARCH_PAGE_SHIFT
#define NOTES       16u         /* bytes in front of a block that are its allocator's */
#define LARGE_BYTES (64u << 10) /* blocks from here on are kept in order, not by page */
#define WAITING_MAX 4096u       /* faults that wait for their thread's next block */

struct place { /* a block on a page, or a large block, or a mapping */
    uint64_t start, end;
    uint32_t stack;
    uint32_t next; /* on the same page, + 1; 0: none */
};

struct page {
    uint32_t first; /* in places[], + 1 */
    uint32_t left;  /* faults to come */
};

struct ordered { /* by start; they do not overlap */
    struct place *at;
    size_t n, cap;
};

struct faulted {
    const struct kernel_fault *faults;
    size_t n, next;
    uint32_t *stack; /* the stack of each fault; UINT32_MAX: in no block and no mapping */
    uint8_t *mapped;
    struct pair_map page_map;
    struct page *pages;
    size_t page_count, page_cap;
    struct place *places;
    size_t place_count, place_cap;
    uint32_t free_place; /* + 1 */
    struct ordered large, maps;
    uint32_t *waiting; /* faults */
    size_t waiting_count;
    bool failed;
};

struct faulted *faulted_new(const struct kernel_fault *faults, size_t n)
{
    struct faulted *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->faults = faults;
    f->n = n;
    f->stack = malloc((n + 1) * sizeof *f->stack);
    f->mapped = calloc(n + 1, 1);
    f->waiting = malloc(WAITING_MAX * sizeof *f->waiting);
    bool ok = f->stack && f->mapped && f->waiting;
    for (size_t i = 0; i < n && ok; i++) {
        f->stack[i] = UINT32_MAX;
        uint32_t *at = pair_map_at(&f->page_map, faults[i].address >> PAGE_SHIFT, 0);
        if (at && !*at && ARRAY_ADD(f->pages, f->page_count, f->page_cap))
            *at = (uint32_t)f->page_count;
        ok = at && *at;
        if (ok)
            f->pages[*at - 1].left++;
    }
    if (ok)
        return f;
    faulted_free(f);
    return NULL;
}

void faulted_free(struct faulted *f)
{
    if (!f)
        return;
    pair_map_free(&f->page_map);
    free(f->stack);
    free(f->mapped);
    free(f->pages);
    free(f->places);
    free(f->large.at);
    free(f->maps.at);
    free(f->waiting);
    free(f);
}

/* ---- in order ---- */

/* How many begin at or before the address. */
static size_t count_before(const struct ordered *o, uint64_t address)
{
    size_t low = 0, high = o->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->at[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct place *ordered_find(const struct ordered *o, uint64_t address)
{
    size_t i = count_before(o, address);
    return i && address < o->at[i - 1].end ? &o->at[i - 1] : NULL;
}

static bool ordered_add(struct ordered *o, uint64_t start, uint64_t end, uint32_t stack)
{
    size_t i = count_before(o, start);
    if (!ARRAY_ADD(o->at, o->n, o->cap))
        return false;
    memmove(o->at + i + 1, o->at + i, (o->n - 1 - i) * sizeof *o->at);
    o->at[i] = (struct place){start, end, stack, 0};
    return true;
}

/* Removes [start, end) from the ranges, which may split one in two. */
static bool ordered_cut(struct ordered *o, uint64_t start, uint64_t end)
{
    size_t i = count_before(o, start);
    if (i && o->at[i - 1].end > start)
        i--;
    while (i < o->n && o->at[i].start < end) {
        struct place *p = &o->at[i];
        const struct place old = *p;
        if (old.start < start) {
            p->end = start;
            i++;
            if (old.end > end)
                return ordered_add(o, end, old.end, old.stack);
        } else if (old.end > end) {
            p->start = end;
            return true;
        } else {
            memmove(p, p + 1, (o->n - i - 1) * sizeof *p);
            o->n--;
        }
    }
    return true;
}

/* ---- by page ---- */

static void page_add(struct faulted *f, struct page *page, uint64_t start, uint64_t end,
                     uint32_t stack)
{
    uint32_t i = f->free_place;
    if (i)
        f->free_place = f->places[i - 1].next;
    else if (ARRAY_ADD(f->places, f->place_count, f->place_cap))
        i = (uint32_t)f->place_count;
    else {
        f->failed = true;
        return;
    }
    f->places[i - 1] = (struct place){start, end, stack, page->first};
    page->first = i;
}

static void page_remove(struct faulted *f, struct page *page, uint64_t start)
{
    for (uint32_t *link = &page->first; *link; link = &f->places[*link - 1].next) {
        struct place *p = &f->places[*link - 1];
        if (p->start != start)
            continue;
        uint32_t i = *link;
        *link = p->next;
        p->next = f->free_place;
        f->free_place = i;
        return;
    }
}

static struct page *faulted_page(const struct faulted *f, uint64_t number)
{
    uint32_t i = pair_map_get(&f->page_map, number, 0);
    return i == UINT32_MAX ? NULL : &f->pages[i];
}

static void page_clear(struct faulted *f, struct page *page)
{
    while (page->first)
        page_remove(f, page, f->places[page->first - 1].start);
}

/* ---- faults ---- */

static const struct place *find_place(const struct faulted *f, const struct page *page,
                                      uint64_t address)
{
    for (uint32_t i = page->first; i; i = f->places[i - 1].next)
        if (address >= f->places[i - 1].start && address < f->places[i - 1].end)
            return &f->places[i - 1];
    return ordered_find(&f->large, address);
}

static void judge_fault(struct faulted *f, size_t i)
{
    const struct kernel_fault *k = &f->faults[i];
    struct page *page = faulted_page(f, k->address >> PAGE_SHIFT);
    const struct place *p = page ? find_place(f, page, k->address) : NULL;
    if (p)
        f->stack[i] = p->stack;
    else if ((p = ordered_find(&f->maps, k->address))) {
        f->stack[i] = p->stack;
        f->mapped[i] = 1;
    } else if (k->place == MLW_PLACE_HEAP || k->place == MLW_PLACE_ANONYMOUS ||
               k->place == MLW_PLACE_UNKNOWN) {
        if (f->waiting_count == WAITING_MAX) /* the oldest half has waited long enough */
            memmove(f->waiting, f->waiting + WAITING_MAX / 2,
                    (f->waiting_count -= WAITING_MAX / 2) * sizeof *f->waiting);
        f->waiting[f->waiting_count++] = (uint32_t)i;
    }
    if (page && !--page->left)
        page_clear(f, page);
}

void faulted_until(struct faulted *f, uint64_t clock)
{
    while (f && f->next < f->n && (f->faults[f->next].clock < clock || clock == UINT64_MAX))
        judge_fault(f, f->next++);
}

/* The thread has its next block: those of its faults that waited were in it, or in none. */
static void settle_faults(struct faulted *f, const struct place *block, uint32_t tid)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->waiting_count; i++) {
        uint32_t fault = f->waiting[i];
        if (f->faults[fault].tid != tid) {
            f->waiting[kept++] = fault;
            continue;
        }
        uint64_t address = f->faults[fault].address;
        /* Behind it glibc notes how much of the heap is left, but not behind a mapping. */
        uint64_t behind = block->end - block->start < LARGE_BYTES ? NOTES : 0;
        if (address >= block->start && address < block->end + behind)
            f->stack[fault] = block->stack;
    }
    f->waiting_count = kept;
}

void faulted_begin(struct faulted *f, uint64_t address, uint64_t bytes, uint32_t stack,
                   uint32_t tid)
{
    if (!f)
        return;
    const struct place p = {address > NOTES ? address - NOTES : 0,
                            address + bytes < address ? UINT64_MAX : address + bytes, stack, 0};
    if (f->waiting_count && tid)
        settle_faults(f, &p, tid);
    if (f->next == f->n)
        return;
    if (bytes >= LARGE_BYTES) {
        if (!ordered_cut(&f->large, p.start, p.end) ||
            !ordered_add(&f->large, p.start, p.end, stack))
            f->failed = true;
        return;
    }
    for (uint64_t at = p.start >> PAGE_SHIFT; at <= (p.end - 1) >> PAGE_SHIFT; at++) {
        struct page *page = faulted_page(f, at);
        if (page && page->left)
            page_add(f, page, p.start, p.end, stack);
    }
}

void faulted_end(struct faulted *f, uint64_t address, uint64_t bytes)
{
    if (!f || f->next == f->n)
        return;
    const uint64_t start = address > NOTES ? address - NOTES : 0;
    const uint64_t end = address + bytes < address ? UINT64_MAX : address + bytes;
    if (bytes >= LARGE_BYTES) {
        if (!ordered_cut(&f->large, start, end))
            f->failed = true;
        return;
    }
    for (uint64_t at = start >> PAGE_SHIFT; at <= (end - 1) >> PAGE_SHIFT; at++) {
        struct page *page = faulted_page(f, at);
        if (page && page->first)
            page_remove(f, page, start);
    }
}

void faulted_map(struct faulted *f, uint64_t address, uint64_t bytes, uint32_t stack)
{
    if (!f || !bytes || address + bytes < address)
        return;
    const uint64_t end = (address + bytes + ARCH_PAGE_BYTES - 1) & ~(uint64_t)(ARCH_PAGE_BYTES - 1);
    if (!ordered_cut(&f->maps, address, end) || !ordered_add(&f->maps, address, end, stack))
        f->failed = true;
}

void faulted_unmap(struct faulted *f, uint64_t address, uint64_t bytes)
{
    if (f && bytes && address + bytes > address &&
        !ordered_cut(&f->maps, address,
                     (address + bytes + ARCH_PAGE_BYTES - 1) & ~(uint64_t)(ARCH_PAGE_BYTES - 1)))
        f->failed = true;
}

void faulted_forget(struct faulted *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->page_count; i++)
        page_clear(f, &f->pages[i]);
    f->large.n = f->maps.n = f->waiting_count = 0;
}

void faulted_result(const struct faulted *f, size_t i, uint32_t *stack, uint8_t *place)
{
    const uint8_t was = f->faults[i].place < MLW_PLACES ? f->faults[i].place : MLW_PLACE_UNKNOWN;
    const bool hit = f->stack[i] != UINT32_MAX;
    *stack = hit ? f->stack[i] : 0;
    *place = !hit ? was : f->mapped[i] ? MLW_PLACE_MAPPED : MLW_PLACE_BLOCK;
}

bool faulted_failed(const struct faulted *f) { return f && f->failed; }
