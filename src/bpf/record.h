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

enum {
    RECORD_EVENT = 16,
    RECORD_FORK, /* struct record_event: address is the child's pid, size 1 when they share memory
                  */
    RECORD_EXEC, /* struct record_exec */
    RECORD_EXIT  /* struct record_event: size is the status, as of waitpid */
};
enum record_what {
    RECORD_ALLOCATED, /* at the return */
    RECORD_RELEASED,  /* at the entry */
    RECORD_RESIZES    /* a block is given to realloc, at the entry */
};
struct record_event {
    __u32 type;
    __u32 pid;
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u64 address; /* 0: failed */
    __u64 size;    /* requested bytes */
    __u64 argument;
    __u64 stack; /* id; 0: none */
    __u32 tid;
    __u8 what; /* enum record_what */
    __u8 op;   /* enum mlw_op */
    __u8 zero[2];
};

enum { RECORD_PATH_BYTES = 256, RECORD_ARGUMENT_BYTES = 1024 };
struct record_exec {
    __u32 type;
    __u32 pid;
    __u64 time_ns;
    __u32 argument_bytes;
    __u32 zero;
    char path[RECORD_PATH_BYTES];
    char arguments[RECORD_ARGUMENT_BYTES]; /* each ends with a NUL, but for the last one when cut */
};

#endif
