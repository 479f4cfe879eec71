/* process.c - Reads the credentials, start time, files and mappings of a process from /proc. It
 * holds the directory /proc/PID open while it reads, so that a reused process id cannot mix two
 * processes. */
#include "trust/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"

#define PROC_BYTES (64u << 10)

/* The file of the process that dir is of; to be freed. */
static char *read_proc_text(int dir, const char *name, struct error *err)
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
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_BOOTTIME, &boot); /* afterwards, so that it is never behind */
    uint64_t at = ticks * (second / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t suspended = ((uint64_t)boot.tv_sec * second + (uint64_t)boot.tv_nsec) -
                         ((uint64_t)mono.tv_sec * second + (uint64_t)mono.tv_nsec);
    return at > suspended ? at - suspended : 0;
}

static bool parse_process(struct trust_process *p, const char *status, const char *stat)
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
    p->levels = levels ? levels : 1;
    p->leader_ended = fields.state == 'Z' || fields.state == 'X';
    p->start_ns = monotonic_of(p->start_ticks);
    return true;
}

static int refuse_hidden(pid_t pid, struct error *err)
{
    error_set(err, ERROR_SYSTEM, PROC_HIDDEN, (int)pid);
    err->number = EACCES;
    return -1;
}

int trust_process(pid_t pid, struct trust_process *p, struct error *err)
{
    char path[64];
    *p = (struct trust_process){.pid = pid};
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    /* Its files are of this process, even if the number is reused later. */
    int dir = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0) {
        if (pid > 0 && errno != ENOENT)
            return error_system(err, "cannot look at process %d", (int)pid);
        if (proc_is_hidden(pid))
            return refuse_hidden(pid, err);
        error_set(err, ERROR_SYSTEM, "there is no process %d", (int)pid);
        err->number = ESRCH;
        return -1;
    }
    char *status = read_proc_text(dir, "status", err),
         *stat = status ? read_proc_text(dir, "stat", err) : NULL;
    bool sound = stat && parse_process(p, status, stat);
    bool seen = stat || err->number == ENOENT || err->number == ESRCH;
    free(status);
    free(stat);
    close(dir);
    if (sound)
        return 0;
    if (!seen)
        return error_prefix(err, "process %d", (int)pid);
    if (proc_is_hidden(pid))
        return refuse_hidden(pid, err);
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

bool trust_process_has_ended(const struct trust_process *p)
{
    struct trust_process now;
    struct error err;
    return trust_process(p->pid, &now, &err) ? err.number == ESRCH
                                             : now.start_ticks != p->start_ticks;
}

bool trust_process_is_of(const struct trust_process *p, uid_t owner)
{
    for (int i = 0; i < 4; i++)
        if (p->uid[i] == owner)
            return true;
    return false;
}

/* The value that all ids of a field have. */
static bool only_id(const char *status, const char *field, unsigned long *id)
{
    unsigned long all[4];
    if (proc_status_numbers(status, field, all, 4) != 4)
        return false;
    *id = all[0];
    return all[1] == *id && all[2] == *id && all[3] == *id;
}

bool trust_credentials_of(pid_t pid, pid_t tid, struct trust_credentials *c)
{
    char name[64], status[8192];
    unsigned long user, group;
    snprintf(name, sizeof name, "task/%d/status", (int)tid);
    if (proc_read(pid, name, status, sizeof status) <= 0)
        return false;
    const char *may = proc_status_field(status, "CapPrm:");
    if (!may || strtoull(may, NULL, 16) || !only_id(status, "Uid:", &user) ||
        !only_id(status, "Gid:", &group))
        return false;
    *c = (struct trust_credentials){(uid_t)user, (gid_t)group};
    return true;
}

/* True if the descriptor is open for writing. */
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

/* True if the process maps the file: from this offset on, or NULL, anywhere. */
static enum trust_maps look_at_maps(pid_t pid, const struct trust_identity *file,
                                    const uint64_t *offset)
{
    struct proc_maps maps;
    struct proc_mapping m;
    enum trust_maps found = TRUST_MAPS_NOTHING;
    if (!proc_maps_open(&maps, pid))
        return errno == ENOENT || errno == ESRCH ? TRUST_MAPS_NOTHING : TRUST_MAPS_UNKNOWN;
    while (found != TRUST_MAPS_FILE && proc_maps_next(&maps, &m))
        found =
            m.device == file->device && m.inode == file->inode && (!offset || *offset == m.offset)
                ? TRUST_MAPS_FILE
                : TRUST_MAPS_OTHERS;
    if (found == TRUST_MAPS_NOTHING && (errno == EACCES || errno == EPERM))
        found = TRUST_MAPS_UNKNOWN;
    proc_maps_close(&maps);
    return found;
}

enum trust_maps trust_process_maps_at(pid_t pid, const struct trust_identity *file, uint64_t offset)
{
    return look_at_maps(pid, file, &offset);
}

bool trust_process_maps(pid_t pid, const struct trust_identity *file)
{
    enum trust_maps found = look_at_maps(pid, file, NULL);
    return found == TRUST_MAPS_FILE || found == TRUST_MAPS_UNKNOWN;
}

bool trust_mapped_anywhere(const struct trust_identity *file)
{
    DIR *d = opendir("/proc");
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        struct trust_process who;
        struct error ignored;
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        enum trust_maps maps =
            pid > 0 && pid != getpid() ? look_at_maps(pid, file, NULL) : TRUST_MAPS_NOTHING;
        found = maps == TRUST_MAPS_FILE || (maps == TRUST_MAPS_UNKNOWN &&
                                            !trust_process(pid, &who, &ignored) && who.levels > 1);
    }
    if (d)
        closedir(d);
    return found;
}

unsigned trust_processes(bool (*each)(void *arg, const struct trust_process *p), void *arg)
{
    DIR *d = opendir("/proc");
    unsigned n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct trust_process who;
        struct error ignored;
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid <= 0 || trust_process(pid, &who, &ignored))
            continue;
        n++;
        if (!each(arg, &who))
            break;
    }
    if (d)
        closedir(d);
    return n;
}
