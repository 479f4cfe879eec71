/* unguarded.c - no block is guarded: the library may leave the process again at any moment, and a
 * guarded block would stay. With an empty range nothing but guarded_make is ever asked. */
#include "attach.h"

struct guard_range guard_range;

void *guarded_make(const struct call *c)
{
    (void)c;
    return 0;
}

bool guarded_release(void *p, uint64_t sp, uint64_t bp)
{
    (void)p, (void)sp, (void)bp;
    return false;
}

bool guarded_usable(const void *p, size_t *bytes)
{
    (void)p, (void)bytes;
    return false;
}

bool guarded_realloc(void *old, size_t size, uint64_t sp, uint64_t bp, void **result)
{
    (void)old, (void)size, (void)sp, (void)bp, (void)result;
    return false;
}
