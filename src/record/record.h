/* record.h - `mallow record`: one program, run and recorded from beginning to end; or a process
 * that runs already, into which the library is put, until it ends or is left.
 *
 * Owns: the session, the file while it is raw, the program's start, and sealing at the end. The
 * program's exit status, its streams, signals, limits and environment (but for LD_PRELOAD and
 * MALLOW_*) are what they would be without it. Nothing here prints. Under a limit on the size of
 * files that leaves no room for the session, the program takes mallow's place, unrecorded. */
#ifndef MALLOW_RECORD_RECORD_H
#define MALLOW_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "format/session.h"
#include "probe/probe.h"
#include "record/flight.h"
#include "record/unseen.h"

enum record_fate {
    RECORD_SEALED,
    RECORD_RAW,    /* the file stays as it was written */
    RECORD_REMOVED /* the file is removed: another place has it */
};

/* Work beside the recording, such as an upload. record_run calls the functions in this order. */
struct record_beside {
    /* Called when the program runs. fd: the raw recording, which only grows. After -1 with *err
     * the recording goes on without this work. */
    int (*begin)(void *arg, int fd, const char *program, int pid, struct error *err);
    void (*look)(void *arg); /* called often; must not wait */
    /* Called when the recording is complete and has `bytes` bytes; may take time. Returns the
     * fate of the local file. */
    enum record_fate (*end)(void *arg, const char *path, uint64_t bytes);
    void *arg;
};

struct record_options {
    const char *output;   /* NULL: mallow.PROGRAM.PID.mlw here; %p stands for the process id */
    const char *library;  /* path of libmallow-record.so */
    char *const *argv;    /* PROGRAM and its arguments, NULL-terminated; NULL: */
    pid_t pid;            /* a process that runs, */
    const char *attached; /* which gets the library of this path, libmallow-attach-record.so, */
    uint64_t duration_ns; /* and is left after so long; 0: at its end, or the user's word */
    enum mlw_stack_mode stacks;
    bool routes; /* which way each call takes inside the allocator */
    bool paused, no_follow, environment, keep_raw;
    struct flight_window last;            /* all 0: everything is kept */
    struct pressure when;                 /* when a recording is to be written, beside the output */
    uint64_t sample_interval_ns;          /* 0: chosen by what the program does */
    const struct probe_kind *const *with; /* the kernel's events, beside the calls */
    size_t with_count;
    const char *program; /* for them: the file that argv[0] is, after scripts and PATH */
    /* Prints a message before or while the program runs: one line without its newline. wrong: it
     * is a warning. */
    void (*say)(void *arg, bool wrong, const char *line);
    /* Called often with the resident size of a recorded process. is_program: the process is
     * PROGRAM, or the one attached to. output: the path of the recording. It must not wait. May
     * be NULL. */
    void (*size)(void *arg, pid_t pid, bool is_program, uint64_t rss_bytes, const char *output);
    void *size_arg;
    /* Called while the file is sealed, if that takes long. May be NULL. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *arg;
    const struct record_beside *beside; /* NULL: none */
};

struct record_result {
    int exit_status; /* mallow's own exit status: the program's, 128+N, or 125, 126, 127 */
    bool ran;        /* the program was executed; if not, there is no file */
    int program_pid;
    char output[MLW_PATH_BYTES]; /* absolute */
    bool sealed, removed;
    struct error seal_error;    /* why the file was not sealed although it should have been */
    uint64_t calls, file_bytes; /* calls: 0 when not sealed */
    uint64_t lost_calls, lost_kernel_events;
    uint64_t lost_stacks; /* calls that are recorded without a stack */
    int unwritten_errno;  /* why something could not be written; 0: all was */
    uint32_t images, left_running, unrecorded;
    uint64_t away_ns;  /* attached: the longest time that the borrowed thread stood still */
    uint32_t not_left; /* attached: processes that could not be left as they were */
    /* How many programs that recorded processes became did not load the library. */
    uint32_t unjoined;
    char unjoined_names[4 * (MLW_EXEC_BYTES + UNSEEN_WHY_BYTES)]; /* the first of them, with
                                                                     reasons, separated by commas */
    /* Calls that were not seen, as notes of format/unseen.h. */
    struct unseen_notes unseen;
};

/* Runs PROGRAM, or attaches to the process. Returns 0 when it ran (see result for how the recording
 * fared), -1 with *err and result->exit_status when it did not. While it runs, SIGINT and its kind
 * are for PROGRAM alone and the limits of this process are lifted; after success both stay so,
 * after a failure the signals are as before. One thread, once in a process. */
int record_run(const struct record_options *options, struct record_result *result,
               struct error *err);

/* The absolute path of a recording: `output`, in which %p becomes the process id and %% a percent
 * sign; NULL: mallow.NAME.%p.mlw in the current directory. */
int record_output(const char *output, const char *name, int pid, char *out, size_t room,
                  struct error *err);
struct trust_place;
/* Creates an empty recording, with a shared lock that marks it as being written. Returns a
 * descriptor and sets *place, both of which the caller closes; path must outlive *place. Returns
 * -1 with *err. */
int record_open(const char *path, struct trust_place *place, struct error *err);
/* Removes the file again, if the entry is still the file that fd has open. */
void record_unmake(const struct trust_place *place, int fd);

#endif
