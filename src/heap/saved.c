/* saved.c - see saved.h and docs/heap-file.md. */
#include "heap/saved.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/page.h"
#include "heap/spill.h"

enum {
    SECTION_FACTS = 1,
    SECTION_TYPES,
    SECTION_BLOCKS,
    SECTION_REFERENCES,
    SECTION_ROOTS,
    SECTION_PAGES,
    NAME_ROOM = 4096,
    ARENAS_MAX = 1 << 20,
    HEADER_BYTES = 16
};

static const char magic[8] = {'M', 'L', 'H', 'E', 'A', 'P', 0, 2};

static const char *const sources[] = {"core", "stopped", "snapshot"};

/* The numbers of the facts, in the order of the file. A later version may append. */
#define FACTS(X)                                                                                   \
    X(stopped_ns)                                                                                  \
    X(threads)                                                                                     \
    X(caches)                                                                                      \
    X(blocks)                                                                                      \
    X(used_bytes)                                                                                  \
    X(free_bytes)                                                                                  \
    X(cached_bytes)                                                                                \
    X(own_bytes)                                                                                   \
    X(mapped_blocks)                                                                               \
    X(mapped_bytes)                                                                                \
    X(mapped_system_bytes)                                                                         \
    X(pool_blocks)                                                                                 \
    X(pool_used_bytes)                                                                             \
    X(pool_bytes)                                                                                  \
    X(trimmable_bytes)                                                                             \
    X(pinned_bytes)                                                                                \
    X(kept_bytes)                                                                                  \
    X(moment_ns)

#define ARENA(X)                                                                                   \
    X(address)                                                                                     \
    X(attached_threads)                                                                            \
    X(heaps)                                                                                       \
    X(system_bytes)                                                                                \
    X(used_bytes)                                                                                  \
    X(free_bytes)                                                                                  \
    X(cached_bytes)                                                                                \
    X(own_bytes)                                                                                   \
    X(used_blocks)                                                                                 \
    X(free_blocks)                                                                                 \
    X(cached_blocks)                                                                               \
    X(top_bytes)

/* The most that a section may unpack to: of facts and names what a reader needs, of the others so
 * much for all together. */
static uint64_t section_most(uint32_t section, uint64_t before)
{
    const uint64_t few = (uint64_t)256 << 20, all = (uint64_t)16 << 30;
    return section <= SECTION_TYPES ? few : all - before;
}

/* --- writing --- */

static int put_section(FILE *file, uint32_t section, struct packing *p, uint64_t *written,
                       struct error *err)
{
    const uint64_t most = section_most(section, *written);
    if (p->n > most)
        return error_set(err, ERROR_UNSUPPORTED,
                         "this heap is too large to be saved: section %u has %zu bytes, and "
                         "readers take %llu",
                         section, p->n, (unsigned long long)most);
    *written += section > SECTION_TYPES ? p->n : 0;
    return packing_write(file, section, p, err);
}

/* Verified: one number, of which earlier versions knew the first two. */
enum { SAVED_UNVERIFIED, SAVED_VERIFIED, SAVED_PART, SAVED_WHOLE };

static uint64_t verified_of(const struct heap_facts *f)
{
    return f->verified                  ? SAVED_VERIFIED
           : f->read == HEAP_READ_PART  ? SAVED_PART
           : f->read == HEAP_READ_WHOLE ? SAVED_WHOLE
                                        : SAVED_UNVERIFIED;
}

static enum heap_read read_of(uint64_t saved)
{
    return saved == SAVED_UNVERIFIED ? HEAP_READ_UNKNOWN
           : saved == SAVED_PART     ? HEAP_READ_PART
                                     : HEAP_READ_WHOLE;
}

static void put_facts(struct packing *p, const struct heap_facts *f)
{
    uint64_t source = 0;
    while (source < 2 && strcmp(sources[source], f->source) != 0)
        source++;
    packing_number(p, f->pid);
    packing_number(p, source);
    packing_number(p, verified_of(f));
    packing_number(p, f->resident_known);
    packing_number(p, f->only_recorded);
    packing_text(p, f->reason);
    packing_text(p, f->note);
    packing_text(p, f->allocator);
#define PUT(name) packing_number(p, f->name);
    FACTS(PUT)
#undef PUT
    packing_number(p, f->arena_count);
    for (size_t i = 0; i < f->arena_count; i++) {
        const struct heap_arena *a = &f->arenas[i];
        packing_number(p, a->main);
#define PUT(name) packing_number(p, a->name);
        ARENA(PUT)
#undef PUT
    }
}

