/* functions.h - the functions that a file has, and where in it they begin.
 *
 * Owns: the list of a file's symbols with file offsets, which is the form in which the kernel
 * expects the place of a probe. Also what else must be known of a file before it runs: the programs
 * and notes in it. One thread per file. */
#ifndef MALLOW_SYMBOL_FUNCTIONS_H
#define MALLOW_SYMBOL_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct function {
    const char *name; /* as in the file, without a version; belongs to the list */
    uint64_t offset;  /* in the file, of the first instruction */
    uint64_t address; /* in the ELF file */
    uint64_t bytes;   /* 0: the file does not say */
    bool exported;    /* in .dynsym */
    bool data;        /* a variable; offset is then only meaningful when it is in the file */
};

struct functions {
    struct function *at; /* sorted by offset, then name */
    size_t count, room;
    char *text; /* private */
    size_t text_bytes, text_room;
};

enum functions_which {
    FUNCTIONS_EXPORTED = 1, /* from .dynsym */
    FUNCTIONS_LOCAL = 2,    /* from .symtab of the file itself or of its separate debug file */
    FUNCTIONS_DATA = 4,     /* variables, too */
    FUNCTIONS_ALONE = 8     /* no other file is looked for */
};

/* Fills *f; functions_release gives it back. Selected at run time (IFUNC) ones are left out.
 * Returns 0, or -1 with *err set. A file without symbols gives none. */
int functions_read(const char *path, unsigned which, struct functions *f, struct error *err);
void functions_release(struct functions *f);

/* The first of that name, or NULL. */
const struct function *functions_find(const struct functions *f, const char *name);

/* Leaves one name for each offset: exported, then the one with the fewest leading underscores, then
 * the shortest. */
void functions_unique(struct functions *f);

/* Where the code of the file lies: an executable segment that is loaded from it. */
struct elf_segment {
    uint64_t address, offset, bytes;
};
/* How many were written; 0 when the file cannot be read. */
size_t functions_segments(const char *path, struct elf_segment *segments, size_t max);

/* The address, in the ELF file, of these bytes among its constants; 0: they are not there. */
uint64_t functions_text(const char *path, const char *text, size_t bytes);

/* The address, in the ELF file, of the one variable that holds these bytes when the file is loaded,
 * at a multiple of 8; 0: none does, or several do. */
uint64_t functions_variable(const char *path, const void *begins, size_t bytes);

/* The build-id of the file: how many bytes of `id` were written; 0 when it has none of up to
 * `room`. */
size_t functions_build_id(const char *path, uint8_t *id, size_t room);

/* The name of the separate debug file that the file links to: a name, not a path. False: none. */
bool functions_debug_link(const char *path, char *name, size_t room);

/* The interpreter that the file asks for, into `path`; false when it has none (static). */
bool functions_interpreter(const char *file, char *path, size_t room);

#endif
