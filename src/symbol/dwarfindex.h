/* dwarfindex.h - from an address to functions, inlined ones included, and source lines.
 *
 * Owns: data read from DWARF 2 to 5 through libdw. Everything is found lazily: the ranges of all
 * units at first use, the functions of a unit when an address falls into it, the inlined calls of a
 * function when an address falls into that. Walks are bounded by the size of the unit they are in,
 * whatever the bytes say. Strings are libdw's own and live as long as the Dwarf, or stand in the
 * answer itself. */
#ifndef MALLOW_SYMBOL_DWARFINDEX_H
#define MALLOW_SYMBOL_DWARFINDEX_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dwarf_index;

enum { DWARF_FRAMES_MAX = 64, DWARF_SCOPED_NAMES_BYTES = 8192 };

struct dwarf_frame {
    const char *linkage_name; /* mangled; NULL when DWARF has none */
    const char *name;         /* as in the source; with its scopes where the language has them
                                 and DWARF no linkage name; NULL when unknown */
    const char *file;         /* NULL when unknown; may be relative to the unit's directory */
    unsigned line;            /* 0 when unknown */
};

struct dwarf_answer {
    struct dwarf_frame frame[DWARF_FRAMES_MAX]; /* innermost first; all but the last inlined */
    size_t frames;  /* 0: no function is known; frame[0] still holds file and line, if known */
    uint64_t start; /* the start of the piece of the outermost function that holds the address */
    const char *directory; /* the directory of the compilation, NULL when unknown */
    bool scoped;           /* the unit's language puts functions into scopes (C++, D, Rust) */
    char text[DWARF_SCOPED_NAMES_BYTES]; /* where names with scopes are put together */
    size_t text_bytes;
};

/* The dwarf is borrowed. bias: what libdw's addresses lack to be those of the ELF file. split:
 * split units are looked for, in the files that the dwarf names. Returns NULL when out of memory.
 */
struct dwarf_index *dwarf_index_new(Dwarf *dwarf, uint64_t bias, bool split);
void dwarf_index_free(struct dwarf_index *x);

/* Returns whether anything (function, file or line) is known of the address. */
bool dwarf_index_find(struct dwarf_index *x, uint64_t address, struct dwarf_answer *answer);

/* About how many bytes libdw and the index hold for the look-ups so far. */
size_t dwarf_index_size_bytes(const struct dwarf_index *x);

#endif
