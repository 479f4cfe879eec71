/* row.h - the rows of an event chunk: how one call becomes 5 to 44 bytes.
 *
 * Owns: the byte layout of a row, its encoder (used inside the traced program, so: no libc, no
 * branches that data decides) and its bounds-checked decoder. docs/format.md specifies the same.
 *
 * A call row is a header and these fields, little-endian, in this order:
 *
 *   field     bytes      when
 *   header    2          always; see below
 *   time      1 2 4 8    always: clock ticks since the previous row of the stream; in the first
 *                        row, since the base_clock of the chunk
 *   address   1 2 4 8    always: zigzag(ror(address, 4) - ror(previous address, 4)); the previous
 *                        one of the first row is base_address
 *   size      1 2 4 8    the operation has MLW_F_SIZE: requested bytes
 *   stack     0 1 2 4    id of a node; 0 bytes: none
 *   usable    4          header bit 13: usable minus requested bytes; absent: what glibc gives,
 *                        mlw_usual_usable()
 *   argument  8          header bit 14
 *   path      1 2        header bit 15: enum mlw_path; absent: 0. Bits MLW_PATH_ROUTED, which are
 *                        never both of the path, say that a second byte follows: enum mlw_route in
 *                        bits 0-5, and these two bits of the path in 6 and 7
 *
 * header: bits 0-4 the operation, 5-6 log2 of the bytes of time, 7-8 of address, 9-10 of size,
 * 11-12 a code for those of stack (0, 1, 2, 4), 13 to 15 as above.
 *
 * A META row (operation 31) is u16 header (the operation only), u8 kind, u16 length, payload. It
 * has no time and no address. */
#ifndef MALLOW_FORMAT_ROW_H
#define MALLOW_FORMAT_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"
#include "route.h"

#define MLW_ROW_MAX 48 /* an encoder may touch this many bytes past the start of a row */

enum mlw_meta {
    MLW_META_NODE = 1,         /* u32 id, u32 parent (0 = outermost), u64 pc, u32 module (0 = none),
                                  u8 flags (MLW_NODE_*): one frame below its parent */
    MLW_META_MODULE = 2,       /* u32 id (from 1), u64 start, u64 end, u64 bias, u8 n, n bytes of
                                  build-id, u16 m, m bytes of path */
    MLW_META_MODULE_GONE = 3,  /* u32 id, u64 clock */
    MLW_META_MARK = 4,         /* u64 clock, u16 n, n bytes of label */
    MLW_META_THREAD_START = 5, /* u64 clock, u16 n, n bytes of name; the chunk says which thread */
    MLW_META_THREAD_END = 6,   /* u64 clock */
    MLW_META_CONTROL = 7,      /* u64 clock, u8 enum mlw_control */
    MLW_META_LOST = 8          /* u64 clock, u64 calls not recorded since the last one, u8 reason;
                                  a reader takes it, no recorder of this version writes it */
};

enum mlw_node_flags {
    MLW_NODE_EXACT = 1,     /* pc is the interrupted instruction, not a return address */
    MLW_NODE_TRUNCATED = 2, /* not a frame: the stack could not be unwound beyond this (pc = 0 or
                               the pc at which it stopped); always a root (parent 0) */
    MLW_NODE_FP = 4         /* found through a frame pointer, not through unwind tables */
};

enum mlw_control {
    MLW_CONTROL_START = 1,
    MLW_CONTROL_STOP = 2,
    MLW_CONTROL_PAUSE = 3,
    MLW_CONTROL_UNPAUSE = 4,
    MLW_CONTROL_SYNC = 5,
    MLW_CONTROL_RESET = 6 /* discard everything recorded before */
};

enum mlw_lost_reason {
    MLW_LOST_SINK = 1,   /* the file could not be written: full disk, limit, lost descriptor */
    MLW_LOST_BUFFER = 2, /* no buffer could be had for a thread */
    MLW_LOST_NESTED = 3, /* signal handler inside a signal handler inside the recorder */
    MLW_LOST_CHUNK = 4,  /* reader: a chunk is missing or damaged */
    MLW_LOST_BOUND = 5   /* kept back: the file of a flight recorder was at its bound */
};

