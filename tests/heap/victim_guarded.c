/* victim_guarded.c - coroutines, each with a block as its stack whose lowest pages are guarded
 * (MADV_GUARD_INSTALL), in a list that leads from one to the next; a block is referred to from
 * above the guard alone. Prints "ready BLOCKS", or "ready 0" where the kernel has no guards; then
 * waits for its input to end. All is referred to. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_INSTALL 102 /* headers of older kernels lack it */

enum { COROUTINES = 20, STACK_BYTES = 64 << 10, GUARD_BYTES = 16 << 10 };

struct coroutine {
    struct coroutine *next;
    char *stack;
    char name[24];
};

static struct coroutine *first;

int main(void)
{
    char byte;
    int blocks = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < COROUTINES; i++) {
        void *stack = NULL;
        struct coroutine *c = malloc(sizeof *c);
        if (!c || posix_memalign(&stack, 4096, STACK_BYTES))
            return 1;
        memset(stack, 1, STACK_BYTES);
        *c = (struct coroutine){.next = first, .stack = stack};
        if (madvise(stack, GUARD_BYTES, GUARD_INSTALL)) {
            puts(errno == EINVAL ? "ready 0" : "no guard");
            return read(0, &byte, 1) != 0;
        }
        char *held = malloc(500);
        memcpy(c->stack + STACK_BYTES / 2, &held, sizeof held);
        first = c;
        blocks += 3;
    }
    printf("ready %d\n", blocks);
    return read(0, &byte, 1) != 0;
}
