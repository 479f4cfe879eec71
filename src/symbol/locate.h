/* locate.h - finds the files that can name a module: itself, its debug file, its dwz file.
 *
 * Owns: the search by path, by build-id, by .gnu_debuglink and by debuginfod, and the proof that a
 * file belongs to the module (build-id, else size and time of its last change, else CRC). A file
 * that cannot be proved right is taken only when the recording holds neither of the first two.
 * Reads debuginfod's environment only through its library, and loads that library only when
 * DEBUGINFOD_URLS is set and the options allow it.
 */
#ifndef MALLOW_SYMBOL_LOCATE_H
#define MALLOW_SYMBOL_LOCATE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

enum { LOCATE_ID_BYTES_MAX = 64 };

struct locate {
    char **dir; /* NULL-terminated, owned */
    char *sysroot;
    bool no_debuginfod;
    int (*held)(void *arg, const char *path, unsigned n); /* as symbol_options */
    void *held_arg;
    bool debuginfod_tried; /* to load the library */
    unsigned debuginfod_failures;
    void *debuginfod_client;
};

/* Problems, for the user; parts joined by "; ". Silently cut at the end of the room. */
struct locate_notes {
    char text[1024];
};

void locate_note(struct locate_notes *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* options may be NULL. Returns 0, or -1 when out of memory. */
int locate_init(struct locate *l, const struct symbol_options *options);
void locate_done(struct locate *l);

/* A file that was found. */
struct located {
    int fd; /* -1: none */
    char *path;
    bool is_debug; /* a separate debug file stands in for the module */
};

/* Finds the module's own file, else what process `pid` has open of it (0: none), else a debug file
 * of the same build-id. Returns 0 when found. Fills notes with why not, or with the files skipped
 * on the way. */
int locate_module(struct locate *l, const struct symbol_module *m, uint32_t pid,
                  struct located *out, struct locate_notes *notes);

/* Finds the separate debug file of `elf`, the module's file, opened from `path`. */
int locate_debug(struct locate *l, Elf *elf, const char *path, struct located *out,
                 struct locate_notes *notes);

/* True if the .gnu_debugaltlink section of the file at `path` names `name`. */
bool locate_is_alternate(const char *path, const char *name);

/* Finds the file that the .gnu_debugaltlink section of the debug file at `path` names. */
int locate_alternate(struct locate *l, const char *path, struct located *out,
                     struct locate_notes *notes);

#endif
