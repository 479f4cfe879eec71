/* callframes.c - see callframes.h (DWARF 5, 6.4; Linux Standard Base, "Exception Frames"). */
#include "symbol/callframes.h"

#include <dwarf.h>
#include <string.h>

enum { REGISTER_BP = 6, REGISTER_SP = 7, REGISTER_RA = 16, REMEMBERED = 64, EFFORT = 8 };

#define EFFORT_LEAST ((uint64_t)1 << 20)

/* Input in [at, end) of the bytes; once it has run over, bad is set and reads give 0. */
struct in {
    const struct callframes *c;
    size_t at, end;
    bool bad;
};

static bool input_has(struct in *in, uint64_t n)
{
    if (in->bad || in->end - in->at < n) {
        in->bad = true;
        in->at = in->end;
        return false;
    }
    return true;
}

static uint64_t take_fixed(struct in *in, size_t n)
{
    uint64_t v = 0;
    if (input_has(in, n)) {
        memcpy(&v, in->c->bytes + in->at, n); /* little-endian, as the machine */
        in->at += n;
    }
    return v;
}

/* A number of 7 bits a byte; *bits: how many there were. */
static uint64_t get_leb(struct in *in, unsigned *bits, bool *negative)
{
    uint64_t v = 0, byte;
    *bits = 0;
    do {
        byte = take_fixed(in, 1);
        if (*bits < 64)
            v |= (byte & 0x7f) << *bits;
        *bits += 7;
    } while (byte & 0x80);
    *negative = byte & 0x40;
    return v;
}

static uint64_t take_uleb(struct in *in)
{
    unsigned bits;
    bool negative;
    return get_leb(in, &bits, &negative);
}

static int64_t take_sleb(struct in *in)
{
    unsigned bits;
    bool negative;
    uint64_t v = get_leb(in, &bits, &negative);
    if (negative && bits < 64)
        v |= ~(uint64_t)0 << bits;
    return (int64_t)v;
}

static struct in take_input(struct in *in)
{
    const uint64_t n = take_uleb(in);
    struct in block = {.c = in->c, .at = in->at, .end = in->at};
    if (input_has(in, n))
        block.end = in->at += n;
    return block;
}

static uint64_t take_encoded(struct in *in, uint8_t encoding, bool relative)
{
    const uint64_t here = in->c->address + in->at;
    uint64_t v = 0;
    switch (encoding & 0x0f) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8: v = take_fixed(in, 8); break;
    case DW_EH_PE_uleb128: v = take_uleb(in); break;
    case DW_EH_PE_sleb128: v = (uint64_t)take_sleb(in); break;
    case DW_EH_PE_udata2: v = take_fixed(in, 2); break;
    case DW_EH_PE_sdata2: v = (uint64_t)(int16_t)take_fixed(in, 2); break;
    case DW_EH_PE_udata4: v = take_fixed(in, 4); break;
    case DW_EH_PE_sdata4: v = (uint64_t)(int32_t)take_fixed(in, 4); break;
    default: in->bad = true; break;
    }
    if (!relative || !(encoding & 0x70))
        return v;
    if ((encoding & 0x70) != DW_EH_PE_pcrel) /* relative to something else: not on x86-64 */
        in->bad = true;
    return v + here;
}

/* ---- the state ---- */

enum how { HOW_OTHER, HOW_SAME, HOW_UNDEFINED, HOW_OFFSET };

struct place {
    enum how how;
    int64_t offset; /* from the CFA; HOW_OFFSET */
};

struct state {
    uint64_t cfa_register;
    int64_t cfa_offset;
    struct in cfa; /* not empty: an expression */
    struct place bp, ra;
};

struct running {
    struct callframes *c;
    const struct callframes_cie *cie;
    struct state state, initial, remembered[REMEMBERED];
    unsigned depth;
    uint64_t location, next;
    callframes_row *sink;
    void *arg;
};

/* An operation that is a register and an offset. */
static bool get_register(struct in *in, uint64_t *number, int64_t *offset)
{
    const uint64_t op = take_fixed(in, 1);
    if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
        *number = op - DW_OP_breg0;
    else if (op == DW_OP_bregx)
        *number = take_uleb(in);
    else
        return false;
    *offset = take_sleb(in);
    return !in->bad;
}

