/* attach.c - Attaches a program to many places of a file: in one system call where the kernel
 * has it, else by one perf event each. When the kernel refuses a set, it halves the set until it
 * finds the place that is refused. It skips instructions that the kernel cannot execute safely
 * under a probe. */
#include "probe/attach.h"

#include "arch/uprobe.h"
#include "base/array.h"
#include "symbol/program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINK_CREATE = 28, FLAG_RETURN = 1, ERRNO_NOT_SUPPORTED = 524 /* the kernel's own */ };

/* As in the kernel's union bpf_attr, for BPF_LINK_CREATE of this type. */
struct link_create {
    uint32_t program, target, attach_type, flags;
    uint64_t path, offsets, semaphores, cookies;
    uint32_t count, multi_flags, pid, padding;
};

int attach_link(int program, const char *path, const uint64_t *offsets, const uint64_t *semaphores,
                const uint64_t *cookies, uint32_t count, bool on_return, pid_t pid)
{
    struct link_create a = {
        .program = (uint32_t)program,
        .attach_type = ATTACH_UPROBE_MULTI,
        .path = (uint64_t)(uintptr_t)path,
        .offsets = (uint64_t)(uintptr_t)offsets,
        .semaphores = (uint64_t)(uintptr_t)semaphores,
        .cookies = (uint64_t)(uintptr_t)cookies,
        .count = count,
        .multi_flags = on_return ? FLAG_RETURN : 0,
        .pid = (uint32_t)pid,
    };
    return (int)syscall(SYS_bpf, LINK_CREATE, &a, sizeof a);
}

int attach_keep(struct attachments *a, int fd)
{
    if (!ARRAY_ROOM(a->fd, a->fds + 1, a->fd_room)) {
        close(fd);
        return -1;
    }
    a->fd[a->fds++] = fd;
    return 0;
}

static int keep_link(struct attachments *a, struct bpf_link *link)
{
    if (!ARRAY_ROOM(a->link, a->links + 1, a->link_room)) {
        bpf_link__destroy(link);
        return -1;
    }
    a->link[a->links++] = link;
    return 0;
}

void attach_release(struct attachments *a)
{
    for (size_t i = a->fds; i-- > 0;)
        close(a->fd[i]);
    for (size_t i = a->links; i-- > 0;)
        bpf_link__destroy(a->link[i]);
    free(a->link);
    free(a->fd);
    *a = (struct attachments){0};
}

int attach_program(struct attachments *a, struct bpf_program *program, struct error *err)
{
    struct bpf_link *link = bpf_program__attach(program);
    if (!link)
        return error_system(err, "cannot attach to %s", bpf_program__section_name(program));
    if (keep_link(a, link))
        return error_memory(err);
    return 0;
}

/* The arrays that the system call wants, for `n` places. */
struct request {
    struct attachments *a;
    int program;
    const char *path;
    struct place *places;
    uint64_t *offsets, *cookies, *semaphores;
    size_t *index; /* the index of the places */
    const struct attach_how *how;
    int last_errno;
};

/* The kernel puts the probe into each process that maps the file. One at the limit of its control
 * group has no page for it: that passes, mostly by its end. True when an attempt that failed with
 * `errno` is to be made again; waits before it says so. Counts in `tries`, 0 at first. */
