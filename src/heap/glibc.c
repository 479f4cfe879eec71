/* glibc.c - see glibc.h. Offsets are relative to the bins, the same from 2.23 to 2.43. */
#include "heap/glibc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "glibc/versions.h"

enum {
    PAIRS = GLIBC_BIN_PAIRS,
    TOP = GLIBC_BINS_TOP,
    NEXT = GLIBC_BINS_NEXT,
    ATTACHED = GLIBC_BINS_ATTACHED,
    SYSTEM = GLIBC_BINS_SYSTEM,
    TAIL_END = GLIBC_BINS_END,
    HEAD_MAX = 128,
    FLAGS = 4,          /* from the start: an int */
    NOT_CONTIGUOUS = 2, /* one of the flags */
    BROKEN_MAX = 3,     /* list heads that may not hold: a stop in the middle of an unlink */
    DATA_BYTES_MAX = 64 << 20,
    PARAMETERS_NEAR = 1 << 20,
    MAPPED_MAX_DEFAULT = 65536
};

struct search {
    struct target *t;
    const uint64_t *words;
    size_t count;
    uint64_t base; /* address of words[0] */
};

static bool pair_holds(const struct search *s, size_t i)
{
    uint64_t at = s->base + i * 8, forward = s->words[i], back = s->words[i + 1], word;
    if (forward == at - 16 && back == at - 16)
        return true;
    if (forward & 15 || back & 15 || !forward || !back)
        return false;
    return target_peek(s->t, forward + 24, &word) && word == at - 16 &&
           target_peek(s->t, back + 16, &word) && word == at - 16;
}

/* True if 127 pairs begin at word i, at most BROKEN_MAX of them broken. */
static bool bins_begin(const struct search *s, size_t i)
{
    unsigned broken = 0;
    if (i + PAIRS * 2 + (TAIL_END - PAIRS * 16) / 8 > s->count)
        return false;
    for (size_t k = 0; k < PAIRS; k++)
        if (!pair_holds(s, i + k * 2) && ++broken > BROKEN_MAX)
            return false;
    return true;
}

/* Starts from any pair that points at itself, which cannot be chance; the bins begin at most 126
 * pairs before it. Returns the index, or SIZE_MAX. */
static size_t find_bins(const struct search *s, size_t from)
{
    for (size_t i = from; i + 1 < s->count; i++) {
        uint64_t own = s->base + i * 8 - 16;
        if (s->words[i] != own || s->words[i + 1] != own)
            continue;
        size_t first = i;
        unsigned broken = 0;
        size_t earliest = i;
        for (unsigned back = 1; back < PAIRS && first >= 2 && broken <= BROKEN_MAX; back++) {
            first -= 2;
            if (pair_holds(s, first))
                earliest = first;
            else
                broken++;
        }
        /* The pair before the bins is top and last_remainder, which does not hold; a broken pair
         * at either end leaves a few places to try, and the tail decides. */
        for (size_t k = 0; k <= BROKEN_MAX && earliest >= k * 2; k++) {
            size_t begin = earliest - k * 2;
            if (!bins_begin(s, begin))
                continue;
            uint64_t system = s->words[begin + SYSTEM / 8], next = s->words[begin + NEXT / 8];
            if (system >= ARCH_ADDRESS_END || next & 7 || !next)
                continue;
            if (system)
                return begin;
            break; /* an arena without memory: since 2.43 the main one is ready at the start */
        }
        i += 1;
    }
    return SIZE_MAX;
}

/* --- arenas --- */

static bool read_arena(struct target *t, uint64_t bins, struct glibc_arena *a)
{
    uint64_t lock_and_flags = 0;
    a->bins = bins;
    if (!target_peek(t, a->start, &lock_and_flags))
        return false;
    a->parts = a->main && lock_and_flags >> FLAGS * 8 & NOT_CONTIGUOUS;
    return target_peek(t, bins + (uint64_t)TOP, &a->top) &&
           target_peek(t, bins + SYSTEM, &a->system_bytes) &&
           target_peek(t, bins + ATTACHED, &a->attached_threads);
}