static void put_blocks(struct packing *p, const struct blocks *b, const uint32_t *type)
{
    uint64_t until = 0;
    packing_number(p, b->count);
    for (uint32_t i = 0; i < b->count; i++) {
        uint64_t header = b->address[i] - HEADER_BYTES;
        packing_number(p, (header - until) / BLOCK_GRANULE);
        until = b->kind[i] == BLOCK_GAP ? header : header + blocks_whole_bytes(b, i);
    }
    for (uint32_t i = 0; i < b->count; i++)
        packing_number(p, b->granules[i]);
    for (uint32_t i = 0; i < b->count; i++)
        packing_number(p, b->kind[i]);
    for (uint32_t i = 0; i < b->count; i++)
        packing_number(p, type[i]);
}

static void put_references(struct packing *p, const struct scan *s, uint32_t blocks)
{
    packing_number(p, s->references);
    for (uint32_t i = 0; i < blocks; i++)
        packing_number(p, s->first[i + 1] - s->first[i]);
    for (uint32_t i = 0; i < blocks; i++)
        for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
            packing_signed(p, (int64_t)s->target[k] - i);
    packing_number(p, s->weak != NULL);
    for (uint32_t k = 0; s->weak && k < s->references; k += 64)
        packing_number(p, s->weak[k / 64]);
}

static void put_roots(struct packing *p, const struct roots *r)
{
    packing_number(p, r->count);
    packing_number(p, r->references);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct root *root = &r->at[i];
        packing_number(p, root->kind);
        packing_text(p, root->name);
        packing_text(p, root->module);
        packing_text(p, root->file);
        packing_text(p, root->type);
        packing_number(p, root->line);
        packing_number(p, root->address);
        packing_number(p, root->tid);
        packing_number(p, r->at[i + 1].first - root->first);
        for (uint32_t k = root->first; k < r->at[i + 1].first; k++)
            packing_number(p, r->target[k]);
    }
}

static void put_pages(struct packing *p, const struct pages *pages)
{
    packing_number(p, pages->count);
    for (size_t i = 0; i < pages->count; i++) {
        packing_number(p,
                       (pages->at[i].page - (i ? pages->at[i - 1].page : 0)) / TARGET_PAGE_BYTES);
        packing_number(p, pages->at[i].block);
        packing_number(p, pages->at[i].free_bytes);
    }
}

int saved_write(FILE *file, const struct heap *h, const struct scan *scan, const uint32_t *type,
                struct error *err)
{
    struct packing p = {0};
    uint64_t written = 0;
    if (fwrite(magic, sizeof magic, 1, file) != 1)
        return error_system(err, "write the heap");
    put_facts(&p, &h->facts);
    int status = put_section(file, SECTION_FACTS, &p, &written, err);
    packing_number(&p, h->types.known);
    for (uint32_t i = 1; i < h->types.known; i++)
        packing_text(&p, h->types.name[i]);
    if (!status)
        status = put_section(file, SECTION_TYPES, &p, &written, err);
    if (!status) {
        put_blocks(&p, &h->walk.blocks, type);
        status = put_section(file, SECTION_BLOCKS, &p, &written, err);
    }
    if (!status) {
        put_references(&p, scan, h->walk.blocks.count);
        status = put_section(file, SECTION_REFERENCES, &p, &written, err);
    }
    if (!status) {
        put_roots(&p, &h->roots);
        status = put_section(file, SECTION_ROOTS, &p, &written, err);
    }
    if (!status) {
        put_pages(&p, &h->pages);
        status = put_section(file, SECTION_PAGES, &p, &written, err);
    }
    packing_release(&p);
    return status;
}

/* --- reading --- */

bool saved_is(int fd)
{
    char head[sizeof magic];
    return pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
           !memcmp(head, magic, sizeof head);
}

