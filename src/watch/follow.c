#include "watch/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/launch.h"
#include "watch/held.h"

#define EXEC_GRACE_NS 2000000000ull /* from an exec to the first sign of the next image */

/* ---- the list ---- */

static struct watch_process *find(const struct follow *f, pid_t pid, uint64_t start_ns)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->items[i]->pid == pid && f->items[i]->start_ns == start_ns)
            return f->items[i];
    return NULL;
}

static int add(struct follow *f, struct watch_process *p, struct error *err)
{
    if (f->count == f->room) {
        uint32_t room = f->room ? f->room * 2 : 64;
        struct watch_process **items = realloc(f->items, room * sizeof(struct watch_process *));
        if (!items) {
            process_close(p);
            return error_set(err, ERROR_MEMORY, "out of memory");
        }
        f->items = items;
        f->room = room;
    }
    f->items[f->count++] = p;
    p->outside = f->outside;
    if (f->listener.joined)
        f->listener.joined(f->listener.arg, p);
    return 0;
}

bool follow_session_maker(const char *name, pid_t *maker)
{
    size_t n = sizeof MLW_WATCH_SESSION_PREFIX - 1;
    *maker = strncmp(name, MLW_WATCH_SESSION_PREFIX, n) ? 0 : (pid_t)strtol(name + n, NULL, 10);
    return *maker > 0;
}

/* The maker of a session's directory removes what is in it, as long as it lives. */
static bool is_ours(const struct follow *f, const char *path)
{
    const char *session = strstr(path, MLW_WATCH_SESSION_PREFIX);
    pid_t maker;
    if (f->own || !session)
        return true;
    return !follow_session_maker(session, &maker) || (kill(maker, 0) && errno == ESRCH);
}

static void end(struct follow *f, uint32_t index)
{
    struct watch_process *p = f->items[index];
    if (f->listener.ended)
        f->listener.ended(f->listener.arg, p);
    p->remove = is_ours(f, p->segment.path);
    process_close(p);
    f->items[index] = f->items[--f->count];
}

uint32_t follow_running(const struct follow *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->count; i++)
        n += f->items[i]->life == WATCH_RUNNING;
    return n;
}

/* ---- a directory of segments ---- */

bool follow_name(const char *prefix, const char *name, pid_t *pid, uint64_t *clock)
{
    size_t n = strlen(prefix);
    char *end_of;
    if (strncmp(name, prefix, n) || name[n] < '0' || name[n] > '9')
        return false;
    unsigned long p = strtoul(name + n, &end_of, 10);
    if (*end_of != '-' || p == 0 || p > INT_MAX || end_of[1] < '0' || end_of[1] > '9')
        return false;
    *clock = strtoull(end_of + 1, &end_of, 10);
    *pid = (pid_t)p;
    return *end_of == 0;
}

/* As far as it is known. */
static bool same_namespace(const struct watch_process *a, const struct watch_process *b)
{
    uint64_t x = a->segment.head->pid_namespace, y = b->segment.head->pid_namespace;
    return x == y || !x || !y;
}

/* Whether the segment is of a child of somebody who is watched. */
static bool of_family(const struct follow *f, const struct watch_process *p)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (same_namespace(f->items[i], p) &&
            (f->items[i]->pid == p->pid || f->items[i]->segment.head->pid == p->segment.head->ppid))
            return true;
    return false;
}

static bool own_file(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || geteuid() == 0);
}

/* Of a process that died before it had finished it. It may be one in another pid namespace, which
 * holds the file a moment after it is there. */
static bool is_left_unfinished(const char *path, pid_t pid)
{
    struct stat st;
    return kill(pid, 0) && errno == ESRCH && !held_is(path) && !stat(path, &st) &&
           time(NULL) - st.st_ctime > 2;
}

static void look_at_file(struct follow *f, const char *name)
{
    pid_t pid;
    uint64_t clock;
    char path[PATH_MAX + NAME_MAX + 2];
    struct watch_process *p;
    struct error err = {0};
    if (!follow_name(f->prefix, name, &pid, &clock) || find(f, pid, clock))
        return;
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    if (!own_file(path))
        return;
    int status = process_open(&p, path, 0, &err);
    if (status) { /* not finished yet; or never, when it died over it */
        if (f->own && (status < 0 || is_left_unfinished(path, pid)))
            unlink(path);
        return;
    }
    if (!f->own && !of_family(f, p)) {
        process_close(p);
        return;
    }
    add(f, p, &err);
}

static void scan(struct follow *f)
{
    DIR *d = *f->directory ? opendir(f->directory) : NULL;
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        look_at_file(f, e->d_name);
    closedir(d);
}

void follow_session(struct follow *f, const char *directory)
{
    snprintf(f->directory, sizeof f->directory, "%s", directory);
    f->prefix = "";
    f->own = true;
}

