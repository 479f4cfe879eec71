/* victim_leaks.c - leaks a known number of blocks, keeps others, and stands still.
 *
 * Usage: victim_leaks LISTS. For each of LISTS: a ring of three blocks of 200 bytes that nothing
 * else refers to, and a chain of two, the first of 1000, the second of 100 bytes. What is kept
 * hangs from a variable, from thread-local data, from an interior pointer and from a list.
 * Prints "ready CHAIN KEPT": addresses of the last chain's first block and of a kept block. At the
 * end of its input it exits without freeing anything. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../victims/apart.h"

struct link {
    struct link *next;
    char room[192];
};

struct link *kept_list;
void *kept_inside;
static __thread void *kept_by_thread;

static void APART wipe_stack(void)
{
    volatile char room[16384];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
}

static unsigned long APART leak(unsigned lists)
{
    unsigned long last = 0;
    for (unsigned i = 0; i < lists; i++) {
        struct link *ring[3];
        for (int k = 0; k < 3; k++)
            ring[k] = calloc(1, sizeof(struct link));
        for (int k = 0; k < 3; k++)
            ring[k]->next = ring[(k + 1) % 3];
        void **chain = calloc(1, 1000);
        chain[100] = calloc(1, 100);
        last = (unsigned long)chain ^ 0x5555555555555555UL;
    }
    return last;
}

int main(int argc, char **argv)
{
    unsigned lists = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10;
    for (int i = 0; i < 100; i++) {
        struct link *l = calloc(1, sizeof *l);
        l->next = kept_list;
        kept_list = l;
    }
    kept_inside = (char *)calloc(1, 5000) + 4000;
    kept_by_thread = calloc(1, 7000);
    unsigned long last = leak(lists);
    wipe_stack();
    printf("ready 0x%lx 0x%lx\n", last ^ 0x5555555555555555UL, (unsigned long)kept_list);
    fflush(stdout);
    wipe_stack();
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return kept_by_thread == NULL;
}
