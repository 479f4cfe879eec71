/* block_write.c - Fills blocks of event columns for each image and flushes full ones. A block
 * begins with all state that a reader needs, so that every block can be decoded alone. A spare
 * block lets the packing thread work while the next one fills. */
#include "block_fill.h"

/* Packing a block of fewer events takes no longer than another thread needs to wake up. */
#define GIVEN_LEAST 4096u

struct block_writer *block_writer_new(struct seal_writer *w, uint64_t calls, unsigned threads,
                                      struct error *err)
{
    struct block_writer *b = calloc(1, sizeof *b);
    if (!b || !(b->now = columns_new())) {
        free(b);
        error_memory_for(err, "sealing");
        return NULL;
    }
    b->pack.w = w;
    b->may_start = threads != 0;
    uint64_t part = calls / SEAL_BLOCK_PARTS;
    b->limit = part < SEAL_BLOCK_LEAST    ? SEAL_BLOCK_LEAST
               : part < SEAL_BLOCK_EVENTS ? (uint32_t)part
                                          : SEAL_BLOCK_EVENTS;
    return b;
}

void block_writer_beside(struct block_writer *b) { b->may_start = !b->packer; }

void block_writer_free(struct block_writer *b)
{
    if (!b)
        return;
    packer_close(b->packer);
    columns_free(b->now);
    columns_free(b->spare);
    pack_free(&b->pack);
    free(b->thread_mark);
    free(b->thread_last);
    free(b->at.resync);
    bytes_free(&b->at.begun);
    free(b);
}

/* Until no block is being packed: then the spare is filled anew, and the file's end is known. */
static int settle_spare(struct block_writer *b, struct error *err)
{
    if (!b->packer)
        return 0;
    const int status = packer_wait(b->packer, err);
    if (b->continues)
        b->at.reference = b->spare->reference;
    b->continues = false;
    return status;
}

struct seal_writer *block_writer_lend(struct block_writer *b, struct error *err)
{
    return settle_spare(b, err) ? NULL : b->pack.w;
}

/* The next event is the first of a block, and looks for its thread there. */
static void start_over(struct block_writer *b)
{
    b->n = 0;
    b->thread = UINT32_MAX;
}

void block_writer_image(struct block_writer *b, uint32_t image, struct live *live)
{
    free(b->at.resync);
    bytes_free(&b->at.begun);
    memset(&b->at, 0, sizeof b->at);
    b->continues = false;
    b->at.image = image;
    b->at.live = live;
    start_over(b);
}

int block_writer_save(struct block_writer *b, struct block_position *p, struct error *err)
{
    if (settle_spare(b, err))
        return -1;
    *p = b->at;
    memset(&b->at, 0, sizeof b->at);
    return 0;
}

void block_writer_restore(struct block_writer *b, struct block_position *p)
{
    free(b->at.resync);
    bytes_free(&b->at.begun);
    b->at = *p;
    b->continues = false;
    memset(p, 0, sizeof *p);
    start_over(b);
}

uint64_t block_writer_blocks(const struct block_writer *b) { return b->at.blocks; }

bool block_writer_empty(const struct block_writer *b) { return !b->n; }

void block_writer_forget(struct block_writer *b)
{
    uint64_t blocks = b->at.blocks;
    block_writer_image(b, b->at.image, b->at.live);
    b->at.blocks = blocks;
}

uint64_t block_writer_events(const struct block_writer *b) { return b->at.events + b->n; }

static void begin_block_write(struct block_writer *b, uint64_t tick)
{
    b->refs = b->sizes = b->stacks = b->allocs = b->threads = b->places = b->others = 0;
    struct columns *c = b->now;
    c->far.n = c->other.n = c->argument.n = c->threads_text.n = 0;
    b->first_alloc = b->at.allocs;
    if (!b->at.events)
        b->at.tick = tick;
    b->first_tick = b->at.tick;
    b->argument_event = 0;
    b->other_last = 0;
    b->any_path = b->any_route = false;
    b->epoch = b->at.blocks % SEAL_EPOCH_BLOCKS == 0;
    if (b->epoch)
        b->at.epoch_alloc = b->at.allocs;
    b->stamp++;
    b->max_live_bytes = b->at.live_bytes;
}

/* The first event of the thread in the block. */
static uint32_t new_thread(struct block_writer *b, uint32_t thread)
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
    uint32_t local = b->threads;
    if (!ARRAY_ROOM(b->thread_last, (size_t)local + 1, b->thread_last_cap))
        return UINT32_MAX;
    if (local == 1) /* the column is not written while there is one thread */
        memset(b->now->thread, 0, b->n * sizeof *b->now->thread);
    b->thread_last[local] = LIVE_NONE;
    bytes_put_varint(&b->now->threads_text, thread);
    b->thread_mark[thread] = (uint64_t)b->stamp << 32 | local;
    b->threads++;
    return local;
}

