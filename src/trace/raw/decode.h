/* decode.h - the call rows of a chunk, quickly.
 *
 * Owns: decoding the common rows, without branches that depend on data. Refuses:
 * all other rows, which mlw_row_decode (format/row.h) reads. Reads up to DECODE_SPARE bytes from
 * the start of a row, which must be there. The caller checks that the row ends within its chunk.
 * Any thread. */
#ifndef MALLOW_TRACE_RAW_DECODE_H
#define MALLOW_TRACE_RAW_DECODE_H

#include <string.h>

#include "format/row.h"

#define DECODE_SPARE 64u

/* Two fields that follow each other, by the four bits of a header that say how wide they are. */
struct decode_pair {
    uint64_t first, second; /* masks of their bits */
    uint8_t first_bytes, bytes;
} __attribute__((
    aligned(32))); /* aligned, so that a few bits of the header give its place in a table */

#define DECODE_MASK(log2) (UINT64_MAX >> (64 - (8 << (log2))))
#define DECODE_PLACE(a, b)                                                                         \
    {                                                                                              \
        DECODE_MASK(a), DECODE_MASK(b), 1 << (a), (1 << (a)) + (1 << (b))                          \
    }
#define DECODE_PLACES(b)                                                                           \
    DECODE_PLACE(0, b), DECODE_PLACE(1, b), DECODE_PLACE(2, b), DECODE_PLACE(3, b)
#define DECODE_STACK(a, mask, length)                                                              \
    {                                                                                              \
        DECODE_MASK(a), mask, 1 << (a), (1 << (a)) + (length)                                      \
    }
#define DECODE_STACKS(mask, length)                                                                \
    DECODE_STACK(0, mask, length), DECODE_STACK(1, mask, length), DECODE_STACK(2, mask, length),   \
        DECODE_STACK(3, mask, length)

static const struct decode_pair decode_time_address[16] = {DECODE_PLACES(0), DECODE_PLACES(1),
                                                           DECODE_PLACES(2), DECODE_PLACES(3)};
static const struct decode_pair decode_size_stack[16] = {
    DECODE_STACKS(0, 0), DECODE_STACKS(0xff, 1), DECODE_STACKS(0xffff, 2),
    DECODE_STACKS(0xffffffff, 4)};

static inline uint64_t decode_word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Decodes the fields that the highest bits of a header announce. */
static inline const uint8_t *decode_rest(const uint8_t *p, unsigned header, bool routed,
                                         struct mlw_row *row)
{
    const uint32_t extra = (uint32_t)decode_word(p);
    p += header >> 11 & 4;
    if (header >> 14 & 1) {
        row->argument = decode_word(p);
        p += 8;
    }
    row->path = header >> 15 ? *p++ : 0;
    if (__builtin_expect(routed && mlw_path_is_routed(row->path), 0))
        mlw_row_take_route(row, *p++);
    if (row->path & MLW_PATH_FAILED || !row->address || !mlw_op_has(row->op, MLW_F_STACK))
        row->usable = 0;
    else if (header >> 13 & 1)
        row->usable = row->size + extra;
    return p;
}

/* Decodes a call row. Returns where the next row begins, or NULL if mlw_row_decode must read
 * this one. */
static inline const uint8_t *decode_call(const uint8_t *p, struct mlw_row_state *st,
                                         struct mlw_row *row)
{
    /* By operation: 0, or which of its rows' fields are here to be read. */
#define DECODE_FIELDS(sym, num, name, fields, class_, standard)                                    \
    [num] = ((fields)&MLW_F_ALLOC) == MLW_F_SIZED ? 0 : (fields)&MLW_F_ALLOC,
    static const uint8_t fields_of[MLW_OP_COUNT] = {MLW_OPS(DECODE_FIELDS)};
#undef DECODE_FIELDS
    const unsigned header = (unsigned)p[0] | (unsigned)p[1] << 8, op = header & 31;
    const unsigned fields = fields_of[op];
    if (!fields)
        return NULL;
    const struct decode_pair *const place = &decode_time_address[header >> 5 & 15];
    st->clock += decode_word(p + 2) & place->first;
    st->address += mlw_unzigzag(decode_word(p + 2 + place->first_bytes) & place->second);
    p += 2 + place->bytes;
    const uint64_t address = mlw_rol4(st->address);
    uint64_t usable = 0;
    row->op = (uint8_t)op;
    row->path = 0;
    row->route = 0;
    row->clock = st->clock;
    row->address = address;
    row->size = row->argument = 0;
    row->stack = 0;
    if (fields == MLW_F_ALLOC) {
        const struct decode_pair *const what = &decode_size_stack[header >> 9 & 15];
        const uint64_t size = decode_word(p) & what->first;
        row->size = size;
        row->stack = (uint32_t)(decode_word(p + what->first_bytes) & what->second);
        usable = address ? mlw_usual_usable(size) : 0;
        p += what->bytes;
    }
    row->usable = usable;
    return __builtin_expect(header >> 13, 0) ? decode_rest(p, header, st->routed, row) : p;
}

#endif
