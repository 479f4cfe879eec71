#include "watch/held.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool held_is(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

int held_take(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool held_elsewhere(const struct mlw_watch *head)
{
    struct stat st;
    return head->pid_namespace && !stat("/proc/self/ns/pid", &st) &&
           st.st_ino != head->pid_namespace;
}
