/* shm.c - see shm.h. The only place that maps a session outside the traced program. */
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

#define MAX_WINDOWS (1u << 20)

static uint64_t head_bytes(void) { return mlw_window_offset(0); }

static int map_head(struct shm *s, struct error *err)
{
    void *p = mmap(NULL, head_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
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
        int fd = open(path, O_RDWR | O_CLOEXEC);
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
    s->session->version = MLW_FORMAT_VERSION;
    return 0;
}

/* Takes over the open file fd when it is a session; else closes it. */
static int adopt(struct shm *s, int fd, struct error *err)
{
    struct stat st;
    *s = (struct shm){.fd = fd};
    if (fstat(fd, &st) || st.st_size < (off_t)head_bytes()) {
        close(fd);
        s->fd = -1;
        return error_set(err, ERROR_FORMAT, "not a session: too small");
    }
    uint64_t windows = ((uint64_t)st.st_size - head_bytes()) / MLW_WINDOW_BYTES;
    s->windows = windows > MAX_WINDOWS ? MAX_WINDOWS : (uint32_t)windows;
    if (map_head(s, err)) {
        close(fd);
        s->fd = -1;
        return -1;
    }
    if (s->session->magic != MLW_SESSION_MAGIC || s->session->version != MLW_FORMAT_VERSION) {
        shm_close(s);
        return error_set(err, ERROR_FORMAT,
                         "its session was made by another version of mallow; use the same one");
    }
    return 0;
}

static int try_path(struct shm *s, const char *path, struct error *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return error_system(err, "cannot open its session %s", path);
    return adopt(s, fd, err);
}

int shm_open_named(struct shm *s, const char *path, struct error *err)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *s = (struct shm){.fd = -1};
    if (fd < 0)
        return error_system(err, "cannot open the session %s", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        close(fd);
        return error_set(err, ERROR_UNSUPPORTED, "the session %s is another user's", path);
    }
    return adopt(s, fd, err);
}

/* Copies the value of `name` in /proc/PID/environ to value. */
static bool find_environ(pid_t pid, const char *name, char *value, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char *entry = NULL;
    size_t capacity = 0, length = strlen(name);
    bool found = false;
    while (!found && getdelim(&entry, &capacity, 0, f) > 0)
        if (!strncmp(entry, name, length) && entry[length] == '=')
            found = snprintf(value, room, "%s", entry + length + 1) < (int)room;
    free(entry);
    fclose(f);
    return found;
}

static bool names_session(const char *target)
{
    return !strncmp(target, "/memfd:mallow-session", 21) ||
           !strncmp(target, "/dev/shm/mallow-", 16);
}

/* Tries every entry of /proc/PID/DIR (fd, map_files) that links to a session. */
static int try_links(struct shm *s, pid_t pid, const char *dir, struct error *err)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/%d/%s", (int)pid, dir);
    DIR *d = opendir(folder);
    if (!d)
        return error_system(err, "cannot read %s", folder);
    int result = error_set(err, ERROR_USAGE, "no session in %s", folder);
    struct dirent *e;
    while (result && (e = readdir(d))) {
        char path[sizeof folder + sizeof e->d_name + 1], target[4096];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = 0;
        if (names_session(target))
            result = try_path(s, path, err);
    }
    closedir(d);
    return result;
}

/* A session under /dev/shm by the name that it has among the mappings of the process. */
static int try_maps(struct shm *s, pid_t pid, bool *mapped, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return error_system(err, "cannot read %s", path);
    char *line = NULL;
    size_t capacity = 0;
    int result = error_set(err, ERROR_USAGE, "it maps no session");
    while (result && getline(&line, &capacity, f) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *name = strchr(line, '/');
        if (!name || !names_session(name))
            continue;
        *mapped = true;
        if (!strncmp(name, "/dev/shm/", 9))
            result = try_path(s, name, err);
    }
    free(line);
    fclose(f);
    return result;
}

int shm_find(struct shm *s, pid_t pid, struct error *err)
{
    char path[4096];
    bool mapped = false;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    *s = (struct shm){.fd = -1};
    if (access(path, F_OK))
        return error_set(err, ERROR_USAGE, "there is no process %d", (int)pid);
    if (find_environ(pid, MLW_ENV_SESSION, path, sizeof path) && !try_path(s, path, err))
        return 0;
    if (!try_maps(s, pid, &mapped, err) || !try_links(s, pid, "fd", err) ||
        !try_links(s, pid, "map_files", err))
        return 0;
    if (mapped)
        return error_set(
            err, ERROR_SYSTEM,
            "process %d is recorded, but its session cannot be opened: `mallow record` "
            "is gone, and only root can reach it now",
            (int)pid);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
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
        munmap(s->session, head_bytes());
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
