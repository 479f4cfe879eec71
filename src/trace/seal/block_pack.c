/* block_pack.c - Compresses the columns of a full block and writes them as a section, in the
 * caller's thread or in one of its own. The caller fills one block while the thread packs the
 * other; a lock guards the hand-over. An error in the thread is returned by the next
 * packer_wait. */
#include "block_pack.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

#define REFERENCE_TRIES 8u

struct columns *columns_new(void) { return calloc(1, sizeof(struct columns)); }

void columns_free(struct columns *c)
{
    if (!c)
        return;
    bytes_free(&c->far);
    bytes_free(&c->other);
    bytes_free(&c->argument);
    bytes_free(&c->threads_text);
    bytes_free(&c->begun);
    free(c->resync);
    free(c);
}

void pack_free(struct pack *p)
{
    bytes_free(&p->section.data);
    bytes_free(&p->scratch);
}

/* The references in the mode that is smaller; which one is tried anew every few blocks. */
static void pack_references(struct pack *p, struct columns *c)
{
    struct section *s = &p->section;
    bool wide = c->head.used_slots >> 30 != 0; /* a slot may not fit a distance's number */
    if (wide)
        c->reference = SEAL_REFERENCE_SLOT;
    if (wide || c->number % REFERENCE_TRIES) {
        section_put_u32(p->w, s, SEAL_COL_REFERENCE, c->reference ? c->distance : c->ref, c->refs,
                        &p->scratch);
    } else {
        size_t before = s->data.n;
        uint16_t streams = s->header.streams;
        section_put_u32(p->w, s, SEAL_COL_REFERENCE, c->distance, c->refs, &p->scratch);
        size_t distance = s->data.n - before;
        s->data.n = before;
        s->header.streams = streams;
        section_put_u32(p->w, s, SEAL_COL_REFERENCE, c->ref, c->refs, &p->scratch);
        c->reference = SEAL_REFERENCE_SLOT;
        if (distance < s->data.n - before) {
            s->data.n = before;
            s->header.streams = streams;
            section_put_u32(p->w, s, SEAL_COL_REFERENCE, c->distance, c->refs, &p->scratch);
            c->reference = SEAL_REFERENCE_DISTANCE;
        }
    }
    s->block.reference = (uint8_t)c->reference;
}

/* The columns of addresses and usable sizes. An allocation stands no later in them than among the
 * places, so usable sizes take the place of places that were read. */
static void make_addresses(struct columns *c)
{
    struct predict predict = {.last = 0};
    uint32_t place = 0, alloc = 0, sizes = 0;
    for (uint32_t i = 0; i < c->head.events; i++) {
        const unsigned kind = c->code[i] >> 5, op = c->code[i] & 31;
        if (kind == TRACE_ALLOC) {
            const uint64_t address = c->where[place], usable = c->usable[place];
            uint64_t difference = 0;
            const unsigned code = predict_code(&predict, address, usable, &difference);
            c->address[alloc] = (uint8_t)code;
            if (code == PREDICT_NONE)
                bytes_put_varint(&c->far, difference);
            c->usable[alloc++] = seal_usable_code(c->size[sizes++], usable);
            place++;
            continue;
        }
        if (kind != TRACE_FREE_UNKNOWN && kind != TRACE_OTHER) {
            if (c->where[place])
                predict_release(&predict, c->where[place], predict_class(c->usable[place]));
            place++;
        }
        sizes += seal_has_size(op);
    }
}

static void put_bytes(struct pack *p, unsigned id, const struct bytes *b)
{
    if (b->failed)
        p->section.data.failed = true;
    section_put(p->w, &p->section, id, SEAL_PART_BYTES, b->data, b->n);
}

int pack_block(struct pack *p, struct columns *c, struct error *err)
{
    struct section *s = &p->section;
    struct seal_writer *w = p->w;
    const uint32_t n = c->head.events, allocs = c->head.allocs;
    make_addresses(c);
    section_begin(s, SEAL_BLOCK, c->image, c->number);
    s->block = c->head;
    section_put(w, s, SEAL_COL_CODE, SEAL_PART_BYTES, c->code, n);
    put_bytes(p, SEAL_COL_THREADS, &c->threads_text);
    if (c->head.threads > 1)
        section_put_u32(w, s, SEAL_COL_THREAD, c->thread, n, &p->scratch);
    pack_references(p, c);
    section_put_u64(w, s, SEAL_COL_SIZE, c->size, c->sizes, &p->scratch);
    section_put_u32(w, s, SEAL_COL_STACK, c->stack, c->stacks, &p->scratch);
    section_put_u64(w, s, SEAL_COL_TIME, c->time, n, &p->scratch);
    section_put(w, s, SEAL_COL_ADDRESS, SEAL_PART_BYTES, c->address, allocs);
    put_bytes(p, SEAL_COL_FAR, &c->far);
    put_bytes(p, SEAL_COL_OTHER, &c->other);
    section_put_u64(w, s, SEAL_COL_USABLE, c->usable, allocs, &p->scratch);
    if (c->any_path)
        section_put(w, s, SEAL_COL_PATH, SEAL_PART_BYTES, c->path, n);
    if (c->any_route)
        section_put(w, s, SEAL_COL_ROUTE, SEAL_PART_BYTES, c->route, n);
    put_bytes(p, SEAL_COL_ARGUMENT, &c->argument);
    section_put_u32(w, s, SEAL_COL_RESYNC, c->resync, c->resync_n, &p->scratch);
    put_bytes(p, SEAL_COL_BEGUN, &c->begun);
    return section_write(w, s, err);
}

/* --- the thread --- */

struct packer {
    struct pack *pack;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    /* under the lock */
    struct columns *block; /* NULL: it has none */
    bool stop;
    int status; /* the status of the last one */
    struct error err;
};

static void *run_packer(void *arg)
{
    struct packer *k = arg;
    pthread_mutex_lock(&k->lock);
    for (;;) {
        while (!k->block && !k->stop)
            pthread_cond_wait(&k->given, &k->lock);
        struct columns *block = k->block;
        if (!block)
            break;
        pthread_mutex_unlock(&k->lock);
        struct error err;
        const int status = pack_block(k->pack, block, &err);
        pthread_mutex_lock(&k->lock);
        k->block = NULL;
        k->status = status;
        if (status)
            k->err = err;
        pthread_cond_signal(&k->done);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

static void release_packer(struct packer *k)
{
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->given);
    pthread_cond_destroy(&k->done);
    free(k);
}

struct packer *packer_open(struct pack *p)
{
    struct packer *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->pack = p;
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->given, NULL);
    pthread_cond_init(&k->done, NULL);
    if (thread_start(&k->thread, run_packer, k)) {
        release_packer(k);
        return NULL;
    }
    return k;
}

void packer_give(struct packer *k, struct columns *c)
{
    pthread_mutex_lock(&k->lock);
    k->block = c;
    pthread_cond_signal(&k->given);
    pthread_mutex_unlock(&k->lock);
}

int packer_wait(struct packer *k, struct error *err)
{
    pthread_mutex_lock(&k->lock);
    while (k->block)
        pthread_cond_wait(&k->done, &k->lock);
    const int status = k->status;
    if (status)
        *err = k->err;
    pthread_mutex_unlock(&k->lock);
    return status;
}

void packer_close(struct packer *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->given);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    release_packer(k);
}
