/* routes.c - finds where glibc keeps its state, reads it before and after a call, and classes the
 * call by the difference. */
#include "routes.h"

#include <link.h>

#include "arch/page.h"
#include "arch/registers.h"
#include "glibc/versions.h"

enum {
    TLS_MOST = 5000,
    FAST_BINS = 10,
    FAST_AT = 16,        /* from the start of an arena */
    CONSOLIDATES_AT = 8, /* the same: whether fast bins may hold chunks, an int */
    FRONT = 8000,        /* an arena, a cache and the first blocks take less */
    SMALL_LIMIT = 1024,  /* chunks from here on are in large bins */
    CHUNK_LEAST = 32,
    ARENAS_MOST = 5000,
    PLACES_MOST = 5000 /* how often the places are searched for */
};

/* Places where glibc keeps its state. */
static struct {
    const struct glibc_version *version;
    uint64_t data, data_end; /* the C library's variables */
    int64_t tls;             /* its thread-local ones: where they begin, from a thread's pointer */
    uint64_t tls_bytes;
    volatile uint64_t main_arena;
    volatile int64_t arena_at, cache_at; /* thread-local pointers; 0: not found yet */
    volatile uint32_t tried;
    volatile bool shallow; /* see cache_takes */
} place;

static uint64_t word_at(uint64_t address) { return *(const volatile uint64_t *)address; }

static uint64_t thread_word(int64_t at) { return word_at(arch_thread_pointer() + (uint64_t)at); }

static uint64_t heap_with(uint64_t address) { return address & -next_facts.heap_bytes; }

static uint64_t bins_of(uint64_t arena) { return arena + place.version->arena_head; }

static uint64_t arena_word(uint64_t arena, int at)
{
    return word_at(bins_of(arena) + (uint64_t)(int64_t)at);
}

static uint64_t break_now(void) { return *recorder.break_at; }

/* ---- places ---- */

static int find_glibc(struct dl_phdr_info *info, size_t size, void *arg)
{
    bool is_it = false;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        is_it |=
            ph->p_type == PT_LOAD && info->dlpi_addr + ph->p_vaddr + ph->p_memsz == next_facts.end;
    }
    for (unsigned i = 0; is_it && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD && ph->p_flags & PF_W) {
            place.data = info->dlpi_addr + ph->p_vaddr;
            place.data_end = place.data + ph->p_memsz;
        }
        if (ph->p_type == PT_TLS && ph->p_memsz <= TLS_MOST) {
            place.tls_bytes = ph->p_memsz;
            *(uint64_t *)arg = (uint64_t)info->dlpi_tls_data;
        }
    }
    return is_it;
}

void routes_begin(void)
{
    uint64_t tls = 0;
    recorder.routed = false;
    if (!(recorder.session->options & MLW_OPT_ROUTES) || !next_facts.glibc_behind ||
        !next_facts.curbrk)
        return;
    place.version = glibc_of(next_facts.glibc_minor);
    if (place.version && place.version->arena_head)
        dl_iterate_phdr(find_glibc, &tls);
    if (!tls || !place.data || tls & 7)
        return;
    place.tls = (int64_t)(tls - arch_thread_pointer());
    recorder.routed = true;
}

/* True: it is the main arena, whose bins are lists that end where they begin. */
static bool is_main_arena(uint64_t arena)
{
    const uint64_t bins = arena + place.version->arena_head;
    if (arena & 7 || arena < place.data || bins + GLIBC_BINS_END > place.data_end)
        return false;
    for (unsigned i = 0; i < GLIBC_BIN_PAIRS; i++) {
        const uint64_t at = bins + i * 16, own = at - 16, forward = word_at(at),
                       back = word_at(at + 8);
        if (!forward || !back || (forward == own) != (back == own) || (forward | back) & 7)
            return false;
    }
    const uint64_t system = arena_word(arena, GLIBC_BINS_SYSTEM);
    return system && !(system & (ARCH_PAGE_BYTES - 1)) &&
           system <= arena_word(arena, GLIBC_BINS_SYSTEM + 8) && arena_word(arena, GLIBC_BINS_NEXT);
}

