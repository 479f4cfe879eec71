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

/* The process that has this segment mapped, and the id and the pid namespace that it says. False:
 * none that can be seen. */
bool inner_find(struct inner *t, const struct segment *s, struct trust_process *who);
/* The id of its parent in the pid namespace of the process; 0: it has none there, as far as that
 * can be seen. */
pid_t inner_parent(const struct trust_process *who);
/* The next question reads the list anew. */
void inner_release(struct inner *t);

#endif
