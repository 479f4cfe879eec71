/* library.h - a shared library that is loaded when it is wanted, and not with the program.
 *
 * Owns: finding it by one of its names, filling a table of its functions, and saying why that did
 * not work. A loaded library stays. One thread at a time for each struct library. */
#ifndef MALLOW_BASE_LIBRARY_H
#define MALLOW_BASE_LIBRARY_H

#include <stddef.h>

struct library_symbol {
    const char *name; /* in the library */
    size_t at;        /* offset in the table of the pointer to be set */
};

/* Static: the names and symbols are the caller's, the rest begins as zero. */
struct library {
    const char *title;        /* in messages: "libcurl" */
    const char *hint;         /* behind a missing symbol: "; version 2 is needed"; NULL: nothing */
    const char *const *names; /* names of the file, the usual one first; NULL ends them */
    const struct library_symbol *symbols;
    size_t symbol_count;
    void *table; /* the caller's, of object and function pointers */
    void *handle;
    char why[256];
};

/* NULL when it is loaded and its symbols are in the table, else why not, until the next call. A
 * failed load is tried again. */
const char *library_load(struct library *library);

/* The address of a symbol of a loaded library; NULL, and `why` is set, when it has none. */
void *library_symbol(struct library *library, const char *name);

#endif
