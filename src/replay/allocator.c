/* allocator.c - see allocator.h. */
#include "replay/allocator.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
