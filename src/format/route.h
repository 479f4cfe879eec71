/* route.h - the way that a call took inside glibc's allocator: its source of a block, the place of
 * a freed one.
 *
 * Owns: the numbers (they are in files: never renumber) and their names. A class follows
 * from the allocator's own state before and after the call; ways that look the same are one class.
 * Refuses: any libc call; this header lives inside other people's programs. */
#ifndef MALLOW_FORMAT_ROUTE_H
#define MALLOW_FORMAT_ROUTE_H

/* clang-format off */
/* X(symbol, number, name, group, text) */
#define MLW_ROUTES(X)                                                                              \
    X(UNKNOWN,     0,  "unknown",       OTHER, "not known")                                        \
    X(TCACHE,      1,  "tcache",        MAKES, "from the thread's cache")                          \
    X(FAST,        2,  "fast-bin",      MAKES, "from a fast bin")                                  \
    X(SMALL,       3,  "small-bin",     MAKES, "from a small bin")                                 \
    X(UNSORTED,    4,  "unsorted",      MAKES, "from the unsorted list")                           \
    X(LARGE,       5,  "large-bin",     MAKES, "from a large bin")                                 \
    X(BIN,         6,  "bin",           MAKES, "from a bin, which is not known")                   \
    X(TOP,         7,  "top",           MAKES, "split from the top")                               \
    X(TOP_BREAK,   8,  "top-brk",       MAKES, "from the top, which brk made larger")              \
    X(TOP_HEAP,    9,  "top-heap",      MAKES, "from the top, after its heap grew")                \
    X(NEW_HEAP,    10, "new-heap",      MAKES, "from a new heap of the arena")                     \
    X(NEW_ARENA,   11, "new-arena",     MAKES, "from a new arena")                                 \
    X(TOP_MAPPED,  12, "top-mmap",      MAKES, "from memory that mmap gave in place of brk")       \
    X(MAPPED,      13, "mmap",          MAKES, "a mapping of its own")                             \
    X(IN_PLACE,    14, "in-place",      MAKES, "kept where it was (realloc)")                      \
    X(OTHER_ARENA, 15, "other-arena",   MAKES, "from another arena than the thread's")             \
    X(FREE_TCACHE, 16, "into-tcache",   ENDS,  "into the thread's cache")                          \
    X(FREE_FAST,   17, "into-fast-bin", ENDS,  "into a fast bin")                                  \
    X(FREE_BIN,    18, "into-bin",      ENDS,  "into the unsorted list or a small bin")            \
    X(FREE_MERGED, 19, "merged",        ENDS,  "merged with the free memory before it, into a bin") \
    X(FREE_TOP,    20, "into-top",      ENDS,  "merged into the top")                              \
    X(FREE_TRIM,   21, "trimmed",       ENDS,  "merged into the top, and memory given back")       \
    X(FREE_MAPPED, 22, "munmap",        ENDS,  "its mapping removed")                              \
    X(FREE_NULL,   23, "nothing",       ENDS,  "NULL: nothing to do")
/* clang-format on */

enum mlw_route {
#define MLW_ROUTE_ENUM(sym, num, name, group, text) MLW_ROUTE_##sym = (num),
    MLW_ROUTES(MLW_ROUTE_ENUM)
#undef MLW_ROUTE_ENUM
        MLW_ROUTE_COUNT = 24,
    MLW_ROUTE_KINDS = 31,       /* the bits of the above */
    MLW_ROUTE_CONSOLIDATED = 32 /* beside them: the call emptied the fast bins */
};
#define MLW_ROUTE_BITS 63u

/* The groups. */
enum mlw_route_group { MLW_ROUTE_OTHER, MLW_ROUTE_MAKES, MLW_ROUTE_ENDS };

static inline __attribute__((unused)) enum mlw_route_group mlw_route_group(unsigned route)
{
    switch (route & MLW_ROUTE_KINDS) {
#define MLW_ROUTE_GROUP(sym, num, name, group, text)                                               \
    case num: return MLW_ROUTE_##group;
        MLW_ROUTES(MLW_ROUTE_GROUP)
#undef MLW_ROUTE_GROUP
    default: return MLW_ROUTE_OTHER;
    }
}

/* For files and scripts; of a number that is not in the table: that of UNKNOWN. */
static inline __attribute__((unused)) const char *mlw_route_name(unsigned route)
{
    switch (route & MLW_ROUTE_KINDS) {
#define MLW_ROUTE_NAME(sym, num, name, group, text)                                                \
    case num: return name;
        MLW_ROUTES(MLW_ROUTE_NAME)
#undef MLW_ROUTE_NAME
    default: return "unknown";
    }
}

/* For people. */
static inline __attribute__((unused)) const char *mlw_route_text(unsigned route)
{
    switch (route & MLW_ROUTE_KINDS) {
#define MLW_ROUTE_TEXT(sym, num, name, group, text)                                                \
    case num: return text;
        MLW_ROUTES(MLW_ROUTE_TEXT)
#undef MLW_ROUTE_TEXT
    default: return "not known";
    }
}

#endif
