/* elfnames.h - names from a module's symbol tables.
 *
 * Owns: an index of the code symbols of .symtab (or .dynsym and .gnu_debugdata, where libdwfl finds
 * only these) and of the stubs of the PLT. One name an address: functions before labels, visible
 * before local, then the name that a user would know (fewest leading underscores). A symbol that
 * gives its size names nothing behind its end; one that does not, ends where the next begins.
 * Names are the ELF file's own, mangled, and live as long as the Dwfl_Module.
 */
#ifndef MALLOW_SYMBOL_ELFNAMES_H
#define MALLOW_SYMBOL_ELFNAMES_H

#include <elfutils/libdwfl.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/interval.h"

struct elf_name {
    const char *text;
    uint64_t start; /* ELF file address */
    bool is_plt;    /* the stub that calls `text` */
};

struct elf_names {
    struct interval_map ranges; /* value: index into at */
    struct elf_name *at;
    size_t count, room;
};

/* Returns 0, or -1 when out of memory. A module without symbols gives none. */
int elf_names_build(struct elf_names *names, Dwfl_Module *module);

/* The name at an address of the ELF file, or NULL. */
const struct elf_name *elf_names_find(const struct elf_names *names, uint64_t address);

void elf_names_free(struct elf_names *names);

#endif
