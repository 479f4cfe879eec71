/* versions.h - what differs between the versions of glibc's malloc, on x86-64: one table, which all
 * that models it asks.
 *
 * Owns: which layouts and rules a version has. A version that is not in the table is unknown: then
 * nothing is assumed of it, and figures that follow from these facts are left out. Pure functions;
 * no libc, so that the preloaded libraries may ask as well. */
#ifndef MALLOW_GLIBC_VERSIONS_H
#define MALLOW_GLIBC_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A thread's cache of freed chunks: it is a chunk itself. */
struct glibc_cache {
    uint32_t chunk_bytes; /* its size with its header */
    uint32_t bins; /* the bins of all sizes; the first GLIBC_SMALL_BINS are of one size each */
    uint32_t count_bytes; /* the width of a bin's counter */
    bool counts_free;     /* counters are of the places that are left */
    uint32_t depth;       /* how many chunks a bin takes by default */
    uint32_t depth_most;  /* the largest value of the tunable tcache_count that has an effect */
};

/* Offsets of words of an arena from the first pointer of its bins, which are GLIBC_BIN_PAIRS pairs:
 * the same from 2.23 to 2.43. */
#define GLIBC_BIN_PAIRS      127u
#define GLIBC_BINS_TOP       (-16)
#define GLIBC_BINS_REMAINDER (-8)
#define GLIBC_BINS_NEXT      2048
#define GLIBC_BINS_ATTACHED  2064
#define GLIBC_BINS_SYSTEM    2072
#define GLIBC_BINS_END       2088

#define GLIBC_SMALL_BINS 64u
#define GLIBC_SMALL_MOST 1040u /* the largest chunk in these bins */

/* A heap of an arena but the main one begins at a multiple of the most that it may grow to, with
 * these words. An arena lies behind those of its first heap, within GLIBC_HEAD_BYTES. */
struct glibc_heap {
    uint64_t arena, previous; /* addresses */
    uint64_t bytes;           /* its size now */
    uint64_t mapped;          /* that can be read and written, from its start on */
};
#define GLIBC_HEAD_BYTES 128u
#define GLIBC_HEAP_BYTES ((uint64_t)64 << 20)
#define GLIBC_HEAP_PAGES 4u /* huge pages, see huge_heaps */
/* The sizes of all of them, as pages of 2 MiB and 1 GiB make them, the smallest first: where heaps
 * are smaller, another heap of an arena may begin where a larger one would. */
#define GLIBC_HEAP_SIZES 3u
#define GLIBC_HEAP_SIZE_LIST                                                                       \
    {                                                                                              \
        ((uint64_t)2 << 20) * GLIBC_HEAP_PAGES, GLIBC_HEAP_BYTES,                                  \
            ((uint64_t)1 << 30) * GLIBC_HEAP_PAGES                                                 \
    }

/* The most that such a heap grows to, made of huge pages of that size; 0: that is none. */
static inline __attribute__((unused)) uint64_t glibc_huge_heap_bytes(uint64_t page_bytes)
{
    const bool power = page_bytes && !(page_bytes & (page_bytes - 1));
    return power && page_bytes >> 16 && !(page_bytes >> 40) ? page_bytes * GLIBC_HEAP_PAGES : 0;
}

/* How mp_, the parameters of malloc, begins in the file of every version: trim_threshold, top_pad,
 * mmap_threshold, and arena_test for one arena. */
#define GLIBC_PARAMETERS                                                                           \
    {                                                                                              \
        128 << 10, 128 << 10, 128 << 10, 8                                                         \
    }

/* The descriptor of a thread, to which its thread pointer points: the two words of the ring that it
 * is in, and its stack, guard included. The same from 2.26 to 2.43. */
#define GLIBC_THREAD_RING  704u
#define GLIBC_THREAD_STACK 1680u
struct glibc_thread_stack {
    uint64_t start, bytes, guard_bytes; /* guard_bytes are at the start of the bytes */
};
/* Rings of the threads whose stacks the program gave, and of the stacks that wait for new threads,
 * begin behind that of the others: each head is of two words. */
#define GLIBC_RING_HEADS 3u

/* The bytes of an arena from 2.27 to 2.42, and where its top, the next one and its own bytes are;
 * the bytes of mp_ from 2.35 to 2.42, and where it says that the thresholds are fixed. Another
 * version has more or less in front of these: as much as its size is another. */
#define GLIBC_ARENA_BYTES  2200u
#define GLIBC_ARENA_TOP    96u
#define GLIBC_ARENA_NEXT   2160u
#define GLIBC_ARENA_SUM    2184u
#define GLIBC_LIMITS_BYTES 136u
#define GLIBC_LIMITS_FIXED 72u

