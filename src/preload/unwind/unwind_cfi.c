/* unwind_cfi.c - reads .eh_frame: the unwind rule of one code address.
 *
 * Owns: the binary search in .eh_frame_hdr, the CIE and FDE formats, the call frame instructions
 * and as much of DWARF's expressions as compilers and libc put there (DWARF 5, 6.4; Linux Standard
 * Base, "Exception Frames"). It follows two registers only, rbp and the return address, since the
 * rules that it makes need no others. Refuses: frames whose CFA is in another register. The bytes
 * are the host's own memory: nothing is read outside the given bounds, every loop consumes input,
 * and garbage gives UW_CFA_NONE. No state but the caller's memo, any thread, any signal. The memo
 * is for calls one after the other in one function, of which a compiler may have thousands: the
 * next one goes on where the last one left the instructions. */
#include "arch/registers.h"
#include "unwind_impl.h"

enum {
    PE_ABSPTR = 0,
    PE_ULEB = 1,
    PE_UDATA2 = 2,
    PE_UDATA4 = 3,
    PE_UDATA8 = 4,
    PE_SLEB = 9,
    PE_SDATA2 = 10,
    PE_SDATA4 = 11,
    PE_SDATA8 = 12,
    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_ALIGNED = 0x50,
    PE_INDIRECT = 0x80,
    PE_OMIT = 0xff
};

/* Input between p and end; once it has run over, bad is set and reads give 0. */
struct in {
    const uint8_t *p, *end;
    bool bad;
};

static bool cfi_input_has(struct in *in, size_t n)
{
    if (UW_UNLIKELY(in->bad || (size_t)(in->end - in->p) < n)) {
        in->bad = true;
        in->p = in->end;
        return false;
    }
    return true;
}

#define READER(name, type)                                                                         \
    static type name(struct in *in)                                                                \
    {                                                                                              \
        type v = 0;                                                                                \
        if (cfi_input_has(in, sizeof v)) {                                                         \
            __builtin_memcpy(&v, in->p, sizeof v);                                                 \
            in->p += sizeof v;                                                                     \
        }                                                                                          \
        return v;                                                                                  \
    }
READER(get_u8, uint8_t)
READER(get_u16, uint16_t)
READER(get_u32, uint32_t)
READER(get_u64, uint64_t)

static void skip(struct in *in, uint64_t n)
{
    if (cfi_input_has(in, n))
        in->p += n;
}

static __attribute__((noinline)) uint64_t get_long_uleb(struct in *in)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t b;
    do {
        b = get_u8(in);
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
    } while (b & 0x80);
    return v;
}

static inline uint64_t get_uleb(struct in *in)
{
    return UW_LIKELY(in->p < in->end && *in->p < 0x80) ? *in->p++ : get_long_uleb(in);
}

static int64_t get_sleb(struct in *in)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t b;
    do {
        b = get_u8(in);
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
    } while (b & 0x80);
    if (b & 0x40 && shift < 64)
        v |= ~(uint64_t)0 << shift;
    return (int64_t)v;
}

/* An encoded pointer; `data` is the base of PE_DATAREL. */
static uint64_t get_encoded(struct in *in, uint8_t enc, const uint8_t *data)
{
    const uint8_t *const here = in->p;
    uint64_t v;
    switch (enc & 0x0f) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8: v = get_u64(in); break;
    case PE_ULEB: v = get_uleb(in); break;
    case PE_SLEB: v = (uint64_t)get_sleb(in); break;
    case PE_UDATA2: v = get_u16(in); break;
    case PE_SDATA2: v = (uint64_t)(int16_t)get_u16(in); break;
    case PE_UDATA4: v = get_u32(in); break;
    case PE_SDATA4: v = (uint64_t)(int32_t)get_u32(in); break;
    default: in->bad = true; return 0;
    }
    switch (enc & 0x70) {
    case 0: break;
    case PE_PCREL: v += (uint64_t)here; break;
    case PE_DATAREL:
        if (!data)
            in->bad = true;
        v += (uint64_t)data;
        break;
    default: in->bad = true; /* relative to text or function, or aligned: not on x86-64 */
    }
    return v;
}

