/* spaces.h - which settings an allocator has, the values worth trying, and how they are said.
 *
 * Owns: the table of settings of glibc, jemalloc, mimalloc and tcmalloc. A point of the search
 * becomes settings as `mallow replay --set` takes them, and the line of an environment. */
#ifndef MALLOW_TUNE_SPACES_H
#define MALLOW_TUNE_SPACES_H

#include "base/buffer.h"
#include "base/error.h"
#include "tune/search.h"

struct tune_setting { /* a dimension */
    const char *name; /* glibc.malloc.arena_max, dirty_decay_ms, MIMALLOC_PAGE_RESET */
    const char *value[TUNE_LEVELS]; /* NULL: not set, the usual level */
};

struct tune_settings {
    const char *allocator; /* the family: glibc, jemalloc, tcmalloc, mimalloc */
    const char *preload;   /* the library's path; "" for glibc; borrowed */
    struct tune_setting setting[TUNE_DIMENSIONS]; /* as many as space.dimensions */
    struct tune_space space;                      /* without objectives */
};

/* The settings of the allocator `name` (a name of --alloc, or a path: its file name shows the
 * family) that its library at `path` knows, on this machine, for a program of so many threads;
 * without those whose names are among the count `fixed` settings K=V. -1 with *err. */
int tune_settings_find(struct tune_settings *s, const char *name, const char *path,
                       unsigned threads, const char *const *fixed, size_t count, struct error *err);

/* Calls `each` with every K=V of a point as --set takes it; nothing for usual levels. */
void tune_settings_say(const struct tune_settings *s, const uint8_t *level,
                       void (*each)(void *arg, const char *setting), void *arg);

/* Appends the words that go before a command line: NAME=VALUE NAME=VALUE. `fixed` settings are in
 * it, too. */
void tune_settings_line(const struct tune_settings *s, const uint8_t *level,
                        const char *const *fixed, size_t count, struct buffer *out);

#endif
