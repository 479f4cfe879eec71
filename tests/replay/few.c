/* An allocator with few functions: malloc, calloc, realloc, free, memalign. It ends the program
 * when a block of another one is given back. malloc(4242) crashes inside of it, and malloc(4243)
 * aborts with a last word. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MARK 0x6d61726b6d61726bu

struct head { /* before each block */
    size_t bytes;
    uint64_t mark;
};

static char *at, *end;
static volatile int lock, *volatile nowhere;

void *memalign(size_t alignment, size_t bytes)
{
    static const char word[] = "few: of all sizes, this one\n";
    if (bytes == 4242)
        *nowhere = 1;
    if (bytes == 4243 && write(2, word, sizeof word - 1) > 0)
        abort();
    if (bytes > (size_t)1 << 30)
        return NULL;
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        ;
    const size_t room = bytes + alignment + sizeof(struct head) + 64;
    if ((size_t)(end - at) < room) {
        const size_t more = room + (64u << 20);
        at = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = at + more;
    }
    alignment = alignment < 16 ? 16 : alignment;
    char *p = (char *)(((uintptr_t)at + sizeof(struct head) + alignment - 1) & ~(alignment - 1));
    at = p + bytes;
    *((struct head *)(void *)p - 1) = (struct head){bytes, MARK};
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    return p;
}

void *malloc(size_t bytes) { return memalign(16, bytes); }

void *calloc(size_t n, size_t bytes)
{
    size_t all;
    return __builtin_mul_overflow(n, bytes, &all) ? NULL
                                                  : memalign(16, all); /* never used before */
}

static struct head *own(void *p)
{
    struct head *h = (struct head *)p - 1;
    if (h->mark != MARK)
        abort();
    return h;
}

void free(void *p)
{
    if (p)
        own(p)->mark = 0;
}

void *realloc(void *p, size_t bytes)
{
    void *fresh = memalign(16, bytes);
    if (p && fresh) {
        memcpy(fresh, p, own(p)->bytes < bytes ? own(p)->bytes : bytes);
        free(p);
    }
    return fresh;
}
