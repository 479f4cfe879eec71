/* allocator.c - Asks the allocator under test about itself: which file serves malloc, which
 * functions it lacks, and its statistics. Weak symbols make each question optional. Nothing here
 * allocates, because it runs inside the measured process. */
#include "replay/allocator.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "format/op.h"

/* Only newer C libraries and some allocators have them. */
extern void free_sized(void *p, size_t size_bytes) __attribute__((weak));
extern void free_aligned_sized(void *p, size_t alignment, size_t size_bytes) __attribute__((weak));
extern struct mallinfo2 mallinfo2(void) __attribute__((weak));
/* jemalloc's and tcmalloc's, there when they are preloaded. */
extern int mallctl(const char *name, void *old, size_t *old_bytes, void *fresh, size_t fresh_bytes)
    __attribute__((weak));
extern int MallocExtension_GetNumericProperty(const char *name, size_t *value)
    __attribute__((weak));

const char *allocator_file(void)
{
    Dl_info info;
    void *(*function)(size_t) = malloc;
    void *address;
    memcpy(&address, &function, sizeof address);
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "?";
}

bool allocator_is_glibc(void)
{
    static _Atomic int known; /* 0 not yet, 1 no, 2 yes */
    if (!known)
        known = strstr(allocator_file(), "/libc.so.6") ? 2 : 1;
    return known == 2;
}

/* The file that a function is in; NULL: not known. */
static const void *file_of(const void *function)
{
    Dl_info info;
    return function && dladdr(function, &info) ? info.dli_fbase : NULL;
}

#define ADDRESS(function)                                                                          \
    do {                                                                                           \
        __typeof__(&(function)) pointer = (function);                                              \
        memcpy(&address, &pointer, sizeof address);                                                \
    } while (0)

bool allocator_lacks(unsigned code)
{
    const void *address = NULL, *libc;
    ADDRESS(gnu_get_libc_version);
    libc = file_of(address);
    address = NULL;
    switch (code) {
    case MLW_OP_CALLOC: ADDRESS(calloc); break;
    case MLW_OP_REALLOC: ADDRESS(realloc); break;
    case MLW_OP_POSIX_MEMALIGN: ADDRESS(posix_memalign); break;
    case MLW_OP_ALIGNED_ALLOC: ADDRESS(aligned_alloc); break;
    case MLW_OP_MEMALIGN: ADDRESS(memalign); break;
    case MLW_OP_VALLOC: ADDRESS(valloc); break;
    case MLW_OP_PVALLOC: ADDRESS(pvalloc); break;
    case MLW_OP_FREE: ADDRESS(free); break;
    case MLW_OP_FREE_SIZED: ADDRESS(free_sized); break;
    case MLW_OP_FREE_ALIGNED_SIZED: ADDRESS(free_aligned_sized); break;
    default:
        return false; /* malloc; the C library's reallocarray calls realloc, whose ever it is */
    }
    return !address || (!allocator_is_glibc() && file_of(address) == libc);
}

unsigned allocator_nearest(unsigned code)
{
    static const uint8_t aligned[] = {MLW_OP_MEMALIGN, MLW_OP_ALIGNED_ALLOC, MLW_OP_POSIX_MEMALIGN};
    if (!allocator_lacks(code))
        return code;
    if (mlw_op_is(code, MLW_CLASS_RELEASE))
        return allocator_lacks(MLW_OP_FREE) ? 0 : MLW_OP_FREE;
    for (size_t i = 0; i < sizeof aligned && mlw_op_is(code, MLW_CLASS_ALLOC); i++)
        if (code != MLW_OP_CALLOC && !allocator_lacks(aligned[i]))
            return aligned[i];
    return 0;
}

static bool jemalloc_says(const char *name, size_t *value)
{
    size_t n = sizeof *value;
    return !mallctl(name, value, &n, NULL, 0);
}

bool allocator_mallinfo(struct mallinfo2 *info)
{
    if (!mallinfo2 || !allocator_is_glibc())
        return false;
    *info = mallinfo2();
    return true;
}

bool allocator_free_bytes(uint64_t *bytes)
{
    struct mallinfo2 info;
    size_t held, given;
    if (mallctl) {
        uint64_t epoch = 1;
        size_t n = sizeof epoch;
        mallctl("epoch", &epoch, &n, &epoch, n); /* its sums are as of this call */
        if (!jemalloc_says("stats.active", &held) || !jemalloc_says("stats.allocated", &given))
            return false;
    } else if (MallocExtension_GetNumericProperty) {
        if (!MallocExtension_GetNumericProperty("generic.heap_size", &held) ||
            !MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &given))
            return false;
    } else if (allocator_mallinfo(&info)) {
        *bytes = info.fordblks;
        return true;
    } else {
        return false;
    }
    *bytes = held > given ? held - given : 0;
    return true;
}
