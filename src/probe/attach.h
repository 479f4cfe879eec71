/* attach.h - putting a program at places in a file.
 *
 * Owns: the call that attaches to many places at once (libbpf of Debian 12 does not know it), the
 * older way by one perf event each, and leaving out places where the kernel puts no probe, or one
 * that would change what the program does. */
#ifndef MALLOW_PROBE_ATTACH_H
#define MALLOW_PROBE_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct bpf_program;
struct bpf_link;

enum { ATTACH_UPROBE_MULTI = 48 }; /* BPF_TRACE_UPROBE_MULTI of enum bpf_attach_type */

/* Attached programs, to be detached together. */
struct attachments {
    struct bpf_link **link;
    int *fd;
    size_t links, fds, link_room, fd_room;
};

enum { PLACE_NOT_PROVEN = -1, PLACE_CHANGED = -2, PLACE_BECOMES_CALL = -3 };

/* One place in a file. */
struct place {
    const char *name; /* the name of the function that begins there; NULL: none does */
    uint64_t offset;
    uint64_t cookie;
    uint64_t semaphore; /* file offset of a counter that is raised while the probe is there; 0 */
    int refused;        /* set to an errno when the kernel puts no probe there; to PLACE_NOT_PROVEN
                           when its instruction is not one that the kernel is known to handle
                           rightly (arch/uprobe.h), and to PLACE_BECOMES_CALL when it is one that
                           the kernel replaces by a call; to PLACE_CHANGED when the process has other code
                           there than the file; else 0 */
};

struct attach_how {
    bool multi;     /* many at once */
    bool on_return; /* when the function returns */
    pid_t pid;      /* one process only; 0: all */
    pid_t process;  /* whose code must be that of the file; 0: no one's */
};

/* Puts program at n places of the file at path. Returns how many places have it; -1 with *err when
 * none has. */
long attach_places(struct attachments *a, struct bpf_program *program, const char *path,
                   struct place *places, size_t n, const struct attach_how *how, struct error *err);

/* Why it was refused, for the user; a constant. */
const char *attach_refusal(const struct place *place);

/* changed.c: refuses the places where how->process has other code than the open file. */
void attach_refuse_changed(const struct attach_how *how, int file, struct place *places, size_t n);

/* Attaches a program by its section's name (a tracepoint). */
int attach_program(struct attachments *a, struct bpf_program *program, struct error *err);

/* Keeps a descriptor whose closing detaches; 0 or -1 when out of memory (it is then closed). */
int attach_keep(struct attachments *a, int fd);

/* Detaches all, in reverse order. */
void attach_release(struct attachments *a);

/* The system call itself: a descriptor, or -1 with errno. cookies and semaphores may be NULL. */
int attach_link(int program, const char *path, const uint64_t *offsets, const uint64_t *semaphores,
                const uint64_t *cookies, uint32_t count, bool on_return, pid_t pid);

#endif