/* ---- expressions ---- */

enum term { T_CONST, T_RSP, T_RBP, T_AT_RSP, T_AT_RBP };
struct value {
    enum term term;
    int64_t n; /* T_CONST: n; T_RSP: rsp + n; T_AT_RSP: *(rsp + n) */
};

static bool binary(uint8_t op, struct value *a, struct value b)
{
    if (op == 0x22 && (a->term == T_CONST || b.term == T_CONST)) { /* plus */
        struct value sum = a->term == T_CONST ? b : *a;
        if (sum.term == T_AT_RSP || sum.term == T_AT_RBP)
            return false;
        sum.n = (int64_t)((uint64_t)a->n + (uint64_t)b.n);
        *a = sum;
        return true;
    }
    if (b.term != T_CONST)
        return false;
    if (op == 0x1c && (a->term == T_CONST || a->term == T_RSP || a->term == T_RBP)) { /* minus */
        a->n = (int64_t)((uint64_t)a->n - (uint64_t)b.n);
        return true;
    }
    if (a->term != T_CONST)
        return false;
    uint64_t x = (uint64_t)a->n, y = (uint64_t)b.n, z;
    switch (op) {
    case 0x1a: z = x & y; break;
    case 0x1e: z = x * y; break;
    case 0x21: z = x | y; break;
    case 0x24: z = y < 64 ? x << y : 0; break;
    case 0x25: z = y < 64 ? x >> y : 0; break;
    case 0x27: z = x ^ y; break;
    case 0x29: z = x == y; break;
    case 0x2a: z = a->n >= b.n; break;
    case 0x2b: z = a->n > b.n; break;
    case 0x2c: z = a->n <= b.n; break;
    case 0x2d: z = a->n < b.n; break;
    case 0x2e: z = x != y; break;
    default: return false;
    }
    a->n = (int64_t)z;
    return true;
}

/* Evaluates with rsp and rbp unknown and the pc known. That covers the expressions in use: the
 * PLT's (rsp + 8 or 16, by pc), realigned frames (*(rbp + k)), signal frames (*(rsp + k)). */
static bool evaluate_expression(const uint8_t *p, const uint8_t *end, uint64_t pc,
                                struct value *result)
{
    struct in in = {p, end, false};
    struct value stack[8];
    unsigned n = 0;
    while (in.p < in.end) {
        uint8_t op = get_u8(&in);
        struct value v = {T_CONST, 0};
        bool push = true;
        if (op >= 0x30 && op <= 0x4f) { /* lit0.. */
            v.n = op - 0x30;
        } else if (op >= 0x70 && op <= 0x8f) { /* breg0.. */
            v.n = get_sleb(&in);
            switch (op - 0x70) {
            case ARCH_DWARF_SP: v.term = T_RSP; break;
            case ARCH_DWARF_FP: v.term = T_RBP; break;
            case ARCH_DWARF_RA: v.n = (int64_t)((uint64_t)v.n + pc); break;
            default: return false;
            }
        } else {
            switch (op) {
            case 0x08: v.n = get_u8(&in); break;
            case 0x09: v.n = (int8_t)get_u8(&in); break;
            case 0x0a: v.n = get_u16(&in); break;
            case 0x0b: v.n = (int16_t)get_u16(&in); break;
            case 0x0c: v.n = get_u32(&in); break;
            case 0x0d: v.n = (int32_t)get_u32(&in); break;
            case 0x0e:
            case 0x0f: v.n = (int64_t)get_u64(&in); break;
            case 0x10: v.n = (int64_t)get_uleb(&in); break;
            case 0x11: v.n = get_sleb(&in); break;
            case 0x12: /* dup */
                if (!n)
                    return false;
                v = stack[n - 1];
                break;
            case 0x06: /* deref */
                if (!n || (stack[n - 1].term != T_RSP && stack[n - 1].term != T_RBP))
                    return false;
                stack[n - 1].term = stack[n - 1].term == T_RSP ? T_AT_RSP : T_AT_RBP;
                push = false;
                break;
            case 0x23: /* plus_uconst */
                if (!n)
                    return false;
                v.n = (int64_t)get_uleb(&in);
                if (!binary(0x22, &stack[n - 1], v))
                    return false;
                push = false;
                break;
            case 0x96: push = false; break; /* nop */
            default:
                if (n < 2 || !binary(op, &stack[n - 2], stack[n - 1]))
                    return false;
                n--;
                push = false;
            }
        }
        if (push) {
            if (n == sizeof stack / sizeof stack[0])
                return false;
            stack[n++] = v;
        }
    }
    if (in.bad || n == 0)
        return false;
    *result = stack[n - 1];
    return true;
}