/* glibc 2.43 adds these bytes to its sum of mapped ones at each mremap of a block, for good. */
#define GLIBC_REMAP_ADDS 16u

#define GLIBC_HEAD_LEAST 32u /* the least size of those words; 48 since 2.35 */

struct glibc_version {
    unsigned minor; /* the first 2.minor that is so */
    struct glibc_cache cache;
    bool fastbins;       /* mxfast has an effect */
    bool large_caches;   /* tcache_max may be above 1,032, up to 4 MiB */
    bool huge_heaps;     /* heaps that are made of huge pages are of GLIBC_HEAP_PAGES of them */
    uint32_t arena_head; /* bytes of an arena before its bins; 0: not known */
    bool late_cache; /* a thread's cache is made at its first free of a block that fits into it, and
                        not at its first call: then it may lie above all that was made until then */
};

#define GLIBC_FIRST_MINOR 26u
#define GLIBC_LAST_MINOR  43u

#define GLIBC_CACHE_BYTE                                                                           \
    {                                                                                              \
        0x250, 64, 1, false, 7, 127                                                                \
    }
#define GLIBC_CACHE_COUNT                                                                          \
    {                                                                                              \
        0x290, 64, 2, false, 7, UINT16_MAX                                                         \
    }
#define GLIBC_CACHE_LARGE                                                                          \
    {                                                                                              \
        0x300, 76, 2, true, 7, UINT16_MAX                                                          \
    }
#define GLIBC_CACHE_DEEP                                                                           \
    {                                                                                              \
        0x300, 76, 2, true, 16, UINT16_MAX                                                         \
    }

static const struct glibc_version glibc_versions[] = {
    /* minor, cache, fastbins, large_caches, huge_heaps, arena_head, late_cache */
    {26, GLIBC_CACHE_BYTE, true, false, true, 0, false},
    {27, GLIBC_CACHE_BYTE, true, false, true, 112, false},
    {30, GLIBC_CACHE_COUNT, true, false, true, 112, false},
    {42, GLIBC_CACHE_LARGE, true, true, true, 112, false},
    {43, GLIBC_CACHE_DEEP, false, true, false, 24, true},
};
#define GLIBC_VERSIONS (sizeof glibc_versions / sizeof *glibc_versions)

/* The facts of glibc 2.minor; NULL: that version is unknown. */
static inline __attribute__((unused)) const struct glibc_version *glibc_of(unsigned minor)
{
    if (minor < GLIBC_FIRST_MINOR || minor > GLIBC_LAST_MINOR)
        return NULL;
    size_t i = GLIBC_VERSIONS - 1;
    while (glibc_versions[i].minor > minor)
        i--;
    return &glibc_versions[i];
}

/* The most that heaps of other arenas than the main one grow to, where huge pages of that size were
 * set for them (0: none). 0: the version is unknown. */
static inline __attribute__((unused)) uint64_t glibc_heap_bytes(const struct glibc_version *v,
                                                                uint64_t huge_page_bytes)
{
    if (!v)
        return 0;
    return huge_page_bytes && v->huge_heaps ? glibc_huge_heap_bytes(huge_page_bytes)
                                            : GLIBC_HEAP_BYTES;
}

/* The same where the version is not known: the sizes that it may be, the smaller one first, 0
 * behind the last. */
static inline __attribute__((unused)) void glibc_heap_sizes(uint64_t huge_page_bytes,
                                                            uint64_t sizes[2])
{
    const uint64_t huge = glibc_huge_heap_bytes(huge_page_bytes);
    const bool small = huge && huge < GLIBC_HEAP_BYTES;
    sizes[0] = small ? huge : GLIBC_HEAP_BYTES;
    sizes[1] = small ? GLIBC_HEAP_BYTES : huge;
}

/* The minor of "2.41", of "2.41-12" as well; 0: it is no such text. */
static inline __attribute__((unused)) unsigned glibc_minor(const char *version)
{
    unsigned minor = 0;
    if (!version || version[0] != '2' || version[1] != '.')
        return 0;
    for (const char *at = version + 2; *at >= '0' && *at <= '9' && minor < 1000; at++)
        minor = minor * 10 + (unsigned)(*at - '0');
    return minor;
}

/* The minor in an allocator's name as it is recorded, "glibc 2.41"; 0: it is another allocator. */
static inline __attribute__((unused)) unsigned glibc_minor_of(const char *allocator)
{
    static const char name[] = "glibc ";
    for (size_t i = 0; i < sizeof name - 1; i++)
        if (!allocator || allocator[i] != name[i])
            return 0;
    return glibc_minor(allocator + sizeof name - 1);
}

#endif