/* ---- a process that runs already ---- */

struct maps {               /* what the maps of a process say */
    bool library;           /* libmallow-watch.so is there */
    char segment[PATH_MAX]; /* as the process names it; "": none */
    bool deleted, memfd;
    uint64_t start, end_of;
};

static int read_maps(pid_t pid, struct maps *m, struct error *err)
{
    char path[64], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    *m = (struct maps){0};
    FILE *in = fopen(path, "re");
    bool refused = !in && (errno == EACCES || errno == EPERM);
    if (!in && !refused)
        return error_system(err, "cannot see the memory of process %d", (int)pid);
    errno = 0;
    while (in && getline(&line, &room, in) > 0) {
        char *name = strchr(line, '/');
        if (!name)
            continue;
        name[strcspn(name, "\n")] = 0;
        m->library |= strstr(name, "libmallow-watch.so") != NULL;
        char *deleted = strstr(name, " (deleted)");
        bool memfd =
            !strncmp(name, "/memfd:" MLW_WATCH_MEMFD, sizeof "/memfd:" MLW_WATCH_MEMFD - 1);
        if (!memfd && !strstr(name, "/" FOLLOW_FILE_NAME) &&
            !strstr(name, "/" MLW_WATCH_SESSION_PREFIX))
            continue;
        if (deleted)
            *deleted = 0;
        char *dash;
        m->start = strtoull(line, &dash, 16);
        m->end_of = *dash == '-' ? strtoull(dash + 1, NULL, 16) : 0;
        m->deleted = deleted != NULL;
        m->memfd = memfd;
        snprintf(m->segment, sizeof m->segment, "%s", name);
    }
    refused |= errno == EACCES || errno == EPERM;
    free(line);
    if (in)
        fclose(in);
    if (refused)
        return error_set(err, ERROR_UNSUPPORTED,
                         "not allowed to see the memory of process %d; be the user that it belongs "
                         "to, or root",
                         (int)pid);
    return 0;
}

/* A path by which this process can open the segment. */
static void reach(pid_t pid, const struct maps *m, char *path, size_t room)
{
    if (!m->deleted && !m->memfd) {
        snprintf(path, room, "/proc/%d/root%s", (int)pid, m->segment);
        struct stat here, there;
        if (!stat(m->segment, &here) && !stat(path, &there) && here.st_ino == there.st_ino &&
            here.st_dev == there.st_dev)
            snprintf(path, room, "%s", m->segment); /* the same file: the shorter name, which can
                                                       also be removed after the process's end */
        return;
    }
    /* A descriptor of the process, or, for root, the mapping itself. */
    snprintf(path, room, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char link[64 + NAME_MAX], target[PATH_MAX];
        snprintf(link, sizeof link, "/proc/%d/fd/%s", (int)pid, e->d_name);
        ssize_t n = readlink(link, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (n > 0 && !strncmp(target, m->segment, strlen(m->segment))) {
            snprintf(path, room, "%s", link);
            closedir(d);
            return;
        }
    }
    if (d)
        closedir(d);
    snprintf(path, room, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, m->start, m->end_of);
}

/* The number by which the process knows itself. */
static pid_t inner_pid(pid_t pid)
{
    char path[64], line[256];
    int inner = (int)pid;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, "NSpid:", 6)) {
            char *last = strrchr(line, '\t');
            inner = last ? (int)strtol(last, NULL, 10) : inner;
        }
    if (in)
        fclose(in);
    return inner;
}

static void command_line(pid_t pid, char *out, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, room - 1);
    if (fd >= 0)
        close(fd);
    n = n > 0 ? n : 0;
    out[n] = 0;
    while (n && !out[n - 1])
        n--;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < 0x20)
            out[i] = ' ';
}

/* Segments that a dead process left behind. Returns how many. *held: one of that number is not
 * dead, but somewhere else. */
static unsigned adopt_left(struct follow *f, pid_t pid, const char *directory, const char *prefix,
                           bool *held, struct error *err)
{
    unsigned found = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        pid_t owner;
        uint64_t clock;
        char path[PATH_MAX + NAME_MAX + 2];
        struct watch_process *p;
        if (!strncmp(e->d_name, MLW_WATCH_SESSION_PREFIX, sizeof MLW_WATCH_SESSION_PREFIX - 1) &&
            *prefix) {
            snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
            struct stat st;
            if (!lstat(path, &st) && S_ISDIR(st.st_mode) &&
                (st.st_uid == geteuid() || geteuid() == 0))
                found += adopt_left(f, pid, path, "", held, err);
            continue;
        }
        if (!follow_name(prefix, e->d_name, &owner, &clock) || owner != pid)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        if (!own_file(path) || process_open(&p, path, 0, err))
            continue;
        if (p->elsewhere && !p->found_dead) {
            *held = true;
            process_close(p);
            continue;
        }
        p->asked = true;
        found += !add(f, p, err);
    }
    if (d)
        closedir(d);
    return found;
}