static int get_facts(struct packing *p, struct heap *h)
{
    struct heap_facts *f = &h->facts;
    *f = (struct heap_facts){0};
    f->pid = (uint32_t)packing_get_below(p, UINT32_MAX);
    f->source = sources[packing_get_below(p, 2)];
    const uint64_t verified = packing_get_below(p, SAVED_WHOLE);
    f->verified = h->walk.verified = verified == SAVED_VERIFIED;
    f->read = read_of(verified);
    f->resident_known = packing_get_below(p, 1);
    f->only_recorded = packing_get_below(p, 1);
    packing_get_text(p, h->reason, sizeof h->reason);
    packing_get_text(p, h->note, sizeof h->note);
    packing_get_text(p, h->allocator, sizeof h->allocator);
    f->reason = h->reason;
    f->note = h->note;
    f->allocator = h->allocator;
#define GET(name) f->name = (__typeof__(f->name))packing_get(p);
    FACTS(GET)
#undef GET
    size_t count = packing_get_below(p, ARENAS_MAX);
    h->arenas = calloc(count ? count : 1, sizeof *h->arenas);
    if (!h->arenas)
        return -1;
    for (size_t i = 0; i < count && !p->failed; i++) {
        struct heap_arena *a = &h->arenas[i];
        a->main = packing_get_below(p, 1);
#define GET(name) a->name = (__typeof__(a->name))packing_get(p);
        ARENA(GET)
#undef GET
    }
    f->arenas = h->arenas;
    f->arena_count = count;
    return 0;
}

static int get_types(struct packing *p, struct types *y)
{
    char name[NAME_ROOM];
    uint64_t known = packing_get_below(p, p->n + 1);
    for (uint64_t i = 1; i < known && !p->failed; i++) {
        packing_get_text(p, name, sizeof name);
        if (p->failed)
            break;
        uint32_t number = types_number(y, name);
        if (!number)
            return -1;
        if (number != i)
            p->failed = true; /* twice the same */
    }
    y->known = y->count;
    p->failed |= known < TYPE_TEXT + 1U || y->known != known;
    return 0;
}

static int get_blocks(struct packing *p, struct heap *h, struct scan *s)
{
    struct blocks *b = &h->walk.blocks;
    uint64_t count = packing_get_below(p, p->n), until = 0;
    if (count > BLOCKS_MAX || p->failed) {
        p->failed = true;
        return 0;
    }
    uint64_t *header = spill_zeros(count + 1, sizeof *header);
    uint32_t *granules = spill_zeros(count + 1, sizeof *granules);
    s->mark = spill_zeros(count + 1, sizeof *s->mark);
    int status = header && granules && s->mark ? 0 : -1;
    uint64_t room = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    for (uint64_t i = 0; !status && i < count; i++) /* gaps, for now */
        header[i] = packing_get_below(p, (uint64_t)1 << 43);
    for (uint64_t i = 0; !status && i < count; i++)
        granules[i] = (uint32_t)packing_get_below(p, UINT32_MAX);
    for (uint64_t i = 0; !status && i < count && !p->failed; i++) {
        uint64_t at = until + header[i] * BLOCK_GRANULE, kind = packing_get_below(p, BLOCK_GAP);
        uint64_t bytes = (uint64_t)granules[i] * BLOCK_GRANULE;
        if (at >> ARCH_ADDRESS_BITS || (at + bytes) >> ARCH_ADDRESS_BITS || !bytes) {
            p->failed = true;
            break;
        }
        if (b->page_count + bytes / TARGET_PAGE_BYTES > room / sizeof *b->pages)
            status = -1; /* more than this machine can hold */
        else
            status = blocks_add(b, at, bytes, (enum block_kind)kind);
        until = kind == BLOCK_GAP ? at : at + bytes;
    }
    for (uint64_t i = 0; !status && i < count && !p->failed; i++)
        s->mark[i] = (uint32_t)packing_get_below(p, h->types.known - 1);
    if (!status && !p->failed)
        blocks_done(b);
    spill_free(header);
    spill_free(granules);
    return status;
}

static int get_references(struct packing *p, struct scan *s, uint32_t blocks)
{
    uint64_t count = packing_get_below(p, p->n), sum = 0;
    if (count >= UINT32_MAX || p->failed) {
        p->failed = true;
        return 0;
    }
    s->references = (uint32_t)count;
    s->first = spill_zeros((size_t)blocks + 1, sizeof *s->first);
    s->target = spill_zeros(count + 1, sizeof *s->target);
    if (!s->first || !s->target)
        return -1;
    for (uint32_t i = 0; i < blocks; i++) {
        s->first[i] = (uint32_t)sum;
        sum += packing_get_below(p, count - sum);
    }
    s->first[blocks] = (uint32_t)sum;
    p->failed |= sum != count;
    for (uint32_t i = 0; i < blocks && !p->failed; i++)
        for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
            int64_t target;
            if (__builtin_add_overflow(packing_get_signed(p), (int64_t)i, &target) || target < 0 ||
                target >= blocks) {
                p->failed = true;
                break;
            }
            s->target[k] = (uint32_t)target;
        }
    if (!packing_get_below(p, 1) || p->failed)
        return 0;
    s->weak = spill_zeros(count / 64 + 1, sizeof *s->weak);
    if (!s->weak)
        return -1;
    for (uint64_t k = 0; k < count; k += 64)
        s->weak[k / 64] = packing_get(p);
    return 0;
}