static bool worth_another(int *tries)
{
    enum { TRIES = 50 };
    const struct timespec pause = {.tv_nsec = 20000000};
    if (errno != ENOMEM || ++*tries == TRIES)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

static int attach_many_at_once(const struct request *r, size_t first, size_t n)
{
    int fd, tries = 0;
    do
        fd = attach_link(r->program, r->path, r->offsets + first, r->semaphores + first,
                         r->cookies + first, (uint32_t)n, r->how->on_return, r->how->pid);
    while (fd < 0 && worth_another(&tries));
    return fd;
}

/* One bad place makes the kernel refuse all: halves the run until it stands alone. */
static long attach_run(struct request *r, size_t first, size_t n)
{
    int fd = attach_many_at_once(r, first, n);
    if (fd >= 0)
        return attach_keep(r->a, fd) ? 0 : (long)n;
    r->last_errno = errno;
    if (errno != ERRNO_NOT_SUPPORTED && errno != EINVAL && errno != EILSEQ && errno != ENOTSUP &&
        errno != ENOEXEC)
        return 0;
    if (n == 1) {
        r->places[r->index[first]].refused = r->last_errno;
        return 0;
    }
    size_t half = n / 2;
    return attach_run(r, first, half) + attach_run(r, first + half, n - half);
}

static int refusal(const uint8_t *code, size_t bytes)
{
    if (arch_uprobe_becomes_call(code, bytes))
        return PLACE_BECOMES_CALL;
    return arch_uprobe_right(code, bytes) ? 0 : PLACE_NOT_PROVEN;
}

/* Leaves out what the kernel would execute wrongly, or refuse (left in, each of those would cost
 * several attempts), and functions that the process has patched. */
static int refuse_unsafe(const char *path, struct place *places, size_t n,
                         const struct attach_how *how, struct error *err)
{
    int fd = program_open(path, err);
    if (fd < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint8_t code[ARCH_INSTRUCTION_BYTES];
        const ssize_t bytes = pread(fd, code, sizeof code, (off_t)places[i].offset);
        places[i].refused = bytes <= 0 ? PLACE_NOT_PROVEN : refusal(code, (size_t)bytes);
    }
    attach_refuse_changed(how, fd, places, n);
    close(fd);
    return 0;
}

static long attach_many(struct attachments *a, struct bpf_program *program, const char *path,
                        struct place *places, size_t n, const struct attach_how *how)
{
    struct request r = {.a = a,
                        .program = bpf_program__fd(program),
                        .path = path,
                        .places = places,
                        .how = how,
                        .offsets = calloc(n * 3, sizeof *r.offsets),
                        .index = calloc(n, sizeof *r.index)};
    if (!r.offsets || !r.index) {
        free(r.offsets);
        free(r.index);
        errno = ENOMEM;
        return 0;
    }
    r.cookies = r.offsets + n;
    r.semaphores = r.cookies + n;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (places[i].refused)
            continue;
        r.offsets[kept] = places[i].offset;
        r.cookies[kept] = places[i].cookie;
        r.semaphores[kept] = places[i].semaphore;
        r.index[kept++] = i;
    }
    long done = kept ? attach_run(&r, 0, kept) : 0;
    free(r.index);
    free(r.offsets);
    errno = r.last_errno;
    return done;
}

static struct bpf_link *attach_one(struct bpf_program *program, const char *path,
                                   const struct place *place, const struct attach_how *how)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = how->on_return, .bpf_cookie = place->cookie,
                .ref_ctr_offset = place->semaphore);
    struct bpf_link *link;
    int tries = 0;
    do
        link = bpf_program__attach_uprobe_opts(program, how->pid ? how->pid : -1, path,
                                               place->offset, &options);
    while (!link && worth_another(&tries));
    return link;
}

static long attach_single(struct attachments *a, struct bpf_program *program, const char *path,
                          struct place *places, size_t n, const struct attach_how *how)
{
    long done = 0;
    int last = 0;
    for (size_t i = 0; i < n; i++) {
        if (places[i].refused)
            continue;
        struct bpf_link *link = attach_one(program, path, &places[i], how);
        if (link && keep_link(a, link) == 0) {
            done++;
            continue;
        }
        last = errno;
        places[i].refused = last;
        if (last == EACCES || last == EPERM)
            break;
    }
    errno = last;
    return done;
}

/* A function's counter must be the same for all who probe it, and that of a tool that names none
 * (bpf_attach_uprobe of bcc 0.26, as memleak calls it) may be anything. */
static const char counted_elsewhere[] = "another tool's probe on it keeps its count elsewhere "
                                        "(bcc's memleak does); end that tool first";

const char *attach_refusal(const struct place *place)
{
    switch (place->refused) {
    case PLACE_NOT_PROVEN: return "its first instruction is not known to work under a probe";
    case PLACE_BECOMES_CALL:
        return "Linux 6.18 replaces the nop at its start by a call, which can crash children that "
               "are forked later";
    case PLACE_CHANGED: return "its code in the process differs from its file";
    case EINVAL: return counted_elsewhere;
    default: return "the kernel refuses its first instruction";
    }
}

/* The refusal that all places have. NULL: they differ, or some have a probe. */
static const char *refusal_of_all(const struct place *places, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!places[i].refused || places[i].refused != places[0].refused)
            return NULL;
    return n ? attach_refusal(&places[0]) : NULL;
}

long attach_places(struct attachments *a, struct bpf_program *program, const char *path,
                   struct place *places, size_t n, const struct attach_how *how, struct error *err)
{
    if (refuse_unsafe(path, places, n, how, err))
        return -1;
    errno = ENOTSUP;
    long done = how->multi ? attach_many(a, program, path, places, n, how)
                           : attach_single(a, program, path, places, n, how);
    if (done > 0)
        return done;
    if (!how->multi && (errno == EACCES || errno == EPERM))
        return error_set(err, ERROR_UNSUPPORTED,
                         "this kernel probes functions by perf events only, for which CAP_BPF and "
                         "CAP_PERFMON do not suffice: run it as root (sudo)");
    const char *refusal = errno == EINVAL ? counted_elsewhere : refusal_of_all(places, n);
    if (refusal)
        return error_set(err, ERROR_UNSUPPORTED, "cannot probe %s: %s", path, refusal);
    return error_system(err, "cannot probe %s", path);
}
