/* guard.c - slots for blocks that sit against guard pages.
 *
 * One range of addresses is reserved at the start, without access and without memory. A slot is
 * SLOT_BYTES of it. A block ends at the slot's last page, as far as its alignment allows, or begins
 * at the first page after the slot's first; the pages that it touches are made accessible, those
 * before and behind stay as they are. The rest of those pages is filled with PAD, and checked when
 * the block is freed or the process ends. A freed slot loses its memory in one system call, and
 * goes to the end of a queue; new blocks take the front, so that all free slots are the quarantine.
 *
 * Where the kernel has them (Linux 6.13), pages without access are guard markers: entries of the
 * page tables in one mapping, which are set and taken away without touching the list of mappings,
 * in less than half of the time, and of which a process may have any number. They are set GROUP
 * slots at a time, as slots are first used. Elsewhere access is a matter of mappings: one or two
 * more for each slot in use.
 *
 * The queue is Vyukov's bounded one: a cell carries the number of the turn that it is ready for. A
 * thread that finds a cell in use by another gives up. */
#include <string.h>

#include "watcher.h"

#define SLOT_BYTES (32 * PAGE)
#define ROOM       (SLOT_BYTES - 2 * PAGE)
#define PAD        0xb7
#define FILL       0xa5
#define BUSY_MOST  100000u
#define GROUP      16u /* 2 MiB of addresses: as much as a page of a page table describes */
#define PART       16u /* one in so many of limited addresses may be ours */

struct cell {
    volatile uint64_t turn;
    uint32_t slot;
};

struct guard_range guard_range;

static struct {
    uint32_t slots; /* a power of two */
    uint64_t start;
    struct guard_slot *slot;
    struct cell *cell;
    volatile uint64_t put, taken;
    volatile uint32_t refused;
    volatile uint32_t retreated;
    volatile uint32_t disarming; /* no slot is taken or closed any more */
    volatile uint32_t disarmed;  /* all are open: they can be taken again */
    volatile uint32_t inside;    /* threads that take or close one */
    volatile uint32_t mappings;  /* no markers here */
    volatile uint8_t *group;     /* 0 untouched, 1 being prepared, 2 ready */
} guard;

static void enqueue(uint32_t slot)
{
    uint64_t at = __atomic_load_n(&guard.put, __ATOMIC_RELAXED);
    for (;;) {
        struct cell *c = &guard.cell[at & (guard.slots - 1)];
        uint64_t turn = __atomic_load_n(&c->turn, __ATOMIC_ACQUIRE);
        if (turn == at) {
            if (!__atomic_compare_exchange_n(&guard.put, &at, at + 1, true, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED))
                continue;
            c->slot = slot;
            __atomic_store_n(&c->turn, at + 1, __ATOMIC_RELEASE);
            return;
        }
        if (turn <
            at) /* busy: the slot is lost until the process ends, which costs addresses only */
            return;
        at = __atomic_load_n(&guard.put, __ATOMIC_RELAXED);
    }
}

static uint32_t dequeue(void)
{
    uint64_t at = __atomic_load_n(&guard.taken, __ATOMIC_RELAXED);
    for (;;) {
        struct cell *c = &guard.cell[at & (guard.slots - 1)];
        uint64_t turn = __atomic_load_n(&c->turn, __ATOMIC_ACQUIRE);
        if (turn == at + 1) {
            if (!__atomic_compare_exchange_n(&guard.taken, &at, at + 1, true, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED))
                continue;
            uint32_t slot = c->slot;
            __atomic_store_n(&c->turn, at + guard.slots, __ATOMIC_RELEASE);
            return slot;
        }
        if (turn < at + 1) /* empty, or busy */
            return NO_INDEX;
        at = __atomic_load_n(&guard.taken, __ATOMIC_RELAXED);
    }
}

/* Addresses without access, from a multiple of `bytes` on, a power of two; 0: refused. */
static uint64_t reserve_addresses(uint64_t bytes)
{
    const uint64_t more = 2 * bytes;
    const long p = sys_mmap(0, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sys_is_error(p))
        return 0;
    const uint64_t from = (uint64_t)p, at = (from + bytes - 1) & ~(bytes - 1);
    if (at > from)
        sys_munmap((void *)from, at - from);
    sys_munmap((void *)(at + bytes), from + more - (at + bytes));
    sys_madvise((void *)at, bytes, MADV_DONTDUMP);
    return at;
}

