/* files.h - which files a process consists of, before it runs or while it does.
 *
 * Owns: asking the loader (for a program that is yet to start) and /proc (for one that runs), and
 * finding in them the library that is meant. */
#ifndef MALLOW_PROBE_FILES_H
#define MALLOW_PROBE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Paths in the order in which symbols are looked up: the program, preloaded libraries, libraries.
 * Of a process, whose loader is not asked, as far as the order of its mappings shows. */
struct files {
    char **path;
    size_t count, room;
};

/* Each returns 0, or -1 with *err; files_release frees the files found so far. */
int files_of_program(struct files *f, const char *program, struct error *err);
int files_of_process(struct files *f, pid_t pid, struct error *err);
/* The files that most programs here are linked with: this machine's C library and loader. */
int files_of_machine(struct files *f, struct error *err);
/* One more, if it is not there. */
int files_add(struct files *f, const char *path, struct error *err);
void files_release(struct files *f);

/* The file for --lib: a path, or one of the files whose name is `library` or begins with it
 * ("jemalloc" finds libjemalloc.so.2), or such a file in the library directories. NULL: the first
 * of the files with a function named malloc; `path` receives it. */
int files_find_library(const struct files *f, const char *library, char *path, size_t room,
                       struct error *err);

/* The path by which a file that a process maps can be opened from here. */
void files_reach(pid_t pid, const char *mapped, char *path, size_t room);

#endif
