/* pack.h - workload files compressed with zstd (as `zstd run.mwl` makes them).
 *
 * Owns: recognizing them by their first bytes, packing, and unpacking it into memory of the
 * kernel's, which a program that is started inherits. Refuses: files that unpack to more than
 * base/packed.h says, so that a small damaged or hostile file cannot fill it. */
#ifndef MALLOW_WORKLOAD_PACK_H
#define MALLOW_WORKLOAD_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct workload_source {
    const char *path; /* a workload's descriptor by its path, else the file's own */
    int fd;           /* the file, or a copy in memory of a packed one or another user's; inherited
                         by programs that are started; -1: it is no workload */
    char name[32];    /* private: room for path */
};

/* Makes a workload file readable by path, and its mapping so that it cannot fault: the file that
 * was looked at, whatever takes its place. Another file, or one that cannot be opened, is left to
 * its reader. `path` must live as long as *s. -1 with *err for a packed file that is damaged or too
 * large. */
int workload_source_open(struct workload_source *s, const char *path, struct error *err);

/* The same for who reads nothing but workloads: -1 as well when it cannot be opened, and with
 * ERROR_USAGE when it is something else. The rest behind its first bytes is not checked. */
int workload_source_expect(struct workload_source *s, const char *path, struct error *err);

void workload_source_close(struct workload_source *s);

/* Packs the workload in the descriptor `from`, from its start on. -1 with *err. */
int workload_pack(int from, FILE *out, struct error *err);

/* Unpacks n bytes at data into the descriptor `into`, at most `most` bytes. -1 with *err. */
int workload_unpack(const void *data, size_t n, int into, uint64_t most, struct error *err);

/* True if the file at `path` begins as a workload that is not packed. */
bool workload_is(const char *path);

#endif