/* The expressions that compilers and linkers write for the CFA. */
static enum unwind_rule expression_rule(struct in in, int64_t *offset)
{
    uint64_t number, second;
    int64_t more;
    if (!get_register(&in, &number, offset))
        return UNWIND_NONE;
    if (in.at == in.end)
        return number == REGISTER_SP ? UNWIND_SP : number == REGISTER_BP ? UNWIND_BP : UNWIND_NONE;
    if (number == REGISTER_BP)
        return take_fixed(&in, 1) == DW_OP_deref && in.at == in.end ? UNWIND_REALIGNED
                                                                    : UNWIND_NONE;
    return number == REGISTER_SP && *offset == 8 && get_register(&in, &second, &more) &&
                   second == REGISTER_RA && in.at < in.end
               ? UNWIND_PLT
               : UNWIND_NONE;
}

static struct unwind_row reduce_row(const struct running *r)
{
    const struct unwind_row none = {.rule = UNWIND_NONE};
    const struct state *s = &r->state;
    struct unwind_row row = none;
    int64_t offset = s->cfa_offset;
    if (r->cie->is_signal)
        return (struct unwind_row){.rule = UNWIND_SIGNAL};
    if (s->ra.how == HOW_UNDEFINED)
        return (struct unwind_row){.rule = UNWIND_END};
    if (s->ra.how != HOW_OFFSET || s->ra.offset != -8)
        return none;
    if (s->cfa.at < s->cfa.end)
        row.rule = expression_rule(s->cfa, &offset);
    else
        row.rule = s->cfa_register == REGISTER_SP   ? UNWIND_SP
                   : s->cfa_register == REGISTER_BP ? UNWIND_BP
                                                    : UNWIND_NONE;
    if (row.rule == UNWIND_PLT)
        return row;
    if (row.rule == UNWIND_NONE || offset < INT32_MIN || offset > INT32_MAX)
        return none;
    row.cfa_offset = (int32_t)offset;
    if (row.rule != UNWIND_REALIGNED && s->bp.how == HOW_OFFSET && s->bp.offset < 0 &&
        s->bp.offset > INT32_MIN)
        row.bp_offset = (int32_t)s->bp.offset;
    return row;
}

/* ---- instructions ---- */

static void place_register(struct running *r, uint64_t number, enum how how, int64_t offset)
{
    struct place *p = number == REGISTER_BP   ? &r->state.bp
                      : number == REGISTER_RA ? &r->state.ra
                                              : NULL;
    if (p)
        *p = (struct place){how, offset};
}

static void restore(struct running *r, uint64_t number)
{
    if (number == REGISTER_BP)
        r->state.bp = r->initial.bp;
    else if (number == REGISTER_RA)
        r->state.ra = r->initial.ra;
}

static int64_t scaled(const struct running *r, uint64_t factor)
{
    return (int64_t)(factor * (uint64_t)r->cie->data_align);
}

/* Sets the CFA. False: the instruction is none of these. */
static bool step_cfa(struct running *r, uint64_t op, struct in *in)
{
    struct state *s = &r->state;
    const struct in none = {.c = in->c};
    switch (op) {
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_sf:
        s->cfa_register = take_uleb(in);
        s->cfa_offset =
            op == DW_CFA_def_cfa ? (int64_t)take_uleb(in) : scaled(r, (uint64_t)take_sleb(in));
        s->cfa = none;
        return true;
    case DW_CFA_def_cfa_register:
        in->bad |= s->cfa.at < s->cfa.end;
        s->cfa_register = take_uleb(in);
        return true;
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_offset_sf:
        in->bad |= s->cfa.at < s->cfa.end;
        s->cfa_offset = op == DW_CFA_def_cfa_offset ? (int64_t)take_uleb(in)
                                                    : scaled(r, (uint64_t)take_sleb(in));
        return true;
    case DW_CFA_def_cfa_expression: s->cfa = take_input(in); return true;
    default: return false;
    }
}

/* Where a register is saved. False: the instruction is none of these. */
static bool step_place(struct running *r, uint64_t op, struct in *in)
{
    uint64_t number;
    switch (op) {
    case DW_CFA_offset_extended:
        number = take_uleb(in);
        place_register(r, number, HOW_OFFSET, scaled(r, take_uleb(in)));
        return true;
    case DW_CFA_offset_extended_sf:
        number = take_uleb(in);
        place_register(r, number, HOW_OFFSET, scaled(r, (uint64_t)take_sleb(in)));
        return true;
    case DW_CFA_GNU_negative_offset_extended:
        number = take_uleb(in);
        place_register(r, number, HOW_OFFSET, scaled(r, -take_uleb(in)));
        return true;
    case DW_CFA_restore_extended: restore(r, take_uleb(in)); return true;
    case DW_CFA_undefined: place_register(r, take_uleb(in), HOW_UNDEFINED, 0); return true;
    case DW_CFA_same_value: place_register(r, take_uleb(in), HOW_SAME, 0); return true;
    case DW_CFA_register:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf: /* a value, not a place */
        place_register(r, take_uleb(in), HOW_OTHER, 0);
        take_uleb(in);
        return true;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        place_register(r, take_uleb(in), HOW_OTHER, 0);
        take_input(in);
        return true;
    default: return false;
    }
}

