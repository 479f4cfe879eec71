/* image.h - one recorded program image (a process between two execs), watched from outside.
 *
 * Owns: its samples of the resident size, its buffers, and its END chunk.
 * Everything that it writes goes to the recording's sink; what fails there is counted and never
 * stops the watching. One thread. */
#ifndef MALLOW_RECORD_IMAGE_H
#define MALLOW_RECORD_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cmdline.h"
#include "record/find.h"
#include "record/places.h"
#include "record/programs.h"
#include "record/shm.h"
#include "record/sink.h"
#include "record/slots.h"
#include "record/smaps.h"
#include "record/split.h"
#include "record/unseen.h"

#define IMAGE_SAMPLES     256u
#define IMAGE_TITLE_BYTES 1024u

struct kernel_source;
struct flight;

/* The state that all images of a recording share. */
struct recording {
    struct shm shm;
    struct finder finder;
    struct sink sink;
    enum mlw_clock_kind clock_kind;
    uint64_t started_ns;         /* CLOCK_MONOTONIC */
    struct mlw_clock_pair began; /* both clocks, as the file begins with them */
    uint64_t sample_interval_ns; /* 0: chosen by what the process does */
    uint64_t page_bytes;
    uint64_t split_spent_ns; /* by reading smaps, of all images; CPU time */
    uint64_t split_bytes;    /* bytes of text that all images read */
    struct smaps_buffer smaps;
    struct places places;         /* the places of the latest split */
    struct flight *flight;        /* NULL: everything is kept */
    struct kernel_source *kernel; /* NULL: no events of the kernel are recorded */
    uint32_t images_ended;
    struct unjoined {
        uint32_t programs; /* programs that recorded processes became and that did not join */
        char name[4][MLW_EXEC_BYTES];  /* the first of them, each once; NUL-terminated */
        char why[4][UNSEEN_WHY_BYTES]; /* the reason of each; "": not known */
        uint32_t names;
    } unjoined;
    struct programs *programs;  /* holds the programs' files; NULL: none are held */
    const char *library;        /* the path of the library that programs are to load */
    struct unseen_files files;  /* that were looked into */
    struct unseen_notes unseen; /* calls that were not seen in images that ended */
    uint64_t lost_calls;        /* calls that images which ended lost */
    int unwritten_errno;        /* the last reason for which a process could not write; 0: none */
};

struct image {
    uint32_t index; /* the index of its entry in the table */
    struct mlw_process *entry;
    pid_t pid;   /* the pid of the process here; 0: it was never seen */
    pid_t inner; /* the process's id in its own pid namespace */
    uint64_t id;
    uint64_t start_clock;
    int pidfd;     /* readable once the process is gone; -1: gone already, or no descriptors left */
    int statm;     /* /proc/PID/statm, -1: not readable */
    bool gone;     /* the process has ended */
    bool replaced; /* by the next image of the same process */
    bool followed; /* the same, but the process has ended meanwhile */
    uint64_t exec_seen_ns; /* when it was first seen to have ended by an exec; 0: not so */
    uint64_t exec_cpu_ns;  /* processor time of the process until then */
    struct slots slots;
    uint64_t lost_calls; /* in buffers that could not be written out for it */

    struct mlw_resident pending[IMAGE_SAMPLES];
    unsigned pending_n;
    uint64_t pending_since_ns;
    struct mlw_resident last; /* the latest sample, whether kept or not; rss 0: none */
    bool last_kept;
    uint64_t first_seen_ns, next_sample_ns, interval_ns;
    uint64_t next_look_ns; /* without a pidfd */

    uint64_t live_moved_from; /* live bytes when they were last seen to have changed */
    uint32_t live_skipped;    /* samples since they were looked at */
    struct split_state split;
    struct unseen_process unseen;
    uint64_t called_ns; /* the last look at comm and title */
    char comm[CMDLINE_COMM_BYTES];
    char title[IMAGE_TITLE_BYTES]; /* its arguments as last seen, each with its NUL; cut */
    size_t title_bytes;
    char why[UNSEEN_WHY_BYTES]; /* why the program that it became did not load the library; "": not
                                   so, or not known */
    unsigned why_looks;
};

/* Makes the image that the entry of this index describes. NULL without memory. */
struct image *image_adopt(struct recording *r, uint32_t index, uint64_t now_ns);

/* Descriptors that a look at a process takes for a moment, and more to spare. */
enum { IMAGE_LOOK_FILES = 5 };

/* True: the process is known to have ended. */
bool image_has_ended(struct recording *r, const struct image *m, uint64_t now_ns);

/* Looks again for the process of an image without a pidfd, and notes whether it still runs. */
void image_look(struct recording *r, struct image *m, uint64_t now_ns);

/* True if both are images of one process. */
bool image_is_of_same(const struct image *a, const struct image *b);

/* Takes a sample of the resident size if one is due, and a split if split.h decides so. */
void image_sample(struct recording *r, struct image *m, uint64_t now_ns);

/* Returns the head of a chunk of this type about the image, with the present clock. */
struct mlw_chunk image_head(const struct recording *r, const struct image *m, uint16_t type);

/* Looks for the reason why the next program has not joined after an exec; call it in rounds. */
void image_ask_why(struct recording *r, struct image *m, uint64_t now_ns);

/* Writes out the buffers that the process handed over. Returns how many. */
unsigned image_drain(struct recording *r, struct image *m);

/* Appends the samples that were not written yet. */
void image_flush(struct recording *r, struct image *m);

/* Appends the rest of an image and then END, when the image has ended or (still_running) the
 * recording ends. It gives the entry back unless the process still runs, and frees the image.
 * wait_status: as waitpid gives it; -1: not known. */
void image_end(struct recording *r, struct image *m, int wait_status, bool still_running);

/* Releases an image that another process watches: nothing is written, the entry stays. */
void image_drop(struct recording *r, struct image *m);

/* How the process of a pidfd ended, as of waitpid; -1 when it is no longer known. */
int image_wait_status(int pidfd, pid_t pid);

#endif
