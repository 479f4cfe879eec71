/* intern.h - strings that live as long as the struct symbols, each kept once.
 *
 * Owns: the bytes of all names and the memory of the cached answers. Not thread-safe.
 */
#ifndef MALLOW_SYMBOL_INTERN_H
#define MALLOW_SYMBOL_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct intern_block;

struct intern {
    struct intern_block *block; /* the newest of a list of blocks */
    const char **slot;          /* open addressing, a power of two */
    size_t slots, used;
    size_t size_bytes; /* the size of all blocks and the table */
};

/* The one copy of text, or NULL when out of memory (or text is NULL). */
const char *intern_string(struct intern *in, const char *text);

/* size_bytes of zeroed memory, aligned for any type, freed with all the rest. NULL: no memory. */
void *intern_memory(struct intern *in, size_t size_bytes);

void intern_free(struct intern *in);

/* The hash used for the strings; also for other tables of this directory. */
uint64_t intern_hash(const void *bytes, size_t size_bytes, uint64_t seed);

#endif
