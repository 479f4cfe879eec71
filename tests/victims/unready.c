/* unready.c - an allocator for programs that are small: it maps its memory when it is loaded, or
 * when it is first asked, and cannot serve while it does, as mimalloc 3. Asked then, it ends the
 * program with status 98. It takes nothing back, and has none of the functions that few have. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 64 << 20 };

static char *volatile memory;
static size_t used;
static volatile int starting; /* mmap leads back here, which the compiler does not expect */

static void start(void)
{
    static const char late[] = "unready: asked while it starts\n";
    if (starting && write(STDERR_FILENO, late, sizeof late - 1))
        _exit(98);
    if (memory)
        return;
    starting = 1;
    memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    starting = 0;
}

__attribute__((constructor)) static void loaded(void) { start(); }

static void *take(size_t align, size_t size)
{
    start();
    const size_t at = (used + 16 + align - 1) & ~(align - 1);
    if (memory == MAP_FAILED || size > ROOM || at > ROOM - size)
        return NULL;
    used = at + size;
    memcpy(memory + at - sizeof size, &size, sizeof size);
    return memory + at;
}

size_t malloc_usable_size(void *p)
{
    size_t size = 0;
    if (p)
        memcpy(&size, (char *)p - sizeof size, sizeof size);
    return size;
}

void *malloc(size_t size) { return take(16, size); }
void *calloc(size_t n, size_t size) { return take(16, n * size); }
void free(void *p) { (void)p; }

void *realloc(void *old, size_t size)
{
    const size_t had = malloc_usable_size(old);
    void *p = take(16, size);
    if (p && old)
        memcpy(p, old, had < size ? had : size);
    return p;
}

int posix_memalign(void **p, size_t align, size_t size) { return !(*p = take(align, size)); }
void *aligned_alloc(size_t align, size_t size) { return take(align, size); }