/* ---- call frame instructions ---- */

static struct uw_cfi_place *cfi_place(struct uw_cfi_row *row, uint64_t reg)
{
    return reg == ARCH_DWARF_FP ? &row->rbp : reg == ARCH_DWARF_RA ? &row->ra : 0;
}

static void set_place(struct uw_cfi_row *row, uint64_t reg, enum uw_cfi_how how, int64_t offset)
{
    struct uw_cfi_place *p = cfi_place(row, reg);
    if (p)
        *p = (struct uw_cfi_place){how, offset, 0, 0};
}

static void get_block(struct in *in, const uint8_t **bytes, const uint8_t **bytes_end)
{
    uint64_t n = get_uleb(in);
    if (!cfi_input_has(in, n))
        n = 0;
    *bytes = in->p;
    in->p += n;
    *bytes_end = in->p;
}

/* An instruction that says what the CFA is. False: it is none of these. */
static inline bool define_cfa(const struct uw_cfi_cie *cie, uint8_t op, struct in *in,
                              struct uw_cfi_row *row)
{
    switch (op) {
    case 0x0c: /* def_cfa */
        row->cfa_register = (uint32_t)get_uleb(in);
        row->cfa_offset = (int64_t)get_uleb(in);
        row->cfa_bytes = 0;
        return true;
    case 0x0d: /* def_cfa_register */
        row->cfa_register = (uint32_t)get_uleb(in);
        row->cfa_bytes = 0;
        return true;
    case 0x0e: row->cfa_offset = (int64_t)get_uleb(in); return true;
    case 0x0f: get_block(in, &row->cfa_bytes, &row->cfa_bytes_end); return true;
    case 0x12: /* def_cfa_sf */
        row->cfa_register = (uint32_t)get_uleb(in);
        row->cfa_offset = (int64_t)((uint64_t)get_sleb(in) * (uint64_t)cie->data_align);
        row->cfa_bytes = 0;
        return true;
    case 0x13: /* def_cfa_offset_sf */
        row->cfa_offset = (int64_t)((uint64_t)get_sleb(in) * (uint64_t)cie->data_align);
        return true;
    default: return false;
    }
}

static inline void restore_place(struct uw_cfi_row *row, uint64_t reg,
                                 const struct uw_cfi_row *initial)
{
    struct uw_cfi_place *place = cfi_place(row, reg);
    if (place)
        *place = reg == ARCH_DWARF_FP ? initial->rbp : initial->ra;
}

