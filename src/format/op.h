/* op.h - the operations that a recording knows: what each is, and which fields its rows carry.
 *
 * Owns: the numbers of the operations (they are in files: never renumber) and the one table of
 * their properties. Code that needs the class of an operation calls the functions below; nothing
 * compares numbers by order. Any thread, any signal handler. Refuses: any libc call; this header
 * lives inside other people's programs. */
#ifndef MALLOW_FORMAT_OP_H
#define MALLOW_FORMAT_OP_H

/* clang-format off */
/* X(symbol, number, C name, fields, class, standard).
 * Fields: which of address, size and stack a row has. All have a time; each may have an argument,
 * whose meaning the comment gives, or MLW_F_ALIGN: the alignment.
 * Standard: the symbol of the C or POSIX function that does the same, for files and formats that
 * know only those; NONE for what they do not know. */
#define MLW_OPS(X)                                                                                           \
    X(MALLOC,             1,  "malloc",             MLW_F_ALLOC, ALLOC,      MALLOC)                         \
    X(CALLOC,             2,  "calloc",             MLW_F_ALLOC, ALLOC,      CALLOC) /* size = the product */ \
    X(REALLOC,            3,  "realloc",            MLW_F_ALLOC, RESIZE_NEW, REALLOC) /* after the call */    \
    X(REALLOCARRAY,       4,  "reallocarray",       MLW_F_ALLOC, RESIZE_NEW, REALLOCARRAY)                   \
    X(POSIX_MEMALIGN,     5,  "posix_memalign",     MLW_F_ALLOC | MLW_F_ALIGN, ALLOC,      POSIX_MEMALIGN) \
    X(ALIGNED_ALLOC,      6,  "aligned_alloc",      MLW_F_ALLOC | MLW_F_ALIGN, ALLOC,      ALIGNED_ALLOC)  \
    X(MEMALIGN,           7,  "memalign",           MLW_F_ALLOC | MLW_F_ALIGN, ALLOC,      MEMALIGN)       \
    X(VALLOC,             8,  "valloc",             MLW_F_ALLOC, ALLOC,      VALLOC)                         \
    X(PVALLOC,            9,  "pvalloc",            MLW_F_ALLOC, ALLOC,      PVALLOC)                        \
    X(FREE,               10, "free",               MLW_F_ADDR,  RELEASE,    FREE) /* before the call */      \
    X(FREE_SIZED,         11, "free_sized",         MLW_F_SIZED, RELEASE,    FREE_SIZED)                     \
    X(FREE_ALIGNED_SIZED, 12, "free_aligned_sized", MLW_F_SIZED | MLW_F_ALIGN, RELEASE,    FREE_ALIGNED_SIZED) \
    X(MALLOC_USABLE_SIZE, 13, "malloc_usable_size", MLW_F_SIZED, OTHER,      NONE) /* size = result */        \
    X(MMAP,               14, "mmap",               MLW_F_ALLOC, MAP,        NONE) /* argument = prot | map flags << 8 | file-backed << 63 */ \
    X(MUNMAP,             15, "munmap",             MLW_F_SIZED, UNMAP,      NONE) /* before the call */      \
    X(MREMAP,             16, "mremap",             MLW_F_ALLOC, REMAP_NEW,  NONE) /* after the call; argument = flags */ \
    X(BRK,                17, "brk",                MLW_F_ALLOC, OTHER,      NONE) /* address asked for; size unused */ \
    X(SBRK,               18, "sbrk",               MLW_F_ALLOC, OTHER,      NONE) /* address = old break; size = increment (two's complement) */ \
    X(REALLOC_OLD,        19, "realloc(old)",       MLW_F_ADDR,  RESIZE_OLD, NONE) /* before the call */      \
    X(MREMAP_OLD,         20, "mremap(old)",        MLW_F_SIZED, REMAP_OLD,  NONE) /* before the call */      \
    X(MUNMAP_FAILED,      21, "munmap(failed)",     MLW_F_SIZED, UNMAP_UNDO, NONE) /* after the call */ \
    X(MALLOCX,            22, "mallocx",            MLW_F_ALLOC, ALLOC,      MALLOC)     /* jemalloc's own; argument = flags */ \
    X(RALLOCX,            23, "rallocx",            MLW_F_ALLOC, RESIZE_NEW, REALLOC)    /* after the call; argument = flags */ \
    X(XALLOCX,            24, "xallocx",            MLW_F_ALLOC, RESIZE_NEW, REALLOC)    /* after the call, in place; argument = flags */ \
    X(DALLOCX,            25, "dallocx",            MLW_F_ADDR,  RELEASE,    FREE)       /* before the call; argument = flags */ \
    X(SDALLOCX,           26, "sdallocx",           MLW_F_SIZED, RELEASE,    FREE_SIZED) /* before the call; argument = flags */ \
    X(SALLOCX,            27, "sallocx",            MLW_F_SIZED, OTHER,      NONE)       /* size = result; argument = flags */
