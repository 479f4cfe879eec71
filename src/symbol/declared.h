/* declared.h - where a file's variables are declared, and of which type they are, from its DWARF.
 *
 * Owns: one walk over what a file says about variables with a fixed address outside of functions.
 * Bounded in time for any file. One thread per file. */
#ifndef MALLOW_SYMBOL_DECLARED_H
#define MALLOW_SYMBOL_DECLARED_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/intern.h"

struct declared {
    uint64_t address; /* in the ELF file */
    const char *file; /* the source file; "" when not known */
    const char *type; /* as in the source, shortened; "" when not known */
    unsigned line;    /* 0 when not known */
};

struct declarations {
    struct declared *at; /* by address */
    size_t count, room;
    struct intern texts;
};

/* Fills *d from the file that fd is; declarations_release gives it back. A file without DWARF, or
 * whose DWARF is elsewhere, gives none. Returns 0, or -1 when out of memory. */
int declarations_read(struct declarations *d, int fd);
void declarations_release(struct declarations *d);

/* The declaration at exactly this address, or NULL. */
const struct declared *declarations_find(const struct declarations *d, uint64_t address);

#endif
