/* sizes.h - `mallow probe sizes`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_SIZES_H
#define MALLOW_BPF_SIZES_H

#include "bpf/key.h"

/* Where an allocation function has the size: in the cookie of its probe. */
enum sizes_form {
    SIZES_FIRST = 1,  /* malloc(size) */
    SIZES_SECOND,     /* aligned_alloc(alignment, size) */
    SIZES_THIRD,      /* posix_memalign(&p, alignment, size) */
    SIZES_PRODUCT,    /* calloc(n, size) */
    SIZES_RESIZE,     /* realloc(p, size) */
    SIZES_RESIZE_ELSE /* realloc(p, size) that leaves realloc(NULL, size) to malloc's probe */
};

enum { SIZES_CLASSES = 65 };

/* One for each CPU; used when the key of rows is the size alone. */
struct sizes_class {
    __u64 calls, bytes;
};

#endif
