/* cached.c - blocks that the program has freed and that still carry the mark of use: those in fast
 * lists and in the threads' caches; see walk.h.
 *
 * A thread's cache is a block of the heap. It is known by its content: counts that agree with
 * lists, lists of free blocks of the right size. A cache that is empty is known by the place of
 * the thread-local variable that points to it, which is the same in every thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "base/array.h"
#include "glibc/versions.h"
#include "heap/walk.h"

enum {
    BINS_MAX = 76,
    TLS_BYTES = 4096,
    REST_BYTES =
        16 /* the rest of the free block that was taken: too few bytes for a block of their own */
};

struct caching {
    struct walk *w;
    struct target *t;
    const struct glibc *g;
    uint32_t *members; /* the members of the cache at hand */
    size_t member_count, member_room;
    uint64_t tls_offset; /* where the pointer to the cache lies below a thread's fs; 0: not known */
};

/* By its size: the version is not known. */
static const struct glibc_cache *layout_of(const struct caching *c, uint32_t block)
{
    const uint64_t whole = blocks_whole_bytes(&c->w->blocks, block);
    for (size_t i = 0; i < GLIBC_VERSIONS; i++) {
        const struct glibc_cache *l = &glibc_versions[i].cache;
        if (whole == l->chunk_bytes || whole == l->chunk_bytes + REST_BYTES)
            return l;
    }
    return NULL;
}

/* The used block that begins at this address, as the program sees it; BLOCK_NONE. */
static uint32_t block_at(const struct blocks *b, uint64_t address)
{
    uint32_t block = address & 15 ? BLOCK_NONE : blocks_covering(b, address - 16);
    return block != BLOCK_NONE && b->address[block] == address && b->kind[block] == BLOCK_USED
               ? block
               : BLOCK_NONE;
}

static int add_member(struct caching *c, uint32_t block)
{
    if (!ARRAY_ROOM(c->members, c->member_count + 1, c->member_room))
        return -1;
    c->members[c->member_count++] = block;
    return 0;
}

static bool fits_bin(const struct blocks *b, uint32_t block, uint32_t bin)
{
    uint64_t whole = blocks_whole_bytes(b, block);
    return bin < GLIBC_SMALL_BINS ? whole == 32 + (uint64_t)bin * 16 : whole > GLIBC_SMALL_MOST;
}

/* Follows the link at `at`: since 2.32 links are xored with their own address. Both readings
 * are tried; only one makes sense. */
static bool follow(struct caching *c, uint64_t at, uint32_t bin, uint64_t *next)
{
    uint64_t word;
    if (!target_peek(c->t, at, &word))
        return false;
    const uint64_t tried[2] = {word ^ at >> ARCH_PAGE_SHIFT, word};
    for (size_t i = 0; i < 2; i++) {
        uint32_t block = tried[i] ? block_at(&c->w->blocks, tried[i]) : BLOCK_NONE;
        if (!tried[i] || (block != BLOCK_NONE && fits_bin(&c->w->blocks, block, bin))) {
            *next = tried[i];
            return true;
        }
    }
    return false;
}

/* Collects a list. Returns 1 when it is one of `count` blocks (or one more or less: the thread may
 * have been stopped between link and count), 0 when not, -1 when out of memory. */
static int collect_list(struct caching *c, uint64_t entry, uint64_t count, uint32_t bin)
{
    const struct blocks *b = &c->w->blocks;
    uint64_t n = 0;
    while (entry) {
        uint32_t block = block_at(b, entry);
        if (block == BLOCK_NONE || !fits_bin(b, block, bin) || n > count)
            return 0;
        if (add_member(c, block))
            return -1;
        n++;
        if (!follow(c, entry, bin, &entry))
            return 0;
    }
    return n + 1 >= count;
}

/* True if the block is a thread's cache; its lists' blocks are then in members. Returns as
 * collect_list. may_be_empty: by its content alone an empty one cannot be known. */
static int collect_cache(struct caching *c, uint32_t block, bool may_be_empty)
{
    const struct glibc_cache *l = layout_of(c, block);
    const uint64_t at = c->w->blocks.address[block];
    uint64_t words[BINS_MAX / 4 + BINS_MAX] = {0};
    const size_t count_words = (l->bins * l->count_bytes + 7) / 8, all = count_words + l->bins;
    const uint64_t most = c->g->has_parameters ? c->g->tcache_count : UINT16_MAX;
    size_t have = 0;
    c->member_count = 0;
    while (have < count_words)
        if (!target_peek(c->t, at + have * 8, &words[have]))
            return 0;
        else
            have++;
    uint64_t counts[BINS_MAX];
    for (uint32_t i = 0; i < l->bins; i++) {
        uint16_t n;
        memcpy(&n, (const uint8_t *)words + (size_t)i * l->count_bytes, sizeof n);
        if (l->count_bytes == 1)
            n &= 0xff;
        counts[i] = l->counts_free ? most - n : n;
        if (n > most)
            return 0;
    }
    for (; have < all; have++)
        if (!target_peek(c->t, at + have * 8, &words[have]))
            return 0;
    bool any = false;
    for (uint32_t i = 0; i < l->bins; i++) {
        uint64_t entry = words[count_words + i];
        if (!entry && counts[i] <= 1)
            continue;
        if (!entry)
            return 0;
        int good = collect_list(c, entry, counts[i], i);
        if (good <= 0)
            return good;
        any = true;
    }
    return any || may_be_empty;
}

