/* functions.h - the functions of the allocator that we stand before, each in one line.
 *
 * Made from these lines: struct next_functions and how it is filled (next.c), the entries of every
 * library and where they jump to, the declarations of what they jump to, and what tests/house
 * expects to be exported. A new one stands at the end of its list. Refuses: any include. */
#ifndef MALLOW_PRELOAD_GUEST_FUNCTIONS_H
#define MALLOW_PRELOAD_GUEST_FUNCTIONS_H

/* clang-format off */
/* X(result, name, parameters, number of them, kind, found, boot, missing).
 * kind: what the entry of a library that samples does.
 *   MAKES_n   takes the size, argument n, off what the thread may allocate until the next look
 *   PRODUCT   the same with the product of two arguments
 *   TAKES     looks whether the block, argument 1, is sampled
 *   RESIZES   looks whether it is, and takes the size, argument 2, off
 *   IN_C      goes on in C
 * found: when next.c looks for it, enum next_found.
 * boot, missing: what stands there before, and if there is none; 0: there is always one.
 * A library that comes into a process leads the program to them in this order. */
#define NEXT_BLOCKS(X) \
    X(void,   free,               (void *),                  1, TAKES,   NEXT_FIRST, boot_free,           0)                    \
    X(void *, realloc,            (void *, size_t),          2, RESIZES, NEXT_FIRST, boot_realloc,        0)                    \
    X(void *, calloc,             (size_t, size_t),          2, PRODUCT, NEXT_FIRST, boot_calloc,         0)                    \
    X(void *, malloc,             (size_t),                  1, MAKES_1, NEXT_FIRST, boot_malloc,         0)                    \
    X(void *, reallocarray,       (void *, size_t, size_t),  3, IN_C,    NEXT_NEVER, boot_reallocarray,   missing_reallocarray) \
    X(void,   free_sized,         (void *, size_t),          2, TAKES,   NEXT_NEW,   boot_free_sized,     missing_free_sized)   \
    X(void,   free_aligned_sized, (void *, size_t, size_t),  3, TAKES,   NEXT_NEW,   boot_free_aligned,   missing_free_aligned) \
    X(int,    posix_memalign,     (void **, size_t, size_t), 3, MAKES_3, NEXT_LATER, boot_posix_memalign, boot_posix_memalign)  \
    X(void *, aligned_alloc,      (size_t, size_t),          2, MAKES_2, NEXT_LATER, boot_aligned,        missing_aligned)      \
    X(void *, memalign,           (size_t, size_t),          2, MAKES_2, NEXT_LATER, boot_aligned,        missing_aligned)      \
    X(void *, valloc,             (size_t),                  1, MAKES_1, NEXT_LATER, boot_valloc,         missing_valloc)       \
    X(void *, pvalloc,            (size_t),                  1, MAKES_1, NEXT_LATER, boot_valloc,         missing_pvalloc)

/* Those that only ask about a block: a library whose sampled blocks are the allocator's own leaves
 * them alone. */
#define NEXT_QUESTIONS(X) \
    X(size_t, malloc_usable_size, (void *),                  1, TAKES,   NEXT_LATER, boot_usable,         missing_usable)

#define NEXT_EXPORTED(X) NEXT_BLOCKS(X) NEXT_QUESTIONS(X)

/* The program's mappings, before which the recorder alone stands (mapping.c). Their entries are in C. */
#define NEXT_MAPPINGS(X)                                                                                                    \
    X(void *, mmap,   (void *, size_t, int, int, int, off_t),  6, IN_C, NEXT_LATER, raw_mmap,   raw_mmap)                   \
    X(int,    munmap, (void *, size_t),                        2, IN_C, NEXT_LATER, raw_munmap, raw_munmap)                 \
    X(void *, mremap, (void *, size_t, size_t, int, void *),   5, IN_C, NEXT_LATER, raw_mremap, raw_mremap)                 \
    X(int,    brk,    (void *),                                1, IN_C, NEXT_LATER, no_brk,     no_brk)                     \
    X(void *, sbrk,   (intptr_t),                              1, IN_C, NEXT_LATER, no_sbrk,    no_sbrk)

/* X(result, name, parameters, number of them). jemalloc's own, which must not be exported: NULL unless
 * the program has been made to call ours (redirect). */
#define NEXT_REDIRECTED(X)                                    \
    X(void *, mallocx,  (size_t, int),                  2)    \
    X(void *, rallocx,  (void *, size_t, int),          3)    \
    X(size_t, xallocx,  (void *, size_t, size_t, int),  4)    \
    X(size_t, sallocx,  (const void *, int),            2)    \
    X(void,   dallocx,  (void *, int),                  2)    \
    X(void,   sdallocx, (void *, size_t, int),          3)

#define NEXT_FUNCTIONS(X) NEXT_EXPORTED(X) NEXT_MAPPINGS(X) NEXT_REDIRECTED(X)
/* clang-format on */

enum next_found {
    NEXT_FIRST, /* all have it: a missing one would make dlsym allocate */
    NEXT_LATER,
    NEXT_NEW,  /* many have none: dlsym is not asked then, and glibc's is not taken */
    NEXT_NEVER /* ours is better */
};

/* prefix##name, in which an entry goes on: behind the function's own parameters, the stack and the
 * frame pointer of its caller. */
#define NEXT_OPEN(...) __VA_ARGS__
#define NEXT_GOES_ON(result, prefix, name, parameters)                                             \
    HIDDEN result prefix##name(NEXT_OPEN parameters, uint64_t sp, uint64_t bp)

#endif
