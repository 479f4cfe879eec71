/* file.c - Opens, checks, reads and copies files that another user may own or change. It opens
 * the inode with O_PATH, judges it, and reopens that very inode, so nothing can be swapped in
 * between. A file that its owner could truncate is copied and sealed before it is mapped. */
#include "trust/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"

static int broken(struct error *err, const char *path, const char *what, const char *why)
{
    if (!what)
        return error_set(err, ERROR_UNSUPPORTED, "%s %s", *path ? path : "the file", why);
    return error_set(err, ERROR_UNSUPPORTED, "%s%s%s %s", what, *path ? " " : "", path, why);
}

static bool may_own(const struct trust_rule *rule, uid_t owner)
{
    unsigned owners = rule->owners ? rule->owners : TRUST_CALLER;
    return owners & TRUST_ANYBODY || (owners & TRUST_CALLER && owner == geteuid()) ||
           (owners & TRUST_ROOT && owner == 0) || (owners & TRUST_USER && owner == rule->user);
}

static int judge_file(const struct stat *st, const char *path, const struct trust_rule *rule,
                      struct error *err)
{
    char why[64];
    if (!S_ISREG(st->st_mode)) {
        broken(err, path, rule->what, "is not a regular file");
        err->kind = ERROR_USAGE;
        return -1;
    }
    if (!may_own(rule, st->st_uid)) {
        snprintf(why, sizeof why, "belongs to another user (uid %u)", (unsigned)st->st_uid);
        return broken(err, path, rule->what, why);
    }
    if (rule->one_name && st->st_nlink > 1)
        return broken(err, path, rule->what, "has other names (hard links)");
    if (rule->most_bytes && (uint64_t)st->st_size > rule->most_bytes)
        return broken(err, path, rule->what, "is too large to be one");
    return 0;
}

int trust_check(int fd, const struct trust_rule *rule, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_system(err, "cannot look at %s", rule->what ? rule->what : "the file");
    return judge_file(&st, "", rule, err);
}

static int open_flags(enum trust_access access)
{
    switch (access) {
    case TRUST_WRITE: return O_RDWR;
    case TRUST_APPEND: return O_RDWR | O_APPEND;
    default: return O_RDONLY;
    }
}

int trust_again(int fd, enum trust_access access)
{
    char self[64];
    /* The link of /proc leads to the inode, wherever its name is by now. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return open(self, open_flags(access) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int trust_open(int dir, const char *path, enum trust_access access, const struct trust_rule *rule,
               struct error *err)
{
    struct stat st;
    int seen = openat(dir, path, O_PATH | O_CLOEXEC | (rule->follow ? 0 : O_NOFOLLOW)), fd = -1;
    if (seen < 0 || fstat(seen, &st)) {
        error_system(err, "cannot open %s", path);
    } else if (S_ISLNK(st.st_mode)) {
        errno = ELOOP;
        error_system(err, "cannot open %s, a symbolic link", path);
    } else if (!judge_file(&st, path, rule, err)) {
        fd = trust_again(seen, access);
        if (fd < 0)
            error_system(err, "cannot open %s", path);
    }
    if (seen >= 0) {
        int saved = errno;
        close(seen);
        errno = saved;
    }
    return fd;
}

int trust_open_any(const char *path, struct error *err)
{
    static const struct trust_rule any = {.owners = TRUST_ANYBODY, .follow = true};
    return trust_open(AT_FDCWD, path, TRUST_READ, &any, err);
}

int trust_open_below(int dir, const char *path, const struct trust_rule *rule, struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (rule->follow ? 0 : O_NOFOLLOW),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    struct stat st;
    const int seen = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    int fd = -1;
    if (seen < 0 || fstat(seen, &st))
        error_system(err, "cannot open %s", path);
    else if (!judge_file(&st, path, rule, err) && (fd = trust_again(seen, TRUST_READ)) < 0)
        error_system(err, "cannot open %s", path);
    if (seen >= 0)
        close(seen);
    return fd;
}

bool trust_identify(int fd, struct trust_identity *id)
{
    struct stat st;
    if (fstat(fd, &st))
        return false;
    *id = (struct trust_identity){st.st_dev, st.st_ino, st.st_uid};
    return true;
}

bool trust_same(const struct trust_identity *a, const struct trust_identity *b)
{
    return a->device == b->device && a->inode == b->inode;
}

bool trust_is(int dir, const char *name, const struct trust_identity *id)
{
    struct stat st;
    return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_dev == id->device &&
           st.st_ino == id->inode;
}

size_t trust_read(int fd, void *to, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

uint64_t trust_past_hole(int fd, uint64_t offset, uint64_t bytes)
{
    const off_t data = offset < bytes ? lseek(fd, (off_t)offset, SEEK_DATA) : -1;
    if (data < 0) /* nothing more; or not known here */
        return offset < bytes && errno == ENXIO ? bytes : offset;
    return (uint64_t)data;
}