static int not_there(struct follow *f, pid_t pid, struct error *err)
{
    struct error ignored = {0};
    bool held = false;
    if (adopt_left(f, pid, "/dev/shm", FOLLOW_FILE_NAME, &held, &ignored))
        return 0;
    if (held)
        return error_set(err, ERROR_USAGE,
                         "there is no process %d here, but a watched one is called so in another "
                         "pid namespace: give the number by which it goes here",
                         (int)pid);
    return error_set(err, ERROR_USAGE,
                     "there is no process %d, and none left its memory behind under that number",
                     (int)pid);
}

int follow_pid(struct follow *f, pid_t pid, struct error *err)
{
    struct maps m;
    struct watch_process *p;
    if (kill(pid, 0) && errno == ESRCH)
        return not_there(f, pid, err);
    if (read_maps(pid, &m, err))
        return -1;
    char path[PATH_MAX + 64] = "";
    int status = 1;
    if (*m.segment) {
        reach(pid, &m, path, sizeof path);
        status = process_open(&p, path, pid, err);
        if (status < 0)
            return -1;
        if (!status && (pid_t)p->segment.head->pid != inner_pid(pid)) {
            process_close(p); /* its parent's, from before the fork */
            status = 1;
        }
    }
    if (status && !m.library) {
        char command[256];
        command_line(pid, command, sizeof command);
        return error_set(
            err, ERROR_UNSUPPORTED,
            "process %d (%.60s) runs without libmallow-watch.so, which has to be "
            "there from its start: start it again as 'mallow watch -- %.120s', or with "
            "the library in LD_PRELOAD",
            (int)pid, command, command);
    }
    if (status) { /* it has not sampled anything yet */
        pid_t *more = realloc(f->waited, (f->waited_count + 1) * sizeof *more);
        if (!more)
            return error_set(err, ERROR_MEMORY, "out of memory");
        f->waited = more;
        f->waited[f->waited_count++] = pid;
        return 0;
    }
    if (!*f->directory && !m.deleted && !m.memfd) {
        char *slash = strrchr(path, '/');
        *slash = 0;
        snprintf(f->directory, sizeof f->directory, "%s", path);
        *slash = '/';
        f->prefix = strstr(f->directory, MLW_WATCH_SESSION_PREFIX) ? "" : FOLLOW_FILE_NAME;
    }
    if (find(f, pid, p->start_ns)) {
        process_close(p);
        return 0;
    }
    p->asked = true;
    return add(f, p, err);
}

/* ---- rounds ---- */

static void look_at_waited(struct follow *f)
{
    size_t n = f->waited_count;
    pid_t *pids = f->waited;
    f->waited = NULL;
    f->waited_count = 0;
    for (size_t i = 0; i < n; i++) {
        struct error err = {0};
        (void)follow_pid(f, pids[i], &err); /* it is put on the list again, or is gone */
    }
    free(pids);
}

/* An image is over when its process ended, or runs a newer one. */
static void check(struct follow *f, struct watch_process *p, uint64_t now)
{
    process_check(p);
    if (p->life != WATCH_RUNNING)
        return;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->items[i]->pid == p->pid && same_namespace(f->items[i], p) &&
            f->items[i]->start_ns > p->start_ns)
            p->life = WATCH_REPLACED;
    if (__atomic_load_n(&p->segment.head->state, __ATOMIC_ACQUIRE) != MLW_WATCH_EXEC)
        p->exec_seen_ns = 0;
    else if (!p->exec_seen_ns) {
        p->exec_seen_ns = now;
        p->exec_cpu_ns = launch_cpu_ns(p->pid);
    } else if (now - p->exec_seen_ns > LAUNCH_LATEST_NS ||
               (now - p->exec_seen_ns > EXEC_GRACE_NS &&
                !launch_is_starting(p->pid, p->exec_cpu_ns)))
        p->life = WATCH_REPLACED;
}

void follow_round(struct follow *f, bool find_new)
{
    uint64_t now = clock_monotonic_ns();
    if (find_new) {
        scan(f);
        if (f->waited_count)
            look_at_waited(f);
    }
    for (uint32_t i = 0; i < f->count; i++)
        check(f, f->items[i], now);
    for (uint32_t i = f->count; i-- > 0;)
        if (f->items[i]->life == WATCH_REPLACED ||
            (f->items[i]->life == WATCH_ENDED && !f->items[i]->hold))
            end(f, i);
}

void follow_release(struct follow *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        process_close(f->items[i]);
    }
    free(f->items);
    free(f->waited);
    if (f->own)
        rmdir(f->directory); /* stays while somebody's memory is in it */
    f->items = NULL;
    f->waited = NULL;
    f->count = f->room = 0;
    f->waited_count = 0;
}
