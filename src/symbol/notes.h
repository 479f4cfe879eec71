/* notes.h - the static probes (sys/sdt.h) that a file describes in its .note.stapsdt.
 *
 * Owns: reading the notes, bounds-checked, and moving their addresses by what the link moved.
 * What the text of the arguments means is probe/'s. Not thread-safe per file. */
#ifndef MALLOW_SYMBOL_NOTES_H
#define MALLOW_SYMBOL_NOTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct static_probe {
    const char *provider, *name, *arguments; /* belong to the list */
    uint64_t address;                        /* in the ELF file */
    uint64_t offset;                         /* in the file */
    uint64_t semaphore_offset;               /* in the file, of the counter of users; 0: none */
};

struct static_probes {
    struct static_probe *at;
    size_t count, room;
    char *text; /* private: the notes' bytes */
};

/* Fills *p; static_probes_release gives it back. A file without notes gives none; damaged notes end
 * the list. Returns 0, or -1 with *err when the file cannot be read. */
int static_probes_read(const char *path, struct static_probes *p, struct error *err);
void static_probes_release(struct static_probes *p);

/* The notes alone: `bytes` of them (copied), as read from a section. Addresses are as they stand
 * there; *bases, which the caller frees, is the base that each note was written for. The reader of
 * the file adds how much further .stapsdt.base lies. Returns 0, or -1 when out of memory. */
int static_probes_parse(const void *data, size_t bytes, struct static_probes *p, uint64_t **bases);

#endif
