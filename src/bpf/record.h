/* record.h - `mallow record -p`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_RECORD_H
#define MALLOW_BPF_RECORD_H

#include <linux/types.h>

/* Where a function that allocates has the size, and an alignment. A probe's cookie is the form and,
 * shifted by 8, the operation (enum mlw_op). */
enum record_form {
    RECORD_FIRST,   /* (size) */
    RECORD_PRODUCT, /* (count, size) */
    RECORD_RESIZE,  /* (block, size) */
    RECORD_RESIZE_PRODUCT,
    RECORD_SECOND, /* (alignment, size) */
    RECORD_NEW,    /* (size, alignment) */
    RECORD_THIRD   /* (where to put the block, alignment, size); returns 0 or an error */
};

enum { RECORD_EVENT = 16, RECORD_EXEC = 17 };
enum record_what {
    RECORD_ALLOCATED, /* at the return */
    RECORD_RELEASED,  /* at the entry */
    RECORD_RESIZES    /* a block is given to realloc, at the entry */
};
struct record_event {
    __u32 type;
    __u32 tid;
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u64 address; /* 0: failed */
    __u64 size;    /* requested bytes */
    __u64 argument;
    __u64 stack; /* id; 0: none */
    __u8 what;   /* enum record_what */
    __u8 op;     /* enum mlw_op */
    __u8 zero[6];
};

#endif
