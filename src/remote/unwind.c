/* unwind.c - Applies one unwind rule to registers of a target and reads the caller's registers
 * from its memory. The caller checks that the new frame lies above the old one. */
#include "remote/unwind.h"

enum { /* in a signal's frame, behind the return address: of struct ucontext */
       CONTEXT_BP = 40 + 10 * 8,
       CONTEXT_SP = 40 + 15 * 8,
       CONTEXT_IP = 40 + 16 * 8
};

const struct unwind_row *unwind_row_at(const struct unwind_row *rows, size_t count, uint64_t offset)
{
    size_t low = 0, high = count;
    while (low < high) { /* the first that begins behind it */
        const size_t middle = (low + high) / 2;
        if (rows[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &rows[low - 1] : NULL;
}

bool unwind_step(struct target *t, const struct unwind_row *row, struct unwind_place *p)
{
    struct unwind_place above = *p;
    const uint64_t distance = (uint64_t)(int64_t)row->cfa_offset;
    switch (row->rule) {
    case UNWIND_SP: above.sp = p->sp + distance; break;
    case UNWIND_BP: above.sp = p->bp + distance; break;
    case UNWIND_PLT: above.sp = p->sp + 8 + ((p->pc & 15) >= 11 ? 8 : 0); break;
    case UNWIND_REALIGNED:
        if (!target_peek(t, p->bp + distance, &above.sp) || !target_peek(t, p->bp, &above.bp))
            return false;
        break;
    case UNWIND_SIGNAL:
        if (!target_peek(t, p->sp + CONTEXT_IP, &above.pc) ||
            !target_peek(t, p->sp + CONTEXT_SP, &above.sp) ||
            !target_peek(t, p->sp + CONTEXT_BP, &above.bp))
            return false;
        *p = above;
        return true;
    default: return false;
    }
    if (!above.sp || !target_peek(t, above.sp - 8, &above.pc) ||
        (row->rule != UNWIND_REALIGNED && row->bp_offset &&
         !target_peek(t, above.sp + (uint64_t)(int64_t)row->bp_offset, &above.bp)))
        return false;
    *p = above;
    return true;
}