/* An instruction that says where a register is saved. False: it is none of these. */
static inline bool define_place(const struct uw_cfi_cie *cie, uint8_t op, struct in *in,
                                const struct uw_cfi_row *initial, struct uw_cfi_row *row)
{
    const uint8_t *bytes, *bytes_end;
    struct uw_cfi_place *place;
    uint64_t reg;
    switch (op) {
    case 0x05: /* offset_extended */
        reg = get_uleb(in);
        set_place(row, reg, UW_PLACE_OFFSET, (int64_t)(get_uleb(in) * (uint64_t)cie->data_align));
        return true;
    case 0x06: restore_place(row, get_uleb(in), initial); return true;
    case 0x07: set_place(row, get_uleb(in), UW_PLACE_UNDEFINED, 0); return true;
    case 0x08: set_place(row, get_uleb(in), UW_PLACE_SAME, 0); return true;
    case 0x09: /* register */
    case 0x14: /* val_offset, val_offset_sf: a value, not a place */
    case 0x15:
        set_place(row, get_uleb(in), UW_PLACE_OTHER, 0);
        get_uleb(in);
        return true;
    case 0x10: /* expression */
        place = cfi_place(row, get_uleb(in));
        get_block(in, &bytes, &bytes_end);
        if (place)
            *place = (struct uw_cfi_place){UW_PLACE_EXPRESSION, 0, bytes, bytes_end};
        return true;
    case 0x11: /* offset_extended_sf */
        reg = get_uleb(in);
        set_place(row, reg, UW_PLACE_OFFSET,
                  (int64_t)((uint64_t)get_sleb(in) * (uint64_t)cie->data_align));
        return true;
    case 0x16: /* val_expression */
        set_place(row, get_uleb(in), UW_PLACE_OTHER, 0);
        get_block(in, &bytes, &bytes_end);
        return true;
    case 0x2f: /* GNU_negative_offset_extended */
        reg = get_uleb(in);
        set_place(row, reg, UW_PLACE_OFFSET,
                  (int64_t) - (get_uleb(in) * (uint64_t)cie->data_align));
        return true;
    default: return false;
    }
}

static void begin_run(struct uw_cfi_run *r, const uint8_t *at, uint64_t location,
                      const struct uw_cfi_row *row)
{
    r->at = at;
    r->location = location;
    r->depth = 0;
    r->row = *row;
}

/* Goes on with a program until it ends, or stands before an instruction that moves its location
 * beyond `address`. `initial` is what "restore" goes back to. */
static bool run_cfi(const struct uw_cfi_cie *cie, struct uw_cfi_run *r, const uint8_t *end,
                    uint64_t address, const struct uw_cfi_row *initial)
{
    struct in in = {r->at, end, false};
    uint64_t location = r->location;
    while (in.p < in.end) {
        const uint8_t *const here = in.p;
        uint8_t op = get_u8(&in);
        uint64_t low = op & 0x3f, delta = 0;
        switch (op & 0xc0) {
        case 0x40: delta = low; goto advance;
        case 0x80: /* offset */
            set_place(&r->row, low, UW_PLACE_OFFSET,
                      (int64_t)(get_uleb(&in) * (uint64_t)cie->data_align));
            continue;
        case 0xc0: restore_place(&r->row, low, initial); continue;
        default: break;
        }
        switch (op) {
        case 0x00: break;
        case 0x01: /* set_loc */ location = get_encoded(&in, cie->pointer_encoding, 0); goto moved;
        case 0x02: delta = get_u8(&in); goto advance;
        case 0x03: delta = get_u16(&in); goto advance;
        case 0x04:
            delta = get_u32(&in);
            goto advance;
        advance:
            location += delta * cie->code_align;
        moved:
            if (location > address) {
                r->at = here;
                return !in.bad;
            }
            r->location = location;
            break;
        case 0x0a: /* remember_state */
            if (r->depth == UW_CFI_REMEMBERED)
                return false;
            r->saved[r->depth++] = r->row;
            break;
        case 0x0b: /* restore_state */
            if (!r->depth)
                return false;
            r->row = r->saved[--r->depth];
            break;
        case 0x2d: break;                /* GNU_window_save: not here */
        case 0x2e: get_uleb(&in); break; /* GNU_args_size: does not move the CFA */
        default:
            if (!define_cfa(cie, op, &in, &r->row) && !define_place(cie, op, &in, initial, &r->row))
                return false;
        }
    }
    r->at = in.p;
    return !in.bad;
}

