/* place.c - Walks to the directory of a path component by component and follows only links of
 * root and of the caller. It creates, replaces and removes entries there by the directory's
 * descriptor. A new file gets its name when it is complete, and drafts of dead processes are
 * removed. */
#include "trust/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOST_LINKS 40 /* as the kernel's */

static void close_quietly(int fd)
{
    int saved = errno;
    if (fd >= 0)
        close(fd);
    errno = saved;
}

/* Root, or who owns the root directory: in a user namespace without root that is "nobody". */
static bool is_of_system(uid_t owner)
{
    struct stat st;
    return owner == 0 || (!stat("/", &st) && owner == st.st_uid);
}

/* ---- the way to a place ---- */

struct walk {
    const char *path; /* in messages */
    char rest[PATH_MAX];
    int dir, links;
};

static int walk_step_into(struct walk *w, int next)
{
    close_quietly(w->dir);
    w->dir = next;
    return next < 0 ? -1 : 0;
}

static int walk_begin(struct walk *w)
{
    size_t slashes = strspn(w->rest, "/");
    memmove(w->rest, w->rest + slashes, strlen(w->rest + slashes) + 1);
    if (!slashes && w->dir >= 0)
        return 0;
    return walk_step_into(w, open(slashes ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Puts what the link open at `link` names in front of the rest. */
static int walk_follow_link(struct walk *w, int link, const struct stat *st)
{
    struct statfs fs;
    char target[PATH_MAX];
    size_t rest = strlen(w->rest);
    errno = ELOOP;
    if (++w->links > MOST_LINKS || (st->st_uid != geteuid() && !is_of_system(st->st_uid)))
        return -1;
    ssize_t n = readlinkat(link, "", target, sizeof target);
    if (n < 0)
        return -1;
    /* Links of /proc lead elsewhere than their text says, but for those two. */
    errno = ELOOP;
    if (!fstatfs(link, &fs) && fs.f_type == PROC_SUPER_MAGIC &&
        strspn(target, "0123456789/task") != (size_t)n)
        return -1;
    errno = ENAMETOOLONG;
    if (!n || (size_t)n + 1 + rest >= sizeof w->rest)
        return -1;
    memmove(w->rest + n + (rest != 0), w->rest, rest + 1);
    memcpy(w->rest, target, (size_t)n);
    if (rest)
        w->rest[n] = '/';
    return walk_begin(w);
}

/* Goes as far as the last component, whose name is left in w->rest. */
static int walk_to_last(struct walk *w)
{
    if (walk_begin(w))
        return -1;
    for (;;) {
        char name[NAME_MAX + 1];
        size_t length = strcspn(w->rest, "/"), slashes = strspn(w->rest + length, "/");
        bool last = !w->rest[length + slashes];
        errno = length ? ENAMETOOLONG : ENOENT;
        if (!length || length > NAME_MAX)
            return -1;
        memcpy(name, w->rest, length);
        name[length] = 0;
        struct stat st;
        int next = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (next >= 0 && fstat(next, &st)) {
            close_quietly(next);
            return -1;
        }
        if (next >= 0 && S_ISLNK(st.st_mode)) {
            memmove(w->rest, w->rest + length + slashes, strlen(w->rest + length + slashes) + 1);
            int status = walk_follow_link(w, next, &st);
            close_quietly(next);
            if (status)
                return -1;
            continue;
        }
        if (last) {
            bool directory = next >= 0 && S_ISDIR(st.st_mode);
            int number = errno;
            close_quietly(next);
            errno = directory ? EISDIR : slashes ? ENOTDIR : number;
            if (directory || slashes || (next < 0 && number != ENOENT))
                return -1;
            w->rest[length] = 0;
            return 0;
        }
        memmove(w->rest, w->rest + length + slashes, strlen(w->rest + length + slashes) + 1);
        if (walk_step_into(w, next))
            return -1;
    }
}

static int say_no_way(const char *path, struct error *err)
{
    if (errno != ELOOP)
        return error_system(err, "cannot reach %s", path);
    error_system(err, "cannot reach %s", path);
    error_set(err, ERROR_UNSUPPORTED,
              "cannot reach %s: a symbolic link on the way belongs to another user; name the file "
              "without it",
              path);
    err->number = ELOOP;
    return -1;
}

int trust_place_open(struct trust_place *p, const char *path, struct error *err)
{
    struct walk w = {.path = path, .dir = -1};
    *p = (struct trust_place){.dir = -1, .path = path};
    errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof w.rest)
        return say_no_way(path, err);
    memcpy(w.rest, path, strlen(path) + 1);
    if (walk_to_last(&w)) {
        close_quietly(w.dir);
        return say_no_way(path, err);
    }
    /* One that can be listed, too, where that is allowed. */
    p->dir = openat(w.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0)
        p->dir = w.dir;
    else
        close_quietly(w.dir);
    memcpy(p->name, w.rest, strlen(w.rest) + 1);
    return 0;
}

int trust_place_of(struct trust_place *p, const char *path, int fd, struct error *err)
{
    struct trust_identity id;
    if (trust_place_open(p, path, err))
        return -1;
    if (trust_identify(fd, &id) && trust_is(p->dir, p->name, &id))
        return 0;
    trust_place_close(p);
    return error_set(err, ERROR_UNSUPPORTED, "%s is another file by now", path);
}

int trust_place_of_own(struct trust_place *p, const char *path, int fd, struct error *err)
{
    if (trust_place_of(p, path, fd, err))
        return -1;
    const struct trust_rule own = {.owners = TRUST_CALLER, .one_name = trust_place_is_shared(p)};
    if (!trust_check(fd, &own, err))
        return 0;
    trust_place_close(p);
    return -1;
}

void trust_place_close(struct trust_place *p)
{
    close_quietly(p->dir);
    p->dir = -1;
}

bool trust_place_is_shared(const struct trust_place *p)
{
    struct stat st;
    return fstat(p->dir, &st) || (st.st_uid != geteuid() && !is_of_system(st.st_uid)) ||
           st.st_mode & (S_IWGRP | S_IWOTH);
}

/* ---- writing ---- */

int trust_create(const struct trust_place *p, mode_t mode, struct error *err)
{
    int fd = openat(p->dir, p->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    return fd < 0 ? error_system(err, "cannot create %s", p->path) : fd;
}

int trust_output(const struct trust_place *p, mode_t mode, struct error *err)
{
    bool shared = trust_place_is_shared(p);
    const struct trust_rule rule = {
        .what = "the output", .owners = shared ? TRUST_CALLER : TRUST_ANYBODY, .one_name = shared};
    for (int tries = 0; tries < 8; tries++) {
        int fd = openat(p->dir, p->name,
                        O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return error_system(err, "cannot create %s", p->path);
        *err = (struct error){0};
        fd = trust_open(p->dir, p->name, TRUST_APPEND, &rule, err);
        if (fd >= 0 || err->number != ENOENT)
            return fd < 0 ? error_prefix(err, "cannot write %s", p->path) : fd;
    }
    return -1;
}

static int random_name(char name[NAME_MAX + 1], const char *base, const char *suffix)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return -1;
    snprintf(name, NAME_MAX + 1, "%.200s%.20s%016llx", base, suffix, (unsigned long long)number);
    return 0;
}

/* True if this is a name that random_name makes of these. */
static bool is_draft_name(const char *name, const char *base, const char *suffix)
{
    char begin[NAME_MAX + 1];
    const int n = snprintf(begin, sizeof begin, "%.200s%.20s", base, suffix);
    return !strncmp(name, begin, (size_t)n) && strlen(name + n) == 16 &&
           strspn(name + n, "0123456789abcdef") == 16;
}

/* Removes the caller's own drafts of this entry that no process has locked: their writers are dead.
 */
static void remove_dead(const struct trust_place *p, const char *suffix)
{
    const struct trust_rule own = {.what = "a draft", .one_name = true};
    DIR *list = trust_list(p->dir);
    struct error ignored;
    for (const struct dirent *e; list && (e = readdir(list));) {
        struct trust_identity id;
        if (!is_draft_name(e->d_name, p->name, suffix))
            continue;
        const int fd = trust_open(p->dir, e->d_name, TRUST_WRITE, &own, &ignored);
        if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && trust_identify(fd, &id))
            (void)trust_remove(p->dir, e->d_name, &id, &ignored);
        close_quietly(fd);
    }
    if (list)
        closedir(list);
}

/* Another process that looks for dead drafts may be faster than the lock: then the entry is gone.
 * Without locks (some network file systems) nothing is ever taken for dead. */
static int create_named(struct trust_draft *d, const struct trust_place *p)
{
    remove_dead(p, d->suffix);
    for (int tries = 0; tries < 8; tries++) {
        struct trust_identity id;
        if (random_name(d->name, p->name, d->suffix))
            return -1;
        const int fd =
            openat(p->dir, d->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return -1;
        if ((!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && trust_identify(fd, &id) &&
            trust_is(p->dir, d->name, &id))
            return fd;
        close(fd);
        errno = EBUSY;
    }
    return -1;
}

int trust_draft_open(struct trust_draft *d, const struct trust_place *p, const char *suffix,
                     struct error *err)
{
    *d = (struct trust_draft){.suffix = suffix};
    d->fd = openat(p->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (d->fd >= 0) {
        (void)flock(d->fd, LOCK_EX | LOCK_NB); /* before it has a name */
        return 0;
    }
    d->fd = create_named(d, p);
    if (d->fd >= 0)
        return 0;
    d->name[0] = 0;
    return error_system(err, "cannot create a file beside %s", p->path);
}

static int draft_take_name(struct trust_draft *d, const struct trust_place *p)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", d->fd);
    for (int tries = 0; tries < 8; tries++) {
        if (random_name(d->name, p->name, d->suffix))
            break;
        if (!linkat(AT_FDCWD, self, p->dir, d->name, AT_SYMLINK_FOLLOW))
            return 0;
        if (errno != EEXIST)
            break;
    }
    d->name[0] = 0;
    return -1;
}

int trust_draft_publish(struct trust_draft *d, const struct trust_place *p, mode_t mode,
                        struct error *err)
{
    struct trust_identity id;
    if (fchmod(d->fd, mode) || !trust_identify(d->fd, &id))
        return error_system(err, "cannot set the mode of a file beside %s", p->path);
    if (!d->name[0] && draft_take_name(d, p))
        return error_system(err, "cannot name a file beside %s", p->path);
    errno = ESTALE;
    if (!trust_is(p->dir, d->name, &id) || renameat(p->dir, d->name, p->dir, p->name))
        return error_system(err, "cannot put a file in the place of %s", p->path);
    d->name[0] = 0;
    (void)flock(d->fd, LOCK_UN);
    return 0;
}

void trust_draft_drop(struct trust_draft *d, const struct trust_place *p)
{
    struct trust_identity id;
    struct error ignored;
    if (d->name[0] && trust_identify(d->fd, &id))
        (void)trust_remove(p->dir, d->name, &id, &ignored);
    close_quietly(d->fd);
    d->fd = -1;
}

int trust_descriptor(const char *path)
{
    static const char *const before[] = {"/dev/fd/", "/proc/self/fd/"};
    if (!strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t n = strlen(before[i]);
        if (strncmp(path, before[i], n))
            continue;
        size_t digits = strspn(path + n, "0123456789");
        if (digits && digits < 8 && !path[n + digits])
            return (int)strtol(path + n, NULL, 10);
    }
    return -1;
}

int trust_unreachable(struct error *err, const char *doing, const char *path)
{
    errno = err->number;
    return errno == ELOOP || !errno ? -1 : error_system(err, "%s %s", doing, path);
}

int trust_output_at(const char *path, const char *doing, mode_t mode, struct error *err)
{
    struct trust_place place;
    if (trust_place_open(&place, path, err))
        return trust_unreachable(err, doing, path);
    const int fd = trust_output(&place, mode, err);
    trust_place_close(&place);
    return fd;
}

bool trust_direct(const char *path, int *fd, struct error *err)
{
    struct stat st;
    const int descriptor = trust_descriptor(path);
    if (descriptor < 0 && (stat(path, &st) || S_ISREG(st.st_mode)))
        return false;
    /* Not truncated: by now another file may be there. */
    *fd = descriptor < 0 ? open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC)
                         : fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0 || (descriptor < 0 && (fstat(*fd, &st) || S_ISREG(st.st_mode)))) {
        error_system(err, "cannot write %s", path);
        close_quietly(*fd);
        *fd = -1;
    }
    return true;
}

int trust_whole_open(struct trust_whole *w, const char *path, struct error *err)
{
    *w = (struct trust_whole){.place.dir = -1, .draft.fd = -1};
    if (trust_direct(path, &w->draft.fd, err))
        return w->draft.fd < 0 ? -1 : 0;
    if (trust_place_open(&w->place, path, err))
        return -1;
    if (!trust_draft_open(&w->draft, &w->place, ".writing-", err))
        return 0;
    trust_place_close(&w->place);
    return -1;
}

void trust_whole_path(const struct trust_whole *w, char path[TRUST_WHOLE_PATH_BYTES])
{
    snprintf(path, TRUST_WHOLE_PATH_BYTES, "/proc/self/fd/%d", w->draft.fd);
}

FILE *trust_whole_stream(const struct trust_whole *w)
{
    const int fd = fcntl(w->draft.fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        close_quietly(fd);
    return file;
}

int trust_whole_close(struct trust_whole *w, bool keep, struct error *err)
{
    int status = 0;
    mode_t mask = umask(0);
    umask(mask);
    if (keep && w->draft.fd >= 0 && w->place.dir >= 0)
        status = trust_draft_publish(&w->draft, &w->place, 0666 & ~mask, err);
    if (w->draft.fd >= 0)
        trust_draft_drop(&w->draft, &w->place);
    trust_place_close(&w->place);
    return status;
}

int trust_unnamed_beside(const struct trust_place *p, struct error *err)
{
    struct trust_draft d;
    struct trust_identity id;
    struct error ignored;
    if (trust_draft_open(&d, p, "-", err))
        return -1;
    if (d.name[0] && trust_identify(d.fd, &id))
        (void)trust_remove(p->dir, d.name, &id, &ignored);
    return d.fd;
}

/* True if what lies in the file system of this file takes memory. */
static bool is_in_memory(int fd)
{
    struct statfs fs;
    return !fstatfs(fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static int unnamed(bool on_disk, struct error *err)
{
    const char *dirs[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        struct error ignored;
        struct trust_place p = {.dir = -1, .path = "", .name = "mallow"};
        if (!dirs[i] || !*dirs[i] ||
            (p.dir = open(dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
            continue;
        if (on_disk && is_in_memory(p.dir)) {
            trust_place_close(&p);
            continue;
        }
        int fd = trust_unnamed_beside(&p, &ignored);
        trust_place_close(&p);
        if (fd >= 0)
            return fd;
    }
    if (on_disk)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "cannot create a temporary file on a disk: neither $TMPDIR nor /var/tmp nor "
            "/tmp is on one and can be written to");
    return error_system(err, "cannot create a temporary file in /var/tmp or /tmp");
}

int trust_unnamed(struct error *err) { return unnamed(false, err); }

int trust_unnamed_on_disk(struct error *err) { return unnamed(true, err); }

/* ---- directories ---- */

int trust_directory(int dir, const char *path, const struct trust_rule *rule, struct error *err)
{
    struct stat st;
    unsigned owners = rule->owners ? rule->owners : TRUST_CALLER;
    int fd =
        openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (rule->follow ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, &st)) {
        error_system(err, "cannot open %s", path);
        close_quietly(fd);
        return -1;
    }
    if (owners & TRUST_ANYBODY || (owners & TRUST_CALLER && st.st_uid == geteuid()) ||
        (owners & TRUST_ROOT && st.st_uid == 0) || (owners & TRUST_USER && st.st_uid == rule->user))
        return fd;
    close(fd);
    return error_set(err, ERROR_UNSUPPORTED, "%s %s belongs to another user (uid %u)",
                     rule->what ? rule->what : "the directory", path, (unsigned)st.st_uid);
}

int trust_make_directory(const struct trust_place *p, mode_t mode, struct error *err)
{
    const struct trust_rule own = {.what = "the directory"};
    if (mkdirat(p->dir, p->name, mode))
        return error_system(err, "cannot make the directory %s", p->path);
    return trust_directory(p->dir, p->name, &own, err);
}

DIR *trust_list(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        close_quietly(fd);
    return d;
}

int trust_remove(int dir, const char *name, const struct trust_identity *id, struct error *err)
{
    if (!trust_is(dir, name, id))
        return 1;
    if (!unlinkat(dir, name, 0))
        return 0;
    return errno == ENOENT ? 1 : error_system(err, "cannot remove %s", name);
}

int trust_remove_directory(int dir, const char *name, const struct trust_identity *id,
                           struct error *err)
{
    if (!trust_is(dir, name, id))
        return 1;
    if (!unlinkat(dir, name, AT_REMOVEDIR))
        return 0;
    return errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST
               ? 1
               : error_system(err, "cannot remove %s", name);
}
