/* inner.h - which process is it that calls itself so in another pid namespace?
 *
 * A segment says in which pid namespace its process ids are, and this command may see that
 * namespace, or not. Owns: a list of the processes of other pid namespaces that can be seen, read
 * at the first question, so that many segments that lie cost one look at /proc. Refuses: to believe
 * the segment; whose file it is, is judged by the caller. Used by one thread. */
#ifndef MALLOW_WATCH_INNER_H
#define MALLOW_WATCH_INNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trust/process.h"
#include "watch/segment.h"

struct inner_process {
    struct trust_process who;
    uint64_t pid_namespace; /* inode of its /proc/PID/ns/pid */
};

struct inner { /* begins as {0} */
    struct inner_process *items;
    size_t count, room;
    bool was_read;
};

/* Finds the process that maps this segment and has the id and pid namespace that the segment
 * names. Returns false if no such process can be seen. */
bool inner_find(struct inner *t, const struct segment *s, struct trust_process *who);
/* Returns the id of the process's parent in the process's own pid namespace; 0: it has no parent
 * there, or none that can be seen. */
pid_t inner_parent(const struct trust_process *who);
/* Frees the list; the next inner_find reads it anew. */
void inner_release(struct inner *t);

#endif
