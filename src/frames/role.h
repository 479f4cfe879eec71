/* role.h - whether a frame is code of the program, or of what allocates on behalf of it.
 *
 * Owns: the table of allocators' wrappers, languages' libraries, interpreters and libc, by which a
 * call site is found: the innermost frame of the program's own code. Pure. Any thread. */
#ifndef MALLOW_FRAMES_ROLE_H
#define MALLOW_FRAMES_ROLE_H

#include <stdbool.h>

enum role {
    ROLE_CODE = 0,    /* the program, and libraries that a person would call parts of it */
    ROLE_ALLOCATOR,   /* allocates for its caller: operator new, xmalloc, Vec's growth */
    ROLE_LIBRARY,     /* a language's library (libstdc++, Rust's std, druntime), or libc */
    ROLE_INTERPRETER, /* runs scripts, or is code that it generated; scripts that have names have
                         frames of their own */
    ROLE_START        /* libc's callers of main and of the functions of threads */
};

/* function: demangled, or NULL; path: of the module, or its base name; file: of the source. NULL
 * where unknown. */
enum role role_of(const char *function, const char *path, const char *file);

#endif
