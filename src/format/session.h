/* session.h - the shared memory between `mallow record` (or a lone recorder) and the traced
 * programs.
 *
 * One file of shared memory (a memfd of `mallow record`, or /dev/shm/mallow-* made by a recorder
 * that was preloaded by hand) holds, in this order: struct mlw_session (one page), MLW_PROCESSES
 * entries of struct mlw_process, then windows of MLW_WINDOW_SLOTS buffers of MLW_SLOT_BYTES. A
 * buffer is a struct mlw_chunk with its rows behind it, so it leaves with one write. The file is
 * sparse: untouched parts cost nothing. It outlives the traced program: rows whose bytes are below
 * payload_bytes are recovered after kill -9.
 *
 * Writers: an entry of the process table belongs to its process, except `control`, which
 * controllers change, and the fields marked (parent). The parent gives an entry back (all zeros,
 * state FREE last) once its process is gone or a newer entry of the same pid is LIVE, never before:
 * an exec that fails may turn ENDED into LIVE again. It punches the windows of that entry out of
 * the file; their numbers are not used again. There are as many windows as the size of the file has
 * room for: a thread with a number beyond has no window. */
#ifndef MALLOW_FORMAT_SESSION_H
#define MALLOW_FORMAT_SESSION_H

#include <stdint.h>

#include "chunk.h"

#define MLW_SESSION_MAGIC 0x31534553574f4c4dull /* "MLOWSES1" */
/* The layout below. A library of one version and a command of another do not share a session. */
#define MLW_SESSION_VERSION 2u
#define MLW_PROCESSES       16384u /* program images at one time; ended ones are reused */
#define MLW_SLOT_BYTES      65536u
#define MLW_WINDOW_SLOTS    64u /* live threads before a second window is needed */
#define MLW_PROCESS_WINDOWS 64u
#define MLW_WINDOW_BYTES    (MLW_SLOT_BYTES * MLW_WINDOW_SLOTS)
#define MLW_PATH_BYTES      3072u
#define MLW_EXEC_BYTES      256u

/* Environment variables: /proc/PID/fd/N of the session (set by mallow record), and the file that is
 * written, absolute when set by mallow record. */
#define MLW_ENV_SESSION "MALLOW_SESSION"
#define MLW_ENV_OUTPUT  "MALLOW_OUTPUT"
/* The number of a descriptor of the session that an exec left open, where the path of
 * MLW_ENV_SESSION leads elsewhere: /proc of another pid namespace, or another user namespace. */
#define MLW_ENV_HANDED "MALLOW_SESSION_FD"

struct mlw_session {
    uint64_t magic;
    uint32_t version; /* MLW_SESSION_VERSION */
    uint32_t clock_kind;
    uint32_t parent_pid;      /* 0 when there is no `mallow record` */
    uint32_t stack_mode;      /* enum mlw_stack_mode */
    uint32_t initial_control; /* atomic, enum mlw_control_bits for new processes; controllers of
                                 the whole recording change it */
    uint32_t options;         /* enum mlw_session_options */
    uint32_t next_window;     /* atomic: first never-used window */
    uint32_t next_process; /* atomic: tickets given; entries at and after were never used, until it
                              has gone round MLW_PROCESSES */
    uint32_t unrecorded;   /* atomic: processes that could not join */
    uint32_t program_pid;  /* the process that `mallow record` started; 0 when there is none */
    char output[MLW_PATH_BYTES];          /* where chunks are appended; NUL-terminated */
    uint64_t output_device, output_inode; /* which file that is, as of fstat; 0: not opened yet */
    /* A flight recorder's, all atomic, by the parent. How many bytes of the file behind
     * `released_bytes` there may be before the processes keep calls back; 0: no bound. How large
     * the file is, for those that cannot ask. */
    uint64_t bound_bytes, released_bytes, file_bytes;
};
_Static_assert(sizeof(struct mlw_session) <= 4096, "one page");

/* The actions of a process whose buffer is full, by how much of the bound is used: in this order.
 */
enum mlw_room {
    MLW_ROOM_FREE = 0,
    MLW_ROOM_TIGHT = 1, /* it leaves out blocks that came and went within the buffer */
    MLW_ROOM_SHUT = 2,  /* also every other call that the buffer has no room for */
    MLW_ROOM_NONE = 3   /* nothing at all is written */
};
static inline __attribute__((unused)) enum mlw_room mlw_room_of(uint64_t bound, uint64_t file_bytes,
                                                                uint64_t released_bytes)
{
    const uint64_t held = file_bytes > released_bytes ? file_bytes - released_bytes : 0;
    return !bound || held < bound / 8 * 7 ? MLW_ROOM_FREE
           : held < bound / 16 * 15       ? MLW_ROOM_TIGHT
           : held < bound                 ? MLW_ROOM_SHUT
                                          : MLW_ROOM_NONE;
}

enum mlw_session_options {
    MLW_OPT_ENVIRONMENT = 1, /* store the environment */
    MLW_OPT_NO_FOLLOW = 2,   /* do not record children */
    MLW_OPT_ROUTES = 4       /* rows have routes, see route.h */
};

