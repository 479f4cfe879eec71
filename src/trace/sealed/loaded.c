/* loaded.c - Reads and unpacks the columns of one block, and checks that their lengths match the
 * block's codes. It changes nothing in the store, so several threads may load blocks at once. */
#include "loaded.h"

bool loaded_make(struct loaded *l)
{
    memset(l, 0, sizeof *l);
    l->z = ZSTD_createDCtx();
    return l->z != NULL;
}

void loaded_release(struct loaded *l)
{
    ZSTD_freeDCtx(l->z);
    struct bytes *b[] = {&l->code, &l->threads_text, &l->address,  &l->path,   &l->route,
                         &l->far,  &l->other,        &l->argument, &l->scratch};
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        bytes_free(b[i]);
    struct numbers *n[] = {&l->thread, &l->reference, &l->size, &l->stack, &l->time, &l->usable};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        numbers_free(n[i]);
    free(l->thread_of);
    free(l->counts);
    memset(l, 0, sizeof *l);
}

/* The counts of one code: 16 bits each, so that one sum counts them all. */
#define ONE_ALLOC ((uint64_t)1)
#define ONE_REF   ((uint64_t)1 << 16)
#define ONE_OTHER ((uint64_t)1 << 32)
#define ONE_MIXED ((uint64_t)1 << 48)

static uint64_t one_of[256];

#define REF_KINDS (1u << TRACE_FREE | 1u << TRACE_FREE_INFERRED | 1u << SEAL_KIND_TEMP_WRITTEN)

static bool is_bad(unsigned kind, unsigned op) { return kind == 7 || (op && !mlw_op_fields(op)); }

static bool is_mixed(unsigned kind, unsigned op)
{
    const bool alloc = kind == TRACE_ALLOC;
    return seal_has_size(op) != alloc || seal_has_stack(op) != alloc || is_bad(kind, op);
}

__attribute__((constructor)) static void fill_one_of(void)
{
    for (unsigned k = 0; k < 256; k++) {
        const unsigned kind = k >> 5, op = k & 31;
        one_of[k] = (kind == TRACE_ALLOC ? ONE_ALLOC : 0) | (REF_KINDS >> kind & 1 ? ONE_REF : 0) |
                    (OTHER_KINDS >> kind & 1 ? ONE_OTHER : 0) |
                    (is_mixed(kind, op) ? ONE_MIXED : 0);
    }
}

static struct code_counts counts_of(const uint8_t *code, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += one_of[code[i]];
    return (struct code_counts){(uint16_t)sum, (uint16_t)(sum >> 16), (uint16_t)(sum >> 32),
                                (uint16_t)(sum >> 48)};
}

struct totals {
    uint32_t allocs, refs, sizes, stacks;
};

/* By code, for a block with rare codes. False when one of them does not exist. */
static bool count_mixed(const struct bytes *code, struct totals *t)
{
    bool bad = false;
    uint32_t by_code[256] = {0};
    for (size_t i = 0; i < code->n; i++)
        by_code[code->data[i]]++;
    t->sizes = t->stacks = 0;
    for (unsigned k = 0; k < 256; k++) {
        const unsigned op = k & 31;
        bad |= by_code[k] && is_bad(k >> 5, op);
        t->sizes += seal_has_size(op) ? by_code[k] : 0;
        t->stacks += seal_has_stack(op) ? by_code[k] : 0;
    }
    return !bad;
}

/* Counts all codes of a block, batch by batch. 0; 1 when one of them does not exist; -1 without
 * memory.
 */
static int count_codes(struct loaded *l, struct totals *t)
{
    const uint32_t n = (uint32_t)l->code.n;
    bool mixed = false;
    memset(t, 0, sizeof *t);
    if (!ARRAY_ROOM(l->counts, n / BATCH + 1, l->counts_cap))
        return -1;
    for (uint32_t from = 0; from < n; from += BATCH) {
        const struct code_counts c =
            counts_of(l->code.data + from, n - from < BATCH ? n - from : BATCH);
        l->counts[from / BATCH] = c;
        t->allocs += c.allocs;
        t->refs += c.refs;
        mixed |= c.mixed;
    }
    t->sizes = t->stacks = t->allocs;
    return mixed && !count_mixed(&l->code, t);
}

struct load {
    struct loaded *l;
    const struct store *s;
    unsigned columns;
    struct error *err;
};

static bool load_wants(const struct load *x, unsigned column) { return (x->columns & column) != 0; }

static int read_bytes(const struct load *x, unsigned id, size_t most, struct bytes *to)
{
    struct loaded *l = x->l;
    return section_read(x->s->fd, &l->head, id, SEAL_PART_BYTES, most, l->z, &l->scratch, to,
                        x->err);
}

static int read_numbers(const struct load *x, unsigned id, size_t n, struct numbers *to)
{
    struct loaded *l = x->l;
    return numbers_load(to, x->s->fd, &l->head, id, n, l->z, &l->scratch, x->err);
}

static int bad_block(struct error *err)
{
    return error_set(err, ERROR_FORMAT, "a sealed block is not what it should be");
}

