/* format.h - the bytes of a workload file (.mwl). docs/workload.md is the specification.
 *
 * Owns: the numbers of the records and their variants, the heads of the file and of its chunks, and
 * the encoding of numbers. Types and inline functions only: the replayer, which must not allocate,
 * includes it too. */
#ifndef MALLOW_WORKLOAD_FORMAT_H
#define MALLOW_WORKLOAD_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/chunk.h"
#include "format/op.h"

#define WORKLOAD_MAGIC       0x314c574du /* "MWL1" */
#define WORKLOAD_CHUNK_MAGIC 0x434c574du /* "MWLC" */
#define WORKLOAD_END_MAGIC   0x454c574du /* "MWLE" */
#define WORKLOAD_VERSION     1u
#define WORKLOAD_PAYLOAD_MAX (32u << 10) /* bytes of a chunk of records, at most */
#define WORKLOAD_GENERATIONS (1u << 20)  /* a slot has lives 1 .. this - 1 */
#define WORKLOAD_SLOTS_MAX   (1u << 31)
#define WORKLOAD_THREADS_MAX (1u << 24)

struct workload_head {
    uint32_t magic, version;
    uint64_t zero;
};

enum workload_chunk_kind { WORKLOAD_CHUNK_RECORDS = 1, WORKLOAD_CHUNK_SUMMARY = 2 };

/* 56 bytes, then ops_bytes, runs_bytes and pace_bytes of payload. */
struct workload_chunk {
    uint32_t magic;
    uint32_t kind;     /* enum workload_chunk_kind */
    uint64_t checksum; /* workload_checksum */
    uint32_t thread;   /* index into the table of threads */
    uint32_t records;
    uint32_t ops_bytes, runs_bytes, pace_bytes;
    uint32_t zero;
    uint64_t first_place; /* the place of the first record in the order of the whole workload */
    uint64_t first_ns;    /* time of the first record, since the first record of all */
};

struct workload_tail { /* the last 16 bytes of a file */
    uint64_t summary_offset;
    uint32_t magic, zero;
};

_Static_assert(sizeof(struct workload_head) == 16, "the head is 16 bytes");
_Static_assert(sizeof(struct workload_chunk) == 56, "a chunk's head is 56 bytes");
_Static_assert(sizeof(struct workload_tail) == 16, "the tail is 16 bytes");

/* A record's first byte: code | variant << 5. Codes 1 to 12 are those of enum mlw_op. */
enum workload_code {
    WORKLOAD_EARLY = 20,   /* the old half of a realloc in whose middle other threads acted */
    WORKLOAD_PRESENT = 21, /* a block from before: allocated, neither counted nor timed */
    WORKLOAD_VANISH = 22,  /* a block whose free was lost: freed, neither counted nor timed */
    WORKLOAD_MOVE = 23,    /* a block changes its slot; no call */
    WORKLOAD_START = 24,   /* a thread starts */
    WORKLOAD_END = 25,     /* this thread ends, when so many threads have begun */
    WORKLOAD_POOL = 26     /* the thread's next block is one of pool 1 to WORKLOAD_POOLS; no call */
};
#define WORKLOAD_CODES 32u
#define WORKLOAD_POOLS 8u

enum workload_alloc { /* variants of allocations, PRESENT, realloc(NULL, n) */
                      WORKLOAD_OWN =
                          0, /* into the slot on top of the thread's own stack of free slots */
                      WORKLOAD_NEW = 1,   /* slot: never used before */
                      WORKLOAD_TAKEN = 2, /* slot, generation: wait until that life of it is over */
                      WORKLOAD_FAILED = 3, /* returned NULL */
                      WORKLOAD_LOCAL = 4,  /* realloc only: slot */
                      WORKLOAD_HANDED =
                          5, /* realloc only: slot, generation: wait for that life of it */
                      WORKLOAD_ZERO = 6,       /* realloc(p, 0) that freed: slot */
                      WORKLOAD_ZERO_HANDED = 7 /* the same: slot, generation */
};

