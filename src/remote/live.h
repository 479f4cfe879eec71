/* live.h - what target_live.c and snapshot.c share: the threads of a process that are held. */
#ifndef MALLOW_REMOTE_LIVE_H
#define MALLOW_REMOTE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/index.h"
#include "remote/resident.h"
#include "remote/target.h"
#include "remote/code.h"
#include "remote/handle.h"
#include "remote/thread.h"

struct live_kept { /* memory of the process that its copy has not */
    uint64_t start, end;
    uint8_t *data;
};

struct live_range {
    uint64_t start, end;
};

struct heap_live {
    struct thread *tracees;
    size_t count, room;
    struct index index;        /* places by id */
    struct handle process;     /* the image that all of this, and the mappings, belong to */
    struct handle copy;        /* the stopped child of the injected fork; its pid 0: none */
    struct resident *resident; /* the state of its pages; NULL: not known */
    struct live_file *file;    /* that was read last, where its pages are not in memory */
    struct live_kept *kept;    /* by address, apart */
    size_t kept_count, kept_room;
    bool copy_lacks;           /* more than could be kept */
    struct live_range *shared; /* the shared memory that there was, by address; a copy has its pages
                                  only when they are touched */
    size_t shared_count, shared_room;
    bool runs;                 /* no thread stands: an answer about its pages is old at once */
    struct code_pieces pieces; /* code_find_all */
    uint64_t since_ns;
};

void live_registers(const struct user_regs_struct *r, struct target_registers *to);

/* Whose memory is read: the copy's, if there is one. */
static inline const struct handle *live_memory(const struct heap_live *live)
{
    return live->copy.pid ? &live->copy : &live->process;
}

/* Stops all threads of the process, and reads their registers. 0; or -1 with *err, and nothing is
 * held: also when the process has another image by now (*changed). */
int live_stop(struct target *t, struct heap_live *live, bool *changed, struct error *err);

/* Compares the mappings of the process that stands with those of its copy, and keeps the pages that
 * the copy lacks (MADV_DONTFORK); copy_lacks: there are too many. */
void live_keep_lacking(struct target *t, struct heap_live *live);

/* snapshot.c: makes a thread of the process that stands make a system call, which must not wait.
 * NULL with its result (-errno: the kernel refused); else why none was made. */
const char *live_call(struct target *t, long number, const uint64_t arguments[4], int64_t *result);

/* snapshot.c: ends the copy and makes the process reap it. */
void live_end_copy(struct target *t, struct heap_live *live);

#endif
