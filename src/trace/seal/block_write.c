#include "block_write.h"

#define N               SEAL_BLOCK_EVENTS
#define REFERENCE_TRIES 8u

struct block_writer {
    struct seal_writer *w;
    struct section section;
    struct bytes scratch, far, other, argument, threads_text;
    uint32_t limit;           /* events of a block */
    struct block_position at; /* the image's state at the next event */
    /* the block in the making */
    uint32_t n, refs, sizes, stacks, allocs, threads, calls;
    uint64_t first_tick, first_event, first_alloc, live_bytes, max_live_bytes;
    uint32_t used_slots, free_slots, argument_event;
    uint64_t other_last;
    bool epoch, any_path;
    struct predict predict;
    uint64_t *thread_mark; /* by thread: block stamp << 32 | local number */
    size_t thread_cap;
    uint32_t stamp;
    uint32_t *thread_last; /* by local number: slot of its last allocation in this block */
    size_t thread_last_cap;
    uint8_t code[N], path[N], address[N];
    uint32_t thread[N], ref[N], distance[N], stack[N], began[N];
    uint64_t size[N], time[N], usable[N];
};

struct block_writer *block_writer_new(struct seal_writer *w, uint64_t calls, struct error *err)
{
    struct block_writer *b = calloc(1, sizeof *b);
    if (!b) {
        error_memory_for(err, "sealing");
        return NULL;
    }
    b->w = w;
    uint64_t part = calls / SEAL_BLOCK_PARTS;
    b->limit = part < SEAL_BLOCK_LEAST ? SEAL_BLOCK_LEAST : part < N ? (uint32_t)part : N;
    return b;
}

void block_writer_free(struct block_writer *b)
{
    if (!b)
        return;
    bytes_free(&b->section.data);
    bytes_free(&b->scratch);
    bytes_free(&b->far);
    bytes_free(&b->other);
    bytes_free(&b->argument);
    bytes_free(&b->threads_text);
    free(b->thread_mark);
    free(b->thread_last);
    free(b->at.resync);
    bytes_free(&b->at.begun);
    free(b);
}

void block_writer_image(struct block_writer *b, uint32_t image, struct live *live)
{
    free(b->at.resync);
    bytes_free(&b->at.begun);
    memset(&b->at, 0, sizeof b->at);
    b->at.image = image;
    b->at.live = live;
    b->n = 0;
}

void block_writer_save(struct block_writer *b, struct block_position *p)
{
    *p = b->at;
    memset(&b->at, 0, sizeof b->at);
}

void block_writer_restore(struct block_writer *b, struct block_position *p)
{
    free(b->at.resync);
    bytes_free(&b->at.begun);
    b->at = *p;
    memset(p, 0, sizeof *p);
    b->n = 0;
}

uint64_t block_writer_blocks(const struct block_writer *b) { return b->at.blocks; }

bool block_writer_full(const struct block_writer *b) { return b->n == b->limit; }

bool block_writer_empty(const struct block_writer *b) { return !b->n; }

void block_writer_forget(struct block_writer *b)
{
    uint64_t blocks = b->at.blocks;
    block_writer_image(b, b->at.image, b->at.live);
    b->at.blocks = blocks;
}

uint64_t block_writer_events(const struct block_writer *b) { return b->at.events; }

static void begin(struct block_writer *b, const struct block_event *e)
{
    struct live *l = b->at.live;
    b->refs = b->sizes = b->stacks = b->allocs = b->threads = b->calls = 0;
    b->far.n = b->other.n = b->argument.n = b->threads_text.n = 0;
    b->first_event = b->at.events;
    b->first_alloc = b->at.allocs;
    if (!b->at.events)
        b->at.tick = e->tick;
    b->first_tick = b->at.tick;
    b->argument_event = 0;
    b->other_last = 0;
    b->any_path = false;
    b->epoch = b->at.blocks % SEAL_EPOCH_BLOCKS == 0;
    if (b->epoch)
        b->at.epoch_alloc = b->at.allocs;
    memset(&b->predict, 0, sizeof b->predict);
    b->stamp++;
    /* The event's own block is in the table already when it allocates, and still when it
     * releases: the state before it is what the reader has. */
    bool alloc = e->kind == TRACE_ALLOC;
    const struct live_block *own = alloc ? &l->blocks[e->slot] : NULL;
    b->live_bytes = l->bytes - (own ? own->size : 0);
    b->max_live_bytes = b->live_bytes;
    b->used_slots = l->used - (alloc && !l->from_stack);
    b->free_slots = l->top + (alloc && l->from_stack);
    l->least_top = l->top;
}

