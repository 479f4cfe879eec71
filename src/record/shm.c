/* shm.c - see shm.h. The only place that maps a session outside the traced program. */
#include "base/proc.h"
#include "shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sink.h"
#include "trust/place.h"
#include "trust/process.h"

#define MAX_WINDOWS (1u << 20)
#define SHARED      "/dev/shm/"

static uint64_t session_head_bytes(void) { return mlw_window_offset(0); }

static int map_head(struct shm *s, struct error *err)
{
    void *p = mmap(NULL, session_head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED)
        return error_system(err, "cannot map the buffers shared with the program");
    s->session = p;
    s->table = (struct mlw_process *)(void *)((char *)p + mlw_process_offset(0));
    return 0;
}

/* Shared memory without a file-size limit: of a mapping that has no file, opened through /proc. It
 * takes the right to look at such mappings (root, mostly). The descriptor, or -1. */
static int open_without_limit(uint32_t *windows)
{
    for (*windows = MAX_WINDOWS; *windows >= 4; *windows /= 2) {
        size_t bytes = mlw_window_offset(*windows);
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            continue;
        char path[80];
        snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)p,
                 (unsigned long)(p + bytes));
        struct error ignored;
        const struct trust_rule own = {.owners = TRUST_CALLER, .follow = true};
        int fd = trust_open(AT_FDCWD, path, TRUST_WRITE, &own, &ignored);
        struct stat st;
        bool sound = fd >= 0 && !fstat(fd, &st) && (uint64_t)st.st_size >= bytes;
        munmap(p, bytes);
        if (sound)
            return fd;
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return -1;
}

