/* process.c - see process.h. */
#include "trust/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define PROC_BYTES (64u << 10)

static void name_of(pid_t pid, const char *name, char *path, size_t room)
{
    if (pid)
        snprintf(path, room, "/proc/%d/%s", (int)pid, name);
    else
        snprintf(path, room, "/proc/self/%s", name);
}

int trust_proc(pid_t pid, const char *name)
{
    char path[128];
    name_of(pid, name, path, sizeof path);
    return open(path, O_RDONLY | O_CLOEXEC);
}

FILE *trust_proc_stream(pid_t pid, const char *name)
{
    char path[128];
    name_of(pid, name, path, sizeof path);
    return fopen(path, "re");
}

ssize_t trust_proc_link(pid_t pid, const char *name, char *to, size_t room)
{
    char path[128];
    name_of(pid, name, path, sizeof path);
    ssize_t n = readlink(path, to, room - 1);
    to[n > 0 ? n : 0] = 0;
    return n;
}

/* The file of the process that dir is of; to be freed. */
static char *text_of(int dir, const char *name, struct error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    if (fd < 0) {
        error_system(err, "cannot read %s", name);
        return NULL;
    }
    text = trust_read_whole(fd, PROC_BYTES, NULL, err);
    close(fd);
    return text;
}

/* The numbers behind a name at the start of a line; returns how many there were. */
static unsigned numbers(const char *text, const char *name, unsigned long *out, unsigned room)
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, length) != 0)
            continue;
        unsigned n = 0;
        const char *at = line + length;
        for (char *end; n < room && *at != '\n'; at = end) {
            out[n] = strtoul(at, &end, 10);
            if (end == at)
                break;
            n++;
        }
        return n;
    }
    return 0;
}

/* Field 22 of stat. */
static bool start_of(const char *stat, uint64_t *ticks)
{
    const char *at = strrchr(stat, ')'); /* the name in front of it may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return false;
    *ticks = strtoull(at + 1, NULL, 10);
    return true;
}

static uint64_t monotonic_of(uint64_t ticks)
{
    struct timespec boot, mono;
    const uint64_t second = 1000000000u;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    uint64_t at = ticks * (second / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t suspended = ((uint64_t)boot.tv_sec * second + (uint64_t)boot.tv_nsec) -
                         ((uint64_t)mono.tv_sec * second + (uint64_t)mono.tv_nsec);
    return at > suspended ? at - suspended : 0;
}

static bool parse(struct trust_process *p, const char *status, const char *stat)
{
    unsigned long uid[4], inner[64], parent;
    unsigned levels = numbers(status, "NSpid:", inner, 64);
    if (numbers(status, "Uid:", uid, 4) != 4 || numbers(status, "PPid:", &parent, 1) != 1 ||
        !start_of(stat, &p->start_ticks))
        return false;
    for (int i = 0; i < 4; i++)
        p->uid[i] = (uid_t)uid[i];
    p->ppid = (pid_t)parent;
    p->inner_pid = levels ? (pid_t)inner[levels - 1] : p->pid;
    p->start_ns = monotonic_of(p->start_ticks);
    return true;
}

int trust_process(pid_t pid, struct trust_process *p, struct error *err)
{
    char path[64];
    *p = (struct trust_process){.pid = pid};
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    /* Its files are of this process, whoever has the number later. */
    int dir = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0) {
        error_set(err, ERROR_SYSTEM, "there is no process %d", (int)pid);
        err->number = ESRCH;
        return -1;
    }
    char *status = text_of(dir, "status", err), *stat = status ? text_of(dir, "stat", err) : NULL;
    bool sound = stat && parse(p, status, stat);
    free(status);
    free(stat);
    close(dir);
    if (sound)
        return 0;
    error_set(err, ERROR_SYSTEM, "there is no process %d any more", (int)pid);
    err->number = ESRCH;
    return -1;
}

bool trust_process_lives(const struct trust_process *p)
{
    struct trust_process now;
    struct error ignored;
    return !trust_process(p->pid, &now, &ignored) && now.start_ticks == p->start_ticks;
}

bool trust_process_is_of(const struct trust_process *p, uid_t owner)
{
    for (int i = 0; i < 4; i++)
        if (p->uid[i] == owner)
            return true;
    return false;
}

/* Whether the descriptor is open for writing. */
static bool is_for_writing(int infos, const char *name)
{
    struct error ignored;
    int fd = openat(infos, name, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : trust_read_whole(fd, PROC_BYTES, NULL, &ignored);
    const char *flags = text ? strstr(text, "flags:") : NULL;
    unsigned long value = flags ? strtoul(flags + 6, NULL, 8) : 0;
    free(text);
    if (fd >= 0)
        close(fd);
    return (value & O_ACCMODE) == O_WRONLY || (value & O_ACCMODE) == O_RDWR;
}

bool trust_process_writes(pid_t pid, const struct trust_identity *file)
{
    int infos = trust_proc(pid, "fdinfo"), fds = trust_proc(pid, "fd");
    DIR *d = infos < 0 || fds < 0 ? NULL : fdopendir(fds);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        struct stat st;
        found = e->d_name[0] != '.' && !fstatat(dirfd(d), e->d_name, &st, 0) &&
                st.st_dev == file->device && st.st_ino == file->inode &&
                is_for_writing(infos, e->d_name);
    }
    if (d)
        closedir(d);
    else if (fds >= 0)
        close(fds);
    if (infos >= 0)
        close(infos);
    return found;
}

bool trust_process_maps(pid_t pid, const struct trust_identity *file)
{
    struct trust_process p;
    struct error ignored;
    FILE *f = trust_proc_stream(pid, "maps");
    if (!f)
        return !trust_process(pid, &p, &ignored);
    char *line = NULL;
    size_t room = 0;
    bool found = false, refused = false;
    errno = 0;
    while (!found && getline(&line, &room, f) > 0) {
        unsigned major, minor;
        unsigned long long inode;
        found = sscanf(line, "%*s %*s %*s %x:%x %llu", &major, &minor, &inode) == 3 &&
                makedev(major, minor) == file->device && inode == file->inode;
    }
    refused = errno == EACCES || errno == EPERM;
    free(line);
    fclose(f);
    return found || refused;
}