struct mlw_row {
    uint64_t clock;   /* absolute, in ticks of the recording's clock */
    uint64_t address; /* 0 when there is none */
    uint64_t size;
    uint64_t usable; /* usable bytes, 0 when unknown or failed */
    union {
        uint64_t argument;
        const uint8_t *meta_data; /* a META row's bytes inside the chunk */
    };
    uint32_t stack;
    uint8_t op; /* enum mlw_op */
    union {
        uint8_t path; /* enum mlw_path */
        uint8_t meta; /* a META row's enum mlw_meta */
    };
    union {
        uint16_t meta_bytes; /* a META row's */
        uint16_t route;      /* enum mlw_route; 0 when it was not recorded */
    };
};

/* The running state of a stream: equal in encoder and decoder. */
struct mlw_row_state {
    uint64_t clock;
    uint64_t address; /* already rotated right by 4 */
    bool routed;      /* decoding: rows may have a route, as of format version 2 on */
};

#define MLW_INLINE static inline __attribute__((always_inline, unused))

/* Usable bytes that glibc's malloc gives for a request that it serves from a chunk: the row then
 * carries no usable field. */
MLW_INLINE uint64_t mlw_usual_usable(uint64_t size)
{
    uint64_t chunk = (size + 8 + 15) & ~(uint64_t)15;
    return (chunk < 32 ? 32 : chunk) - 8;
}

MLW_INLINE uint64_t mlw_ror4(uint64_t v) { return v >> 4 | v << 60; }
MLW_INLINE uint64_t mlw_rol4(uint64_t v) { return v << 4 | v >> 60; }
MLW_INLINE uint64_t mlw_zigzag(uint64_t d) { return d << 1 ^ (uint64_t)((int64_t)d >> 63); }
MLW_INLINE uint64_t mlw_unzigzag(uint64_t z) { return z >> 1 ^ -(z & 1); }

/* The sum that the encoder makes: the header, and above it the bytes of the row so far. */
#define MLW_ROW_BYTES_SHIFT 16
#define MLW_ROW_FIELD(bytes, code, at)                                                             \
    ((uint32_t)(bytes) << MLW_ROW_BYTES_SHIFT | (uint32_t)(code) << (at))
enum mlw_row_field { MLW_ROW_TIME, MLW_ROW_ADDRESS, MLW_ROW_SIZE, MLW_ROW_STACK, MLW_ROW_FIELDS };

/* That sum for the field of a number: one look at a table instead of comparisons. A stack of 0 has
 * no field, and is not asked for. */
MLW_INLINE uint32_t mlw_row_field(enum mlw_row_field field, uint64_t v)
{
#define MLW_WIDTHS(at)                                                                             \
    {                                                                                              \
        MLW_ROW_FIELD(1, 0, at), MLW_ROW_FIELD(2, 1, at), MLW_ROW_FIELD(4, 2, at),                 \
            MLW_ROW_FIELD(4, 2, at), MLW_ROW_FIELD(8, 3, at), MLW_ROW_FIELD(8, 3, at),             \
            MLW_ROW_FIELD(8, 3, at), MLW_ROW_FIELD(8, 3, at)                                       \
    }
    static const uint32_t by_highest_byte[MLW_ROW_FIELDS][8] __attribute__((aligned(64))) = {
        [MLW_ROW_TIME] = MLW_WIDTHS(5),
        [MLW_ROW_ADDRESS] = MLW_WIDTHS(7),
        [MLW_ROW_SIZE] = MLW_WIDTHS(9),
        [MLW_ROW_STACK] = {MLW_ROW_FIELD(1, 1, 11), MLW_ROW_FIELD(2, 2, 11),
                           MLW_ROW_FIELD(4, 3, 11), MLW_ROW_FIELD(4, 3, 11)},
    };
#undef MLW_WIDTHS
    return by_highest_byte[field][(63u ^ (unsigned)__builtin_clzll(v)) >> 3];
}

MLW_INLINE void mlw_put(uint8_t *p, uint64_t v) { __builtin_memcpy(p, &v, 8); }

/* Both bytes of the path of a row with a route. */
MLW_INLINE uint16_t mlw_path_routed(unsigned path, unsigned route)
{
    return (uint16_t)(path | MLW_PATH_ROUTED | (route & MLW_ROUTE_BITS) << 8 |
                      (path & MLW_PATH_ROUTED) << 9);
}

/* True if, by the first byte of a path, a second one follows. */
MLW_INLINE int mlw_path_is_routed(unsigned path)
{
    return (path & MLW_PATH_ROUTED) == MLW_PATH_ROUTED;
}

