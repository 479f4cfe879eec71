/* store.h - a sealed file that is open: where its sections are, and what they say.
 *
 * Owns: finding the sections of a file (whole, torn or damaged) and the structs that
 * trace_info() hands out. Damaged sections are counted, never fatal, unless nothing is left. */
#ifndef MALLOW_TRACE_SEALED_STORE_H
#define MALLOW_TRACE_SEALED_STORE_H

#include <pthread.h>

#include "block.h"
#include "facts.h"

struct store_block {
    uint64_t offset, number, first_event, first_tick, last_tick;
    uint32_t events, calls, used_slots, new_slots;
    /* Calls of it that were added to lost_calls. The lock guards this and the flags below. */
    uint32_t lost_calls;
    bool damaged; /* it was damaged when the file was opened */
    /* read_damaged: it was damaged when it was read, and is counted. read_whole: it was read to
     * its end. The output of a cursor depends on neither. */
    bool read_damaged, read_whole;
};

struct store_image {
    uint32_t number; /* in the file */
    bool has_facts;
    bool routed;                /* one of its blocks has a column of routes */
    struct store_block *blocks; /* by number */
    size_t block_count, block_cap;
    uint64_t first_block; /* blocks before are void */
    uint64_t tick_ns;
};

/* A sound section of the index. */
struct store_kept {
    uint64_t offset, bytes;
    uint32_t image; /* number in the file */
    uint64_t kind, made_of, made_by, key;
};

struct store {
    int fd;
    pthread_mutex_t lock; /* held while a cursor adds what reading found out (cursor_settle) */
    uint64_t file_bytes;
    uint64_t recorded_bytes; /* bytes without the index behind END */
    uint64_t made_of; /* a sum of the heads of all sections that are no index: with them of every
                         byte that was recorded */
    struct store_kept *kept; /* [kept_count] as they stand in the file */
    size_t kept_count, kept_cap;
    bool kept_torn; /* the index has a part that is not sound */
    bool may_keep;  /* behind the recording, which is whole, there is nothing but an index */
    struct trace_info info;
    struct trace_image *images;  /* info.images points here */
    struct store_image *details; /* one for each */
    struct arena arena;
    uint64_t tick_ns;
    bool has_end; /* the END section is there: the file is whole */
};

/* Opens the sealed file at fd, which stays the caller's. Returns 0, or -1 with *err. */
int store_open(struct store *s, int fd, struct error *err);
void store_close(struct store *s);

#endif