int shm_create(struct shm *s, struct error *err)
{
    *s = (struct shm){.fd = -1};
    s->fd = memfd_create("mallow-session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s->fd < 0)
        return error_system(err, "cannot make the buffers shared with the program (memfd_create)");
    int failed = -1;
    uint32_t windows = MAX_WINDOWS;
    for (; failed && windows >= 4; windows /= 2) {
        s->windows = windows;
        failed = ftruncate(s->fd, (off_t)mlw_window_offset(windows));
    }
    int number = failed ? errno : 0;
    if (number == EFBIG) {
        int fd = open_without_limit(&s->windows);
        if (fd >= 0) {
            close(s->fd);
            s->fd = fd;
            failed = 0;
        }
    }
    if (failed) {
        error_system(err,
                     "cannot make room for the buffers shared with the program (%llu MiB at least)",
                     (unsigned long long)(mlw_window_offset(4) >> 20));
        if (number == EFBIG)
            error_set(
                err, ERROR_UNSUPPORTED,
                "the limit on the size of files (ulimit -f) leaves no room for the buffers that "
                "mallow shares with the program; set it for the program alone: mallow record sh -c "
                "'ulimit -f N; exec PROGRAM'");
        close(s->fd);
        s->fd = -1;
        return -1;
    }
    /* Not vital: it only keeps a process from hurting the others by shrinking the file. */
    (void)fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (map_head(s, err)) {
        close(s->fd);
        s->fd = -1;
        return -1;
    }
    s->session->magic = MLW_SESSION_MAGIC;
    s->session->version = MLW_SESSION_VERSION;
    return 0;
}

/* Takes over the open file fd when it is a session; else closes it. Reads, and maps nothing. */
static int adopt(struct shm *s, int fd, struct error *err)
{
    struct stat st;
    struct mlw_session head;
    struct trust_identity id;
    *s = (struct shm){.fd = -1};
    if (fstat(fd, &st) || st.st_size < (off_t)session_head_bytes() ||
        trust_read(fd, &head, sizeof head, 0) != sizeof head || !trust_identify(fd, &id)) {
        close(fd);
        return error_set(err, ERROR_FORMAT, "not a session: too small");
    }
    if (head.magic != MLW_SESSION_MAGIC || head.version != MLW_SESSION_VERSION) {
        close(fd);
        return error_set(err, ERROR_FORMAT,
                         "its session was made by another version of mallow; use the same one");
    }
    uint64_t windows = ((uint64_t)st.st_size - session_head_bytes()) / MLW_WINDOW_BYTES;
    s->fd = fd;
    s->windows = windows > MAX_WINDOWS ? MAX_WINDOWS : (uint32_t)windows;
    s->owner = id.owner;
    s->steady = trust_may_map(fd);
    return 0;
}

int shm_map(struct shm *s, struct error *err) { return s->session ? 0 : map_head(s, err); }

/* Opens what `path` names if it is a session of the caller's or of the process's user. */
static int try_session_path(struct shm *s, const char *path, const struct trust_process *p,
                            struct error *err)
{
    const struct trust_rule rule = {
        .what = "its session", .owners = TRUST_ANYBODY, .follow = !strncmp(path, "/proc/", 6)};
    struct trust_identity id;
    int fd = trust_open(AT_FDCWD, path, TRUST_WRITE, &rule, err);
    if (fd < 0)
        return error_prefix(err, "session of process %d", (int)p->pid);
    if (!trust_identify(fd, &id) || (id.owner != geteuid() && !trust_process_is_of(p, id.owner))) {
        close(fd);
        return error_set(err, ERROR_UNSUPPORTED,
                         "the session that process %d names belongs to a third user (uid %u)",
                         (int)p->pid, (unsigned)id.owner);
    }
    return adopt(s, fd, err);
}

static bool names_session(const char *target)
{
    return !strncmp(target, "/memfd:mallow-session", 21) ||
           (!strncmp(target, SHARED "mallow-", sizeof SHARED "mallow-" - 1) &&
            !strchr(target + sizeof SHARED - 1, '/'));
}

/* PID of "/proc/PID/fd/NUMBER", 0 of anything else. */
static pid_t path_maker(const char *path)
{
    static const char proc[] = "/proc/", fd[] = "/fd/";
    const size_t n = sizeof proc - 1,
                 digits = strspn(path + (strncmp(path, proc, n) ? 0 : n), "0123456789");
    if (strncmp(path, proc, n) != 0 || !digits || digits > 9 ||
        strncmp(path + n + digits, fd, sizeof fd - 1) != 0)
        return 0;
    const char *number = path + n + digits + sizeof fd - 1;
    return *number && !number[strspn(number, "0123456789")] ? (pid_t)strtol(path + n, NULL, 10) : 0;
}

/* The session that the environment of the process names: a file of /dev/shm, or a descriptor of its
 * `mallow record`. Any other path is none of ours. */
static int try_environment(struct shm *s, const struct trust_process *p, struct error *err)
{
    char path[256];
    if (!proc_environ(p->pid, MLW_ENV_SESSION, path, sizeof path))
        return error_set(err, ERROR_USAGE, "its environment names no session");
    const pid_t maker = path_maker(path);
    if (!maker && !names_session(path))
        return error_set(err, ERROR_FORMAT, "its environment names no session");
    if (try_session_path(s, path, p, err))
        return -1;
    s->maker = maker ? maker : p->pid;
    return 0;
}

/* Tries every entry of /proc/PID/DIR (fd, map_files) that links to a session. */
static int try_links(struct shm *s, const struct trust_process *p, const char *dir,
                     struct error *err)
{
    int fd = proc_open(p->pid, dir);
    DIR *d = fd < 0 ? NULL : trust_list(fd);
    int result = d ? error_set(err, ERROR_USAGE, "no session in /proc/%d/%s", (int)p->pid, dir)
                   : error_system(err, "cannot read /proc/%d/%s", (int)p->pid, dir);
    struct dirent *e;
    while (d && result && (e = readdir(d))) {
        char name[NAME_MAX + 64], path[sizeof name + 32], target[PATH_MAX];
        snprintf(name, sizeof name, "%s/%s", dir, e->d_name);
        snprintf(path, sizeof path, "/proc/%d/%s", (int)p->pid, name);
        if (proc_link(p->pid, name, target, sizeof target) > 0 && names_session(target))
            result = try_session_path(s, path, p, err);
    }
    if (d)
        closedir(d);
    if (fd >= 0)
        close(fd);
    if (!result)
        s->maker = p->pid;
    return result;
}

/* A session under /dev/shm by the name that it has among the mappings of the process. */
static int try_maps(struct shm *s, const struct trust_process *p, bool *mapped, struct error *err)
{
    struct proc_maps maps;
    struct proc_mapping m;
    if (!proc_maps_open(&maps, p->pid))
        return error_system(err, "cannot read /proc/%d/maps", (int)p->pid);
    int result = error_set(err, ERROR_USAGE, "it maps no session");
    while (result && proc_maps_next(&maps, &m)) {
        if (!names_session(m.path))
            continue;
        *mapped = true;
        if (!strncmp(m.path, SHARED, sizeof SHARED - 1))
            result = try_session_path(s, m.path, p, err);
    }
    proc_maps_close(&maps);
    if (!result)
        s->maker = p->pid;
    return result;
}

int shm_find(struct shm *s, pid_t pid, struct error *err)
{
    struct trust_process p;
    bool mapped = false;
    *s = (struct shm){.fd = -1};
    if (trust_process(pid, &p, err))
        return err->number != ESRCH
                   ? -1
                   : error_set(err, ERROR_USAGE, "there is no process %d", (int)pid);
    if (!try_environment(s, &p, err) || !try_maps(s, &p, &mapped, err) ||
        !try_links(s, &p, "fd", err) || !try_links(s, &p, "map_files", err))
        return 0;
    if (mapped)
        return error_set(
            err, ERROR_SYSTEM,
            "process %d is recorded, but its session cannot be opened: `mallow record` "
            "is gone, and only root can reach it now",
            (int)pid);
    int fd = proc_open(pid, "maps");
    if (fd < 0)
        return error_system(err, "cannot look into process %d", (int)pid);
    close(fd);
    return error_set(err, ERROR_USAGE,
                     "process %d is not recorded; start it under `mallow record` (with --paused to "
                     "begin later)",
                     (int)pid);
}

void shm_close(struct shm *s)
{
    if (s->session)
        munmap(s->session, session_head_bytes());
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct shm){.fd = -1};
}

