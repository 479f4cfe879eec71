/* left.c - the segments of processes that died, not read yet: how many may stay.
 *
 * A service that crashes again and again would fill /dev/shm with them. So a process that is about
 * to make a segment there looks at the names of those that are there, and removes the oldest one of
 * a process that is gone when there are more than LEFT_MAX such. */
#include <errno.h>
#include <string.h>

#include "watcher.h"

#define LEFT_MAX 32u

struct directory_entry { /* as getdents64 gives it */
    uint64_t inode, next;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static const char *take_name_number(const char *s, uint64_t *v)
{
    const char *from = s;
    for (*v = 0; *s >= '0' && *s <= '9'; s++)
        *v = *v * 10 + (uint64_t)(*s - '0');
    return s == from ? 0 : s;
}

/* For another user, or no file: none of our business. */
static bool is_own_file(int directory, const char *name)
{
    struct stat st;
    long fd = sys_openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (sys_is_error(fd))
        return false;
    bool own = !sys_fstat((int)fd, &st) && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
               st.st_uid == (uid_t)sys_geteuid();
    sys_close((int)fd);
    return own;
}

/* PREFIX PID - CLOCK, of a process that is not there, nor in another namespace. */
static bool name_is_left(int directory, const char *name, uint64_t *clock)
{
    static const char path[] = MLW_WATCH_FILE_PREFIX;
    const char *prefix = strrchr(path, '/') + 1;
    uint64_t pid;
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0)
        return false;
    const char *s = take_name_number(name + n, &pid);
    if (!s || *s != '-' || !(s = take_name_number(s + 1, clock)) || *s || !pid || pid > INT32_MAX)
        return false;
    return sys_call(SYS_kill, (long)pid, 0, 0, 0, 0, 0) == -ESRCH && is_own_file(directory, name) &&
           !segment_is_held(directory, name);
}

void left_bound(void)
{
    char directory[] = MLW_WATCH_FILE_PREFIX;
    uint64_t buffer[256], oldest = UINT64_MAX, clock;
    char name[64] = "";
    uint32_t left = 0;
    long n;
    *strrchr(directory, '/') = 0;
    long fd = sys_openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (sys_is_error(fd))
        return;
    while ((n = sys_call(SYS_getdents64, fd, (long)buffer, sizeof buffer, 0, 0, 0)) > 0) {
        for (long at = 0; at < n;) {
            const struct directory_entry *e =
                (const struct directory_entry *)(const void *)((const char *)buffer + at);
            at += e->bytes;
            if (!name_is_left((int)fd, e->name, &clock))
                continue;
            left++;
            if (clock < oldest && strlen(e->name) < sizeof name) {
                oldest = clock;
                strcpy(name, e->name);
            }
        }
    }
    if (left > LEFT_MAX)
        sys_unlinkat((int)fd, name, 0);
    sys_close((int)fd);
}