/* Ends the row at hand. False: the location does not lie behind it, or beyond the function. */
static bool move_location(struct running *r, uint64_t to)
{
    if (to < r->location)
        return false;
    if (to > r->location && r->sink) {
        const struct unwind_row row = reduce_row(r);
        r->sink(r->arg, r->location, &row);
    }
    r->location = to;
    return true;
}

/* False: it is not understood from r->location on. Ends at r->next. */
static bool run_instructions(struct running *r, size_t at, size_t end)
{
    struct in in = {.c = r->c, .at = at, .end = end};
    r->depth = 0;
    while (in.at < in.end && r->location < r->next) {
        const uint64_t op = take_fixed(&in, 1), low = op & 0x3f;
        bool good = true;
        switch (op & 0xc0) {
        case DW_CFA_advance_loc:
            good = move_location(r, r->location + low * r->cie->code_align);
            break;
        case DW_CFA_offset: place_register(r, low, HOW_OFFSET, scaled(r, take_uleb(&in))); break;
        case DW_CFA_restore: restore(r, low); break;
        default:
            switch (op) {
            case DW_CFA_nop:
            case DW_CFA_GNU_window_save: break;
            case DW_CFA_GNU_args_size: take_uleb(&in); break;
            case DW_CFA_set_loc:
                good = move_location(r, take_encoded(&in, r->cie->pointers, true));
                break;
            case DW_CFA_advance_loc1:
                good = move_location(r, r->location + take_fixed(&in, 1) * r->cie->code_align);
                break;
            case DW_CFA_advance_loc2:
                good = move_location(r, r->location + take_fixed(&in, 2) * r->cie->code_align);
                break;
            case DW_CFA_advance_loc4:
                good = move_location(r, r->location + take_fixed(&in, 4) * r->cie->code_align);
                break;
            case DW_CFA_remember_state:
                good = r->depth < REMEMBERED;
                if (good)
                    r->remembered[r->depth++] = r->state;
                break;
            case DW_CFA_restore_state:
                good = r->depth > 0;
                if (good)
                    r->state = r->remembered[--r->depth];
                break;
            default: good = step_cfa(r, op, &in) || step_place(r, op, &in);
            }
        }
        if (!good || in.bad)
            return false;
    }
    return true;
}

/* ---- entries ---- */

/* The entry at a byte: *in is what stands behind its identity, *id. */
static bool open_frame_entry(const struct callframes *c, size_t at, struct in *in, uint64_t *id,
                             size_t *id_at)
{
    if (at >= c->count)
        return false;
    *in = (struct in){.c = c, .at = at, .end = c->count};
    uint64_t length = take_fixed(in, 4);
    const bool wide = length == UINT32_MAX;
    if (wide)
        length = take_fixed(in, 8);
    if (in->bad || length < 4 || !input_has(in, length))
        return false;
    in->end = in->at + length;
    *id_at = in->at;
    *id = take_fixed(in, wide ? 8 : 4);
    return !in->bad;
}

static bool spend_bytes(struct callframes *c, uint64_t bytes)
{
    if (c->effort < bytes) {
        c->effort = 0;
        return false;
    }
    c->effort -= bytes;
    return true;
}

static bool read_augmentation(struct in *in, size_t name, struct callframes_cie *cie)
{
    const char *letter = (const char *)in->c->bytes + name;
    if (!*letter)
        return true;
    if (*letter != 'z')
        return false;
    cie->augmented = true;
    struct in data = take_input(in);
    for (letter++; *letter; letter++) {
        if (*letter == 'R')
            cie->pointers = (uint8_t)take_fixed(&data, 1);
        else if (*letter == 'L')
            take_fixed(&data, 1);
        else if (*letter == 'S')
            cie->is_signal = true;
        else if (*letter == 'P') {
            const uint8_t encoding = (uint8_t)take_fixed(&data, 1);
            if (encoding != DW_EH_PE_omit)
                take_encoded(&data, encoding, false);
        } else if (*letter != 'B')
            break; /* the length says where the instructions begin */
    }
    return !data.bad;
}