/* A row whose header and time make up `sum` so far. routed, a constant: it has a route. */
MLW_INLINE uint8_t *mlw_row_put(uint8_t *p, uint32_t sum, unsigned fields, uint64_t dt, uint64_t da,
                                uint64_t size, uint32_t stack, int has_usable,
                                uint32_t usable_extra, uint64_t argument, unsigned path, int routed,
                                unsigned route)
{
    mlw_put(p + 2, dt);
    mlw_put(p + (sum >> MLW_ROW_BYTES_SHIFT), da);
    sum += mlw_row_field(MLW_ROW_ADDRESS, da | 1);
    if (fields & MLW_F_SIZE) {
        mlw_put(p + (sum >> MLW_ROW_BYTES_SHIFT), size);
        sum += mlw_row_field(MLW_ROW_SIZE, size | 1);
    }
    if (fields & MLW_F_STACK && stack) { /* either all rows of a thread have one, or none */
        __builtin_memcpy(p + (sum >> MLW_ROW_BYTES_SHIFT), &stack, 4);
        sum += mlw_row_field(MLW_ROW_STACK, stack);
    }
    if (__builtin_expect(has_usable, 0)) {
        __builtin_memcpy(p + (sum >> MLW_ROW_BYTES_SHIFT), &usable_extra, 4);
        sum += MLW_ROW_FIELD(4, 1, 13);
    }
    if (__builtin_expect(argument != 0, 0)) {
        mlw_put(p + (sum >> MLW_ROW_BYTES_SHIFT), argument);
        sum += MLW_ROW_FIELD(8, 1, 14);
    }
    if (routed) {
        const uint16_t both = mlw_path_routed(path, route);
        __builtin_memcpy(p + (sum >> MLW_ROW_BYTES_SHIFT), &both, 2);
        sum += MLW_ROW_FIELD(2, 1, 15);
    } else if (path) {
        p[sum >> MLW_ROW_BYTES_SHIFT] = (uint8_t)path;
        sum += MLW_ROW_FIELD(1, 1, 15);
    }
    const uint16_t header = (uint16_t)sum;
    __builtin_memcpy(p, &header, 2);
    return p + (sum >> MLW_ROW_BYTES_SHIFT);
}

/* One whose time takes another number of bytes than two: rare, and the same code for all calls. */
static __attribute__((noinline, cold, unused)) uint8_t *
mlw_row_put_late(uint8_t *p, unsigned op, unsigned fields, uint64_t dt, uint64_t da, uint64_t size,
                 uint32_t stack, int has_usable, uint32_t usable_extra, uint64_t argument,
                 unsigned path)
{
    const uint32_t sum = MLW_ROW_FIELD(2, op, 0) + mlw_row_field(MLW_ROW_TIME, dt);
    return mlw_row_put(p, sum, fields, dt, da, size, stack, has_usable, usable_extra, argument,
                       path, 0, 0);
}

/* Encodes one call row at p (MLW_ROW_MAX bytes must be free there) and returns its end.
 * fields: MLW_F_* of the operation, a constant at every call, so that unused parts vanish.
 * usable_extra: usable - size when it is not the usual one, else 0 with has_usable 0. */
MLW_INLINE uint8_t *mlw_row_encode(uint8_t *p, struct mlw_row_state *st, unsigned op,
                                   unsigned fields, uint64_t clock, uint64_t address, uint64_t size,
                                   uint32_t stack, int has_usable, uint32_t usable_extra,
                                   uint64_t argument, unsigned path)
{
    const uint64_t dt = clock - st->clock, a = mlw_ror4(address), da = mlw_zigzag(a - st->address);
    st->clock = clock;
    st->address = a;
    /* Two bytes of time nearly always: a branch that is predicted keeps the place of the next row
     * from waiting for the clock. */
    if (__builtin_expect(dt > 0xffff, 0))
        return mlw_row_put_late(p, op, fields, dt, da, size, stack, has_usable, usable_extra,
                                argument, path);
    return mlw_row_put(p, MLW_ROW_FIELD(4, 1, 5) + op, fields, dt, da, size, stack, has_usable,
                       usable_extra, argument, path, 0, 0);
}

/* The same of a row with a route, which is the last byte: it may be put there later. */
MLW_INLINE uint8_t *mlw_row_encode_routed(uint8_t *p, struct mlw_row_state *st, unsigned op,
                                          unsigned fields, uint64_t clock, uint64_t address,
                                          uint64_t size, uint32_t stack, int has_usable,
                                          uint32_t usable_extra, uint64_t argument, unsigned path,
                                          unsigned route)
{
    const uint64_t dt = clock - st->clock, a = mlw_ror4(address), da = mlw_zigzag(a - st->address);
    st->clock = clock;
    st->address = a;
    const uint32_t sum = MLW_ROW_FIELD(2, op, 0) + mlw_row_field(MLW_ROW_TIME, dt | 1);
    return mlw_row_put(p, sum, fields, dt, da, size, stack, has_usable, usable_extra, argument,
                       path, 1, route);
}

