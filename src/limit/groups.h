/* groups.h - the control groups of a process, and what the kernel says of memory in them.
 *
 * Owns: where both versions are mounted, which file answers what, and that a limit of a group above
 * is one as well. Sizes are bytes. Nothing waits; what cannot be read is not known. One thread. */
#ifndef MALLOW_LIMIT_GROUPS_H
#define MALLOW_LIMIT_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LIMIT_NONE      (UINT64_MAX >> 1) /* as large, or larger: there is no limit */
#define LIMIT_GROUP_MAX 1024u

struct limit_groups { /* as /proc/PID/cgroup names them, "/a/b"; "": none, or too long */
    char unified[LIMIT_GROUP_MAX]; /* version 2 */
    char memory[LIMIT_GROUP_MAX];  /* the memory of the controller `memory` of version 1 */
};

/* False: there is no such process, or it is in no group. */
bool limit_groups_of(pid_t pid, struct limit_groups *groups);
bool limit_groups_same(const struct limit_groups *a, const struct limit_groups *b);

/* The least of the limits of the groups and of those above them; LIMIT_NONE or more without one. */
uint64_t limit_bytes(const struct limit_groups *groups);

/* For the group, or one above it, that is nearest to its limit: what it uses, without the cache of
 * files, and the limit. False: no limit is known. */
bool limit_use(const struct limit_groups *groups, uint64_t *used_bytes, uint64_t *limit);

/* The least room below those limits. The cache of files does not count as used, since the kernel
 * takes it back. LIMIT_NONE: no limit is known. */
uint64_t limit_left(const struct limit_groups *groups);

/* How much memory this process may still take before something has to give way: what the kernel
 * says is available, or less where limits of its groups are nearer. LIMIT_NONE: not known. */
uint64_t limit_available(void);

/* The share of the last ten seconds in which some task of the group waited for memory, in
 * hundredths of a percent; of the machine where the group has no such file. False: not known. */
bool limit_stall(const struct limit_groups *groups, unsigned *hundredths);

/* How many processes of the group the kernel has killed because memory was short. False: not known,
 * or the group is gone. */
bool limit_kills(const struct limit_groups *groups, uint64_t *count);

#endif