static int add_arena(struct glibc *g, const struct glibc_arena *a)
{
    if (!(g->arena_count & (g->arena_count - 1))) {
        size_t room = g->arena_count ? g->arena_count * 2 : 1;
        struct glibc_arena *more = reallocarray(g->arenas, room, sizeof *more);
        if (!more)
            return -1;
        g->arenas = more;
    }
    g->arenas[g->arena_count++] = *a;
    return 0;
}

/* True: another arena than the main one begins there, behind the first words of its first heap, the
 * first of which leads to it. How large heaps are need not be known. */
static bool is_in_heap(struct target *t, uint64_t arena)
{
    const uint64_t heap = arena & ~(uint64_t)(TARGET_PAGE_BYTES - 1);
    uint64_t word;
    return !(arena & 7) && !(arena >> ARCH_ADDRESS_BITS) && arena - heap <= GLIBC_HEAD_BYTES &&
           target_peek(t, heap, &word) && word == arena;
}

/* Follows the ring of arenas, if `head` is how far their bins are from their start. Returns 1 when
 * it closes, 0 when not, -1 when out of memory. */
static int follow_ring(struct glibc *g, struct target *t, uint64_t bins, uint64_t head)
{
    uint64_t start = bins - head, next;
    struct glibc_arena a = {.start = start, .main = true};
    g->arena_count = 0;
    if (!read_arena(t, bins, &a) || !target_peek(t, bins + NEXT, &next))
        return 0;
    if (add_arena(g, &a))
        return -1;
    while (next != start) {
        if (g->arena_count >= GLIBC_ARENAS_MAX || !is_in_heap(t, next))
            return 0;
        a = (struct glibc_arena){.start = next};
        uint64_t following;
        if (!read_arena(t, next + head, &a) || !target_peek(t, next + head + NEXT, &following))
            return 0;
        if (add_arena(g, &a))
            return -1;
        next = following;
    }
    return 1;
}

static int find_arenas(struct glibc *g, struct target *t, uint64_t bins, struct error *err)
{
    for (uint64_t head = 16; head <= HEAD_MAX; head += 8) {
        int closes = follow_ring(g, t, bins, head);
        if (closes < 0)
            return error_memory(err);
        if (!closes)
            continue;
        g->head_bytes = head;
        g->has_fastbins = head >= 16 + GLIBC_FASTBINS * 8;
        return 0;
    }
    return error_set(err, ERROR_UNSUPPORTED,
                     "the ring of glibc's arenas does not close: overwritten, or a glibc unknown "
                     "to mallow");
}

/* --- mp_ --- */

/* The counts of mapped blocks, four ints, before words[i], which may be mp_.sbrk_base: since 2.35
 * another int stands before them. */
static void read_counts(const struct search *s, size_t i, bool since_2_35, uint32_t counts[4])
{
    memcpy(counts, (const uint8_t *)&s->words[i - (since_2_35 ? 5 : 4)] + (since_2_35 ? 4 : 0), 16);
}

/* True if the number of a cache's bins agrees with the largest block that they hold, as glibc
 * computes one from the other: until 2.41 `bytes` is what a program may ask for, since 2.42 what
 * the first block takes that is too large, and the bins of large blocks do not count. */
static bool bounds_agree(uint64_t bins, uint64_t bytes)
{
    enum { SMALLEST = 32, LARGEST_SMALL = 1040, SMALL_BINS = 64, CACHE_BYTES_MAX = 4 << 20 };
    if (bytes > LARGEST_SMALL)
        return bytes <= CACHE_BYTES_MAX && bins == SMALL_BINS;
    uint64_t until_2_41 = (bytes + 8 + 15) & ~15ULL;
    if (bins == (until_2_41 < SMALLEST ? 1 : (until_2_41 - SMALLEST) / 16 + 1))
        return true;
    return bytes > SMALLEST && bytes % 16 == 1 && bins == (bytes - 1 - SMALLEST) / 16 + 1;
}

/* True if words[i] may be mp_.sbrk_base: before it the counts of mapped blocks, behind it the
 * bounds of the thread's caches. */