/* clang-format on */

/* The flags of jemalloc's functions, which are the arguments of their rows. */
#define MLW_JEMALLOC_ALIGNMENT(flags) ((flags)&63 ? (unsigned long)1 << ((flags)&63) : 0)
#define MLW_JEMALLOC_ZERO             0x40
#define MLW_JEMALLOC_ARENA(flags)     ((unsigned)(flags) >> 20) /* 0: the thread's own */

#define MLW_F_ADDR  1u
#define MLW_F_SIZE  2u
#define MLW_F_STACK 4u
#define MLW_F_ALIGN 8u /* the row's argument is an alignment */
#define MLW_F_SIZED (MLW_F_ADDR | MLW_F_SIZE)
#define MLW_F_ALLOC (MLW_F_ADDR | MLW_F_SIZE | MLW_F_STACK)

enum mlw_op {
    MLW_OP_NONE = 0, /* in a batch: a release that was inferred */
#define MLW_OP_ENUM(sym, num, name, fields, class_, standard) MLW_OP_##sym = num,
    MLW_OPS(MLW_OP_ENUM)
#undef MLW_OP_ENUM
        MLW_OP_META = 31, /* not a call: a META row, see row.h */
    MLW_OP_COUNT = 32
};

/* Effects of an operation. A bit each, so that several can be asked for at once. */
enum mlw_class {
    MLW_CLASS_NONE = 0,    /* no operation of the table */
    MLW_CLASS_ALLOC = 1,   /* makes a block */
    MLW_CLASS_RELEASE = 2, /* ends a block, or does nothing to NULL */
    /* A resize is two rows. The old half ends a block unless the new half fails, and is no call of
     * its own; the new half makes a block. */
    MLW_CLASS_RESIZE_OLD = 4,
    MLW_CLASS_RESIZE_NEW = 8,
    MLW_CLASS_MAP = 16, /* makes a mapping */
    MLW_CLASS_UNMAP = 32,
    MLW_CLASS_REMAP_OLD = 64, /* the halves of what moves or resizes a mapping */
    MLW_CLASS_REMAP_NEW = 128,
    MLW_CLASS_UNMAP_UNDO = 256, /* takes an UNMAP back, which failed; no call of its own */
    MLW_CLASS_OTHER = 512,      /* a call that neither makes nor ends a block or mapping */
    /* together */
    MLW_CLASS_MAKES = MLW_CLASS_ALLOC | MLW_CLASS_RESIZE_NEW,
    MLW_CLASS_ENDS = MLW_CLASS_RELEASE | MLW_CLASS_RESIZE_OLD,
    MLW_CLASS_MAPPING = MLW_CLASS_MAP | MLW_CLASS_UNMAP | MLW_CLASS_REMAP_OLD | MLW_CLASS_REMAP_NEW,
    MLW_CLASS_CALL = MLW_CLASS_MAKES | MLW_CLASS_RELEASE | MLW_CLASS_MAP | MLW_CLASS_UNMAP |
                     MLW_CLASS_REMAP_NEW | MLW_CLASS_OTHER
};

#define MLW_OP_INLINE static inline __attribute__((always_inline, unused))

/* The operations of some classes whose rows have all of these MLW_F_*, as bits 1 << number.
 * Constant arguments make a constant. */