static int load_block_threads(const struct load *x, uint32_t thread_count)
{
    struct loaded *l = x->l;
    const uint32_t n = l->head.block.threads;
    if (read_bytes(x, SEAL_COL_THREADS, (size_t)n * 10, &l->threads_text) < 0)
        return -1;
    if (!n || n > l->threads_text.n)
        return bad_block(x->err);
    if (!ARRAY_ROOM(l->thread_of, n, l->thread_cap))
        return error_memory_for(x->err, "reading the recording");
    struct span s = span_of(l->threads_text.data, l->threads_text.n);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t t = span_varint(&s);
        l->thread_of[i] = t < thread_count ? (uint32_t)t : 0;
    }
    l->threads = n;
    return s.bad ? bad_block(x->err) : 0;
}

/* Columns of events that have an address. */
static int load_addresses(const struct load *x, uint32_t allocs)
{
    struct loaded *l = x->l;
    const uint32_t n = l->head.block.events;
    if (load_wants(x, TRACE_COL_ADDRESS)) {
        if (read_bytes(x, SEAL_COL_ADDRESS, allocs, &l->address) < 0 ||
            read_bytes(x, SEAL_COL_FAR, (size_t)allocs * 10, &l->far) < 0)
            return -1;
        if (l->address.n != allocs)
            return bad_block(x->err);
    }
    if (load_wants(x, TRACE_COL_ADDRESS | TRACE_COL_OTHER_ADDRESS) &&
        read_bytes(x, SEAL_COL_OTHER, (size_t)n * 20, &l->other) < 0)
        return -1;
    return 0;
}

static int load_columns(const struct load *x, uint32_t thread_count)
{
    struct loaded *l = x->l;
    const struct seal_block *b = &l->head.block;
    const uint32_t n = b->events;
    const bool usable = load_wants(x, TRACE_COL_ADDRESS | TRACE_COL_USABLE);
    struct totals c;
    if (read_bytes(x, SEAL_COL_CODE, n, &l->code) < 0 || load_block_threads(x, thread_count))
        return -1;
    const int bad = l->code.n == n ? count_codes(l, &c) : 1;
    if (bad < 0)
        return error_memory_for(x->err, "reading the recording");
    if (bad || b->reference > SEAL_REFERENCE_DISTANCE || c.allocs != b->allocs)
        return bad_block(x->err);
    if ((l->threads > 1 && read_numbers(x, SEAL_COL_THREAD, n, &l->thread)) ||
        read_numbers(x, SEAL_COL_REFERENCE, c.refs, &l->reference) ||
        ((usable || load_wants(x, TRACE_COL_SIZE)) &&
         read_numbers(x, SEAL_COL_SIZE, c.sizes, &l->size)) ||
        (load_wants(x, TRACE_COL_STACK) && read_numbers(x, SEAL_COL_STACK, c.stacks, &l->stack)) ||
        (load_wants(x, TRACE_COL_TIME) && read_numbers(x, SEAL_COL_TIME, n, &l->time)) ||
        (usable && read_numbers(x, SEAL_COL_USABLE, c.allocs, &l->usable)) ||
        load_addresses(x, c.allocs))
        return -1;
    if (load_wants(x, TRACE_COL_PATH)) {
        if (read_bytes(x, SEAL_COL_PATH, n, &l->path) < 0)
            return -1;
        if (l->path.n && l->path.n != n)
            return bad_block(x->err);
    }
    if (load_wants(x, TRACE_COL_ROUTE)) {
        if (read_bytes(x, SEAL_COL_ROUTE, n, &l->route) < 0)
            return -1;
        if (l->route.n && l->route.n != n)
            return bad_block(x->err);
    }
    if (load_wants(x, TRACE_COL_ARGUMENT) &&
        read_bytes(x, SEAL_COL_ARGUMENT, (size_t)n * 20, &l->argument) < 0)
        return -1;
    return 0;
}

void loaded_read(struct loaded *l, const struct store *s, const struct trace_image *image,
                 struct store_block *b, unsigned columns)
{
    const struct load x = {l, s, columns, &l->err};
    const struct seal_block *h = &l->head.block;
    l->block = b;
    l->has_head = false;
    l->state = LOADED_NOT_THERE;
    if (b->damaged)
        return;
    const int k = section_head_read(s->fd, b->offset, s->file_bytes, &l->head, &l->err);
    if (k < 0)
        l->state = LOADED_FAILED;
    if (k <= 0 || l->head.header.type != SEAL_BLOCK || h->events != b->events ||
        h->used_slots != b->used_slots || h->new_slots != b->new_slots ||
        h->first_tick != b->first_tick || h->last_tick != b->last_tick)
        return;
    l->has_head = true;
    l->err.kind = ERROR_NONE;
    if (!load_columns(&x, image->thread_count))
        l->state = LOADED;
    else if (l->err.kind == ERROR_MEMORY || l->err.kind == ERROR_SYSTEM)
        l->state = LOADED_FAILED;
    else
        l->state = LOADED_DAMAGED;
}