enum workload_release { /* variants of frees and VANISH; bit 1 also of EARLY and MOVE */
                        WORKLOAD_DONATE = 1, /* bit: the slot does not go onto the thread's stack */
                        WORKLOAD_FROM_OTHER =
                            2, /* bit: a generation follows the slot: wait for that life of it */
                        WORKLOAD_NULL = 4 /* free(NULL); no slot */
};

enum workload_thread_flags {
    WORKLOAD_THREAD_MAIN = 1,  /* the process's first thread */
    WORKLOAD_THREAD_BEGIN = 2, /* there from the beginning: no START names it */
    WORKLOAD_THREAD_STAYS = 4  /* did not end before the process did */
};

/* Tags of the summary's numbers. */
enum workload_fact {
    WORKLOAD_FACT_SLOTS = 1,
    WORKLOAD_FACT_SEATS = 2,      /* threads that are alive at once, at most */
    WORKLOAD_FACT_RECORDS = 3,    /* places */
    WORKLOAD_FACT_OPERATIONS = 4, /* calls */
    WORKLOAD_FACT_PEAK_BYTES = 5, /* the recording's largest sum of live requested bytes */
    WORKLOAD_FACT_PEAK_BLOCKS = 6,
    WORKLOAD_FACT_DURATION_NS = 7,
    WORKLOAD_FACT_UNKNOWN_FREES = 8, /* frees of blocks that the recording did not see begin */
    WORKLOAD_FACT_LOST_CALLS = 9,
    WORKLOAD_FACT_NOT_REPLAYED = 10, /* mmap family, brk, malloc_usable_size */
    WORKLOAD_FACT_PRESENT = 11,
    WORKLOAD_FACT_END_BYTES = 12, /* live at the end */
    WORKLOAD_FACT_END_BLOCKS = 13,
    WORKLOAD_FACT_COUNT = 14
};

static inline unsigned workload_code(uint8_t first) { return first & 31u; }
static inline unsigned workload_variant(uint8_t first) { return first >> 5; }

