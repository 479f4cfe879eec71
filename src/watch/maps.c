/* maps.c - Finds the segment among a process's mappings and opens that very file. The process
 * chooses the names in its maps, so a file counts only if its inode is the mapped one. */
#include "watch/maps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/proc.h"
#include "watch/follow.h"

/* ---- the mappings ---- */

static bool is_memfd(const char *path) { return !strcmp(path, "/memfd:" MLW_WATCH_MEMFD); }

/* True if a segment can be called that: in a session's directory, or by itself. */
static bool is_segment(const char *path)
{
    pid_t pid;
    uint64_t clock;
    const char *name = strrchr(path, '/') + 1, *directory = name - 1;
    while (directory > path && directory[-1] != '/')
        directory--;
    return follow_name(FOLLOW_FILE_NAME, name, &pid, &clock) ||
           (follow_name("", name, &pid, &clock) && follow_session_maker(directory, &pid));
}

int maps_read(pid_t pid, struct maps *m, struct error *err)
{
    struct proc_maps maps;
    struct proc_mapping of;
    *m = (struct maps){0};
    const bool open = proc_maps_open(&maps, pid);
    if (!open && errno != EACCES && errno != EPERM)
        return error_system(err, "cannot see the memory of process %d", (int)pid);
    while (open && proc_maps_next(&maps, &of)) {
        if (*of.path != '/')
            continue;
        m->library |= strstr(of.path, "libmallow-watch.so") != NULL;
        const bool deleted = path_take_deleted(of.path), memfd = deleted && is_memfd(of.path);
        if (!memfd && !is_segment(of.path))
            continue;
        m->start = of.start;
        m->end_of = of.end;
        m->nameless = deleted;
        m->file = (struct trust_identity){of.device, of.inode, 0};
        snprintf(m->path, sizeof m->path, "%s", of.path);
    }
    const bool refused = errno == EACCES || errno == EPERM;
    proc_maps_close(&maps);
    if (refused)
        return error_set(err, ERROR_UNSUPPORTED,
                         "not allowed to see the memory of process %d; be the user that it belongs "
                         "to, or root",
                         (int)pid);
    return 0;
}

bool maps_has(pid_t pid, const struct trust_identity *file)
{
    struct proc_maps maps;
    struct proc_mapping m;
    bool has = false;
    if (!proc_maps_open(&maps, pid))
        return errno != ENOENT && errno != ESRCH;
    while (!has && proc_maps_next(&maps, &m))
        has = m.inode == file->inode && m.device == file->device;
    proc_maps_close(&maps);
    return has;
}

/* ---- the file ---- */

static int open_same(struct segment *s, int dir, const char *name, bool link, const struct maps *m,
                     struct error *err)
{
    int status = link ? segment_open_link(s, name, err) : segment_open(s, dir, name, err);
    if (status || trust_same(&s->identity, &m->file))
        return status;
    segment_close(s);
    return error_set(err, ERROR_UNSUPPORTED,
                     "%s is another file than the one that the process has mapped", m->path);
}

/* A descriptor of the process, or, for root, the mapping itself. */
static int open_nameless(const struct trust_process *who, const struct maps *m, struct segment *s,
                         struct error *err)
{
    char path[64 + NAME_MAX];
    int fds = proc_open(who->pid, "fd");
    DIR *d = fds < 0 ? NULL : fdopendir(fds);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        struct stat st;
        found = e->d_name[0] != '.' && !fstatat(dirfd(d), e->d_name, &st, 0) &&
                st.st_dev == m->file.device && st.st_ino == m->file.inode;
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)who->pid, e->d_name);
    }
    if (d)
        closedir(d);
    else if (fds >= 0)
        close(fds);
    if (!found)
        snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)who->pid,
                 m->start, m->end_of);
    return open_same(s, AT_FDCWD, path, true, m, err);
}

/* The directory "/dev/shm", or a session of the process's user in it; -1: it is neither. */
static int open_ours(const struct trust_process *who, const char *directory, size_t length,
                     struct maps_place *place, struct error *err)
{
    static const char shared[] = "/dev/shm";
    const struct trust_rule users = {.owners = TRUST_ROOT | TRUST_CALLER | TRUST_USER,
                                     .user = who->uid[1]};
    if (length < sizeof shared - 1 || strncmp(directory, shared, sizeof shared - 1) != 0)
        return -1;
    int shm = follow_shared(err);
    if (shm < 0 || length == sizeof shared - 1)
        return shm;
    const char *name = directory + sizeof shared;
    const size_t n = length - sizeof shared;
    int session = -1;
    if (directory[sizeof shared - 1] == '/' && n < sizeof place->directory &&
        !memchr(name, '/', n)) {
        snprintf(place->directory, sizeof place->directory, "%.*s", (int)n, name);
        session = trust_directory(shm, place->directory, &users, err);
    }
    close(shm);
    return session;
}

/* The directory as the process has it. Where a chroot lies between it and us, its maps name what
 * stands around its root, or ours, as well: then by what begins with "/dev/shm". Whether it is the
 * same file is judged by who opens it. */
static int open_theirs(const struct trust_process *who, const char *directory, size_t length,
                       struct error *err)
{
    static const struct trust_rule any = {.owners = TRUST_ANYBODY};
    static const char shared[] = "/dev/shm";
    const size_t n = sizeof shared - 1;
    char path[PATH_MAX + 64];
    int dir = -1;
    for (size_t at = 0; dir < 0 && at + n <= length; at++)
        if (!at || (!strncmp(directory + at, shared, n) &&
                    (at + n == length || directory[at + n] == '/'))) {
            snprintf(path, sizeof path, "/proc/%d/root%.*s", (int)who->pid, (int)(length - at),
                     directory + at);
            dir = trust_directory(AT_FDCWD, path, &any, err);
        }
    return dir;
}

int maps_open(const struct trust_process *who, const struct maps *m, struct segment *s,
              struct maps_place *place, struct error *err)
{
    *place = (struct maps_place){.dir = -1};
    if (m->nameless)
        return open_nameless(who, m, s, err);
    const char *name = strrchr(m->path, '/') + 1;
    const size_t length = (size_t)(name - 1 - m->path);
    snprintf(place->name, sizeof place->name, "%s", name);
    place->dir = open_ours(who, m->path, length, place, err);
    place->ours = place->dir >= 0;
    int status = place->ours ? open_same(s, place->dir, name, false, m, err) : -1;
    if (status < 0) { /* not as it is seen from here */
        if (place->dir >= 0)
            close(place->dir);
        place->ours = false;
        place->dir = open_theirs(who, m->path, length, err);
        /* Named by nothing that we can open: by the mapping itself. */
        status = place->dir < 0 ? open_nameless(who, m, s, err)
                                : open_same(s, place->dir, name, false, m, err);
    }
    if (status && place->dir >= 0) {
        close(place->dir);
        place->dir = -1;
    }
    return status;
}
