/* module.h - the symbols and relocated words of loaded modules, read, and changed a word at a time.
 *
 * Called inside dl_iterate_phdr, which keeps modules from coming and going. Other threads may read
 * a word at any moment: each changes by one store. Uses no memory but the
 * caller's, and no system call but mprotect. */
#ifndef MALLOW_PRELOAD_GUEST_MODULE_H
#define MALLOW_PRELOAD_GUEST_MODULE_H

#include <link.h>

#include "preload/guest.h"

struct module {
    const struct dl_phdr_info *info;
    Elf64_Sym *symbols;
    const char *names;
    const uint16_t *versions;
    const uint32_t *hash;             /* DT_GNU_HASH; NULL: no symbol of it is found */
    const Elf64_Rela *relocations[2]; /* DT_RELA without its relative ones, DT_JMPREL */
    uint64_t count[2];
};

/* False: it has no symbols. */
HIDDEN bool module_read(const struct dl_phdr_info *info, struct module *m);
/* One of its segments holds that address. */
HIDDEN bool module_holds(const struct dl_phdr_info *info, uint64_t at);
/* Its definition of that function in its default version; NULL: none. */
HIDDEN Elf64_Sym *module_default(const struct module *m, const char *name);
/* The same in any version: the first, or the one behind `before`. */
HIDDEN Elf64_Sym *module_function(const struct module *m, const char *name,
                                  const Elf64_Sym *before);
/* How many symbols the hash table covers, counted from the start of the symbol table. */
HIDDEN uint32_t module_symbols(const struct module *m);
/* The symbol is a function that the module defines. */
static inline bool module_defines(const Elf64_Sym *s)
{
    return s->st_shndx != SHN_UNDEF && s->st_value && ELF64_ST_TYPE(s->st_info) == STT_FUNC;
}
/* The address of a word that the loader fills in with the address of a symbol; 0: another kind. */
HIDDEN uint64_t module_word(const struct module *m, const Elf64_Rela *r);

/* The first function of that name behind us in the order in which names are searched for (of a
 * library that is attached: of all), in its default version; NULL: none, or one that has to be
 * asked for its address. In place of dlsym, which takes back what dlerror has to say. */
HIDDEN void *module_behind(const char *name);

/* The same of several, in one walk. */
struct module_wanted {
    const char *name;
    void *found;
};
HIDDEN void module_behind_all(struct module_wanted *list, unsigned count);

/* Pages that are writable for our sake, and what became of the writing. Zero to begin with. */
struct module_pages {
    uint64_t start, end; /* end 0: none */
    int was;             /* the protection that the loader left */
    bool failed;         /* the kernel refused a change, or to take it back */
    long changed;        /* words */
};
/* Makes the pages that hold [start, end) writable, which the loader has left alike; closes others.
 */
HIDDEN bool module_open(struct module_pages *p, const struct dl_phdr_info *info, uint64_t start,
                        uint64_t end);
HIDDEN void module_close(struct module_pages *p);
HIDDEN void module_write(struct module_pages *p, const struct dl_phdr_info *info, uint64_t at,
                         uint64_t value);

#endif
