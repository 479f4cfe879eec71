/* run.h - runs mallow-replay once, against a chosen allocator with chosen settings.
 *
 * Owns: where allocators are found, what environment and arguments a setting becomes, and the proof
 * that the allocator asked for was the one that served. Refuses: to interpret the result, which is
 * the JSON text that mallow-replay printed. One thread. */
#ifndef MALLOW_REPLAY_RUN_H
#define MALLOW_REPLAY_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

struct replay_request {
    const char *workload;        /* path */
    const char *alloc;           /* glibc, jemalloc, tcmalloc, mimalloc, or a path with a slash */
    const char *const *settings; /* K=V */
    size_t setting_count;
    const char *order, *touch, *timing; /* as mallow-replay knows them */
    double pace;
    uint64_t trim_every_ns;
    uint64_t limit_ns; /* a replay that takes longer in all is ended, and failed; 0: none is */
    bool dry;
    unsigned pooled, left_out; /* bits 1 << (pool - 1): see engine_options */
    unsigned processor;        /* to run on alone: its number + 1; 0: wherever the system puts it */
};

struct replay_started {
    pid_t pid;
    int out, said; /* its stdout, and its stderr */
    char library[PATH_MAX];
};

/* The names that replay_find_allocator knows, NULL at the end. */
extern const char *const replay_allocators[];

/* The library of a name or path; "" for glibc, whose malloc needs none. -1 with *err that names the
 * package when it is not installed. */
int replay_find_allocator(const char *alloc, char path[PATH_MAX], struct error *err);

/* True if a setting is one: -1 with *err (ERROR_USAGE) else. */
int replay_check_setting(const char *setting, struct error *err);

/* Starts a replay; several may be under way. -1 with *err: then there is nothing to finish. */
int replay_start(const struct replay_request *request, struct replay_started *s, struct error *err);

/* Waits for its end and appends the JSON text to *result. -1 with *err. */
int replay_finish(struct replay_started *s, struct buffer *result, struct error *err);

#endif