bool block_fill_turn(struct block_writer *b, uint64_t tick, uint32_t thread)
{
    if (!b->n)
        begin_block_write(b, tick);
    const uint64_t mark = thread < b->thread_cap ? b->thread_mark[thread] : 0;
    const uint32_t local = mark >> 32 == b->stamp ? (uint32_t)mark : new_thread(b, thread);
    if (local == UINT32_MAX)
        return false;
    b->thread = thread;
    b->local = local;
    return true;
}

void block_fill_other(struct block_writer *b, uint64_t address)
{
    if (!address) {
        bytes_put_u8(&b->now->other, 0);
        return;
    }
    uint64_t a = mlw_ror4(address);
    uint64_t z = mlw_zigzag(a - b->other_last);
    b->other_last = a;
    if (z < UINT64_MAX - 1) {
        bytes_put_varint(&b->now->other, z + 1);
    } else { /* the two greatest do not fit: written apart */
        bytes_put_varint(&b->now->other, UINT64_MAX);
        bytes_put_varint(&b->now->other, z - (UINT64_MAX - 1));
    }
}

void block_fill_no_paths(struct block_writer *b, uint32_t before)
{
    memset(b->now->path, 0, before);
    b->any_path = true;
}

void block_fill_no_routes(struct block_writer *b, uint32_t before)
{
    memset(b->now->route, 0, before);
    b->any_route = true;
}

void block_fill_argument(struct block_writer *b, uint32_t i, uint64_t argument)
{
    bytes_put_varint(&b->now->argument, i - b->argument_event);
    bytes_put_varint(&b->now->argument, argument);
    b->argument_event = i + 1;
}

int block_writer_add(struct block_writer *b, const struct block_event *e, bool is_call,
                     struct error *err)
{
    switch (e->kind) {
    case TRACE_ALLOC: return block_fill(b, TRACE_ALLOC, e, is_call, err);
    case TRACE_FREE:
    case TRACE_FREE_TEMP:
    case TRACE_FREE_INFERRED: return block_fill(b, TRACE_FREE, e, is_call, err);
    default: return block_fill(b, TRACE_OTHER, e, is_call, err);
    }
}

/* Keeps the stack of free slots as it is now, for the next block. */
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
        const uint32_t slot = b->now->began[i];
        if (slot == TRACE_NO_SLOT)
            continue;
        bytes_put_varint(&b->at.begun, mlw_zigzag(slot - last));
        last = slot;
    }
    if (b->at.begun.failed)
        return error_memory_for(err, "sealing");
    return 0;
}

/* Puts the stack that the block before left into this one; its memory is used again. */
static void take_resync(struct block_writer *b, struct columns *c)
{
    uint32_t *const resync = c->resync;
    const struct bytes begun = c->begun;
    c->resync = b->at.resync;
    c->resync_n = b->at.resync_n;
    c->begun = b->at.begun;
    b->at.resync = resync;
    b->at.resync_n = 0;
    b->at.begun = begun;
}

/* True if the block is for a packer, which is then there, and a spare as well. */
static bool begin_packer(struct block_writer *b)
{
    if (b->n < GIVEN_LEAST)
        return false;
    if (b->may_start) {
        b->may_start = false;
        if ((b->spare = columns_new()))
            b->packer = packer_open(&b->pack);
    }
    return b->packer;
}

int block_writer_flush(struct block_writer *b, struct error *err)
{
    if (!b->n)
        return 0;
    struct columns *c = b->now;
    struct live *l = b->at.live;
    c->image = b->at.image;
    c->number = b->at.blocks;
    c->head = (struct seal_block){
        .first_event = b->at.events,
        .first_tick = b->first_tick,
        .last_tick = b->at.tick,
        .live_bytes = b->at.live_bytes,
        .max_live_bytes = b->max_live_bytes,
        .events = b->n,
        .allocs = b->allocs,
        .used_slots = b->at.used,
        .free_slots = b->at.free,
        .threads = b->threads,
        .new_slots = l->used - b->at.used,
        .calls = b->n - b->others,
        .address_epoch = b->epoch,
    };
    c->refs = b->refs;
    c->sizes = b->sizes;
    c->stacks = b->stacks;
    c->any_path = b->any_path;
    c->any_route = b->any_route;
    take_resync(b, c);
    if (keep_resync(b, err) || settle_spare(b, err))
        return -1;
    c->reference = b->at.reference;
    if (begin_packer(b)) {
        packer_give(b->packer, c);
        b->now = b->spare;
        b->spare = c;
        b->continues = true;
    } else {
        if (pack_block(&b->pack, c, err))
            return -1;
        b->at.reference = c->reference;
    }
    b->at.blocks++;
    b->at.events += b->n;
    b->at.allocs += b->allocs;
    b->at.live_bytes = l->bytes;
    b->at.used = l->used;
    b->at.free = l->least_top = l->top;
    start_over(b);
    return 0;
}