void guard_init(uint32_t slots)
{
    uint64_t limit[2];
    if (sys_getrlimit(RLIMIT_AS, limit))
        limit[0] = RLIM_INFINITY;
    while (slots && slots * SLOT_BYTES > limit[0] / PART) /* the program will want what it has */
        slots /= 2;
    const uint64_t start = slots ? reserve_addresses(slots * SLOT_BYTES) : 0;
    uint8_t *p = start ? watch_map(slots * (sizeof *guard.slot + sizeof *guard.cell + 1)) : 0;
    if (!p) {
        if (start)
            sys_munmap((void *)start, slots * SLOT_BYTES);
        watch_trouble(MLW_WATCH_NO_GUARD);
        return;
    }
    /* a mapping with markers counts as data, as a whole */
    guard.mappings = sys_getrlimit(RLIMIT_DATA, limit) || limit[0] != RLIM_INFINITY;
    guard.start = start;
    guard.slot = (struct guard_slot *)(void *)p;
    guard.cell = (struct cell *)(void *)(guard.slot + slots);
    guard.group = (uint8_t *)(guard.cell + slots);
    guard.slots = slots;
    for (uint32_t i = 0; i < slots; i++)
        guard.cell[i].turn = i;
    for (uint32_t i = 0; i < slots; i++)
        enqueue(i);
    guard_range.start = start;
    __atomic_store_n(&guard_range.bytes, slots * SLOT_BYTES, __ATOMIC_RELEASE);
}

static uint64_t slot_start(const struct guard_slot *g)
{
    return guard.start + (uint64_t)(g - guard.slot) * SLOT_BYTES;
}

static void forget_guard_slot(struct guard_slot *g)
{
    if (g->state != GUARD_FREED)
        return;
    g->state = GUARD_FREE;
    if (g->site != NO_INDEX)
        tables_drop_site(g->site);
    if (g->free_site != NO_INDEX)
        tables_drop_site(g->free_site);
}

/* A slot that the caller has, and that nothing is in: to the end of the queue, or away. */
static void put_back_slot(uint32_t slot)
{
    if (likely(!guard.retreated)) {
        enqueue(slot);
        return;
    }
    struct guard_slot *g = &guard.slot[slot];
    forget_guard_slot(g);
    sys_munmap((void *)slot_start(g), SLOT_BYTES);
}

void guard_retreat(void)
{
    guard.refused = 1;
    if (!guard.slots)
        return;
    __atomic_store_n(&guard.retreated, 1, __ATOMIC_SEQ_CST);
    watch_trouble(MLW_WATCH_NO_GUARD);
    for (unsigned busy = 0; busy < BUSY_MOST && guard.taken != guard.put;) {
        uint32_t slot = dequeue();
        if (slot != NO_INDEX)
            put_back_slot(slot);
        else
            busy++; /* another thread puts one back just now */
    }
}

uint32_t guard_index(const struct guard_slot *g) { return (uint32_t)(g - guard.slot); }

uint64_t guard_bytes(void) { return guard.slots * SLOT_BYTES; }

uint32_t guard_slots(void) { return guard.slots; }

struct guard_slot *guard_slot(uint32_t index) { return &guard.slot[index]; }

/* ---- access ---- */

