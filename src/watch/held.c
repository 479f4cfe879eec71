/* held.c - Asks by flock whether a process holds a segment or a session, also from another pid
 * namespace. No call waits for a lock. */
#include "watch/held.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trust/place.h"

bool held_by_other(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB))
        return errno == EWOULDBLOCK;
    flock(fd, LOCK_UN);
    return false;
}

bool held_entry(int dir, const char *name)
{
    static const struct trust_rule any = {.owners = TRUST_ANYBODY};
    struct error ignored;
    int fd = trust_open(dir, name, TRUST_READ, &any, &ignored);
    if (fd < 0)
        fd = trust_directory(dir, name, &any, &ignored);
    if (fd < 0)
        return false;
    bool held = held_by_other(fd);
    close(fd);
    return held;
}

bool held_take(int fd) { return !flock(fd, LOCK_EX | LOCK_NB); }

/* The inode of our own pid namespace; 0: it is not known. */
static uint64_t own_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

bool held_elsewhere(const struct mlw_watch *head)
{
    const uint64_t own = own_namespace();
    return head->pid_namespace && own && own != head->pid_namespace;
}

bool held_somewhere(const struct mlw_watch *head)
{
    return !head->pid_namespace || !own_namespace();
}