/* The ring of arenas leads to the main one. */
static uint64_t main_of(uint64_t arena)
{
    uint64_t at = arena;
    for (unsigned i = 0; i < ARENAS_MOST; i++) {
        at = arena_word(at, GLIBC_BINS_NEXT);
        if (!at || at == arena)
            break;
        if (at - place.data < place.data_end - place.data)
            return is_main_arena(at) ? at : 0;
    }
    return 0;
}

/* The thread's arena is the main one, or, where it has another, that of the block p: the pointer is
 * the thread-local one that leads there. p is live. */
static void find_arena(uint64_t p)
{
    const bool other = word_at(p - 8) & 4 && next_facts.heap_bytes && !next_facts.huge_heaps;
    const uint64_t mine = other ? word_at(heap_with(p)) : 0;
    for (uint64_t i = 0; i + 8 <= place.tls_bytes; i += 8) {
        const int64_t at = place.tls + (int64_t)i;
        const uint64_t there = thread_word(at);
        if (!there || (other ? there != mine : !is_main_arena(there)))
            continue;
        const uint64_t main = other ? main_of(there) : there;
        if (!main)
            continue;
        place.main_arena = main;
        place.arena_at = at;
        return;
    }
}

/* The counter of a bin. */
static uint64_t cache_count(uint64_t cache, uint32_t bin)
{
    return place.version->cache.count_bytes == 1 ? ((const volatile uint8_t *)cache)[bin]
                                                 : ((const volatile uint16_t *)cache)[bin];
}

static uint64_t cache_entry(uint64_t cache, uint32_t bin)
{
    const struct glibc_cache *c = &place.version->cache;
    return word_at(cache + (c->bins * c->count_bytes + 7) / 8 * 8 + bin * 8);
}

/* True: a block of a cache's size begins there, in the memory from start to end, and its counters
 * agree with its lists. */
static bool is_cache(uint64_t cache, uint64_t start, uint64_t end)
{
    const struct glibc_cache *c = &place.version->cache;
    uint64_t most = 0;
    if (cache & 15 || cache < start + 16 || cache > end || end - cache < c->chunk_bytes)
        return false;
    const uint64_t bytes = word_at(cache - 8) & ~7ul;
    if (bytes != c->chunk_bytes && bytes != c->chunk_bytes + 16)
        return false;
    for (uint32_t i = 0; i < c->bins; i++) {
        const uint64_t n = cache_count(cache, i);
        most = n > most ? n : most;
    }
    for (uint32_t i = 0; i < c->bins; i++) {
        const uint64_t n = cache_count(cache, i), entry = cache_entry(cache, i);
        if (entry & 15 || n > c->depth_most || (c->counts_free ? entry && n == most : !n != !entry))
            return false;
    }
    return true;
}

/* It lies in the memory of the thread's arena: of the main one in what the break has of it, of
 * another one in its first heap, which stays. */
static void find_cache(void)
{
    const uint64_t arena = thread_word(place.arena_at);
    uint64_t end = break_now(), start = end - arena_word(place.main_arena, GLIBC_BINS_SYSTEM);
    if (!arena || start > end)
        return;
    if (arena != place.main_arena) {
        if (!next_facts.heap_bytes || next_facts.huge_heaps)
            return;
        const struct glibc_heap *heap = (const struct glibc_heap *)heap_with(arena);
        start = (uint64_t)heap;
        end = start + heap->bytes;
    }
    for (uint64_t i = 0; i + 8 <= place.tls_bytes; i += 8) {
        const int64_t at = place.tls + (int64_t)i;
        if (!is_cache(thread_word(at), start, end))
            continue;
        place.cache_at = at;
        return;
    }
}

/* p is live. */
static __attribute__((noinline, cold)) void find_places(uint64_t p)
{
    if (place.tried >= PLACES_MOST || word_at(p - 8) & 2)
        return;
    place.tried++;
    if (!place.arena_at)
        find_arena(p);
    if (place.arena_at)
        find_cache();
}