/* ---- entries ---- */

/* Opens the entry (CIE or FDE) at p: *in is its body after the length and before the id. */
static bool open_entry(const struct uw_cfi *cfi, const uint8_t *p, struct in *in, uint64_t *id,
                       const uint8_t **id_at)
{
    if (p < cfi->lo || p >= cfi->hi)
        return false;
    *in = (struct in){p, cfi->hi, false};
    uint64_t length = get_u32(in);
    bool wide = length == 0xffffffff;
    if (wide)
        length = get_u64(in);
    if (in->bad || length < 4 || !cfi_input_has(in, length))
        return false;
    in->end = in->p + length;
    *id_at = in->p;
    *id = wide ? get_u64(in) : get_u32(in);
    return !in->bad;
}

static bool open_cie(const struct uw_cfi *cfi, const uint8_t *p, struct uw_cfi_cie *cie)
{
    struct in in;
    uint64_t id;
    const uint8_t *id_at;
    if (!open_entry(cfi, p, &in, &id, &id_at) || id != 0)
        return false;
    *cie = (struct uw_cfi_cie){.pointer_encoding = PE_ABSPTR};
    uint8_t version = get_u8(&in);
    if (version != 1 && version != 3 && version != 4)
        return false;
    const uint8_t *aug = in.p;
    while (get_u8(&in) != 0 && !in.bad)
        ;
    if (version == 4)
        skip(&in, 2); /* sizes of address and segment selector */
    if (in.bad)
        return false;
    cie->code_align = get_uleb(&in);
    cie->data_align = get_sleb(&in);
    uint64_t ra = version == 1 ? get_u8(&in) : get_uleb(&in);
    if (ra != ARCH_DWARF_RA)
        return false;
    if (*aug == 'z') {
        cie->augmented = true;
        uint64_t n = get_uleb(&in);
        if (!cfi_input_has(&in, n))
            return false;
        struct in data = {in.p, in.p + n, false};
        for (aug++; *aug; aug++) {
            if (*aug == 'R') {
                cie->pointer_encoding = get_u8(&data);
            } else if (*aug == 'P') {
                uint8_t enc = get_u8(&data);
                if (enc != PE_OMIT)
                    get_encoded(&data, enc & 0x0f, 0);
            } else if (*aug == 'L') {
                get_u8(&data);
            } else if (*aug == 'S') {
                cie->signal_frame = true;
            } else if (*aug != 'B') {
                break; /* the length says where the instructions start */
            }
        }
        if (data.bad)
            return false;
        in.p += n;
    } else if (*aug) {
        return false;
    }
    cie->program = in.p;
    cie->program_end = in.end;
    return !in.bad;
}

/* The CIE at p in m->cie, and what its instructions say in m->initial. */
static bool take_cie(const struct uw_cfi *cfi, const uint8_t *p, struct uw_cfi_memo *m)
{
    static const struct uw_cfi_row nothing = {.cfa_register = ~0u};
    if (m->cie_at == p)
        return true;
    m->cie_at = 0;
    m->bytes = 0; /* m->run is used */
    if (!open_cie(cfi, p, &m->cie))
        return false;
    begin_run(&m->run, m->cie.program, 0, &nothing);
    m->initial_ok = run_cfi(&m->cie, &m->run, m->cie.program_end, ~(uint64_t)0, &nothing);
    m->initial = m->run.row;
    m->cie_at = p;
    return true;
}

/* 1: the FDE at p covers address; it is in m, below the address `next`. 0: it does not. -1: not
 * understood. */
