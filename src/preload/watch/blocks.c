/* blocks.c - the range of addresses that sampled blocks live in.
 *
 * One range is reserved at the start, without access and without memory, and divided into AREAS
 * areas of equal size, a size class each: four classes to a power of two up to 64 KiB, then powers
 * of two, of which only used parts cost memory. So an address gives its class by a shift and its
 * block by a division. Memory is made accessible as a class first grows, and recycled: a freed
 * block goes to a list of its class, last in first out. It is returned to the kernel only when more
 * is kept than our memory limit allows beside the tables. The last area belongs to guard.c.
 *
 * Lists are stacks of indices whose head carries a counter, so that a compare-and-swap fails when
 * anything happened between; they work in signal handlers and between threads alike. */
#include "watcher.h"

#define AREAS       64u
#define SMALL       44u /* classes up to SMALL_MAX */
#define SMALL_MAX   65536u
#define COMMIT      65536ul /* at least so much is made accessible at once */
#define RANGE_LARGE (1ul << 38)
#define RANGE_SMALL (1ul << 26)
#define CLEAN       0u
#define PREPARED    (1ul << 20) /* of a class, for a program that will allow no more */
#define BESIDE_TABLES                                                                              \
    (1ul << 20) /* unwinders, their tables, modules: what they come to when all are in use */

struct entry {
    uint32_t owner; /* sample + 1; 0: none */
    uint32_t next;  /* index + 1; 0: the last */
    uint64_t dirty; /* bytes from the start that may not be zero */
};

struct class
{
    volatile uint64_t list; /* counter << 32 | index + 1 */
    volatile uint32_t used; /* indices at and after were never handed out */
    uint32_t count;
    volatile uint64_t committed; /* bytes from the start of the area that are accessible */
    volatile uint64_t reserved;  /* the same, that are ours */
    uint64_t stride;
    struct entry *volatile entry;
};

struct block_range block_range;

static struct {
    unsigned area_shift;
    uint32_t blocks_max;
    uint64_t keep_bytes;
    volatile uint64_t kept;
    volatile uint32_t retreating;
    volatile bool retreated;
    struct class class_[AREAS];
} blocks;

static uint64_t stride_of(unsigned c)
{
    static const uint16_t first[8] = {16, 32, 48, 64, 80, 96, 112, 128};
    if (c < 8)
        return first[c];
    if (c < SMALL) { /* 160, 192, 224, 256, 320, ... */
        unsigned power = (c - 8) / 4, quarter = (c - 8) % 4;
        return (128ul << power) + (32ul << power) * (quarter + 1);
    }
    return (2ul * SMALL_MAX) << (c - SMALL);
}

static unsigned class_of(uint64_t bytes)
{
    if (bytes <= 128)
        return bytes <= 16 ? 0 : (unsigned)((bytes + 15) / 16 - 1);
    unsigned power =
        63u - (unsigned)__builtin_clzll(bytes - 1); /* 2^power < bytes <= 2^(power+1) */
    if (bytes > SMALL_MAX)
        return SMALL + (power - 16);
    uint64_t quarter = (bytes - 1 - (1ul << power)) >> (power - 2);
    return 8 + (power - 7) * 4 + (unsigned)quarter;
}

static uint64_t area_start(unsigned c)
{
    return block_range.start + ((uint64_t)c << blocks.area_shift);
}

/* Addresses without access, from a multiple of BLOCK_RANGE_UNIT on. */
static long reserve(uint64_t bytes)
{
    uint64_t more = bytes + BLOCK_RANGE_UNIT;
    long p = sys_mmap(0, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sys_is_error(p))
        return p;
    uint64_t from = (uint64_t)p, at = (from + BLOCK_RANGE_UNIT - 1) & ~(BLOCK_RANGE_UNIT - 1);
    if (at > from)
        sys_munmap((void *)from, at - from);
    sys_munmap((void *)(at + bytes), from + more - (at + bytes));
    return (long)at;
}

