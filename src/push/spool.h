/* spool.h - letters that wait to be sent, oldest first, on disk or in memory, within a bound.
 *
 * Owns: a directory of files NUMBER.KIND, which one process at a time uses (it holds a lock), and
 * the order. A letter in the directory is whole, or it is not there: it is written without a name,
 * flushed to the disk, and then named. It is removed when it was sent, or when the bound makes the
 * oldest give way, which is counted. Other files are left alone. A letter that cannot be written (a
 * full disk) waits in memory.
 *
 * One thread at a time. */
#ifndef MALLOW_PUSH_SPOOL_H
#define MALLOW_PUSH_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trust/place.h"

#define SPOOL_KIND_BYTES 16

struct spool_entry {
    uint64_t number;
    uint64_t bytes; /* on disk */
    char *data;     /* in memory; NULL: it is in the directory */
    size_t size;
};

struct spool {                /* all private but for the counts */
    struct trust_place place; /* dir -1: in memory alone */
    char *path;
    char kind[SPOOL_KIND_BYTES];
    struct spool_entry *items; /* oldest first */
    size_t count, room;
    uint64_t bytes, most_bytes, next;
    uint64_t dropped; /* letters that gave way to others, or that were too large for the bound */
    uint64_t damaged; /* files that are no letters, whenever they are read */
};

/* The directory is made when it is missing; NULL: in memory. kind: of letters; small letters. What
 * an earlier process left waits again. -1 with *err: it is used by another process, has letters of
 * another kind, or others may write in it. */
int spool_open(struct spool *s, const char *directory, const char *kind, uint64_t most_bytes,
               struct error *err);

/* Takes over `data`, from malloc. -1 with *err: it could not be written, and waits in memory. */
int spool_add(struct spool *s, char *data, size_t size, struct error *err);

/* *letter: a copy of the oldest letter that can be read, to be freed; NULL: there is none. Files
 * that never can be read are counted and removed. Those that cannot be read for now stay, and *err,
 * else empty, says why the oldest of them cannot; -1: no other is left. */
int spool_first(struct spool *s, char **letter, uint64_t *number, size_t *size, struct error *err);
/* It need not be sent any more. */
void spool_remove(struct spool *s, uint64_t number);

/* Letters that a next process finds, after a last try to write those in memory. */
uint64_t spool_stored(struct spool *s);
void spool_close(struct spool *s);

#endif