static bool parameters_hold(const struct search *s, size_t i, const struct glibc *g,
                            const uint32_t counts[4])
{
    uint64_t bytes = s->words[i + 2], each = s->words[i + 3];
    uint64_t mapped = s->words[i - 2], most = s->words[i - 1], base = s->words[i];
    /* counts: n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold */
    if (each > UINT16_MAX || !bounds_agree(s->words[i + 1], bytes))
        return false;
    /* since 2.43, which has no fastbins, each mremap adds 16 bytes to the sums that are not there
     */
    const uint64_t grain = g->has_fastbins ? TARGET_PAGE_BYTES : GLIBC_REMAP_ADDS;
    if (counts[0] > counts[2] || counts[3] > 1 || mapped > most || (counts[0] && !mapped) ||
        (!counts[0] && mapped && g->has_fastbins) || mapped % grain || most % grain)
        return false;
    if (!base) /* only a known bound distinguishes it from much else that is 0 */
        return counts[1] == MAPPED_MAX_DEFAULT;
    return !(base >> ARCH_ADDRESS_BITS) &&
           (base <= g->arenas[0].top || counts[1] == MAPPED_MAX_DEFAULT);
}

static void find_parameters(struct glibc *g, const struct search *s)
{
    for (unsigned how = 0; how < 4; how++) /* as configured by default first */
        for (size_t i = 5; i + 3 < s->count; i++) {
            uint32_t counts[4];
            read_counts(s, i, !(how & 1), counts);
            if ((how < 2 && counts[1] != MAPPED_MAX_DEFAULT) || !parameters_hold(s, i, g, counts))
                continue;
            g->has_parameters = true;
            g->parameters = s->base + i * 8;
            g->sbrk_base = s->words[i];
            g->huge_bytes = how & 1 || i < 6 ? 0 : s->words[i - 6];
            g->tcache_count = s->words[i + 3];
            g->mapped_blocks = counts[0];
            g->mapped_bytes = s->words[i - 2];
            return;
        }
}

/* How large the heaps of arenas are, by their own words: where a heap of that size would begin that
 * holds the arena's top, there is the arena's address. In doubt it is the usual size. */
static void find_heap_bytes(struct glibc *g, struct target *t)
{
    uint64_t tried[2];
    glibc_heap_sizes(g->huge_bytes, tried);
    g->heap_bytes = GLIBC_HEAP_BYTES;
    for (size_t k = 0; k < sizeof tried / sizeof *tried; k++) {
        size_t i = 1;
        uint64_t word;
        while (tried[k] && i < g->arena_count &&
               target_peek(t, g->arenas[i].top & ~(tried[k] - 1), &word) &&
               word == g->arenas[i].start)
            i++;
        if (!tried[k] || i < g->arena_count)
            continue;
        g->heap_bytes = tried[k];
        return;
    }
}

/* Returns 1 when the allocator's state is in this range, 0 when not, -1 with *err set. */
static int search_range(struct glibc *g, struct target *t, uint64_t start, uint64_t end,
                        struct error *err)
{
    start = (start + 7) & ~7ULL;
    if (end <= start || end - start < TAIL_END)
        return 0;
    uint64_t bytes = end - start > DATA_BYTES_MAX ? DATA_BYTES_MAX : end - start;
    uint64_t *words = calloc(1, bytes);
    if (!words)
        return error_memory(err);
    size_t got = target_read(t, start, words, bytes);
    struct search s = {t, words, got / 8, start};
    size_t found = find_bins(&s, 0);
    int status = 0;
    if (found != SIZE_MAX) {
        status = find_arenas(g, t, start + found * 8, err) ? -1 : 1;
        if (status > 0) {
            find_parameters(g, &s);
            find_heap_bytes(g, t);
        }
    }
    free(words);
    return status;
}