char *trust_read_whole(int fd, size_t most_bytes, size_t *bytes, struct error *err)
{
    enum { STEP = 1 << 12 };
    size_t used = 0, room = 0;
    char *data = NULL;
    for (;;) {
        if (used + 1 >= room && !ARRAY_ROOM(data, used + STEP, room)) {
            error_memory_for(err, "reading a file");
            break;
        }
        ssize_t n = pread(fd, data + used, room - used - 1, (off_t)used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            error_system(err, "cannot read the file");
            break;
        }
        if (n == 0) {
            data[used] = 0;
            if (bytes)
                *bytes = used;
            return data;
        }
        used += (size_t)n;
        if (used > most_bytes) {
            error_set(err, ERROR_UNSUPPORTED, "the file is larger than %zu bytes", most_bytes);
            break;
        }
    }
    free(data);
    return NULL;
}

char *trust_read_any(const char *path, size_t most_bytes, size_t *bytes, struct error *err)
{
    const int fd = trust_open_any(path, err);
    if (fd < 0)
        return NULL;
    char *data = trust_read_whole(fd, most_bytes, bytes, err);
    close(fd);
    if (!data)
        error_prefix(err, "%s", path);
    return data;
}

static bool fd_is_own(int fd)
{
    struct stat st;
    return !fstat(fd, &st) && (st.st_uid == geteuid() || st.st_uid == 0);
}

static bool is_sealed(int fd, int against)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & against) == against;
}

bool trust_may_map(int fd) { return is_sealed(fd, F_SEAL_SHRINK) || fd_is_own(fd); }

/* Copies the data of the first `bytes` bytes to the same places; a hole stays a hole, and
 * costs no memory. Ends early where the file does. 0, or -1 with errno. */
static int copy_data(int copy, int fd, off_t bytes)
{
    off_t at = 0;
    while (at < bytes && (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < bytes) {
        off_t end = lseek(fd, at, SEEK_HOLE);
        if (end < 0 || end > bytes)
            end = bytes;
        if (lseek(copy, at, SEEK_SET) < 0)
            return -1;
        while (at < end) {
            const off_t left = end - at;
            const ssize_t n = sendfile(copy, fd, &at, left < 1 << 30 ? (size_t)left : 1 << 30);
            if (n < 0)
                return -1;
            if (!n)
                return 0; /* truncated meanwhile */
        }
    }
    return at < 0 && errno != ENXIO ? -1 : 0;
}

/* Copies fd to a memory file of `bytes` bytes and seals that. */
static int sealed_copy(int fd, off_t bytes, struct error *err)
{
    int copy = memfd_create("mallow-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING), status = 0;
    if (copy < 0)
        return error_system(err, "cannot make a copy in memory (memfd_create)");
    if (copy_data(copy, fd, bytes) || ftruncate(copy, bytes))
        status = error_system(err, "cannot copy the file to memory");
    else if (fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
        status = error_system(err, "cannot seal a copy in memory");
    if (!status)
        return copy;
    close(copy);
    return -1;
}

int trust_stable(int fd, uint64_t most_bytes, struct error *err)
{
    if (is_sealed(fd, F_SEAL_SHRINK | F_SEAL_WRITE) || fd_is_own(fd))
        return fd;
    struct stat st;
    int copy;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > most_bytes)
        copy = error_set(err, ERROR_UNSUPPORTED,
                         "another user's file is larger than the %llu MiB that are copied",
                         (unsigned long long)(most_bytes >> 20));
    else
        copy = sealed_copy(fd, st.st_size, err);
    close(fd);
    return copy;
}

void *trust_map(const char *path, size_t *bytes, struct error *err)
{
    struct stat st;
    int fd = trust_open_any(path, err);
    if (fd < 0 || (fd = trust_stable(fd, TRUST_COPY_BYTES_MAX, err)) < 0)
        return NULL;
    void *data = MAP_FAILED;
    if (!fstat(fd, &st) && st.st_size)
        data = mmap(NULL, *bytes = (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data != MAP_FAILED)
        return data;
    error_set(err, ERROR_FORMAT, "%s cannot be read", path);
    return NULL;
}