static int get_roots(struct packing *p, struct roots *r, uint32_t blocks)
{
    char text[NAME_ROOM];
    uint64_t count = packing_get_below(p, p->n), references = packing_get_below(p, p->n);
    if (count >= UINT32_MAX / 4 || references >= UINT32_MAX || p->failed) {
        p->failed = true;
        return 0;
    }
    r->room = count + 1;
    r->at = calloc(r->room, sizeof *r->at);
    r->target = spill_zeros(references + 1, sizeof *r->target);
    if (!r->at || !r->target)
        return -1;
    enum root_kind last = ROOT_VARIABLE;
    for (; r->count < count && !p->failed; r->count++) {
        struct root *root = &r->at[r->count];
        root->kind = (enum root_kind)packing_get_below(p, ROOT_KINDS - 1);
        p->failed |= root->kind < last;
        last = root->kind;
        packing_get_text(p, text, sizeof text);
        root->name = intern_string(&r->names, text);
        packing_get_text(p, text, sizeof text);
        root->module = intern_string(&r->names, text);
        packing_get_text(p, text, sizeof text);
        root->file = intern_string(&r->names, text);
        packing_get_text(p, text, sizeof text);
        root->type = intern_string(&r->names, text);
        if (!root->name || !root->module || !root->file || !root->type)
            return -1;
        root->line = (unsigned)packing_get_below(p, UINT32_MAX);
        root->address = packing_get(p);
        root->tid = (uint32_t)packing_get_below(p, UINT32_MAX);
        root->first = (uint32_t)r->references;
        for (uint64_t n = packing_get_below(p, references - r->references); n && !p->failed; n--)
            r->target[r->references++] = (uint32_t)packing_get_below(p, blocks ? blocks - 1 : 0);
        p->failed |= r->references && !blocks;
    }
    r->at[r->count].first = (uint32_t)r->references;
    return 0;
}

static int get_pages(struct packing *p, struct pages *pages, const struct blocks *b)
{
    uint64_t count = packing_get_below(p, p->n), page = 0;
    pages->at = calloc(p->failed ? 1 : count + 1, sizeof *pages->at);
    if (!pages->at)
        return -1;
    for (; pages->count < count && !p->failed; pages->count++) {
        page += packing_get_below(p, (uint64_t)1 << 35) * TARGET_PAGE_BYTES;
        struct pages_pinned *at = &pages->at[pages->count];
        at->page = page;
        at->block = (uint32_t)packing_get_below(p, b->count ? b->count - 1 : 0);
        at->free_bytes = (uint32_t)packing_get_below(p, TARGET_PAGE_BYTES);
        uint64_t start = b->count ? b->address[at->block] - HEADER_BYTES : 0;
        if (page >> ARCH_ADDRESS_BITS || !b->count || start >= page + TARGET_PAGE_BYTES ||
            start + blocks_whole_bytes(b, at->block) <= page)
            p->failed = true;
    }
    return 0;
}

int saved_read(int fd, const char *name, struct heap *h, struct scan *scan, struct error *err)
{
    struct packing p = {0};
    uint64_t offset = sizeof magic, before = 0;
    int status = 0;
    for (uint32_t section = SECTION_FACTS; section <= SECTION_PAGES; section++) {
        const uint64_t most = section_most(section, before);
        if (packing_read(fd, name, &offset, section, most, &p, err)) {
            packing_release(&p);
            return -1;
        }
        before += section > SECTION_TYPES ? p.n : 0;
        switch (section) {
        case SECTION_FACTS: status = get_facts(&p, h); break;
        case SECTION_TYPES: status = get_types(&p, &h->types); break;
        case SECTION_BLOCKS: status = get_blocks(&p, h, scan); break;
        case SECTION_REFERENCES: status = get_references(&p, scan, h->walk.blocks.count); break;
        case SECTION_ROOTS: status = get_roots(&p, &h->roots, h->walk.blocks.count); break;
        default: status = get_pages(&p, &h->pages, &h->walk.blocks); break;
        }
        bool failed = p.failed;
        packing_release(&p);
        if (status)
            return error_memory(err);
        if (failed)
            return error_set(err, ERROR_FORMAT, "%s: section %u does not make sense", name,
                             section);
    }
    return 0;
}
