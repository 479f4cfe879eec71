/* proc.h - the files of /proc/PID, opened and parsed in one place.
 *
 * Owns: the names and the text formats of maps, stat, status and environ. Refuses: to decide which
 * process to trust (trust/process.h checks owners and start times). What a process chooses itself
 * (its name, its paths, its environment) is returned as it stands: it goes to a terminal through
 * text.h.
 *
 * A pid of 0 is the caller's own process. Descriptors are closed on exec. Tools only; any thread,
 * and no state but that of the objects below. */
#ifndef MALLOW_BASE_PROC_H
#define MALLOW_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- opening ---- */

/* /proc/PID/NAME for reading; NAME is the kernel's ("maps", "task/12/comm"). -1 with errno. */
int proc_open(pid_t pid, const char *name);
/* The same of a file about the memory of the process ("maps", "smaps", "statm"), which is empty for
 * a first thread that has ended: then it is that of a thread that goes on. */
int proc_open_memory(pid_t pid, const char *name);
FILE *proc_stream(pid_t pid, const char *name);
/* The target of the link /proc/PID/NAME, NUL-terminated and cut at `room` bytes; its length, or -1
 * with errno and an empty text. */
ssize_t proc_link(pid_t pid, const char *name, char *to, size_t room);
/* The first room - 1 bytes of a file, with a NUL behind them; how many, or -1 with errno and an
 * empty text. */
ssize_t proc_read(pid_t pid, const char *name, char *to, size_t room);

/* The arguments of the process as they stand now, each with its NUL, cut at room - 1 bytes, and the
 * kernel's name of it, without a line end; how many bytes of arguments. 0, and neither: it has
 * ended, or has none. */
size_t proc_called(pid_t pid, char *arguments, size_t room, char *comm, size_t comm_room);

/* ---- /proc/PID/maps ---- */

/* Memory of the kernel's pool of huge pages that is of no file has this name. */
#define PROC_HUGE_PAGES "/anon_hugepage"

struct proc_mapping {
    uint64_t start, end, offset; /* [start, end); offset of start in the file */
    uint64_t device, inode;      /* device as st_dev; both 0 for memory without a file */
    char mode[5];                /* "r-xp" */
    char *path;                  /* "", "[heap]" or a path; valid until the next call */
};

/* Parses one line; removes its line end, and m->path points into it. False: malformed. */
bool proc_mapping_parse(char *line, struct proc_mapping *m);

struct proc_maps {
    FILE *in;
    char *line;
    size_t room;
};

/* False with errno. */
bool proc_maps_open(struct proc_maps *maps, pid_t pid);
/* The next mapping, in order of addresses. False at the end; errno is then 0, or why the kernel
 * refused to read on (it checks rights at the first read, not when the file is opened). */
bool proc_maps_next(struct proc_maps *maps, struct proc_mapping *m);
void proc_maps_close(struct proc_maps *maps);

/* ---- /proc/PID/stat ---- */

struct proc_stat {
    char state; /* 'R', 'S', 'D', 'Z', ... */
    pid_t ppid; /* 0: its parent is not visible from here */
    uint64_t user_ticks, system_ticks;
    uint64_t start_ticks; /* since boot, in clock ticks */
    int exit_code;        /* a wait status; 0, too, when the caller may not know it */
};

/* False: malformed. */
bool proc_stat_parse(const char *text, struct proc_stat *s);
/* False: no such process, or malformed. */
bool proc_stat(pid_t pid, struct proc_stat *s);

/* ---- /proc/PID/status ---- */

/* The value of the field `name` ("TracerPid:") in the text of a status file, without the blanks
 * before it; it ends at the end of its line. NULL: there is none. */
const char *proc_status_field(const char *text, const char *name);
/* True if that is the whole value. */
bool proc_status_is(const char *text, const char *name, const char *value);
/* The decimal numbers of a field; returns how many there were, at most `room`. */
unsigned proc_status_numbers(const char *text, const char *name, unsigned long *out, unsigned room);
/* True if the process has ended and was not waited for: its first thread has, and there is no
 * other. */
bool proc_is_zombie(pid_t pid);
/* There is such a process, and /proc does not show it: it is mounted with the option hidepid, and
 * the process is another user's. To be asked where it was not found. */
bool proc_is_hidden(pid_t pid);
/* For a message, with the process id. */
#define PROC_HIDDEN                                                                                \
    "process %d is there, and /proc hides it (it is mounted with hidepid): be root, or in the "    \
    "group that its option gid names"
/* It is one, or there is no such process. */
bool proc_has_ended(pid_t pid);
/* The same of the process of a pidfd. */
bool proc_fd_has_ended(int fd);

/* ---- /proc/PID/smaps_rollup ---- */

/* The resident size with each shared page divided among the processes that have it mapped. 0: not
 * known. Takes the kernel some milliseconds for each GB. */
uint64_t proc_proportional_bytes(pid_t pid);

/* ---- /proc/PID/environ ---- */

/* Copies the value of the variable; false when there is none, or it does not fit. */
bool proc_environ(pid_t pid, const char *name, char *value, size_t room);

#endif
