/* proc.c - Opens and parses the files of /proc/PID. Parsers take lines as the kernel writes them
 * and refuse all others. A process whose first thread has ended is read through another of its
 * threads. */
#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PATH_BYTES = 128 };

static void proc_path(pid_t pid, const char *name, char path[PATH_BYTES])
{
    if (pid)
        snprintf(path, PATH_BYTES, "/proc/%d/%s", (int)pid, name);
    else
        snprintf(path, PATH_BYTES, "/proc/self/%s", name);
}

int proc_open(pid_t pid, const char *name)
{
    char path[PATH_BYTES];
    proc_path(pid, name, path);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* True if a thread still has memory: statm is zeros without. */
static bool has_memory(int thread)
{
    char text[32];
    int fd = openat(thread, "statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return strtoul(text, NULL, 10) != 0;
}

/* Opens the file of a thread that has memory; -1: there is none. */
static int open_of_another(int process, const char *name)
{
    int tasks = openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = -1;
    DIR *d = tasks < 0 ? NULL : fdopendir(tasks);
    for (struct dirent *e; d && found < 0 && (e = readdir(d));) {
        int thread = e->d_name[0] == '.' ? -1 : openat(tasks, e->d_name, O_PATH | O_CLOEXEC);
        if (thread >= 0 && has_memory(thread))
            found = openat(thread, name, O_RDONLY | O_CLOEXEC);
        if (thread >= 0)
            close(thread);
    }
    if (d)
        closedir(d);
    else if (tasks >= 0)
        close(tasks);
    return found;
}

int proc_open_memory(pid_t pid, const char *name)
{
    char path[PATH_BYTES];
    proc_path(pid, ".", path);
    int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        return -1;
    int fd = has_memory(process) ? -1 : open_of_another(process, name);
    if (fd < 0)
        fd = openat(process, name, O_RDONLY | O_CLOEXEC);
    int number = errno;
    close(process);
    errno = number;
    return fd;
}

FILE *proc_stream(pid_t pid, const char *name)
{
    char path[PATH_BYTES];
    proc_path(pid, name, path);
    return fopen(path, "re");
}

ssize_t proc_link(pid_t pid, const char *name, char *to, size_t room)
{
    char path[PATH_BYTES];
    proc_path(pid, name, path);
    ssize_t n = readlink(path, to, room - 1);
    to[n > 0 ? n : 0] = 0;
    return n;
}

ssize_t proc_read(pid_t pid, const char *name, char *to, size_t room)
{
    int fd = proc_open(pid, name), number = errno;
    size_t n = 0;
    ssize_t got = fd < 0 ? -1 : 0;
    to[0] = 0;
    while (fd >= 0 && n + 1 < room && (got = read(fd, to + n, room - 1 - n)) != 0) {
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            break;
    }
    if (fd >= 0) {
        number = errno;
        close(fd);
    }
    to[n] = 0;
    errno = number;
    return got < 0 && !n ? -1 : (ssize_t)n;
}

size_t proc_called(pid_t pid, char *arguments, size_t room, char *comm, size_t comm_room)
{
    const ssize_t n = proc_read(pid, "cmdline", arguments, room);
    if (n <= 0 || proc_read(pid, "comm", comm, comm_room) <= 0)
        return 0;
    comm[strcspn(comm, "\n")] = 0;
    return (size_t)n;
}

/* ---- maps ---- */

/* A hexadecimal number and the character behind it. */
static bool parse_hex(char **at, char behind, uint64_t *value)
{
    char *end = *at;
    if (**at == ' ' || **at == '-' || **at == '+')
        return false;
    *value = strtoull(*at, &end, 16);
    if (end == *at || *end != behind)
        return false;
    *at = end + 1;
    return true;
}

bool proc_mapping_parse(char *line, struct proc_mapping *m)
{
    uint64_t major, minor;
    char *at = line, *end;
    line[strcspn(line, "\n")] = 0;
    if (!parse_hex(&at, '-', &m->start) || !parse_hex(&at, ' ', &m->end) || strlen(at) < 5 ||
        at[4] != ' ')
        return false;
    memcpy(m->mode, at, 4);
    m->mode[4] = 0;
    at += 5;
    if (!parse_hex(&at, ' ', &m->offset) || !parse_hex(&at, ':', &major) ||
        !parse_hex(&at, ' ', &minor))
        return false;
    m->device = makedev((unsigned)major, (unsigned)minor);
    m->inode = strtoull(at, &end, 10);
    if (end == at || (*end && *end != ' '))
        return false;
    m->path = end + strspn(end, " ");
    return true;
}

bool proc_maps_open(struct proc_maps *maps, pid_t pid)
{
    int fd = proc_open_memory(pid, "maps");
    *maps = (struct proc_maps){.in = fd < 0 ? NULL : fdopen(fd, "r")};
    if (!maps->in && fd >= 0)
        close(fd);
    return maps->in != NULL;
}

bool proc_maps_next(struct proc_maps *maps, struct proc_mapping *m)
{
    do {
        errno = 0;
        if (getline(&maps->line, &maps->room, maps->in) <= 0)
            return false;
    } while (!proc_mapping_parse(maps->line, m));
    return true;
}

void proc_maps_close(struct proc_maps *maps)
{
    free(maps->line);
    if (maps->in)
        fclose(maps->in);
    *maps = (struct proc_maps){0};
}

/* ---- stat ---- */

bool proc_stat_parse(const char *text, struct proc_stat *s)
{
    enum { STATE = 3, PPID = 4, USER = 14, SYSTEM = 15, START = 22, EXIT_CODE = 52 };
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    char *end = NULL;
    *s = (struct proc_stat){0};
    if (!at || at[1] != ' ' || !at[2])
        return false;
    s->state = at[2];
    for (int field = STATE; (at = strchr(at + 1, ' ')); field++) {
        const char *value = at + 1;
        if (field == PPID)
            s->ppid = (pid_t)strtol(value, NULL, 10);
        else if (field == USER)
            s->user_ticks = strtoull(value, NULL, 10);
        else if (field == SYSTEM)
            s->system_ticks = strtoull(value, NULL, 10);
        else if (field == START)
            s->start_ticks = strtoull(value, &end, 10);
        else if (field == EXIT_CODE)
            s->exit_code = (int)strtol(value, NULL, 10);
    }
    return end != NULL;
}

bool proc_stat(pid_t pid, struct proc_stat *s)
{
    char text[2048];
    *s = (struct proc_stat){0};
    return proc_read(pid, "stat", text, sizeof text) > 0 && proc_stat_parse(text, s);
}

/* ---- status ---- */

const char *proc_status_field(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, length))
            return line + length + strspn(line + length, " \t");
    return NULL;
}

