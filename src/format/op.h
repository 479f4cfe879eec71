/* op.h - the operations that a recording knows, and which fields their rows carry.
 *
 * Owns: the numbers of the operations (they are in files: never renumber) and the table of their
 * fields. Refuses: any libc call; this header lives inside other people's programs. */
#ifndef MALLOW_FORMAT_OP_H
#define MALLOW_FORMAT_OP_H

/* X(symbol, number, C name, fields). Fields: T time, A address, S size, G argument, K stack. */
#define MLW_OPS(X)                                                                                 \
    X(MALLOC, 1, "malloc", MLW_F_ALLOC)                                                            \
    X(CALLOC, 2, "calloc", MLW_F_ALLOC)                 /* size = count * element size */          \
    X(REALLOC, 3, "realloc", MLW_F_ALLOC)               /* the new half, after the call */         \
    X(REALLOCARRAY, 4, "reallocarray", MLW_F_ALLOC)     /* the new half */                         \
    X(POSIX_MEMALIGN, 5, "posix_memalign", MLW_F_ALLOC) /* argument = alignment */                 \
    X(ALIGNED_ALLOC, 6, "aligned_alloc", MLW_F_ALLOC)   /* argument = alignment */                 \
    X(MEMALIGN, 7, "memalign", MLW_F_ALLOC)             /* argument = alignment */                 \
    X(VALLOC, 8, "valloc", MLW_F_ALLOC)                                                            \
    X(PVALLOC, 9, "pvalloc", MLW_F_ALLOC)                                                          \
    X(FREE, 10, "free", MLW_F_ADDR) /* stamped before the call */                                  \
    X(FREE_SIZED, 11, "free_sized", MLW_F_ADDR | MLW_F_SIZE)                                       \
    X(FREE_ALIGNED_SIZED, 12, "free_aligned_sized", MLW_F_ADDR | MLW_F_SIZE) /* arg = alignment */ \
    X(MALLOC_USABLE_SIZE, 13, "malloc_usable_size", MLW_F_ADDR | MLW_F_SIZE) /* size = result */   \
    X(MMAP, 14, "mmap", MLW_F_ALLOC) /* argument = prot | map flags << 8 | file-backed << 63 */    \
    X(MUNMAP, 15, "munmap", MLW_F_ADDR | MLW_F_SIZE) /* stamped before the call */                 \
    X(MREMAP, 16, "mremap", MLW_F_ALLOC)             /* the new half; argument = flags */          \
    X(BRK, 17, "brk", MLW_F_ALLOC)                   /* address asked for; size unused */          \
    X(SBRK, 18, "sbrk",                                                                            \
      MLW_F_ALLOC) /* address = old break; size = increment (two's complement) */                  \
    X(REALLOC_OLD, 19, "realloc(old)", MLW_F_ADDR) /* the old half, before the call */             \
    X(MREMAP_OLD, 20, "mremap(old)", MLW_F_ADDR | MLW_F_SIZE)                                      \
    X(MUNMAP_FAILED, 21, "munmap(failed)", MLW_F_ADDR | MLW_F_SIZE) /* takes a MUNMAP back */

#define MLW_F_ADDR  1u
#define MLW_F_SIZE  2u
#define MLW_F_STACK 4u
#define MLW_F_ALLOC (MLW_F_ADDR | MLW_F_SIZE | MLW_F_STACK)

enum mlw_op {
#define MLW_OP_ENUM(sym, num, name, fields) MLW_OP_##sym = num,
    MLW_OPS(MLW_OP_ENUM)
#undef MLW_OP_ENUM
        MLW_OP_META = 31, /* not a call: a META row, see row.h */
    MLW_OP_COUNT = 32
};

/* What is known of the code path inside the allocator, and of the outcome: one byte in a row. */
enum mlw_path {
    MLW_PATH_FAILED = 1,     /* the call returned NULL or an error (not free(NULL), realloc to 0) */
    MLW_PATH_MMAPPED = 2,    /* glibc: the block has its own mapping */
    MLW_PATH_NON_MAIN = 4,   /* glibc: the block is in a non-main arena */
    MLW_PATH_SBRK = 8,       /* glibc: the program break moved during the call (any direction) */
    MLW_PATH_ARENA_NEW = 16, /* glibc: first block that this process saw in this arena */
    MLW_PATH_HEAP_NEW = 32,  /* glibc: first block that this process saw in this heap */
    MLW_PATH_HEAP_GREW = 64, /* glibc: the heap is larger than when last seen */
    MLW_PATH_NESTED = 128    /* recorded from a signal handler that interrupted the recorder */
};

#endif
