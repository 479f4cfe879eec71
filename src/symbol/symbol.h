/* symbol.h - from addresses to names, with inlined frames.
 *
 * Owns: everything that knows ELF symbols and DWARF (libdw, libdwfl, debuginfod). Names are looked
 * up long after the recording, possibly on another machine: all that is needed of a module is what
 * the recording holds (path, build-id, load bias). symbols_lookup may be called by any thread, the
 * others by one thread while no other is in it. */
#ifndef MALLOW_SYMBOL_SYMBOL_H
#define MALLOW_SYMBOL_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A module as the recording describes it. Strings and bytes are borrowed for the call only. */
struct symbol_module {
    const char *path;        /* as it was in the traced program; may not exist here */
    const uint8_t *build_id; /* NULL when the module has none */
    size_t build_id_bytes;
    uint64_t file_bytes,
        file_mtime_ns;   /* a file's without a build-id, when it was mapped; 0: not known */
    uint64_t file_sum;   /* the sum of that file (contents.h); 0: not known */
    uint64_t start, end; /* addresses in the traced program */
    uint64_t bias;       /* address in the program minus address in the ELF file */
};

/* One function at an address. Strings belong to the struct symbols and live as long as it. */
struct symbol_frame {
    const char *function; /* demangled; NULL when no name is known */
    const char *file;     /* NULL when unknown */
    unsigned line;        /* 0 when unknown */
    const char *module;   /* basename of the module, "[jit]", "[python]", "[vdso]", or NULL */
    bool inlined;         /* inlined into the next frame of the result */
    uint64_t offset; /* the offset of the address from the function's start; 0 for inlined ones */
};

/* Modules of functions that an interpreter names in /tmp/perf-PID.map; of others it is "[jit]". */
#define SYMBOL_PYTHON     "[python]"
#define SYMBOL_JAVASCRIPT "[javascript]"

struct symbols;

struct symbol_options {
    const char *const *search_paths; /* directories with separate debug files, NULL-terminated;
                                        NULL: the system's own (/usr/lib/debug) */
    const char *sysroot;             /* prefix put before module paths; NULL for none */
    bool no_debuginfod;              /* even if DEBUGINFOD_URLS is set */
    bool no_inline;                  /* names of functions only: much faster */
    /* The n-th open file that was mapped by a path, for paths that lead to another now; a borrowed
     * descriptor, -1: there are not so many. NULL: there are none. */
    int (*held)(void *arg, const char *path, unsigned n);
    void *held_arg;
};

/* Returns NULL with *err set when out of memory. options may be NULL: all defaults. */
struct symbols *symbols_new(const struct symbol_options *options, struct error *err);
void symbols_free(struct symbols *s); /* NULL is fine */

/* The functions at `address` of the traced program, innermost (inlined) first. module: the file
 * mapped there, NULL when nothing was (JIT code: then /tmp/perf-PID.map of `pid` is tried, also
 * inside the recorded process's root). is_return: the address is a return address; the call before
 * it is named. frames: room for `max`; at least one is always written (function NULL when no name
 * is known). Returns how many were written. Answers are cached by (module, address). Never fails:
 * what cannot be found is counted in symbols_problems. A server that fails is not asked again for
 * long: which modules it was asked for then depends on the order of the lookups. */
size_t symbols_lookup(struct symbols *s, const struct symbol_module *module, uint32_t pid,
                      uint64_t address, bool is_return, struct symbol_frame *frames, size_t max);

/* Reads the map of the process's generated code again, if it is another one than before; answers
 * for code that had no name then have the one that it has now. True: it was another one. */
bool symbols_renew(struct symbols *s, uint32_t pid);

/* Why names are missing, for the user: one line per module with trouble (file missing, build-id
 * differs from the file that is there, no debug information, debuginfod failed), in the order of
 * the lines. Returns the number; text[i] belong to s. */
size_t symbols_problems(struct symbols *s, const char *const **text);

/* Demangles a C++ (Itanium), Rust (v0 and legacy) or D name. Returns a malloc'ed string, or NULL
 * when the name is not mangled or malformed. Bounded in time and memory for any input. */
char *symbol_demangle(const char *name);

#endif
