/* segment.h - the shared memory of one watched process image, seen from outside it.
 *
 * Owns: opening and mapping it, the check of every offset and count that its head claims, and
 * copies of single records that are whole. The layout is format/watch.h. Refuses: to trust: it was
 * written by somebody else's process. One thread. */
#ifndef MALLOW_WATCH_SEGMENT_H
#define MALLOW_WATCH_SEGMENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/watch.h"

struct segment {
    char path[PATH_MAX]; /* by which it was opened */
    size_t bytes;        /* mapped */
    const struct mlw_watch *head;
    struct mlw_watch_settings *settings; /* NULL: may be read only */
    uint32_t modules, sites, samples, frees, errors;
    const struct mlw_watch_module *module;
    const struct mlw_watch_site *site;
    const struct mlw_watch_sample *sample;
    const struct mlw_watch_free *freed;
    const struct mlw_watch_error *error;
};

/* Returns 0; 1 when the process has not finished making it; -1 with *err set. */
int segment_open(struct segment *s, const char *path, struct error *err);
void segment_close(struct segment *s);

enum segment_copy { SEGMENT_NONE, SEGMENT_WHOLE, SEGMENT_TORN };

/* Copies of records by index (of frees and errors: by number). NONE: never used, out of the table,
 * or of another number by now. *version is what the record had. */
enum segment_copy segment_module(const struct segment *s, uint32_t index,
                                 struct mlw_watch_module *out);
enum segment_copy segment_site(const struct segment *s, uint32_t index, struct mlw_watch_site *out);
enum segment_copy segment_sample(const struct segment *s, uint32_t index,
                                 struct mlw_watch_sample *out);
enum segment_copy segment_free(const struct segment *s, uint64_t number,
                               struct mlw_watch_free *out);
enum segment_copy segment_error(const struct segment *s, uint64_t number,
                                struct mlw_watch_error *out);

/* Whether the sample of this index still has this version. */
bool segment_sample_holds(const struct segment *s, uint32_t index, uint32_t version);

void segment_counters(const struct segment *s, struct mlw_watch_counters *out);

/* Changes settings (those that are not NULL) of the running process. False: they cannot be. */
struct segment_change {
    const uint64_t *period;
    const uint32_t *enabled, *guard_share, *on_error, *reader_pid;
};
bool segment_change(struct segment *s, const struct segment_change *change);

#endif
