/* unwindrow.h - the rule by which the caller's frame is found, from an instruction on. */
#ifndef MALLOW_SYMBOL_UNWINDROW_H
#define MALLOW_SYMBOL_UNWINDROW_H

#include <stdint.h>

enum unwind_rule {
    UNWIND_NONE = 0, /* no rule: code without a table, or a rule that does not fit */
    UNWIND_SP,       /* the frame's address (CFA) is rsp + cfa_offset */
    UNWIND_BP,       /* rbp + cfa_offset */
    UNWIND_PLT,      /* a stub of the procedure linkage table */
    UNWIND_END,      /* the outermost function: it has no caller */
    UNWIND_SIGNAL,   /* the return from a signal handler */
    UNWIND_REALIGNED /* the word at rbp + cfa_offset; rbp was saved at rbp */
};

struct unwind_row {
    uint64_t offset; /* the offset of the first instruction, in the file */
    int32_t cfa_offset;
    int32_t bp_offset; /* bytes from the CFA to the saved rbp; 0: rbp is as the caller had it */
    enum unwind_rule rule;
};

#endif
