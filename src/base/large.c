/* large.c - Allocates large arrays on boundaries of 2 MiB and asks the kernel for large pages
 * there. The first large array also fixes glibc's threshold for mappings, so that later arrays
 * do not land between holes of the heap. */
#include "base/large.h"

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE_BYTES ((size_t)2 << 20)

/* glibc raises its threshold for blocks with mappings of their own to the size of each such block
 * that is freed, up to 32 MB. The next arrays would lie in the heap, between the holes that smaller
 * ones left. */
static void keep_apart(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, (int)LARGE_PAGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, (int)(16 * LARGE_PAGE_BYTES));
#endif
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

void *large_grow(void *old, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes < 2 * LARGE_PAGE_BYTES)
        return realloc(old, new_bytes);
    if (new_bytes > SIZE_MAX / 2)
        return NULL;
    pthread_once(&once, keep_apart);
    new_bytes = (new_bytes + LARGE_PAGE_BYTES - 1) & ~(LARGE_PAGE_BYTES - 1);
    void *p = aligned_alloc(LARGE_PAGE_BYTES, new_bytes);
    if (!p)
        return NULL;
    (void)madvise(p, new_bytes, MADV_HUGEPAGE); /* only asked for */
    if (old_bytes)
        memcpy(p, old, old_bytes);
    free(old);
    return p;
}

void *large_zeroed(size_t bytes)
{
    if (bytes < 2 * LARGE_PAGE_BYTES)
        return calloc(1, bytes);
    pthread_once(&once, keep_apart);
    char *const p = calloc(1, bytes); /* a mapping of its own is zero and was not touched */
    if (p) {
        const size_t before = -(uintptr_t)p & (LARGE_PAGE_BYTES - 1);
        (void)madvise(p + before, (bytes - before) & ~(LARGE_PAGE_BYTES - 1), MADV_HUGEPAGE);
    }
    return p;
}

void *large_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes)
{
    if (array && needed <= *room)
        return array;
    const size_t next = array_next(needed, *room, most, element_bytes);
    void *grown =
        next ? large_grow(array, array ? *room * element_bytes : 0, next * element_bytes) : NULL;
    if (grown)
        *room = next;
    return grown;
}
