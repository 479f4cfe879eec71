/* process.c - see process.h. */
#include "trust/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"

#define PROC_BYTES (64u << 10)

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
    struct proc_stat fields;
    unsigned levels = proc_status_numbers(status, "NSpid:", inner, 64);
    if (proc_status_numbers(status, "Uid:", uid, 4) != 4 ||
        proc_status_numbers(status, "PPid:", &parent, 1) != 1 || !proc_stat_parse(stat, &fields))
        return false;
    p->start_ticks = fields.start_ticks;
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
    int infos = proc_open(pid, "fdinfo"), fds = proc_open(pid, "fd");
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
    struct proc_maps maps;
    struct proc_mapping m;
    bool found = false;
    if (!proc_maps_open(&maps, pid))
        return !trust_process(pid, &p, &ignored);
    while (!found && proc_maps_next(&maps, &m))
        found = m.device == file->device && m.inode == file->inode;
    const bool refused = !found && (errno == EACCES || errno == EPERM);
    proc_maps_close(&maps);
    return found || refused;
}
