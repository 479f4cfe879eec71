/* mapped.c - blocks with a mapping of their own; see walk.h.
 *
 * The kernel joins neighboring mappings, so such a block may begin on any page of private anonymous
 * memory: a header that says "mapped", of whole pages that are all there. The blocks found must
 * agree with the allocator's own count and sum. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "glibc/versions.h"
#include "heap/walk.h"

enum { IS_MAPPED = 2, BITS = 7, PAGES_AT_ONCE = 256 };

struct finding {
    struct walk *w;
    struct target *t;
    const struct glibc *g;
    uint64_t found, bytes;
    uint8_t *data; /* PAGES_AT_ONCE, for all mappings: there may be a million */
};

/* memalign leaves the header at the start of the mapping and writes another one further in, which
 * says how far. Returns where the block's header is. */
static uint64_t aligned_header(const struct finding *f, uint64_t base, uint64_t whole, bool lent)
{
    for (uint64_t alignment = 32; alignment < whole; alignment *= 2) {
        uint64_t at = ((base + 16 + alignment - 1) & ~(alignment - 1)) - 16, header[2];
        if (at <= base || at - base >= whole - 32)
            continue;
        uint64_t left = whole - (at - base) - (lent ? 16 : 0);
        if (target_read(f->t, at, header, sizeof header) == sizeof header &&
            (header[0] & ~1ULL) == at - base && header[1] == (left | IS_MAPPED))
            return at;
    }
    return base;
}

/* True if a block begins at a page: the length of its mapping, 0 when not. */
static uint64_t mapping_of(const uint64_t header[2], uint64_t left, bool *lent)
{
    uint64_t size = header[1] & ~(uint64_t)BITS;
    if ((header[1] & BITS) != IS_MAPPED || header[0] > 1 || size < TARGET_PAGE_BYTES - 16)
        return 0;
    *lent = (size + 16) % TARGET_PAGE_BYTES == 0;
    uint64_t whole = *lent ? size + 16 : size;
    return whole % TARGET_PAGE_BYTES || whole > left ? 0 : whole;
}

/* True if the blocks found are those that glibc counts. */
static bool counts_agree(const struct finding *f)
{
    const uint64_t more = f->g->mapped_bytes - f->bytes;
    return f->found == f->g->mapped_blocks &&
           (!more ||
            (!f->g->has_fastbins && f->bytes < f->g->mapped_bytes && more % GLIBC_REMAP_ADDS == 0));
}

/* Nothing more is looked for: what an application maps may be large. */
static bool all_found(const struct finding *f) { return f->g->has_parameters && counts_agree(f); }

/* Looks at the first words of each page of [start, end). */
static int search_run(struct finding *f, uint64_t start, uint64_t end)
{
    static const size_t step = TARGET_PAGE_BYTES;
    uint64_t at = start, have = 0, from = 0;
    int status = 0;
    while (!status && at < end && !all_found(f)) {
        if (at < from || at + 16 > from + have) {
            at = target_next(f->t, at, end); /* no header is zeros */
            if (at >= end)
                break;
            uint64_t want = end - at < PAGES_AT_ONCE * step ? end - at : PAGES_AT_ONCE * step;
            from = at;
            have = target_read(f->t, at, f->data, want);
            if (have < 16) {
                at += step;
                have = 0;
                continue;
            }
        }
        uint64_t header[2];
        bool lent = false;
        memcpy(header, f->data + (at - from), sizeof header);
        uint64_t whole = mapping_of(header, end - at, &lent);
        if (!whole) {
            at += step;
            continue;
        }
        struct walk_segment s = {.first = aligned_header(f, at, whole, lent),
                                 .base = at,
                                 .end = at + whole,
                                 .kind = SEGMENT_MAPPED,
                                 .lent = lent};
        status = walk_add_segment(f->w, &s);
        f->found++;
        f->bytes += whole;
        at += whole;
    }
    return status;
}

static bool is_candidate(const struct target_region *r, uint32_t without)
{
    /* also where no thread may write at the moment: mprotect takes a part of a block */
    return !r->file && !(r->flags & (REGION_SHARED | REGION_STACK | REGION_SPECIAL | without));
}

bool walk_next_memory(const struct target *t, size_t *at, bool *brk, uint64_t *start, uint64_t *end)
{
    const struct target_region *const r = t->regions;
    while (*at < t->region_count && !is_candidate(&r[*at], brk ? 0 : REGION_BREAK))
        ++*at;
    if (*at == t->region_count)
        return false;
    const uint32_t made = r[*at].flags & REGION_BREAK;
    *start = r[*at].start;
    *end = r[*at].end;
    while (++*at < t->region_count && r[*at].start == *end && is_candidate(&r[*at], 0) &&
           (r[*at].flags & REGION_BREAK) == made)
        *end = r[*at].end;
    if (brk)
        *brk = made;
    return true;
}

static int by_base(const void *a, const void *b)
{
    const struct walk_segment *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

/* [start, end) without the heaps of the arenas, which were found before; sorted by base. */
static int search_between(struct finding *f, uint64_t start, uint64_t end,
                          const struct walk_segment *known, size_t count)
{
    for (size_t i = 0; i < count && start < end; i++) {
        if (known[i].end <= start || known[i].base >= end)
            continue;
        if (known[i].base > start && search_run(f, start, known[i].base))
            return -1;
        start = known[i].end;
    }
    start = (start + TARGET_PAGE_BYTES - 1) & ~(uint64_t)(TARGET_PAGE_BYTES - 1);
    return start < end ? search_run(f, start, end) : 0;
}

int walk_find_mapped(struct walk *w, struct target *t, const struct glibc *g)
{
    struct finding f = {.w = w, .t = t, .g = g};
    if (g->has_parameters && !g->mapped_blocks)
        return 0;
    size_t count = w->segment_count;
    struct walk_segment *known = malloc((count ? count : 1) * sizeof *known);
    f.data = malloc(PAGES_AT_ONCE * TARGET_PAGE_BYTES);
    if (!known || !f.data) {
        free(known);
        free(f.data);
        return -1;
    }
    if (count)
        memcpy(known, w->segments, count * sizeof *known);
    if (count > 1)
        qsort(known, count, sizeof *known, by_base);
    int status = 0;
    uint64_t start, end;
    for (size_t i = 0; !status && walk_next_memory(t, &i, NULL, &start, &end);)
        status = search_between(&f, start, end, known, count);
    free(known);
    free(f.data);
    w->mapped_system_bytes = f.bytes;
    if (!status && g->has_parameters && !counts_agree(&f))
        walk_doubt(w,
                   "%" PRIu64 " blocks with mappings of their own, %" PRIu64
                   " bytes, were found; the allocator's count says %" PRIu64 ", %" PRIu64 " bytes",
                   f.found, f.bytes, g->mapped_blocks, g->mapped_bytes);
    if (!status && !g->has_parameters)
        walk_doubt(w, "the allocator's count of mapped blocks was not found");
    return status;
}
