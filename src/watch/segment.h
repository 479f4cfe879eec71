/* segment.h - the shared memory of one watched process image, seen from outside it.
 *
 * Owns: opening it, the check of every offset and count that its head claims, and copies of its
 * records that are whole. The layout is format/watch.h. Refuses: to trust. It was written by
 * another process, which may rewrite or truncate it at any moment: nothing of it is mapped; all is
 * read by pread into memory of the reader's own, so that nothing faults. Whose it may be, its
 * caller decides (watch/process.c). One thread. */
#ifndef MALLOW_WATCH_SEGMENT_H
#define MALLOW_WATCH_SEGMENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/watch.h"
#include "trust/file.h"

enum segment_table {
    SEGMENT_MODULES,
    SEGMENT_SITES,
    SEGMENT_SAMPLES,
    SEGMENT_FREES,
    SEGMENT_ERRORS,
    SEGMENT_TABLES
};

struct segment {
    /* A copy. The identity and the places of its tables are those of the opening; the rest is of
     * the latest segment_refresh. Aligned as the original, so that words are whole. */
    _Alignas(64) struct mlw_watch head;
    int fd;
    bool writable; /* its settings may be changed */
    struct trust_identity identity;
    uint64_t bytes;
    struct {
        uint32_t count, offset;
    } table[SEGMENT_TABLES]; /* within the file when it was opened; they do not overlap */
};

/* Opens the file `path` of the directory dir (or AT_FDCWD), which is not a link. Returns 0; 1 when
 * the process has not finished making it; -1 with *err set. */
int segment_open(struct segment *s, int dir, const char *path, struct error *err);
/* As segment_open, for a link of /proc to a file (/proc/PID/fd/N, /proc/PID/map_files/...). */
int segment_open_link(struct segment *s, const char *path, struct error *err);
void segment_close(struct segment *s);

/* Reads the changing part of the head. Parts missing from a file that became shorter keep their old
 * values. */
void segment_refresh(struct segment *s);

enum segment_copy { SEGMENT_NONE, SEGMENT_WHOLE, SEGMENT_TORN };

/* Copy a record by index (frees and errors: by number). NONE: the record was never used, lies
 * outside the table, or has another number by now. *version is the record's version. */
enum segment_copy segment_module(const struct segment *s, uint32_t index,
                                 struct mlw_watch_module *out);
enum segment_copy segment_site(const struct segment *s, uint32_t index, struct mlw_watch_site *out);
enum segment_copy segment_error(const struct segment *s, uint64_t number,
                                struct mlw_watch_error *out);

/* Passes a copy of every whole record among `count` entries from `first` on (at most the
 * table's) to `take`, which may read other records. Parts of the file that were never written
 * cost nothing. Returns how many records were torn. */
typedef void segment_take(void *arg, uint32_t index, const void *record);
uint32_t segment_each(const struct segment *s, enum segment_table table, uint32_t first,
                      uint32_t count, segment_take *take, void *arg);

/* Does the same for the releases with numbers from `first` up to, not including, `end`; at most
 * as many as the table holds. *missed: how many of them have been overwritten. */
typedef void segment_take_free(void *arg, const struct mlw_watch_free *record);
void segment_each_free(const struct segment *s, uint64_t first, uint64_t end,
                       segment_take_free *take, void *arg, uint64_t *missed);

/* True if the sample of this index still has this version. */
bool segment_sample_holds(const struct segment *s, uint32_t index, uint32_t version);

/* Changes the settings that are not NULL in the running process, and writes only to their cache
 * line. Returns false if they cannot be changed. */
struct segment_change {
    const uint64_t *period;
    const uint32_t *enabled, *guard_share, *guard_side, *on_error, *reader_pid;
};
bool segment_change(struct segment *s, const struct segment_change *change);

/* The bits of enum mlw_watch_unguarded, from the lowest: the name in JSON, and a text. */
#define SEGMENT_UNGUARDED 5u
struct segment_unguarded {
    const char *name, *text;
};
extern const struct segment_unguarded segment_unguarded[SEGMENT_UNGUARDED];

/* Parses a share of the samples, "off", "all", "0.1" or "10%", into MLW_WATCH_SHARE_ALL-ths.
 * Returns false for other texts. */
bool segment_parse_share(const char *text, uint32_t *share);

#endif