/* ---- before ---- */

static uint64_t chunk_bytes(uint64_t size)
{
    if (size > INT64_MAX - 64)
        return 0;
    const uint64_t bytes = (size + 8 + 15) & ~15ul;
    return bytes < CHUNK_LEAST ? CHUNK_LEAST : bytes;
}

/* The bin of the cache; UINT32_MAX: none. */
static uint32_t cache_bin(uint64_t bytes)
{
    if (bytes <= GLIBC_SMALL_MOST)
        return (uint32_t)(bytes - CHUNK_LEAST) / 16;
    const uint32_t bin =
        GLIBC_SMALL_BINS + (uint32_t)(__builtin_clzll(GLIBC_SMALL_MOST) - __builtin_clzll(bytes));
    return bin < place.version->cache.bins ? bin : UINT32_MAX;
}

/* The thread's cache; 0: it has none, or it is not known. One that stands in for it, before there
 * is one, lies in the C library. */
static uint64_t cache_now(void)
{
    const uint64_t cache = place.cache_at ? thread_word(place.cache_at) : 0;
    return cache - place.data < place.data_end - place.data ? 0 : cache;
}

static void look_at_cache(struct route *r)
{
    r->bin = cache_bin(r->bytes);
    r->cache = cache_now();
    r->count = r->cache && r->bin != UINT32_MAX ? cache_count(r->cache, r->bin) : 0;
}

static void look_at_arena(struct route *r)
{
    r->known = true;
    r->top = arena_word(r->arena, GLIBC_BINS_TOP);
    r->system = arena_word(r->arena, GLIBC_BINS_SYSTEM);
    r->end = break_now();
    if (place.version->fastbins)
        r->may_consolidate = *(const volatile int *)(r->arena + CONSOLIDATES_AT);
}

static uint64_t fast_of(uint64_t arena, uint64_t bytes)
{
    const uint64_t i = bytes / 16 - 2;
    return place.version->fastbins && i < FAST_BINS ? word_at(arena + FAST_AT + i * 8) : 0;
}

void route_before_making(struct route *r, uint64_t size, bool plain)
{
    r->known = r->stays = r->may_consolidate = false;
    r->arena = r->cache = r->end = 0;
    r->bytes = chunk_bytes(size);
    if (!r->bytes)
        return;
    look_at_cache(r);
    if (plain && r->cache && r->bin < GLIBC_SMALL_BINS && cache_entry(r->cache, r->bin))
        return; /* it comes from there */
    r->arena = place.arena_at ? thread_word(place.arena_at) : 0;
    r->end = break_now();
    if (!r->arena)
        return;
    look_at_arena(r);
    const uint64_t bins = bins_of(r->arena);
    r->fast = fast_of(r->arena, r->bytes);
    r->newest = word_at(bins);
    r->oldest = word_at(bins + 8);
    r->remainder = arena_word(r->arena, GLIBC_BINS_REMAINDER);
    /* bin i begins with pair i - 1 */
    r->small = r->bytes < SMALL_LIMIT ? word_at(bins + (r->bytes / 16 - 1) * 16 + 8) : 0;
}

/* The cache will take a block of that size, as far as is known. */
static bool cache_takes(const struct route *r)
{
    const struct glibc_cache *c = &place.version->cache;
    return r->cache && r->bin < GLIBC_SMALL_BINS && !place.shallow &&
           (c->counts_free ? r->count != 0 : r->count < c->depth);
}