/* The format's version of what processes with these options write. */
static inline __attribute__((unused)) uint32_t mlw_session_format(uint32_t options)
{
    return options & MLW_OPT_ROUTES ? MLW_FORMAT_ROUTED : MLW_FORMAT_PLAIN;
}

/* mlw_process.control: recording is on when STARTED is set and PAUSED is not. The upper 24 bits are
 * an epoch: after it was raised, each thread rereads the settings at its next call. */
enum mlw_control_bits {
    MLW_CTL_STARTED = 1,
    MLW_CTL_PAUSED = 2,
    MLW_CTL_ACTIVE = 4, /* = STARTED and not PAUSED, kept by the writer of those */
    MLW_CTL_DEAD = 8,   /* recording failed for good in this process */
    MLW_CTL_RESET = 16, /* the next thread that looks up writes a RESET row and clears this */
    MLW_CTL_EPOCH = 256
};

enum mlw_process_state { MLW_PROC_FREE = 0, MLW_PROC_STARTING = 1, MLW_PROC_LIVE = 2 };

struct mlw_part { /* a part of memory */
    uint64_t start, end;
};
#define MLW_PARTS 62u

struct mlw_process {  /* 2048 bytes */
    uint32_t state;   /* atomic, enum mlw_process_state */
    uint32_t control; /* atomic, enum mlw_control_bits | epoch */
    uint32_t
        pid; /* its own id: in a pid namespace of its own it differs from the one that others see */
    uint32_t end_how; /* enum mlw_end_how */
    uint64_t image;
    uint64_t forked_from;
    uint64_t start_clock;
    uint64_t lost_sink, lost_buffer, lost_nested; /* atomic counts of calls */
    uint64_t lost_bound; /* the same: kept back, so that the file stays within bound_bytes */
    uint64_t before;     /* attached: bytes of its allocator that were in use then, or UINT64_MAX */
    uint64_t private_bytes;    /* the recorder's own private memory, in use (for the split) */
    uint32_t windows;          /* atomic: how many of window[] are valid */
    uint32_t threads;          /* atomic: next thread number */
    uint32_t stacks_truncated; /* atomic */
    uint32_t drain; /* atomic: the process cannot write any more; the parent must empty its slots */
    uint64_t heap_bytes; /* glibc: of the heaps of arenas but the main one; 0: not known */
    uint32_t end_status; /* exit status, when the process said it itself */
    uint32_t
        unwritten;  /* chunks of this process that could not be written: errno of the last one */
    uint32_t slots; /* atomic: buffers at and after were never used; see slots' live bytes */
    uint32_t marks; /* atomic: calls of mallow_mark so far */
    uint64_t
        pid_namespace; /* in which pid is its number: what /proc/self/ns/pid says; 0: unknown */
    uint32_t unseen;   /* atomic: 1 << enum mlw_unseen */
    char unseen_module[172];   /* for MLW_UNSEEN_NAMESPACE the module loaded first; cut */
    char unseen_allocator[64]; /* the allocator of the others */
    uint32_t window[MLW_PROCESS_WINDOWS]; /* numbers of windows; slot s is in window[s / 64] */
    char exec_path[MLW_EXEC_BYTES]; /* with end_how MLW_END_EXEC: of what, as it was given; cut */
    uint32_t unjoined; /* atomic: programs that a child in the same memory ran, and that do not load
                          the library */
    char unjoined_path[124]; /* the path of the first; cut */
    uint32_t undescribed;    /* it could not write its PROCESS chunk; set before LIVE */
    uint32_t attached;       /* it ran before */
    /* glibc: memory of the main arena that brk did not make; all atomic, and never less. `parts`
     * may be larger than there is room for: then there is more that is not known. */
    uint32_t parts, zero[7];
    struct mlw_part part[MLW_PARTS];
};

/* mlw_chunk.slot_state. The parent recognizes thread stacks by mlw_chunk.thread_pointer. */
enum mlw_slot_state {
    MLW_SLOT_FREE = 0,
    MLW_SLOT_USED = 1,   /* a thread writes into it (or died while it did) */
    MLW_SLOT_FULL = 2,   /* handed over: the parent writes it out and sets FREE */
    MLW_SLOT_COPIED = 3, /* as USED, and its rows may be in the file: set before they are copied */
    MLW_SLOT_LEAVING = 4 /* its thread writes it into the file as it stands, see write_confined */
};

_Static_assert(sizeof(struct mlw_process) == 2048, "entries do not straddle pages");

/* Offsets in the file of shared memory. */
static inline __attribute__((unused)) uint64_t mlw_process_offset(uint32_t index)
{
    return 4096 + (uint64_t)index * sizeof(struct mlw_process);
}
static inline __attribute__((unused)) uint64_t mlw_window_offset(uint32_t window)
{
    uint64_t base = 4096 + (uint64_t)MLW_PROCESSES * sizeof(struct mlw_process);
    return ((base + 65535) & ~(uint64_t)65535) + (uint64_t)window * MLW_WINDOW_BYTES;
}

#endif