bool blocks_reserve(uint32_t blocks_max, uint64_t keep_bytes)
{
    uint64_t bytes = RANGE_LARGE, limit[2];
    if (sys_getrlimit(RLIMIT_AS, limit))
        limit[0] = RLIM_INFINITY;
    while (bytes > RANGE_SMALL && bytes > limit[0] / 16)
        bytes >>= 1;
    if (bytes > limit[0] / 4) /* the program will want what it has */
        return false;
    long p = -1;
    for (; bytes >= RANGE_SMALL; bytes >>= 1) {
        p = reserve(bytes);
        if (!sys_is_error(p))
            break;
    }
    if (sys_is_error(p))
        return false;
    sys_madvise((void *)p, bytes,
                MADV_DONTDUMP); /* useless in a core; the used parts are marked below */
    blocks.area_shift = (unsigned)__builtin_ctzll(bytes / AREAS);
    blocks.blocks_max = blocks_max;
    blocks.keep_bytes = keep_bytes;
    for (unsigned c = 0; c < AREAS; c++)
        blocks.class_[c].reserved = bytes / AREAS;
    for (unsigned c = 0; c < AREAS - 1; c++) {
        struct class *k = &blocks.class_[c];
        uint64_t fit;
        k->stride = stride_of(c);
        fit = (bytes / AREAS) / k->stride;
        k->count = fit < blocks_max ? (uint32_t)fit : blocks_max;
    }
    block_range.start = (uint64_t)p;
    __atomic_store_n(&block_range.bytes, bytes, __ATOMIC_RELEASE);
    return true;
}

uint64_t blocks_guard_area(uint64_t *bytes)
{
    *bytes = block_range.bytes / AREAS;
    return area_start(AREAS - 1);
}

