/* saved.h - a heap as a file, to be looked at elsewhere and to be compared with a later one.
 *
 * Owns: the bytes of FILE.mlh (docs/heap-file.md): facts, names of types, blocks, references,
 * roots, pages. No content of the memory is in it. The input is hostile: everything is checked
 * before it is used. One thread. */
#ifndef MALLOW_HEAP_SAVED_H
#define MALLOW_HEAP_SAVED_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "heap/heap_impl.h"
#include "heap/scan.h"

/* Writes the heap. Call it before the graph is made, which overwrites the references. type: by
 * block, before types_rest. Returns 0, or -1 with *err. */
int saved_write(FILE *file, const struct heap *h, const struct scan *scan, const uint32_t *type,
                struct error *err);

/* True if the file open at fd is a saved heap. The file position does not matter. */
bool saved_is(int fd);

/* Fills the members of h that saved_write wrote, and *scan, with the types in scan->mark. name:
 * for messages. Returns 0, or -1 with *err. */
int saved_read(int fd, const char *name, struct heap *h, struct scan *scan, struct error *err);

/* packing.c: numbers as varints, into sections that are packed one by one. */
struct packing { /* bytes of a section, being made or read */
    uint8_t *data;
    size_t n, room, at;
    bool failed; /* out of memory, or the input is wrong */
};
void packing_number(struct packing *p, uint64_t n);
void packing_signed(struct packing *p, int64_t n);
void packing_text(struct packing *p, const char *text);
uint64_t packing_get(struct packing *p);
int64_t packing_get_signed(struct packing *p);
/* Returns a number of at most `most`. A larger one marks the section as failed and returns 0. */
uint64_t packing_get_below(struct packing *p, uint64_t most);
/* Reads a text into `room` bytes: printable characters, ended by NUL. */
void packing_get_text(struct packing *p, char *text, size_t room);
void packing_release(struct packing *p);
/* Writes the section and empties it. Returns 0, or -1 with *err. */
int packing_write(FILE *file, uint32_t kind, struct packing *p, struct error *err);
/* Reads the section at *offset, which must be of this kind and unpack to at most `most` bytes,
 * and moves *offset behind it. Returns 0, or -1 with *err. */
int packing_read(int fd, const char *name, uint64_t *offset, uint32_t kind, uint64_t most,
                 struct packing *p, struct error *err);

#endif
