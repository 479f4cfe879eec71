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
    bool knows_heaps; /* `places` has all heaps; else heaps of other arenas are recognized by the
                         addresses of their mappings */
    const struct smaps_place *places; /* [place_count], by address, none in another */
    size_t place_count;
    /* Returns the bytes of [start, end), page addresses, that are in memory, for mappings that
     * hold a place and other memory. NULL: such a mapping counts as other memory. */
    uint64_t (*present)(void *arg, uint64_t start, uint64_t end);
    void *present_arg;
    uint64_t session_inode; /* the inode of the session's shared memory if that has no name; 0: it
                               has one */
    uint64_t private_bytes; /* bytes of the recorder's own mappings: found among anonymous ones
                              without reservation (MAP_NORESERVE) that no core has (MADV_DONTDUMP),
                              and that are no longer */
};

/* Splits the text of a smaps file. The kinds, and pages given back lazily, add up to the `rss`
 * of all mappings, which goes into *rss unless rss is NULL. It leaves split->clock alone.
 * Returns 0, or -1 with *err for a text that is not of that form. */
int smaps_split(const char *text, size_t n, const struct smaps_hints *hints,
                struct mlw_split *split, uint64_t *rss, struct error *err);

/* Calls `visit` for each multiple of `step` that lies in private, writable, anonymous memory of
 * which some is resident; `most` of them at most. */
void smaps_places(const char *text, size_t n, uint64_t step, size_t most,
                  void (*visit)(void *arg, uint64_t at), void *arg);

/* Calls `visit` for each writable anonymous mapping directly behind a private mapping of a file.
 * base: where the beginning of that file is mapped. */
void smaps_data(const char *text, size_t n,
                void (*visit)(void *arg, uint64_t base, uint64_t start, uint64_t end), void *arg);

/* A buffer for the text of /proc/PID/smaps, which grows as needed and may be used again. Reading
 * returns -1 with *err also if the process ends meanwhile, because the text may be incomplete. */
struct smaps_buffer {
    char *bytes;
    size_t n, room;
};
int smaps_read(pid_t pid, struct smaps_buffer *b, struct error *err);

/* Reads an open /proc/PID/statm, in bytes, and sets the clock to 0. Returns false if the process
 * has ended or is a zombie, whose sizes are zeros. */
bool statm_read(int fd, uint64_t page_bytes, struct mlw_resident *now);

#endif