/* The codes that are calls: the operations of the C library's heap, as bits. */
#define WORKLOAD_CALL_BIT(sym, num, name, fields, class_, standard)                                \
    | (MLW_OP_##standard == (num) ? 1u << (num) : 0)
enum { WORKLOAD_CALLS = 0 MLW_OPS(WORKLOAD_CALL_BIT) };
#undef WORKLOAD_CALL_BIT

static inline bool workload_is_of(unsigned code, unsigned set)
{
    return (set & (unsigned)WORKLOAD_CALLS) >> (code & 31u) & 1;
}
static inline bool workload_is_call(unsigned code) { return workload_is_of(code, ~0u); }
/* True if a call of this code makes a block by itself (not realloc), and whether an alignment
 * stands before its size. */
static inline bool workload_allocates(unsigned code)
{
    return workload_is_of(code, mlw_op_set(MLW_CLASS_ALLOC)) || code == WORKLOAD_PRESENT;
}
static inline bool workload_aligned(unsigned code)
{
    return workload_is_of(code, mlw_op_set_having(MLW_CLASS_ALLOC, MLW_F_ALIGN));
}
static inline bool workload_reallocates(unsigned code)
{
    return workload_is_of(code, mlw_op_set(MLW_CLASS_RESIZE_NEW));
}
static inline bool workload_releases(unsigned code)
{
    return workload_is_of(code, mlw_op_set(MLW_CLASS_RELEASE)) || code == WORKLOAD_VANISH;
}
/* True if a release names the size, and before it the alignment. */
static inline bool workload_release_sized(unsigned code)
{
    return workload_is_of(code, mlw_op_set_having(MLW_CLASS_RELEASE, MLW_F_SIZE));
}
static inline bool workload_release_aligned(unsigned code)
{
    return workload_is_of(code, mlw_op_set_having(MLW_CLASS_RELEASE, MLW_F_ALIGN));
}

/* Numbers: 7 bits a byte, least significant first. Signed ones as zigzag. Differences of slots and
 * generations wrap at 32 bits. */
static inline uint8_t *workload_put(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}
/* Up to 28 bits, without a branch on their number, which no processor could predict. Writes 4
 * bytes; the next number overwrites those behind this one. */
static inline uint8_t *workload_put_short(uint8_t *p, uint64_t v)
{
    if (__builtin_expect(v >> 28, 0))
        return workload_put(p, v);
    static const uint32_t go_on[] = {0, 0x80, 0x8080, 0x808080};
    const unsigned last_bit = 31u - (unsigned)__builtin_clz((uint32_t)v | 1);
    const unsigned more = last_bit * 37 >> 8; /* by 7 */
    uint32_t x = (uint32_t)v;
    x = (x & 0x3fff) | (x & 0xfffc000) << 2;
    x = (x & 0x7f007f) | (x & 0x3f803f80) << 1 | go_on[more];
    memcpy(p, &x, sizeof x);
    return p + more + 1;
}

static inline uint8_t *workload_put_difference(uint8_t *p, uint32_t value, uint32_t last)
{
    uint32_t d = value - last;
    return workload_put(p, (uint32_t)(d << 1) ^ (uint32_t)((int32_t)d >> 31));
}

/* Unchecked, for bytes that workload_check has passed. */
static inline uint64_t workload_get(const uint8_t **pp)
{
    const uint8_t *p = *pp;
    uint64_t v = *p++;
    if (__builtin_expect(v & 0x80, 0)) {
        v &= 0x7f;
        unsigned shift = 7;
        uint64_t c;
        do {
            c = *p++;
            v |= (c & 0x7f) << (shift & 63);
            shift += 7;
        } while (c & 0x80);
    }
    *pp = p;
    return v;
}
/* The same without a branch on how many bytes it has, up to 4, which no processor could predict.
 * Looks at WORKLOAD_AHEAD bytes. */
#define WORKLOAD_AHEAD 4u
static inline uint64_t workload_get_short(const uint8_t **pp)
{
    uint32_t x;
    __builtin_memcpy(&x, *pp, sizeof x); /* -fno-builtin is on in the replayer */
    const uint32_t ends = ~x & 0x80808080;
    if (__builtin_expect(!ends, 0))
        return workload_get(pp);
    *pp += ((unsigned)__builtin_ctz(ends) >> 3) + 1;
    x &= ends ^ (ends - 1); /* up to the last byte of it */
    x = (x & 0x7f007f) | (x & 0x7f007f00) >> 1;
    return (x & 0x3fff) | (x & 0x3fff0000) >> 2;
}
static inline uint32_t workload_get_difference(const uint8_t **pp, uint32_t last)
{
    uint32_t z = (uint32_t)workload_get_short(pp);
    return last + ((z >> 1) ^ (uint32_t) - (int32_t)(z & 1));
}

/* The same, checked: false when the number runs past `end`, has more than 10 bytes, or does not fit
 * 64 bits. */
static inline bool workload_get_checked(const uint8_t **pp, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    const uint8_t *p = *pp;
    for (unsigned shift = 0; shift < 70 && p < end; shift += 7) {
        uint64_t c = *p++;
        if (shift == 63 && c > 1)
            return false;
        v |= (c & 0x7f) << shift;
        if (!(c & 0x80)) {
            *pp = p;
            *out = v;
            return true;
        }
    }
    return false;
}

/* For a chunk: its head with checksum 0, then the payload. */
static inline uint64_t workload_checksum(const struct workload_chunk *c, const void *payload,
                                         size_t payload_bytes)
{
    struct workload_chunk copy = *c;
    copy.checksum = 0;
    return mlw_checksum_part(mlw_checksum_part(0, &copy, sizeof copy), payload, payload_bytes);
}

#endif