static bool read_cie(struct callframes *c, size_t at, struct callframes_cie *cie)
{
    struct in in;
    uint64_t id;
    size_t id_at;
    *cie = (struct callframes_cie){.at = at, .pointers = DW_EH_PE_absptr};
    if (!open_frame_entry(c, at, &in, &id, &id_at) || id || !spend_bytes(c, in.end - at))
        return false;
    const uint64_t version = take_fixed(&in, 1);
    if (version != 1 && version != 3 && version != 4)
        return false;
    const size_t name = in.at;
    while (take_fixed(&in, 1) && !in.bad)
        ;
    if (in.bad || (version == 4 && take_fixed(&in, 2) != 8)) /* bytes of an address; no segments */
        return false;
    cie->code_align = take_uleb(&in);
    cie->data_align = take_sleb(&in);
    if ((version == 1 ? take_fixed(&in, 1) : take_uleb(&in)) != REGISTER_RA ||
        !read_augmentation(&in, name, cie) || in.bad)
        return false;
    cie->program = in.at;
    cie->end = in.end;
    return true;
}

static const struct callframes_cie *cie_at(struct callframes *c, size_t at)
{
    if (c->cie.at != at)
        c->cie.understood = read_cie(c, at, &c->cie);
    return c->cie.understood ? &c->cie : NULL;
}

/* The FDE at a byte: *in are its instructions, of the function [*start, *end). */
static const struct callframes_cie *open_fde(struct callframes *c, size_t at, struct in *in,
                                             uint64_t *start, uint64_t *end)
{
    uint64_t id;
    size_t id_at;
    if (!open_frame_entry(c, at, in, &id, &id_at) || !id || id > id_at)
        return NULL;
    const struct callframes_cie *cie = cie_at(c, id_at - id);
    if (!cie)
        return NULL;
    *start = take_encoded(in, cie->pointers, true);
    *end = *start + take_encoded(in, cie->pointers, false);
    if (cie->augmented)
        take_input(in);
    return in->bad || *end < *start ? NULL : cie;
}

/* ---- functions ---- */

void callframes_begin(struct callframes *c, const uint8_t *bytes, size_t count, uint64_t address)
{
    *c = (struct callframes){.bytes = bytes,
                             .count = count,
                             .address = address,
                             .effort = EFFORT_LEAST + EFFORT * (uint64_t)count,
                             .cie = {.at = SIZE_MAX}};
}

/* The psABI's state before any instruction. */
static const struct state standard = {.cfa_register = REGISTER_SP,
                                      .cfa_offset = 8,
                                      .bp = {.how = HOW_SAME},
                                      .ra = {.how = HOW_OFFSET, .offset = -8}};

void callframes_function(struct callframes *c, uint64_t start, uint64_t fde, uint64_t next,
                         callframes_row *sink, void *arg)
{
    const struct unwind_row none = {.rule = UNWIND_NONE};
    struct in in;
    uint64_t from = 0, to = 0;
    struct running r = {.c = c, .state = standard, .initial = standard, .next = UINT64_MAX};
    const size_t at = fde - c->address < c->count ? (size_t)(fde - c->address) : SIZE_MAX;
    r.cie = at == SIZE_MAX ? NULL : open_fde(c, at, &in, &from, &to);
    if (!r.cie || start < from || start >= to || !spend_bytes(c, in.end - at) ||
        !spend_bytes(c, r.cie->end - r.cie->program) ||
        !run_instructions(&r, r.cie->program, r.cie->end)) {
        sink(arg, start, &none);
        return;
    }
    r.initial = r.state;
    r.location = from;
    r.next = next < to ? next : to;
    r.sink = sink;
    r.arg = arg;
    if (!run_instructions(&r, in.at, in.end)) {
        if (r.location < r.next)
            sink(arg, r.location, &none);
        return;
    }
    if (r.location < r.next)
        move_location(&r, r.next);
    if (to < next)
        sink(arg, to, &none); /* a gap between functions */
}

bool callframes_next(struct callframes *c, size_t *at, uint64_t *start, uint64_t *fde)
{
    struct in in;
    uint64_t id, end;
    size_t id_at;
    while (open_frame_entry(c, *at, &in, &id, &id_at)) {
        const size_t here = *at;
        *at = in.end;
        if (id && open_fde(c, here, &in, start, &end)) {
            *fde = c->address + here;
            return true;
        }
    }
    return false;
}
