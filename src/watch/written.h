/* written.h - shared memory of watched processes, written from outside them.
 *
 * Owns: a segment (format/watch.h) for each process image with events, in a session's directory, as
 * the library inside the process would have written it: readers of such a directory need not know
 * the writer. For events of the library's static probes. Refuses: to wait; an event without room
 * (in its tables, or in /dev/shm) is counted as dropped. One thread. */
#ifndef MALLOW_WATCH_WRITTEN_H
#define MALLOW_WATCH_WRITTEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct written;

/* Returns NULL with *err without memory. The text stays the caller's. */
struct written *written_new(const char *directory, struct error *err);
/* Frees everything; the files stay. NULL is fine. */
void written_free(struct written *w);

struct written_who {
    uint32_t pid, tid, ppid;
    uint64_t start_ns; /* the start in ns of the process; pid and this identify a process */
    uint64_t time_ns;  /* the time in ns of the event; both CLOCK_MONOTONIC */
};

struct written_frame {
    const char *path; /* the path of the file; NULL: not known */
    uint64_t address; /* the return address, as an address of the file's headers if there is a path,
                         else of the process */
    const uint8_t *build_id; /* the build id of the file; NULL: it has none */
    size_t build_id_bytes;
};

struct written_stack {
    const struct written_frame *frames; /* innermost first */
    size_t count;
};

void written_sample(struct written *w, const struct written_who *who, uint64_t address,
                    uint64_t size, uint64_t weight, uint64_t drawn, const struct written_stack *s);
/* Notes a release. A block that is not known, from before the watch or before a fork, is
 * ignored. kind: enum mlw_watch_free_kind. */
void written_release(struct written *w, const struct written_who *who, uint64_t address,
                     uint32_t kind, uint64_t new_size, const struct written_stack *s);
/* kind, flags: as in struct mlw_watch_error. */
void written_error(struct written *w, const struct written_who *who, uint32_t kind, uint32_t flags,
                   uint64_t access_address, uint64_t address, uint64_t size,
                   const struct written_stack *s);
/* Note that the process became another program, or that it ended with this status, as of
 * waitpid. */
void written_exec(struct written *w, const struct written_who *who);
void written_exit(struct written *w, const struct written_who *who, uint32_t wait_status);

#endif