bool proc_status_is(const char *text, const char *name, const char *value)
{
    const char *at = proc_status_field(text, name);
    const size_t n = strlen(value);
    return at && !strncmp(at, value, n) && at[n] == '\n';
}

unsigned proc_status_numbers(const char *text, const char *name, unsigned long *out, unsigned room)
{
    unsigned n = 0;
    const char *at = proc_status_field(text, name);
    for (char *end; at && n < room && *at != '\n'; at = end) {
        out[n] = strtoul(at, &end, 10);
        if (end == at)
            break;
        n++;
    }
    return n;
}

bool proc_is_hidden(pid_t pid)
{
    char text[8]; /* its directory may be found, and nothing in it */
    return pid > 0 && proc_read(pid, "stat", text, sizeof text) < 0 && errno == ENOENT &&
           (!kill(pid, 0) || errno == EPERM);
}

bool proc_is_zombie(pid_t pid)
{
    char status[8192];
    unsigned long threads = 1;
    struct proc_stat stat;
    if (!proc_stat(pid, &stat) || (stat.state != 'Z' && stat.state != 'X'))
        return false;
    if (proc_read(pid, "status", status, sizeof status) > 0)
        proc_status_numbers(status, "Threads:", &threads, 1);
    return threads <= 1;
}

bool proc_fd_has_ended(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

bool proc_has_ended(pid_t pid) { return (kill(pid, 0) && errno == ESRCH) || proc_is_zombie(pid); }

/* ---- environ ---- */

bool proc_environ(pid_t pid, const char *name, char *value, size_t room)
{
    FILE *in = proc_stream(pid, "environ");
    char *entry = NULL;
    size_t capacity = 0;
    const size_t length = strlen(name);
    bool found = false;
    while (in && !found && getdelim(&entry, &capacity, 0, in) > 0)
        if (!strncmp(entry, name, length) && entry[length] == '=')
            found = (size_t)snprintf(value, room, "%s", entry + length + 1) < room;
    free(entry);
    if (in)
        fclose(in);
    return found;
}

uint64_t proc_proportional_bytes(pid_t pid)
{
    char text[4096];
    const int fd = proc_open_memory(pid, "smaps_rollup");
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *value = proc_status_field(text, "Pss:");
    return value ? strtoull(value, NULL, 10) * 1024 : 0;
}
