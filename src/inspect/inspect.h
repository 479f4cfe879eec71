/* inspect.h - looks at a program before it runs: can it be recorded, and if not, why not.
 *
 * Owns: reading the ELF headers, symbols and dynamic section of an executable file, and the rules
 * by which the loader ignores LD_PRELOAD. Refuses: to run anything or to change anything. `record`
 * asks it before it starts a program; `doctor PROGRAM` prints what it finds. Any thread. */
#ifndef MALLOW_INSPECT_INSPECT_H
#define MALLOW_INSPECT_INSPECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum inspect_verdict {
    INSPECT_RECORDABLE = 0, /* nothing known against it */
    INSPECT_LIMITED,        /* runs under the library, but part of its allocations is not seen */
    INSPECT_IMPOSSIBLE      /* the library will not be loaded, or will see nothing */
};

/* The findings; they are of `path`, after following `#!` lines. */
struct inspect {
    char path[PATH_MAX];        /* the file that the kernel will execute in the end */
    char script[PATH_MAX];      /* the script named by the user, "" when it is not one */
    char interpreter[PATH_MAX]; /* PT_INTERP, "" when there is none */
    bool is_elf;
    unsigned bits;       /* 32 or 64; 0 when it is not ELF */
    unsigned machine;    /* EM_X86_64, ... */
    bool is_static;      /* no dynamic loader: LD_PRELOAD is not read */
    bool is_loader;      /* the dynamic loader itself, which does read LD_PRELOAD */
    bool is_musl;        /* musl's loader: a library built for glibc does not load there */
    bool is_secure;      /* setuid, setgid or file capabilities that this user would gain by
                            running it: the loader ignores LD_PRELOAD */
    bool defines_malloc; /* its own malloc, in .dynsym or .symtab: calls do not reach the library */
    bool exports_malloc; /* ... and it is in .dynsym: no library's calls do either */
    bool has_symbols;    /* a .symtab is there: defines_malloc is certain */
    bool is_symbolic;    /* DT_SYMBOLIC: it calls its own functions, whatever stands before them */
    bool is_go;          /* Go's heap does not come from malloc */
    char own_allocator[64]; /* a bundled allocator under other names: "jemalloc (_rjem_malloc)", ""
                             */
    char linked_allocator[64]; /* DT_NEEDED allocator library: "libjemalloc.so.2", ""; recorded */
    char linked_sanitizer[64]; /* DT_NEEDED runtime with a malloc of its own: "libasan.so.8", "" */
};

/* Finds `name` as execvp would (a name without a slash is looked up in PATH) and inspects it.
 * Returns 0; -1 with *err set and, in err->number, ENOENT when there is no such program, EACCES
 * when it is there and may not be executed, another errno when it cannot be read. A file that is
 * neither ELF nor a script is not an error: is_elf stays false. */
int inspect_program(const char *name, struct inspect *result, struct error *err);

/* The same of a command, which ends with NULL. Where argv[0] is a dynamic loader, the findings are
 * of the program that it loads, as far as its arguments say which: no user gains privileges by it,
 * and the loader is its interpreter. */
int inspect_command(char *const argv[], struct inspect *result, struct error *err);

/* The facts that an open file holds about itself, as after inspect_program, without path and
 * script. */
void inspect_open(int fd, struct inspect *result);

/* An allocator inside a module, whose calls never lead to a preloaded library. is_program: it is no
 * shared library. An allocator that others are meant to find (libjemalloc.so) is none. */
enum inspect_inside { INSPECT_INSIDE_NOTHING, INSPECT_INSIDE_ALLOCATOR, INSPECT_INSIDE_MALLOC };
enum inspect_inside inspect_inside(const struct inspect *result, bool is_program);

/* True if the runtime of AddressSanitizer is linked and will end the program at its start because a
 * library is preloaded. False where ASAN_OPTIONS, in this environment, says
 * verify_asan_link_order=0. */
bool inspect_must_be_first(const struct inspect *result);

/* The judgment, and up to `max` reasons: each one line, "fact; remedy", without a period,
 * weightiest first. *count is how many were written. Returns the worst verdict among them. */
struct inspect_reason {
    enum inspect_verdict verdict; /* the verdict by this reason alone */
    char what[512];               /* "it is statically linked, so no library can be preloaded" */
    char remedy[512];             /* "link it dynamically", "" when there is none */
};
enum inspect_verdict inspect_judge(const struct inspect *result, struct inspect_reason *reasons,
                                   size_t max, size_t *count);

#endif