static int take_fde(const struct uw_cfi *cfi, const uint8_t *p, uint64_t address, uint64_t next,
                    struct uw_cfi_memo *m)
{
    struct in in;
    uint64_t id;
    const uint8_t *id_at;
    m->bytes = 0;
    if (!open_entry(cfi, p, &in, &id, &id_at) || id == 0)
        return -1;
    if (id > (uint64_t)(id_at - cfi->lo) || !take_cie(cfi, id_at - id, m))
        return -1;
    if (m->cie.pointer_encoding & PE_INDIRECT)
        return -1;
    uint64_t begin = get_encoded(&in, m->cie.pointer_encoding, cfi->hdr);
    uint64_t range = get_encoded(&in, m->cie.pointer_encoding & 0x0f, 0);
    if (in.bad)
        return -1;
    if (address - begin >= range)
        return 0;
    if (m->cie.augmented) {
        uint64_t n = get_uleb(&in);
        skip(&in, n);
    }
    if (in.bad)
        return -1;
    m->begin = begin;
    m->bytes = next - begin < range ? next - begin : range;
    m->program = in.p;
    m->program_end = in.end;
    begin_run(&m->run, in.p, begin, &m->initial);
    return 1;
}

/* Walks .eh_frame from its start: for a module whose table is missing or in another encoding. */
static bool find_linear(const struct uw_cfi *cfi, const uint8_t *p, uint64_t address,
                        struct uw_cfi_memo *m)
{
    struct in in;
    uint64_t id;
    const uint8_t *id_at;
    while (open_entry(cfi, p, &in, &id, &id_at)) {
        if (id != 0 && take_fde(cfi, p, address, ~(uint64_t)0, m) == 1)
            return true;
        p = in.end;
    }
    return false;
}

static bool find_fde(const struct uw_cfi *cfi, uint64_t address, struct uw_cfi_memo *m)
{
    if (cfi->hdr < cfi->lo || cfi->hdr >= cfi->hi)
        return false;
    struct in in = {cfi->hdr, cfi->hi, false};
    uint8_t version = get_u8(&in), frame_enc = get_u8(&in), count_enc = get_u8(&in),
            table_enc = get_u8(&in);
    if (in.bad || version != 1 || frame_enc == PE_OMIT)
        return false;
    const uint8_t *frame = (const uint8_t *)get_encoded(&in, frame_enc, cfi->hdr);
    if (count_enc == PE_OMIT || table_enc != (PE_DATAREL | PE_SDATA4))
        return !in.bad && find_linear(cfi, frame, address, m);
    uint64_t count = get_encoded(&in, count_enc, cfi->hdr);
    if (in.bad || count > (uint64_t)(in.end - in.p) / 8 || count == 0)
        return false;
    const uint8_t *table = in.p;
    int64_t wanted = (int64_t)(address - (uint64_t)cfi->hdr);
    uint64_t lo = 0, hi = count;
    int32_t next = 0, fde;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        int32_t at;
        __builtin_memcpy(&at, table + mid * 8, 4);
        if (at <= wanted)
            lo = mid;
        else
            hi = mid;
    }
    if (hi < count)
        __builtin_memcpy(&next, table + hi * 8, 4);
    __builtin_memcpy(&fde, table + lo * 8 + 4, 4);
    return take_fde(cfi, (const uint8_t *)((uint64_t)cfi->hdr + (uint64_t)(int64_t)fde), address,
                    hi < count ? (uint64_t)cfi->hdr + (uint64_t)(int64_t)next : ~(uint64_t)0,
                    m) == 1;
}

/* The packed form holds offsets of 8 * (-2048..2047). */
static bool offset_fits(int64_t offset)
{
    return offset % 8 == 0 && offset >= -16384 && offset < 16384;
}