static struct entry *entries_of(struct class *k)
{
    struct entry *e = k->entry, *none = 0;
    if (likely(e != 0))
        return e;
    e = watch_map(k->count * sizeof *e);
    if (!e)
        return 0;
    if (!__atomic_compare_exchange_n(&k->entry, &none, e, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        sys_munmap(e, k->count * sizeof *e);
        e = none;
    }
    return e;
}

/* Makes the first `bytes` of the area accessible. */
static bool commit(unsigned c, struct class *k, uint64_t bytes)
{
    uint64_t have = __atomic_load_n(&k->committed, __ATOMIC_ACQUIRE);
    while (have < bytes) {
        uint64_t more = (bytes - have + COMMIT - 1) & ~(COMMIT - 1);
        if (bytes > k->reserved)
            return false;
        if (sys_mprotect((void *)(area_start(c) + have), more, PROT_READ | PROT_WRITE))
            return false;
        sys_madvise((void *)(area_start(c) + have), more, MADV_DODUMP);
        if (__atomic_compare_exchange_n(&k->committed, &have, have + more, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_ACQUIRE))
            break;
    }
    return bytes <= __atomic_load_n(&k->reserved, __ATOMIC_SEQ_CST); /* see blocks_retreat */
}

static bool take_listed(struct class *k, struct entry *e, uint32_t *index)
{
    uint64_t head = __atomic_load_n(&k->list, __ATOMIC_ACQUIRE);
    while ((uint32_t)head) {
        uint32_t at = (uint32_t)head - 1;
        uint64_t after = ((head >> 32) + 1) << 32 | __atomic_load_n(&e[at].next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&k->list, &head, after, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            *index = at;
            return true;
        }
    }
    return false;
}

static bool take_fresh(unsigned c, struct class *k, uint32_t *index)
{
    uint32_t used = __atomic_load_n(&k->used, __ATOMIC_RELAXED);
    do {
        if (used >= k->count || !commit(c, k, ((uint64_t)used + 1) * k->stride))
            return false;
    } while (!__atomic_compare_exchange_n(&k->used, &used, used + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    *index = used;
    return true;
}

bool blocks_take(uint64_t bytes, struct block *b)
{
    if (bytes > block_range.bytes / AREAS)
        return false;
    unsigned c = class_of(bytes);
    struct class *k = &blocks.class_[c];
    struct entry *e = c < AREAS - 1 && k->count ? entries_of(k) : 0;
    uint32_t index;
    if (!e)
        return false;
    if (take_listed(k, e, &index))
        __atomic_fetch_sub(&blocks.kept, e[index].dirty, __ATOMIC_RELAXED);
    else if (!take_fresh(c, k, &index))
        return false;
    *b = (struct block){.start = area_start(c) + index * k->stride,
                        .room = k->stride,
                        .class_ = c,
                        .index = index,
                        .clean = e[index].dirty == CLEAN};
    return true;
}

void blocks_dirty(uint32_t c, uint32_t index, uint64_t used_bytes)
{
    struct entry *e = &blocks.class_[c].entry[index];
    if (e->dirty < used_bytes)
        e->dirty = used_bytes;
}

/* What the tables leave of our memory, but no less than keep_bytes. */
static uint64_t keep_limit(void)
{
    uint64_t used = tables_bytes() + BESIDE_TABLES, least = blocks.keep_bytes;
    return watcher.memory > used + least ? watcher.memory - used : least;
}

/* The whole pages of a freed block, when they are worth a system call. */
static bool give_pages(unsigned c, uint32_t index, uint64_t dirty)
{
    const struct class *k = &blocks.class_[c];
    uint64_t start = area_start(c) + index * k->stride, end = start + k->stride;
    if (k->stride < 4 * PAGE)
        return false;
    if (dirty < k->stride)
        end = start + ((dirty + PAGE - 1) & ~(PAGE - 1));
    start = (start + PAGE - 1) & ~(PAGE - 1);
    end &= ~(PAGE - 1);
    return start < end && !sys_madvise((void *)start, end - start, MADV_DONTNEED);
}

void blocks_give(uint32_t c, uint32_t index, uint64_t used_bytes)
{
    struct class *k = &blocks.class_[c];
    struct entry *e = &k->entry[index];
    blocks_dirty(c, index, used_bytes);
    uint64_t kept = __atomic_add_fetch(&blocks.kept, e->dirty, __ATOMIC_RELAXED);
    if (kept > keep_limit() && give_pages(c, index, e->dirty)) {
        __atomic_fetch_sub(&blocks.kept, e->dirty, __ATOMIC_RELAXED);
        e->dirty = k->stride & (PAGE - 1) ? PAGE : CLEAN; /* its neighbors keep the outer pages */
    }
    __atomic_store_n(&e->owner, 0, __ATOMIC_RELEASE);
    uint64_t head = __atomic_load_n(&k->list, __ATOMIC_RELAXED), after;
    do {
        __atomic_store_n(&e->next, (uint32_t)head, __ATOMIC_RELAXED);
        after = ((head >> 32) + 1) << 32 | (index + 1);
    } while (!__atomic_compare_exchange_n(&k->list, &head, after, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
}

bool blocks_find(uint64_t address, struct block *b)
{
    uint64_t offset = address - block_range.start;
    if (offset >= block_range.bytes)
        return false;
    unsigned c = (unsigned)(offset >> blocks.area_shift);
    if (c >= AREAS - 1)
        return false;
    struct class *k = &blocks.class_[c];
    uint64_t index = (offset & ((1ul << blocks.area_shift) - 1)) / k->stride;
    if (index >= __atomic_load_n(&k->used, __ATOMIC_ACQUIRE))
        return false;
    *b = (struct block){.start = area_start(c) + index * k->stride,
                        .room = k->stride,
                        .class_ = c,
                        .index = (uint32_t)index};
    return true;
}

uint32_t blocks_owner(const struct block *b)
{
    return __atomic_load_n(&blocks.class_[b->class_].entry[b->index].owner, __ATOMIC_ACQUIRE) - 1;
}

void blocks_own(const struct block *b, uint32_t sample)
{
    __atomic_store_n(&blocks.class_[b->class_].entry[b->index].owner, sample + 1, __ATOMIC_RELEASE);
}

uint64_t blocks_kept(void) { return __atomic_load_n(&blocks.kept, __ATOMIC_RELAXED); }

void blocks_retreat(uint64_t keep)
{
    uint32_t no = 0;
    if (!block_range.bytes || sys_closed ||
        !__atomic_compare_exchange_n(&blocks.retreating, &no, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    blocks.retreated = true;
    /* Addresses of the program's own may lie between: blocks_find distinguishes them from ours. */
    uint64_t each = keep / AREAS & ~(COMMIT - 1);
    for (unsigned c = 0; c < AREAS; c++) {
        struct class *k = &blocks.class_[c];
        uint64_t least = c == AREAS - 1 ? guard_bytes() : each, was = k->reserved;
        if (least >= was)
            continue;
        /* a thread that commits sees this, or is seen */
        __atomic_store_n(&k->reserved, least, __ATOMIC_SEQ_CST);
        uint64_t used = __atomic_load_n(&k->committed, __ATOMIC_SEQ_CST);
        if (used > was)
            used = was;
        if (least < used)
            k->reserved = least = used;
        sys_munmap((void *)(area_start(c) + least), was - least);
    }
    blocks.retreating = 0;
}

void blocks_prepare(void)
{
    uint64_t limit[2];
    /* memory that the program locks, or has little of, would be taken from it */
    if (!block_range.bytes || blocks.retreated || sys_getrlimit(RLIMIT_DATA, limit) ||
        limit[0] != RLIM_INFINITY)
        return;
    for (unsigned c = 0; c < SMALL; c++) {
        struct class *k = &blocks.class_[c];
        uint64_t fit = k->count * k->stride;
        if (!k->count || !entries_of(k) || !commit(c, k, fit < PREPARED ? fit : PREPARED))
            return;
    }
}