/* Why there may be none, by the names of the mapped files. */
static int none_found(const struct target *t, const struct modules *modules, struct error *err)
{
    static const char *const others[][2] = {{"jemalloc", "jemalloc"},
                                            {"tcmalloc", "tcmalloc"},
                                            {"mimalloc", "mimalloc"},
                                            {"libmusl", "musl"},
                                            {"ld-musl", "musl"}};
    const char *other = NULL;
    bool libc = false;
    for (size_t i = 0; i < modules->count; i++) {
        const char *name = modules->at[i].name;
        libc |= !strncmp(name, "libc.so.6", 9) || !strncmp(name, "libc-2.", 7);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            if (strstr(name, others[k][0]))
                other = others[k][1];
    }
    const char *instead = "record it with 'mallow record', and pass the recording to "
                          "'mallow heap --recording FILE'";
    if (other)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "no heap of glibc: the allocator is %s, which keeps no headers to walk; %s", other,
            instead);
    if (t->cut_off)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the core file is cut off, and what glibc's allocator keeps about its "
                         "heap is not in it; raise the limit (ulimit -c, ProcessSizeMax= of "
                         "coredump.conf) and take another, or run 'mallow heap PID'");
    if (libc && t->source == TARGET_CORE && t->lacking)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the core file leaves out memory that the process could write to, and "
                         "what glibc's allocator keeps about its heap with it; set bit 0 of "
                         "/proc/PID/coredump_filter and take another, or run 'mallow heap PID'");
    if (libc)
        return error_set(err, ERROR_UNSUPPORTED,
                         "no heap of glibc in use: the process has not called malloc, or for large "
                         "blocks alone, or another allocator is linked into it; %s",
                         instead);
    return error_set(err, ERROR_UNSUPPORTED,
                     "no heap of glibc: the program is linked with another C library or manages "
                     "its memory itself (Go, Java); %s",
                     instead);
}

/* The state in one of the module's data segments: 1, 0 there is none, -1 with *err set. */
static int search_module(struct glibc *g, struct target *t, const struct module *m,
                         struct error *err)
{
    int found = 0;
    *g = (struct glibc){0};
    for (size_t k = 0; k < m->data_count && !found; k++)
        found = search_range(g, t, m->data[k].start, m->data[k].end, err);
    if (found > 0)
        g->module = m;
    else
        glibc_release(g);
    return found;
}

/* A namespace of its own (dlmopen) has another libc, with another heap. The program's own was there
 * first, so what the break gave it lies lower. */
static bool came_before(const struct glibc *a, const struct glibc *b)
{
    const uint64_t x = a->has_parameters ? a->sbrk_base : 0,
                   y = b->has_parameters ? b->sbrk_base : 0;
    return x && (!y || x < y);
}

static int choose(struct glibc *g, struct target *t, const struct modules *modules, size_t from,
                  struct error *err)
{
    unsigned others = 0;
    for (size_t i = from; i < modules->count; i++) {
        struct glibc further;
        if (strcmp(modules->at[i].path, g->module->path) != 0)
            continue;
        const int found = search_module(&further, t, &modules->at[i], err);
        if (found < 0)
            return -1;
        if (!found)
            continue;
        others++;
        struct glibc other = further;
        if (came_before(&further, g)) {
            other = *g;
            *g = further;
        }
        glibc_release(&other);
    }
    if (others)
        target_note(
            t,
            "%u more of %s, with a heap of its own, is in this process (dlmopen): its blocks "
            "are not among these",
            others, g->module->name);
    return 0;
}

int glibc_find(struct glibc *g, struct target *t, const struct modules *modules, struct error *err)
{
    for (size_t i = 0; i < modules->count; i++) {
        const int found = search_module(g, t, &modules->at[i], err);
        if (found < 0)
            return -1;
        if (found && choose(g, t, modules, i + 1, err)) {
            glibc_release(g);
            return -1;
        }
        if (found)
            return 0;
    }
    return none_found(t, modules, err);
}

void glibc_release(struct glibc *g)
{
    free(g->arenas);
    g->arenas = NULL;
    g->arena_count = 0;
}

bool glibc_owns(const struct glibc *g, uint64_t address)
{
    if (g->arena_count && address - g->arenas[0].start < g->head_bytes + TAIL_END)
        return true;
    return g->has_parameters && address - (g->parameters - 96) < 136;
}
