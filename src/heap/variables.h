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
    const char *shown;   /* demangled; belongs to the struct variables, too */
    uint64_t start, end; /* in the target */
};

struct variables;

/* pid: the live process, in whose root paths are looked up; 0: a core. The modules and the
 * directories with separate debug files must outlive the result. Returns NULL without memory. */
struct variables *variables_new(const struct modules *modules, uint32_t pid,
                                const char *const *debug_dirs, size_t debug_dir_count);
void variables_free(struct variables *v); /* NULL is fine */

/* Returns the variable of the module that holds the address, or NULL. */
const struct variable *variables_find(struct variables *v, const struct module *m,
                                      uint64_t address);

/* Returns the demangled name of the module's function that holds the address; NULL: not known.
 * It belongs to v. */
const char *variables_function(struct variables *v, const struct module *m, uint64_t address);

/* Returns where the variable is declared, from the module's DWARF; NULL: not known. It belongs
 * to v. */
const struct declared *variables_declared(struct variables *v, const struct module *m,
                                          const struct variable *variable);

/* Opens the file of a module if it is the one that was mapped. The caller closes it. Returns -1
 * if there is none. */
int variables_open(const struct variables *v, const struct module *m);

#endif