MLW_OP_INLINE unsigned mlw_op_set_having(unsigned classes, unsigned having)
{
#define MLW_OP_BIT(sym, num, name, fields, class_, standard)                                       \
    | (classes & (unsigned)MLW_CLASS_##class_ && ((fields)&having) == having ? 1u << (num) : 0)
    return 0 MLW_OPS(MLW_OP_BIT);
#undef MLW_OP_BIT
}

MLW_OP_INLINE unsigned mlw_op_set(unsigned classes) { return mlw_op_set_having(classes, 0); }

/* True if an operation (0 to 31) is of one of these classes. */
MLW_OP_INLINE int mlw_op_is(unsigned op, unsigned classes)
{
    return (int)(mlw_op_set(classes) >> (op & 31) & 1);
}

/* True if it stands for a call of the program; the other half of a call that has two rows, and what
 * takes one back, do not. */
MLW_OP_INLINE int mlw_op_is_call(unsigned op) { return mlw_op_is(op, MLW_CLASS_CALL); }

/* The MLW_F_* of an operation; 0 for a number that is not in the table. */
MLW_OP_INLINE unsigned mlw_op_fields(unsigned op)
{
#define MLW_OP_FIELDS(sym, num, name, fields, class_, standard) [num] = (fields),
    static const unsigned char of[MLW_OP_COUNT] = {MLW_OPS(MLW_OP_FIELDS)};
#undef MLW_OP_FIELDS
    return op < MLW_OP_COUNT ? of[op] : 0;
}

/* True if its rows have all of these MLW_F_*. */
MLW_OP_INLINE int mlw_op_has(unsigned op, unsigned fields)
{
    return (mlw_op_fields(op) & fields) == fields;
}

MLW_OP_INLINE enum mlw_class mlw_op_class(unsigned op)
{
#define MLW_OP_CLASS(sym, num, name, fields, class_, standard) [num] = MLW_CLASS_##class_,
    static const unsigned short of[MLW_OP_COUNT] = {MLW_OPS(MLW_OP_CLASS)};
#undef MLW_OP_CLASS
    return op < MLW_OP_COUNT ? (enum mlw_class)of[op] : MLW_CLASS_NONE;
}

/* The function of C or POSIX that does the same; MLW_OP_NONE for what no such function does. */
MLW_OP_INLINE unsigned mlw_op_standard(unsigned op)
{
#define MLW_OP_STANDARD(sym, num, name, fields, class_, standard) [num] = MLW_OP_##standard,
    static const unsigned char of[MLW_OP_COUNT] = {MLW_OPS(MLW_OP_STANDARD)};
#undef MLW_OP_STANDARD
    return op < MLW_OP_COUNT ? of[op] : MLW_OP_NONE;
}

/* The name of the C function, with the half in parentheses when it is not the call; "?" for a
 * number that is not in the table. */
MLW_OP_INLINE const char *mlw_op_name(unsigned op)
{
    switch (op) {
#define MLW_OP_NAME(sym, num, name, fields, class_, standard)                                      \
    case num: return name;
        MLW_OPS(MLW_OP_NAME)
#undef MLW_OP_NAME
    default: return "?";
    }
}

/* The code path inside the allocator, and the outcome: one byte in a row. */
enum mlw_path {
    MLW_PATH_FAILED = 1,     /* the call returned NULL or an error (not free(NULL), realloc to 0) */
    MLW_PATH_MMAPPED = 2,    /* glibc: the block has its own mapping */
    MLW_PATH_NON_MAIN = 4,   /* glibc: the block is in a non-main arena */
    MLW_PATH_SBRK = 8,       /* glibc: the program break moved during the call (any direction) */
    MLW_PATH_ARENA_NEW = 16, /* glibc: first block that this process saw in this arena */
    MLW_PATH_HEAP_NEW = 32,  /* glibc: first block that this process saw in this heap; without
                                NON_MAIN: in memory of the main arena that brk did not make. The
                                row's argument says more: see mlw_heap_said. Operations whose
                                argument is an alignment have no such rows */
    MLW_PATH_HEAP_GREW = 64, /* glibc: the heap is larger than when last seen */
    MLW_PATH_NESTED = 128    /* recorded from a signal handler that interrupted the recorder */
};
/* No row's path has both: in a file they say that it has a route as well, see row.h. */
#define MLW_PATH_ROUTED 96u

/* The argument of a row with MLW_PATH_HEAP_NEW. Of another arena than the main one: the address of
 * the heap's arena, and above it the logarithm of the size of heaps, of which their addresses are
 * multiples. Of the main one: the end of the memory, which is the arena's from the block on. 0, of
 * earlier recorders: nothing is said. */
#define MLW_HEAP_ARENA(argument) ((argument)&0xffffffffffffffull)
#define MLW_HEAP_SHIFT(argument) ((unsigned)((argument) >> 56))
MLW_OP_INLINE int mlw_heap_says(unsigned op, unsigned path, unsigned long argument)
{
    return path & MLW_PATH_HEAP_NEW && argument && !mlw_op_has(op, MLW_F_ALIGN);
}
MLW_OP_INLINE unsigned long mlw_heap_said(unsigned long arena, unsigned long heap_bytes)
{
    return arena | (unsigned long)__builtin_ctzl(heap_bytes) << 56;
}

#endif