struct mlw_chunk *shm_map_window(const struct shm *s, uint32_t window)
{
    if (window >= s->windows)
        return NULL;
    void *p = mmap(NULL, MLW_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd,
                   (off_t)mlw_window_offset(window));
    return p == MAP_FAILED ? NULL : p;
}

void shm_unmap_window(struct mlw_chunk *w)
{
    if (w)
        munmap(w, MLW_WINDOW_BYTES);
}

uint32_t shm_next_touched(const struct shm *s, uint32_t window, uint32_t slot)
{
    if (slot >= MLW_WINDOW_SLOTS || window >= s->windows)
        return MLW_WINDOW_SLOTS;
    off_t start = (off_t)mlw_window_offset(window);
    off_t at = lseek(s->fd, start + (off_t)slot * MLW_SLOT_BYTES, SEEK_DATA);
    if (at < 0) /* nothing more; or not known here: then every slot may be touched */
        return errno == ENXIO ? MLW_WINDOW_SLOTS : slot;
    if (at >= start + (off_t)MLW_WINDOW_BYTES)
        return MLW_WINDOW_SLOTS;
    return (uint32_t)((at - start) / MLW_SLOT_BYTES);
}

void shm_punch_window(const struct shm *s, uint32_t window)
{
    if (window < s->windows)
        (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)mlw_window_offset(window), MLW_WINDOW_BYTES);
}

uint32_t shm_entries(const struct shm *s)
{
    uint32_t n = __atomic_load_n(&s->session->next_process, __ATOMIC_ACQUIRE);
    return n > MLW_PROCESSES ? MLW_PROCESSES : n;
}
