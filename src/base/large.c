/* large.c - see large.h. */
#include "base/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE_BYTES ((size_t)2 << 20)

void *large_grow(void *old, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes < 2 * LARGE_PAGE_BYTES)
        return realloc(old, new_bytes);
    if (new_bytes > SIZE_MAX / 2)
        return NULL;
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