void route_before_release(struct route *r, const void *p)
{
    r->known = r->may_consolidate = false;
    r->arena = r->cache = r->chunk = 0;
    if (!p)
        return;
    r->chunk = (uint64_t)p - 16;
    r->mapped = r->merges = false;
    r->bin = UINT32_MAX;
    if (unlikely(!next_facts.glibc) && next_is_early(p))
        return;
    const uint64_t word = word_at((uint64_t)p - 8);
    r->bytes = word & ~7ul;
    r->mapped = word & 2;
    r->merges = !(word & 1);
    if (r->mapped)
        return;
    if (unlikely(!place.cache_at))
        find_places((uint64_t)p);
    look_at_cache(r);
    if (likely(cache_takes(r)) || !place.arena_at ||
        (word & 4 && (!next_facts.heap_bytes || next_facts.huge_heaps)))
        return;
    r->arena = word & 4 ? word_at(heap_with((uint64_t)p)) : place.main_arena;
    look_at_arena(r);
}

/* ---- after ---- */

/* The unsorted list held the chunk before the call, as far as its two ends show. */
static bool was_unsorted(const struct route *r, uint64_t chunk)
{
    return r->newest == chunk || r->oldest == chunk || r->remainder == chunk;
}

static unsigned route_of_bin(const struct route *r, uint64_t chunk, uint64_t bytes)
{
    const uint64_t bins = bins_of(r->arena);
    const bool empty = r->newest == bins - 16;
    if (r->fast == chunk)
        return MLW_ROUTE_FAST;
    if (r->small == chunk)
        return MLW_ROUTE_SMALL;
    if (!empty && was_unsorted(r, chunk))
        return MLW_ROUTE_UNSORTED;
    if (!place.cache_at)
        return MLW_ROUTE_UNKNOWN; /* it may be from the cache */
    /* One that was unsorted is put into the cache first, with others of its size. */
    if (!empty && r->cache && r->bin < GLIBC_SMALL_BINS && bytes == r->bytes &&
        cache_count(r->cache, r->bin) != r->count)
        return MLW_ROUTE_UNSORTED;
    if ((!empty && r->newest != r->oldest) ||
        (r->may_consolidate && !*(const volatile int *)(r->arena + CONSOLIDATES_AT)))
        return MLW_ROUTE_BIN;
    /* The rest of the chunk that it was split from is now the newest. */
    const uint64_t rest = chunk + bytes, newest = word_at(bins);
    const uint64_t whole = bytes + (newest == rest ? word_at(rest + 8) & ~7ul : 0);
    return whole < SMALL_LIMIT ? MLW_ROUTE_SMALL : MLW_ROUTE_LARGE;
}

static unsigned route_of_top(const struct route *r, uint64_t chunk, uint64_t bytes, bool other)
{
    const uint64_t system = arena_word(r->arena, GLIBC_BINS_SYSTEM);
    if (other)
        return heap_with(chunk) != heap_with(r->top) ? MLW_ROUTE_NEW_HEAP
               : system > r->system                  ? MLW_ROUTE_TOP_HEAP
                                                     : MLW_ROUTE_TOP;
    const uint64_t end = break_now();
    if (end != r->end && chunk + bytes + CHUNK_LEAST > r->end)
        return MLW_ROUTE_TOP_BREAK;
    return chunk > end && system > r->system ? MLW_ROUTE_TOP_MAPPED : MLW_ROUTE_TOP;
}

/* The thread had no arena before, or another one than the block's. */
static unsigned route_of_other(const struct route *r, uint64_t arena, uint64_t chunk,
                               uint64_t bytes, unsigned path)
{
    const bool at_top = chunk + bytes == arena_word(arena, GLIBC_BINS_TOP);
    /* Where heaps are not followed, a block at the very front of one shows it. */
    const bool front = !next_facts.glibc && !r->arena && arena != place.main_arena &&
                       chunk - heap_with(arena) < FRONT;
    if ((path & MLW_PATH_ARENA_NEW || front) && at_top)
        return MLW_ROUTE_NEW_ARENA;
    if (r->arena)
        return MLW_ROUTE_OTHER_ARENA;
    if (!at_top)
        return place.cache_at ? MLW_ROUTE_BIN : MLW_ROUTE_UNKNOWN;
    return r->end && r->end != break_now() ? MLW_ROUTE_TOP_BREAK
           : path & MLW_PATH_HEAP_NEW      ? MLW_ROUTE_NEW_HEAP
                                           : MLW_ROUTE_TOP;
}

