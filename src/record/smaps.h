/* smaps.h - the resident size of a process, split by kind of mapping.
 *
 * Owns: the parsers of /proc/PID/smaps and statm, and the rules by which a mapping is the program
 * break, a glibc arena, a thread's stack, a file, shared memory, or the recorder's own. Reads text
 * that the kernel made; survives any text. */
#ifndef MALLOW_RECORD_SMAPS_H
#define MALLOW_RECORD_SMAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "format/chunk.h"

/* Memory of glibc's malloc, but for the program break and blocks with a mapping of their own; and
 * stacks of threads. */
enum smaps_place_kind {
    SMAPS_ARENA,
    SMAPS_MAIN, /* a part of the main arena */
    SMAPS_STACK,
    SMAPS_BLOCK, /* a stack that is a part of a block with a mapping of its own */
    SMAPS_DATA   /* data of a program or library that its file does not hold (.bss) */
};
struct smaps_place {
    uint64_t start, end;
    enum smaps_place_kind kind;
};

/* Facts that the mappings alone do not show. */
struct smaps_hints {
    const uint64_t
        *thread_pointers; /* the pointers of all threads but the first: each lies in its stack */
    size_t threads;
    uint64_t first_thread; /* the pointer of the first; 0: not known */
    bool knows_heaps; /* those of `places` are all that there are; else those of other arenas are
                         known by where their mappings lie */
    const struct smaps_place *places; /* [place_count], by address, none in another */
    size_t place_count;
    /* Bytes of [start, end), page addresses, that are in memory; for mappings that places lie in
     * with other memory. NULL: then such a mapping is none of theirs. */
    uint64_t (*present)(void *arg, uint64_t start, uint64_t end);
    void *present_arg;
    uint64_t session_inode; /* the session inode of the shared memory, when it has no name of its
                               own; 0: it has */
    uint64_t private_bytes; /* bytes of the recorder's own mappings: found among anonymous ones
                              without reservation (MAP_NORESERVE) that no core has (MADV_DONTDUMP),
                              and that are no longer */
};

/* Splits the text of a smaps file. The kinds, and pages given back lazily, add up to `rss` of
 * all mappings, which is also given when rss is not NULL. split->clock is left alone. Returns 0, or
 * -1 for text that is no smaps. */
int smaps_split(const char *text, size_t n, const struct smaps_hints *hints,
                struct mlw_split *split, uint64_t *rss, struct error *err);

/* Calls `visit` with each multiple of `step` at which there is private anonymous memory that may be
 * written and that is in memory in part; `most` of them at most. */
void smaps_places(const char *text, size_t n, uint64_t step, size_t most,
                  void (*visit)(void *arg, uint64_t at), void *arg);

/* Calls `visit` with each anonymous mapping that may be written and lies right behind private
 * memory of a file, and with where the beginning of that file is mapped. */
void smaps_data(const char *text, size_t n,
                void (*visit)(void *arg, uint64_t base, uint64_t start, uint64_t end), void *arg);

/* /proc/PID/smaps. The buffer grows as needed and may be used again. -1 also when the process ends
 * meanwhile: the text may be a part of it. */
struct smaps_buffer {
    char *bytes;
    size_t n, room;
};
int smaps_read(pid_t pid, struct smaps_buffer *b, struct error *err);

/* Reads an open /proc/PID/statm, in bytes; the clock is left 0. False when there is nothing to
 * read: the process has ended, or is a zombie, which has zeros. */
bool statm_read(int fd, uint64_t page_bytes, struct mlw_resident *now);

#endif