static uint32_t local_thread(struct block_writer *b, uint32_t thread)
{
    if (thread >= b->thread_cap) {
        size_t cap = b->thread_cap ? b->thread_cap : 64;
        while (cap <= thread)
            cap *= 2;
        uint64_t *m = realloc(b->thread_mark, cap * sizeof *m);
        if (!m)
            return UINT32_MAX;
        memset(m + b->thread_cap, 0, (cap - b->thread_cap) * sizeof *m);
        b->thread_mark = m;
        b->thread_cap = cap;
    }
    uint64_t m = b->thread_mark[thread];
    if (m >> 32 == b->stamp)
        return (uint32_t)m;
    uint32_t local = b->threads;
    if (!ARRAY_ROOM(b->thread_last, (size_t)local + 1, b->thread_last_cap))
        return UINT32_MAX;
    b->thread_last[local] = LIVE_NONE;
    bytes_put_varint(&b->threads_text, thread);
    b->thread_mark[thread] = (uint64_t)b->stamp << 32 | local;
    b->threads++;
    return local;
}

static void put_other(struct block_writer *b, uint64_t address)
{
    if (!address) {
        bytes_put_u8(&b->other, 0);
        return;
    }
    uint64_t a = mlw_ror4(address);
    uint64_t z = mlw_zigzag(a - b->other_last);
    b->other_last = a;
    if (z < UINT64_MAX - 1) {
        bytes_put_varint(&b->other, z + 1);
    } else { /* the two greatest do not fit: written apart */
        bytes_put_varint(&b->other, UINT64_MAX);
        bytes_put_varint(&b->other, z - (UINT64_MAX - 1));
    }
}

int block_writer_add(struct block_writer *b, const struct block_event *e, bool is_call,
                     struct error *err)
{
    struct live *l = b->at.live;
    if (!b->n)
        begin(b, e);
    uint32_t i = b->n++, local = local_thread(b, e->thread);
    if (local == UINT32_MAX)
        return error_memory_for(err, "sealing");
    unsigned kind = e->kind;
    const struct live_block *block = e->slot == TRACE_NO_SLOT ? NULL : &l->blocks[e->slot];
    switch (kind) {
    case TRACE_ALLOC: {
        uint64_t usual = mlw_usual_usable(e->size), difference = 0;
        uint32_t k = b->allocs++;
        b->began[k] = e->slot;
        b->usable[k] = e->usable == usual ? 0 : 1 + mlw_zigzag(e->usable - usual);
        unsigned code = predict_code(&b->predict, e->address, e->usable, &difference);
        b->address[k] = (uint8_t)code;
        if (code == PREDICT_NONE)
            bytes_put_varint(&b->far, difference);
        b->thread_last[local] = e->slot;
        b->at.allocs++;
        if (l->bytes > b->max_live_bytes)
            b->max_live_bytes = l->bytes;
        break;
    }
    case TRACE_FREE_TEMP:
        if (block->born >= b->first_alloc && b->thread_last[local] == e->slot)
            goto tell;
        kind = SEAL_KIND_TEMP_WRITTEN;
        /* fall through */
    case TRACE_FREE:
    case TRACE_FREE_INFERRED:

        b->distance[b->refs] = block->born >= b->first_alloc
                                   ? (uint32_t)(b->at.allocs - 1 - block->born) << 1
                                   : e->slot << 1 | 1;
        b->ref[b->refs++] = e->slot;

    tell:
        if (block->born >= b->at.epoch_alloc)
            predict_release(&b->predict, block->address, predict_class(block->usable));
        break;
    default: put_other(b, e->address); break;
    }
    b->code[i] = (uint8_t)(kind << 5 | e->op);
    b->thread[i] = local;
    uint64_t tick = e->tick < b->at.tick ? b->at.tick : e->tick;
    b->time[i] = tick - b->at.tick;
    b->at.tick = tick;
    if (seal_has_size(e->op))
        b->size[b->sizes++] = e->size;
    if (seal_has_stack(e->op))
        b->stack[b->stacks++] = e->stack;
    b->path[i] = e->path;
    b->any_path |= e->path != 0;
    if (e->argument) {
        bytes_put_varint(&b->argument, i - b->argument_event);
        bytes_put_varint(&b->argument, e->argument);
        b->argument_event = i + 1;
    }
    b->calls += is_call;
    b->at.events++;
    return 0;
}

/* What the stack of free slots has become since the block began, for the next one. */
static int keep_resync(struct block_writer *b, struct error *err)
{
    const struct live *l = b->at.live;
    size_t n = 1 + (l->top - l->least_top);
    uint32_t *r = realloc(b->at.resync, n * sizeof *r);
    if (!r)
        return error_memory_for(err, "sealing");
    r[0] = l->least_top;
    if (n > 1)
        memcpy(r + 1, l->free_slots + l->least_top, (n - 1) * sizeof *r);
    b->at.resync = r;
    b->at.resync_n = n;
    uint64_t last = 0;
    b->at.begun.n = 0;
    for (uint32_t i = 0; i < b->allocs; i++) {
        if (i + 16 < b->allocs)
            __builtin_prefetch(&l->blocks[b->began[i + 16]]);
        const struct live_block *k = &l->blocks[b->began[i]];
        if (k->live && k->born == b->first_alloc + i) {
            bytes_put_varint(&b->at.begun, mlw_zigzag(b->began[i] - last));
            last = b->began[i];
        }
    }
    if (b->at.begun.failed)
        return error_memory_for(err, "sealing");
    return 0;
}