static void take_cache(struct caching *c, uint32_t block)
{
    struct blocks *b = &c->w->blocks;
    blocks_set_kind(b, block, BLOCK_OWN);
    for (size_t i = 0; i < c->member_count; i++)
        if (b->kind[c->members[i]] == BLOCK_USED)
            blocks_set_kind(b, c->members[i], BLOCK_CACHED);
    c->w->caches++;
}

/* Every block of the right size, by content. */
static int find_by_content(struct caching *c)
{
    const struct blocks *b = &c->w->blocks;
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->kind[i] != BLOCK_USED || !layout_of(c, i))
            continue;
        int good = collect_cache(c, i, false);
        if (good < 0)
            return -1;
        if (good)
            take_cache(c, i);
    }
    return 0;
}

/* The words below a thread's fs: of its initial thread-local variables. */
static size_t tls_words(struct caching *c, const struct target_thread *thread,
                        uint64_t words[TLS_BYTES / 8])
{
    uint64_t fs = thread->registers.fs_base;
    if (fs < TLS_BYTES || fs >> ARCH_ADDRESS_BITS || fs & 7)
        return 0;
    for (uint64_t bytes = TLS_BYTES; bytes >= 512; bytes /= 2)
        if (target_read(c->t, fs - bytes, words, bytes) == bytes)
            return bytes / 8;
    return 0;
}

/* Where below fs the caches that were found are pointed to from. */
static void find_offset(struct caching *c)
{
    const struct blocks *b = &c->w->blocks;
    for (size_t i = 0; i < c->t->thread_count && !c->tls_offset; i++) {
        uint64_t words[TLS_BYTES / 8];
        size_t n = tls_words(c, &c->t->threads[i], words);
        for (size_t k = 0; k < n && !c->tls_offset; k++) {
            uint32_t block =
                words[k] & 15 || !words[k] ? BLOCK_NONE : blocks_covering(b, words[k] - 16);
            if (block != BLOCK_NONE && b->address[block] == words[k] && b->kind[block] == BLOCK_OWN)
                c->tls_offset = (n - k) * 8;
        }
    }
}

/* The caches that threads point to, empty ones, too. */
static int find_by_threads(struct caching *c)
{
    struct walk *w = c->w;
    for (size_t i = 0; i < c->t->thread_count; i++) {
        uint64_t words[TLS_BYTES / 8];
        const struct target_thread *thread = &c->t->threads[i];
        size_t n = tls_words(c, thread, words);
        for (size_t k = 0; k < n; k++) {
            uint64_t offset = (n - k) * 8;
            if (c->tls_offset && offset != c->tls_offset)
                continue;
            uint32_t block = words[k] ? block_at(&w->blocks, words[k]) : BLOCK_NONE;
            if (block == BLOCK_NONE || (!c->tls_offset && !layout_of(c, block)))
                continue;
            int good = layout_of(c, block) ? collect_cache(c, block, true) : 0;
            if (good < 0)
                return -1;
            if (good)
                take_cache(c, block);
            else if (c->tls_offset)
                walk_doubt(w, "the cache of thread %" PRIu32 " is being changed, or overwritten",
                           thread->tid);
        }
    }
    return 0;
}

static void mark_fast(struct caching *c)
{
    struct blocks *b = &c->w->blocks;
    for (size_t i = 0; i < c->g->arena_count; i++)
        for (uint32_t bin = 0; bin < GLIBC_FASTBINS; bin++) {
            uint64_t at = c->g->arenas[i].bins - 96 + (uint64_t)bin * 8, entry;
            if (!target_peek(c->t, at, &entry))
                entry = 0;
            while (entry) { /* ends: marked chunks are not found again */
                uint32_t block = block_at(b, entry + 16);
                uint64_t next, word;
                if (block == BLOCK_NONE || !fits_bin(b, block, bin) ||
                    !target_peek(c->t, entry + 16, &word)) {
                    walk_doubt(c->w,
                               "a list of free blocks of the arena at 0x%" PRIx64 " is broken",
                               c->g->arenas[i].start);
                    break;
                }
                blocks_set_kind(b, block, BLOCK_FAST);
                next = word ^ (entry + 16) >> ARCH_PAGE_SHIFT;
                if (next && block_at(b, next + 16) == BLOCK_NONE &&
                    (!word || block_at(b, word + 16) != BLOCK_NONE))
                    next = word;
                entry = next;
            }
        }
}

int walk_mark_cached(struct walk *w, struct target *t, const struct glibc *g)
{
    struct caching c = {.w = w, .t = t, .g = g};
    int status = 0;
    if (g->has_fastbins)
        mark_fast(&c);
    if (!g->has_parameters || g->tcache_count)
        status = find_by_content(&c);
    if (!status) {
        find_offset(&c);
        status = find_by_threads(&c);
    }
    free(c.members);
    return status;
}
