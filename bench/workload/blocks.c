/* blocks.c - a program with many blocks that refer to each other, for bench/heap.py.
 *
 * Usage: blocks table|list|shuffled BLOCKS
 * table: a hash table; two blocks an entry: a key, and 320 bytes with a value that has three
 * pointers, one of them for every other entry. 180 bytes and 1.25 pointers a block. list: one
 * list of blocks of 24 bytes. shuffled: such a list in an order in which no block is near the next.
 * A thousandth of 1,000,000 blocks, but at most 1,000, are leaked: 500
 * pairs of which one refers to the other. Prints "ready BLOCKS" when it is done, and waits for the
 * end of its input. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_BYTES = 40, ENTRY_BYTES = 320 };

struct entry {
    struct entry *next;
    char *key;
    const struct entry *other; /* half of them */
    uint64_t value[3];
    char rest[ENTRY_BYTES - 6 * sizeof(void *)];
};

struct link {
    struct link *next;
    uint64_t value[2];
};

struct entry **table;
struct link *list;
size_t table_size;

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static void fill_table(size_t entries)
{
    struct entry *last = NULL;
    table_size = entries / 2 + 1;
    table = must(calloc(table_size, sizeof *table));
    for (size_t i = 0; i < entries; i++) {
        struct entry *e = must(calloc(1, sizeof *e));
        e->key = must(malloc(KEY_BYTES));
        snprintf(e->key, KEY_BYTES, "the key with number %zu", i);
        size_t slot = i * 0x9e3779b97f4a7c15u % table_size;
        e->other = i % 2 ? last : NULL;
        e->value[0] = i;
        e->next = table[slot];
        table[slot] = last = e;
    }
}

static void fill_list(size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        struct link *l = must(malloc(sizeof *l));
        *l = (struct link){.next = list, .value = {i, i}};
        list = l;
    }
}

/* Blocks of one size stand one behind the other, so their addresses need no table. */
static void fill_shuffled(size_t blocks)
{
    const size_t step = (size_t)((double)blocks * 0.6180339887) | 1; /* never near, mostly prime */
    struct link *first = must(malloc(sizeof *first)), *second = must(malloc(sizeof *first));
    const size_t apart = (size_t)((char *)second - (char *)first);
    for (size_t i = 2; i < blocks; i++)
        if ((char *)must(malloc(sizeof *first)) != (char *)first + i * apart)
            abort();
    size_t at = 0;
    for (size_t i = 0; i < blocks; i++) {
        struct link *l = (struct link *)((char *)first + at * apart);
        if (l->value[0] == UINT64_MAX) /* all over again: not prime to it */
            abort();
        *l = (struct link){.next = list, .value = {UINT64_MAX, i}};
        list = l;
        at = (at + step) % blocks;
    }
}

__attribute__((noinline)) static void leak(size_t pairs)
{
    for (size_t i = 0; i < pairs; i++) {
        void **block = must(malloc(64));
        block[0] = must(malloc(100));
        __asm__ volatile("" : "+r"(block) : : "memory");
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t blocks = strtoul(argv[2], NULL, 10), leaked = blocks / 1000 > 500 ? 500 : blocks / 1000;
    if (!strcmp(argv[1], "list"))
        fill_list(blocks);
    else if (!strcmp(argv[1], "shuffled"))
        fill_shuffled(blocks);
    else
        fill_table(blocks / 2);
    leak(leaked);
    printf("ready %zu\n", blocks);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
