/* other_malloc.c - an allocator that is not glibc's: it takes memory from one large array, keeps
 * the size before each block, and never uses a block again. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ROOM = 64 << 20 };

void *malloc(size_t bytes);
void *calloc(size_t n, size_t each);
void *realloc(void *old, size_t bytes);
void free(void *p);
size_t malloc_usable_size(void *p);
void *aligned_alloc(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);
int posix_memalign(void **p, size_t alignment, size_t bytes);

static _Alignas(64) uint8_t room[ROOM];
static atomic_size_t used;

void *memalign(size_t alignment, size_t bytes)
{
    size_t whole = (bytes + alignment + 47) & ~(size_t)15;
    if (bytes > ROOM || alignment > ROOM)
        whole = 2 * (size_t)ROOM;
    size_t at = atomic_fetch_add(&used, whole);
    if (at > ROOM - 64 || whole > ROOM - at) {
        errno = ENOMEM;
        return NULL;
    }
    uintptr_t p = (uintptr_t)(room + at + 16);
    p = (p + alignment - 1) & ~(uintptr_t)(alignment - 1);
    uint8_t *block = room + (p - (uintptr_t)room);
    bytes = (bytes + 15) & ~(size_t)15;
    memcpy(block - sizeof bytes, &bytes, sizeof bytes);
    return block;
}

size_t malloc_usable_size(void *p)
{
    size_t bytes = 0;
    if (p)
        memcpy(&bytes, (uint8_t *)p - sizeof bytes, sizeof bytes);
    return bytes;
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
void *malloc(size_t bytes) { return memalign(16, bytes); }
void *calloc(size_t n, size_t each) { return malloc(n * each); }
void free(void *p) { (void)p; }

int posix_memalign(void **p, size_t alignment, size_t bytes)
{
    *p = memalign(alignment, bytes);
    return *p ? 0 : ENOMEM;
}

void *realloc(void *old, size_t bytes)
{
    void *p = malloc(bytes);
    size_t had = malloc_usable_size(old);
    if (p && old)
        memcpy(p, old, had < bytes ? had : bytes);
    return p;
}
