/* variables.h - the names of modules' variables and functions, from their symbol tables.
 *
 * Owns: reading a module's file when it is first asked about, and its separate debug file where it
 * is stripped (symbol/separate.h), and the proof that these belong to the mapped file (by
 * build-id). One thread. */
#ifndef MALLOW_HEAP_VARIABLES_H
#define MALLOW_HEAP_VARIABLES_H

#include <stdint.h>

#include "heap/module.h"
#include "symbol/declared.h"

struct variable {
    const char *name;    /* as in the file; belongs to the struct variables */
    const char *shown;   /* demangled; belongs to it, too */
    uint64_t start, end; /* in the target */
};

struct variables;

/* pid: of the live process, whose own root is where its paths lead; 0: a core's. NULL when out of
 * memory. The modules are borrowed, and so are the directories with separate debug files. */
struct variables *variables_new(const struct modules *modules, uint32_t pid,
                                const char *const *debug_dirs, size_t debug_dir_count);
void variables_free(struct variables *v); /* NULL is fine */

/* The variable of that module that holds the address, or NULL. */
const struct variable *variables_find(struct variables *v, const struct module *m,
                                      uint64_t address);

/* The name, demangled, of the function of that module that holds the address; NULL: not known. It
 * belongs to v. */
const char *variables_function(struct variables *v, const struct module *m, uint64_t address);

/* Where the variable is declared, as the module's DWARF says; NULL: it does not. It belongs to
 * v. */
const struct declared *variables_declared(struct variables *v, const struct module *m,
                                          const struct variable *variable);

/* Opens the file of a module, if it is the one that was mapped. The caller closes. -1: it is not
 * there. */
int variables_open(const struct variables *v, const struct module *m);

#endif