/* True if a block may be made in the slot: its group is ready, or there are no groups. */
static bool prepare_slot(uint32_t slot)
{
    volatile uint8_t *g = &guard.group[slot / GROUP];
    uint8_t no = 0;
    if (likely(*g == 2) || guard.mappings || guard.disarmed)
        return true;
    if (!__atomic_compare_exchange_n(g, &no, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    void *at = (void *)(guard.start + (uint64_t)(slot / GROUP * GROUP) * SLOT_BYTES);
    uint64_t bytes = (guard.slots < GROUP ? guard.slots : GROUP) * SLOT_BYTES;
    sys_madvise(at, bytes, MADV_NOHUGEPAGE); /* an access that is let through shall cost a page */
    bool set = !sys_madvise(at, bytes, MADV_GUARD_INSTALL);
    bool ready = set && !sys_mprotect(at, bytes, PROT_READ | PROT_WRITE);
    if (!ready)
        guard.mappings = 1;
    if (set && !ready && sys_madvise(at, bytes, MADV_GUARD_REMOVE))
        guard.refused = 1;
    __atomic_store_n(g, ready ? 2 : 0, __ATOMIC_RELEASE);
    return !guard.refused;
}

/* Markers or mappings, by how the group began: it stays with that. */
static bool has_markers(uint64_t address)
{
    return guard.group[(address - guard.start) / SLOT_BYTES / GROUP] == 2;
}

static bool open_pages(uint64_t at, uint64_t bytes)
{
    if (unlikely(guard.disarmed))
        return true;
    return has_markers(at) ? !sys_madvise((void *)at, bytes, MADV_GUARD_REMOVE)
                           : !sys_mprotect((void *)at, bytes, PROT_READ | PROT_WRITE);
}

/* Takes the memory and the access, of every page that was opened, too. */
static void close_slot(struct guard_slot *g)
{
    if (unlikely(guard.disarming))
        return;
    bool whole = g->reported; /* guard_open may have opened other pages of the slot */
    uint64_t at = whole ? slot_start(g) : g->first, bytes = whole ? SLOT_BYTES : g->pages * PAGE;
    bool closed = has_markers(at)
                      ? !sys_madvise((void *)at, bytes, MADV_GUARD_INSTALL)
                      : !sys_is_error(sys_mmap(
                            (void *)at, bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
    if (!closed)
        guard.refused = 1; /* stays accessible: no more guarding, the block itself is sound */
}

/* ---- blocks ---- */

static void enter_guard(void) { __atomic_fetch_add(&guard.inside, 1, __ATOMIC_SEQ_CST); }
static void leave_guard(void) { __atomic_fetch_sub(&guard.inside, 1, __ATOMIC_SEQ_CST); }

static struct guard_slot *take_guard_slot(uint64_t size, uint64_t align, bool front, bool zero)
{
    if (guard.refused || ((sys_closed || guard.disarming) && !guard.disarmed))
        return 0;
    uint32_t slot = dequeue();
    if (slot == NO_INDEX)
        return 0;
    struct guard_slot *g = &guard.slot[slot];
    if (unlikely(!prepare_slot(slot))) { /* another thread is about to */
        put_back_slot(slot);
        return 0;
    }
    forget_guard_slot(g);
    if (g->reported) /* pages of it may have been opened since its last block was freed */
        close_slot(g);
    uint64_t start = slot_start(g), end = start + SLOT_BYTES - PAGE;
    uint64_t pages = (size + PAGE - 1) / PAGE;
    g->first = front ? start + PAGE : end - pages * PAGE;
    g->address = front ? g->first : (end - size) & ~((align ? align : 16) - 1);
    g->pages = (uint32_t)pages;
    g->size = size;
    g->reported = 0;
    g->zeroed = zero;
    g->sample = NO_INDEX;
    /* whatever was opened of the last block that was here is closed again by guard_give */
    if (!open_pages(g->first, pages * PAGE)) {
        guard.refused = 1;
        watch_trouble(MLW_WATCH_NO_GUARD);
        put_back_slot(slot);
        return 0;
    }
    memset((void *)g->first, PAD, g->address - g->first);
    memset((void *)g->address, zero ? 0 : FILL, size);
    uint64_t behind = g->address + size;
    memset((void *)behind, PAD, g->first + pages * PAGE - behind);
    __atomic_store_n(&g->state, GUARD_LIVE, __ATOMIC_RELEASE);
    return g;
}

struct guard_slot *guard_take(uint64_t size, uint64_t align, bool front, bool zero)
{
    if (!guard.slots || size > ROOM || align > PAGE || guard.refused)
        return 0;
    enter_guard();
    struct guard_slot *g = take_guard_slot(size, align, front, zero);
    leave_guard();
    return g;
}

struct guard_slot *guard_find(uint64_t address)
{
    uint64_t slot = (address - guard.start) / SLOT_BYTES;
    if (!guard.slots || slot >= guard.slots)
        return 0;
    struct guard_slot *g = &guard.slot[slot];
    return guard.retreated && g->state == GUARD_FREE ? 0 : g; /* the address is the program's now */
}

void guard_give(struct guard_slot *g)
{
    __atomic_store_n(&g->state, GUARD_FREED, __ATOMIC_RELEASE);
    enter_guard();
    close_slot(g);
    leave_guard();
    put_back_slot(guard_index(g));
}

static bool is_pad(const uint8_t *at, const uint8_t *end)
{
    uint64_t differ = 0, word[4];
    for (; (uint64_t)(end - at) >= sizeof word && !differ; at += sizeof word) {
        memcpy(word, at, sizeof word);
        for (unsigned i = 0; i < 4; i++)
            differ |= word[i] ^ PAD * 0x0101010101010101ul;
    }
    for (; at < end && !differ; at++)
        differ = *at ^ PAD;
    return !differ;
}

/* The first byte behind a block, else the last before it, that is not PAD; 0: none. */
static uint64_t damage(const uint8_t *before, const uint8_t *block, const uint8_t *behind,
                       const uint8_t *end)
{
    if (likely(is_pad(behind, end) && is_pad(before, block)))
        return 0;
    for (const uint8_t *p = behind; p < end; p++)
        if (*p != PAD)
            return (uint64_t)p;
    for (const uint8_t *p = block; p-- > before;)
        if (*p != PAD)
            return (uint64_t)p;
    return 0;
}

uint64_t guard_damage(const struct guard_slot *g)
{
    const uint8_t *at = (const uint8_t *)g->first, *block = (const uint8_t *)g->address;
    return damage(at, block, block + g->size, at + g->pages * PAGE);
}

/* False: the pages were closed meanwhile. */
static bool read_pages(uint8_t *copy, uint64_t at, uint64_t bytes)
{
    const struct iovec to = {copy, bytes}, from = {(void *)at, bytes};
    return !bytes || sys_process_vm_readv((int)watcher.pid, &to, 1, &from, 1) == (long)bytes;
}

uint64_t guard_damage_now(const struct guard_slot *g, uint8_t *copy)
{
    extern char __libc_single_threaded __attribute__((weak));
    if (sys_closed || (&__libc_single_threaded && __libc_single_threaded))
        return guard_damage(g); /* behind the closed door no page is closed any more */
    const uint64_t before = g->address - g->first, end = g->first + g->pages * PAGE,
                   behind = end - (g->address + g->size);
    /* less than a page: a block touches its first and its last one */
    if (g->first > g->address || before + behind > PAGE || !read_pages(copy, g->first, before) ||
        !read_pages(copy + before, end - behind, behind))
        return 0;
    const uint64_t found = damage(copy, copy + before, copy + before, copy + before + behind);
    const uint64_t offset = found - (uint64_t)copy;
    return !found ? 0 : offset < before ? g->first + offset : end - behind + (offset - before);
}

bool guard_open(uint64_t address) { return open_pages(address & ~(PAGE - 1), PAGE); }

bool guard_is_armed(void) { return !guard.disarmed; }

void guard_after_fork(void) { guard.inside = 0; }

/* True if no thread is about to close a slot, or in one that is not open yet. False where that
 * thread is this one, in a signal handler, or was cancelled there. */
static bool others_have_left(void)
{
    for (unsigned i = 0; i < 2000 && guard.inside; i++)
        sys_sched_yield();
    return !guard.inside;
}

void guard_disarm(void)
{
    uint64_t bytes = guard.slots * SLOT_BYTES, limit[2];
    if (!bytes || __atomic_exchange_n(&guard.disarming, 1, __ATOMIC_SEQ_CST))
        return;
    watch_trouble(MLW_WATCH_NO_GUARD);
    if (!others_have_left()) {
        guard.refused = 1;
        return;
    }
    bool all = !guard.retreated && !sys_getrlimit(RLIMIT_DATA, limit) && limit[0] == RLIM_INFINITY;
    if (all) {
        sys_madvise((void *)guard.start, bytes, MADV_GUARD_REMOVE);
        all = !sys_mprotect((void *)guard.start, bytes, PROT_READ | PROT_WRITE);
    }
    if (all) {
        guard.disarmed = 1;
        return;
    }
    guard.refused = 1;
    for (uint32_t i = 0; i < guard.slots; i++) {
        struct guard_slot *g = &guard.slot[i];
        void *at = (void *)slot_start(g);
        if (g->state != GUARD_LIVE && (g->state != GUARD_FREED || guard.retreated))
            continue; /* never used, or the program's own by now */
        sys_madvise(at, SLOT_BYTES, MADV_GUARD_REMOVE);
        sys_mprotect(at, SLOT_BYTES, PROT_READ | PROT_WRITE);
    }
}
