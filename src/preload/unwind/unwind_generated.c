/* unwind_generated.c - generated code that can be unwound by what its instructions are.
 *
 * Owns: their patterns. CPython from 3.12 on, asked by -X perf, calls each Python function through
 * a copy of one trampoline, at an address of its own, without any table:
 *     sub $8,%rsp; call *%rcx; add $8,%rsp; ret */
#include "unwind_impl.h"

bool uw_generated_rule(uint64_t pc, uw_rule *rule)
{
    static const uint8_t before[] = {0x48, 0x83, 0xec, 0x08, 0xff}; /* and the register */
    static const uint8_t behind[] = {0x48, 0x83, 0xc4, 0x08, 0xc3};
    uint8_t code[sizeof before + 1 + sizeof behind];
    if (!uw_region_copy(pc - sizeof before - 1, code, sizeof code))
        return false;
    if (__builtin_memcmp(code, before, sizeof before) != 0 ||
        (code[sizeof before] & 0xf8) != 0xd0 ||
        __builtin_memcmp(code + sizeof before + 1, behind, sizeof behind) != 0)
        return false;
    *rule = uw_rule_make(UW_CFA_RSP, 16, UW_RBP_SAME, 0, UW_RA_USUAL, 0, false);
    return true;
}