static uw_rule pack_rule(const struct uw_cfi_row *row, uint64_t address, bool signal_frame)
{
    unsigned cfa, rbp, ra;
    int64_t k = row->cfa_offset, rbp_off = 0, ra_off = 0;
    struct value v;
    if (row->ra.how == UW_PLACE_UNDEFINED)
        return uw_rule_make(UW_CFA_RSP, 0, UW_RBP_SAME, 0, UW_RA_END, 0, signal_frame);
    if (row->cfa_bytes) {
        if (!evaluate_expression(row->cfa_bytes, row->cfa_bytes_end, address, &v))
            return UW_CFA_NONE;
        switch (v.term) {
        case T_RSP: cfa = UW_CFA_RSP; break;
        case T_RBP: cfa = UW_CFA_RBP; break;
        case T_AT_RSP: cfa = UW_CFA_AT_RSP; break;
        case T_AT_RBP: cfa = UW_CFA_AT_RBP; break;
        default: return UW_CFA_NONE;
        }
        k = v.n;
    } else if (row->cfa_register == ARCH_DWARF_SP) {
        cfa = UW_CFA_RSP;
    } else if (row->cfa_register == ARCH_DWARF_FP) {
        cfa = UW_CFA_RBP;
    } else {
        return UW_CFA_NONE;
    }
    if (k != (int32_t)k)
        return UW_CFA_NONE;
    switch (row->rbp.how) {
    case UW_PLACE_SAME:
    case UW_PLACE_UNDEFINED: rbp = UW_RBP_SAME; break;
    case UW_PLACE_OFFSET:
        rbp = UW_RBP_AT_CFA;
        rbp_off = row->rbp.offset;
        break;
    case UW_PLACE_EXPRESSION:
        if (!evaluate_expression(row->rbp.bytes, row->rbp.bytes_end, address, &v) ||
            (v.term != T_RSP && v.term != T_RBP))
            return UW_CFA_NONE;
        rbp = v.term == T_RSP ? UW_RBP_AT_RSP : UW_RBP_AT_RBP;
        rbp_off = v.n;
        break;
    default: return UW_CFA_NONE;
    }
    if (row->ra.how == UW_PLACE_OFFSET) {
        ra_off = row->ra.offset;
        ra = ra_off == -8 ? UW_RA_USUAL : UW_RA_AT_CFA;
    } else if (row->ra.how == UW_PLACE_EXPRESSION) {
        if (!evaluate_expression(row->ra.bytes, row->ra.bytes_end, address, &v) || v.term != T_RSP)
            return UW_CFA_NONE;
        ra = UW_RA_AT_RSP;
        ra_off = v.n;
    } else {
        return UW_CFA_NONE;
    }
    if (!offset_fits(rbp_off) || !offset_fits(ra_off))
        return UW_CFA_NONE;
    return uw_rule_make(cfa, k, rbp, rbp_off, ra, ra_off, signal_frame);
}

uw_rule uw_cfi_rule(const struct uw_cfi *cfi, uint64_t address, uint32_t module,
                    struct uw_cfi_memo *m)
{
    if (!cfi->hdr)
        return UW_RULE_UNCOVERED;
    if (!module || m->module != module) {
        m->module = module;
        m->cie_at = 0;
        m->bytes = 0;
    }
    if (address - m->begin >= m->bytes) {
        if (!find_fde(cfi, address, m)) {
            /* A return address that is the first instruction of a function (and does not follow
             * another's last call) was put there by hand: the bottom of a coroutine, as makecontext
             * makes it. */
            if (find_fde(cfi, address + 1, m) && m->begin == address + 1)
                return uw_rule_make(UW_CFA_RSP, 0, UW_RBP_SAME, 0, UW_RA_END, 0, false);
            return UW_RULE_UNCOVERED;
        }
    } else if (address < m->run.location) {
        begin_run(&m->run, m->program, m->begin, &m->initial);
    }
    if (!m->initial_ok || !run_cfi(&m->cie, &m->run, m->program_end, address, &m->initial)) {
        m->bytes = 0;
        return UW_CFA_NONE;
    }
    return pack_rule(&m->run.row, address, m->cie.signal_frame);
}