/* The references in the mode that is smaller; which one is tried anew every few blocks. */
static void put_references(struct block_writer *b)
{
    struct section *s = &b->section;
    bool wide = b->used_slots >> 30 != 0; /* a slot may not fit a distance's number */
    if (wide)
        b->at.reference = SEAL_REFERENCE_SLOT;
    if (wide || b->at.blocks % REFERENCE_TRIES) {
        section_put_u32(b->w, s, SEAL_COL_REFERENCE, b->at.reference ? b->distance : b->ref,
                        b->refs, &b->scratch);
    } else {
        size_t before = s->data.n;
        uint16_t streams = s->header.streams;
        section_put_u32(b->w, s, SEAL_COL_REFERENCE, b->distance, b->refs, &b->scratch);
        size_t distance = s->data.n - before;
        s->data.n = before;
        s->header.streams = streams;
        section_put_u32(b->w, s, SEAL_COL_REFERENCE, b->ref, b->refs, &b->scratch);
        b->at.reference = SEAL_REFERENCE_SLOT;
        if (distance < s->data.n - before) {
            s->data.n = before;
            s->header.streams = streams;
            section_put_u32(b->w, s, SEAL_COL_REFERENCE, b->distance, b->refs, &b->scratch);
            b->at.reference = SEAL_REFERENCE_DISTANCE;
        }
    }
    s->block.reference = (uint8_t)b->at.reference;
}

int block_writer_flush(struct block_writer *b, struct error *err)
{
    if (!b->n)
        return 0;
    struct section *s = &b->section;
    struct seal_writer *w = b->w;
    section_begin(s, SEAL_BLOCK, b->at.image, b->at.blocks);
    s->block = (struct seal_block){
        .first_event = b->first_event,
        .first_tick = b->first_tick,
        .last_tick = b->at.tick,
        .live_bytes = b->live_bytes,
        .max_live_bytes = b->max_live_bytes,
        .events = b->n,
        .allocs = b->allocs,
        .used_slots = b->used_slots,
        .free_slots = b->free_slots,
        .threads = b->threads,
        .new_slots = b->at.live->used - b->used_slots,
        .calls = b->calls,
        .address_epoch = b->epoch,
    };
    section_put(w, s, SEAL_COL_CODE, SEAL_PART_BYTES, b->code, b->n);
    section_put(w, s, SEAL_COL_THREADS, SEAL_PART_BYTES, b->threads_text.data, b->threads_text.n);
    if (b->threads > 1)
        section_put_u32(w, s, SEAL_COL_THREAD, b->thread, b->n, &b->scratch);
    put_references(b);
    section_put_u64(w, s, SEAL_COL_SIZE, b->size, b->sizes, &b->scratch);
    section_put_u32(w, s, SEAL_COL_STACK, b->stack, b->stacks, &b->scratch);
    section_put_u64(w, s, SEAL_COL_TIME, b->time, b->n, &b->scratch);
    section_put(w, s, SEAL_COL_ADDRESS, SEAL_PART_BYTES, b->address, b->allocs);
    section_put(w, s, SEAL_COL_FAR, SEAL_PART_BYTES, b->far.data, b->far.n);
    section_put(w, s, SEAL_COL_OTHER, SEAL_PART_BYTES, b->other.data, b->other.n);
    section_put_u64(w, s, SEAL_COL_USABLE, b->usable, b->allocs, &b->scratch);
    if (b->any_path)
        section_put(w, s, SEAL_COL_PATH, SEAL_PART_BYTES, b->path, b->n);
    section_put(w, s, SEAL_COL_ARGUMENT, SEAL_PART_BYTES, b->argument.data, b->argument.n);
    section_put_u32(w, s, SEAL_COL_RESYNC, b->at.resync, b->at.resync_n, &b->scratch);
    section_put(w, s, SEAL_COL_BEGUN, SEAL_PART_BYTES, b->at.begun.data, b->at.begun.n);
    if (b->far.failed || b->other.failed || b->argument.failed || b->threads_text.failed)
        return error_memory_for(err, "sealing");
    if (section_write(w, s, err) || keep_resync(b, err))
        return -1;
    b->at.blocks++;
    b->n = 0;
    return 0;
}