/* The second byte of a path. */
MLW_INLINE void mlw_row_take_route(struct mlw_row *row, unsigned second)
{
    row->path = (uint8_t)((row->path & ~MLW_PATH_ROUTED) | (second >> 1 & MLW_PATH_ROUTED));
    row->route = (uint16_t)(second & MLW_ROUTE_BITS);
}

/* Decodes the row at p, which must lie before end. Returns the start of the next row, or NULL when
 * the bytes are not a row (unknown operation, runs past the end): the rest of the chunk is then
 * unreadable. Never reads at or past end. */
MLW_INLINE const uint8_t *mlw_row_decode(const uint8_t *p, const uint8_t *end,
                                         struct mlw_row_state *st, struct mlw_row *row)
{
    if (end - p < 4)
        return 0;
    unsigned header = (unsigned)p[0] | (unsigned)p[1] << 8;
    unsigned op = header & 31;
    p += 2;
    row->op = (uint8_t)op;
    if (op == MLW_OP_META) {
        if (end - p < 3)
            return 0;
        row->meta = p[0];
        row->meta_bytes = (uint16_t)(p[1] | p[2] << 8);
        row->meta_data = p + 3;
        if (end - p < 3 + (ptrdiff_t)row->meta_bytes)
            return 0;
        return p + 3 + row->meta_bytes;
    }
    unsigned fields = mlw_op_fields(op);
    if (!fields)
        return 0;
    unsigned tl = 1u << (header >> 5 & 3), al = 1u << (header >> 7 & 3);
    unsigned sl = fields & MLW_F_SIZE ? 1u << (header >> 9 & 3) : 0;
    unsigned kl = fields & MLW_F_STACK ? (1u << (header >> 11 & 3)) >> 1 : 0;
    unsigned need =
        tl + al + sl + kl + (header >> 13 & 1) * 4 + (header >> 14 & 1) * 8 + (header >> 15 & 1);
    if ((size_t)(end - p) < need)
        return 0;
    uint64_t v[4] = {0, 0, 0, 0};
    const unsigned lens[4] = {tl, al, sl, kl};
    for (unsigned i = 0; i < 4; i++) {
        if (end - p >= 8) {
            uint64_t w;
            __builtin_memcpy(&w, p, 8);
            v[i] = lens[i] == 8 ? w : w & (((uint64_t)1 << lens[i] * 8) - 1);
        } else {
            for (unsigned b = 0; b < lens[i]; b++)
                v[i] |= (uint64_t)p[b] << b * 8;
        }
        p += lens[i];
    }
    st->clock += v[0];
    st->address += mlw_unzigzag(v[1]);
    row->clock = st->clock;
    row->address = mlw_rol4(st->address);
    row->size = v[2];
    row->stack = (uint32_t)v[3];
    row->usable = 0;
    uint32_t extra = 0;
    if (header >> 13 & 1) {
        __builtin_memcpy(&extra, p, 4);
        p += 4;
    }
    row->argument = 0;
    if (header >> 14 & 1) {
        __builtin_memcpy(&row->argument, p, 8);
        p += 8;
    }
    row->path = 0;
    row->route = 0;
    if (header >> 15 & 1) {
        row->path = *p++;
        if (st->routed && mlw_path_is_routed(row->path)) {
            if (p == end)
                return 0;
            mlw_row_take_route(row, *p++);
        }
    }
    if (fields & MLW_F_STACK && row->address && !(row->path & MLW_PATH_FAILED))
        row->usable = header >> 13 & 1 ? row->size + extra : mlw_usual_usable(row->size);
    return p;
}

/* The length of the whole rows at the start of a payload, and the call rows among them. st: of the
 * chunk's head. */
static inline __attribute__((unused)) uint32_t
mlw_whole_rows(const uint8_t *payload, uint32_t bytes, struct mlw_row_state st, uint32_t *calls)
{
    const uint8_t *p = payload, *end = payload + bytes;
    struct mlw_row row;
    *calls = 0;
    while (p < end) {
        const uint8_t *next = mlw_row_decode(p, end, &st, &row);
        if (!next)
            break;
        *calls += row.op != MLW_OP_META;
        p = next;
    }
    return (uint32_t)(p - payload);
}

#endif