unsigned route_of_made(const struct route *r, const void *p, unsigned path)
{
    const uint64_t word = word_at((uint64_t)p - 8), bytes = word & ~7ul, chunk = (uint64_t)p - 16;
    const bool other = word & 4;
    if (r->stays)
        return MLW_ROUTE_IN_PLACE;
    if (word & 2)
        return MLW_ROUTE_MAPPED;
    if (r->cache && r->bin != UINT32_MAX && r->cache == cache_now()) {
        const uint64_t now = cache_count(r->cache, r->bin);
        if (place.version->cache.counts_free ? now > r->count : now < r->count)
            return MLW_ROUTE_TCACHE;
    }
    if (unlikely(!place.cache_at))
        find_places((uint64_t)p);
    if (!place.arena_at || (other && (!next_facts.heap_bytes || next_facts.huge_heaps)))
        return MLW_ROUTE_UNKNOWN;
    const uint64_t arena = other ? word_at(heap_with((uint64_t)p)) : place.main_arena;
    if (!r->known || arena != r->arena)
        return route_of_other(r, arena, chunk, bytes, path);
    const uint64_t top = arena_word(arena, GLIBC_BINS_TOP);
    const bool beyond = chunk >= r->top && (!other || heap_with(chunk) == heap_with(r->top));
    /* The last chunk in a fast bin may lie before the top; those of other bins do not. */
    const bool at_top = r->fast != chunk && (beyond || chunk + bytes == top);
    const unsigned route =
        at_top ? route_of_top(r, chunk, bytes, other) : route_of_bin(r, chunk, bytes);
    const bool emptied = r->may_consolidate && !*(const volatile int *)(arena + CONSOLIDATES_AT);
    return route | (emptied ? MLW_ROUTE_CONSOLIDATED : 0);
}

/* Where it went in the arena. */
static unsigned route_of_merged(const struct route *r)
{
    const uint64_t top = arena_word(r->arena, GLIBC_BINS_TOP),
                   system = arena_word(r->arena, GLIBC_BINS_SYSTEM);
    const bool other = r->arena != place.main_arena;
    const bool less = other ? system < r->system : break_now() < r->end;
    const bool reached =
        top != r->top && (other ? heap_with(top) == heap_with(r->chunk) : true) && top <= r->chunk;
    if (reached || r->chunk + r->bytes == r->top)
        return less ? MLW_ROUTE_FREE_TRIM : MLW_ROUTE_FREE_TOP;
    if (other && less && heap_with(top) != heap_with(r->chunk))
        return MLW_ROUTE_FREE_TRIM; /* its heap is gone */
    if (!place.cache_at)
        return MLW_ROUTE_UNKNOWN;
    return r->merges ? MLW_ROUTE_FREE_MERGED : MLW_ROUTE_FREE_BIN;
}

unsigned route_of_released(const struct route *r)
{
    if (!r->chunk)
        return MLW_ROUTE_FREE_NULL;
    if (r->mapped)
        return MLW_ROUTE_FREE_MAPPED;
    if (unlikely(!place.cache_at) && place.arena_at && place.tried < PLACES_MOST)
        find_cache(); /* made by this call, maybe */
    const uint64_t cache = cache_now();
    if (cache && r->bin != UINT32_MAX &&
        (cache == r->cache ? cache_count(cache, r->bin) != r->count
                           : cache_entry(cache, r->bin) == r->chunk + 16))
        return MLW_ROUTE_FREE_TCACHE;
    if (!r->known) {
        place.shallow |= r->cache != 0; /* the caches are smaller than they are by default */
        return MLW_ROUTE_UNKNOWN;
    }
    if (fast_of(r->arena, r->bytes) == r->chunk)
        return MLW_ROUTE_FREE_FAST;
    const bool emptied = r->may_consolidate && !*(const volatile int *)(r->arena + CONSOLIDATES_AT);
    return route_of_merged(r) | (emptied ? MLW_ROUTE_CONSOLIDATED : 0);
}
