/* key.h - what the programs in the kernel and the tool agree on: the settings, the rows of sums,
 * the frames of stacks. Plain data; both sides include it. */
#ifndef MALLOW_BPF_KEY_H
#define MALLOW_BPF_KEY_H

#include <linux/types.h>

#include "arch/page.h"

/* The key of a row; parts that are not asked for are zero in every row. */
enum probe_by {
    PROBE_BY_PROCESS = 1,
    PROBE_BY_COMMAND = 2,
    PROBE_BY_THREAD = 4,
    PROBE_BY_STACK = 8,   /* the user's stack */
    PROBE_BY_KSTACK = 16, /* the kernel's stack */
    PROBE_BY_SIZE = 32,
    PROBE_BY_CACHE = 64,
    PROBE_BY_CALLER = 128, /* in the kernel */
    PROBE_BY_FUNCTION = 256,
    PROBE_BY_ADDRESS = 512,  /* the page */
    PROBE_BY_ACCESS = 1024,  /* read, written, copied on write */
    PROBE_BY_MAPPING = 2048, /* the file, the heap, a stack */
    PROBE_BY_CPU = 4096,
    PROBE_BY_USER = 8192,
    PROBE_BY_PARENT = 16384
};

enum { PROBE_COMMAND_BYTES = 16, PROBE_NAME_BYTES = 32, PROBE_VALUES = 6 };

struct probe_key {
    __u64 stack;  /* id of the user's stack; 0: none */
    __u64 kstack; /* id of the kernel's stack plus one; 0: none */
    __u64 site;   /* an address, which the kind explains */
    __u32 what;   /* the number of a function or an event, which the kind explains */
    __u32 pid, tid;
    __u32 size_class; /* 0: size 0; n: 2^(n-1) to 2^n - 1 */
    __u32 parent, uid, cpu, zero;
    char command[PROBE_COMMAND_BYTES];
    char name[PROBE_NAME_BYTES];
};

struct probe_value {
    union {
        struct {
            __u64 calls;
            __u64 bytes;
            __u64 more, extra, rest, last; /* the kind explains them */
        };
        __u64 at[PROBE_VALUES]; /* the same by number */
    };
};

/* A condition on events, as comparisons that lead forward to each other. Each names the comparison
 * that follows when it holds and when it does not: the number of a later one, PROBE_KEEPS or
 * PROBE_LEAVES_OUT. The first one begins. */
enum { PROBE_TERMS_MAX = 16, PROBE_KEEPS = 64, PROBE_LEAVES_OUT = 65 };

enum probe_field {
    PROBE_FIELD_PID,
    PROBE_FIELD_TID,
    PROBE_FIELD_PARENT,
    PROBE_FIELD_UID,
    PROBE_FIELD_CPU,
    PROBE_FIELD_COMMAND, /* text */
    PROBE_FIELD_WHO_END, /* those before are of the thread alone */
    PROBE_FIELD_ADDRESS = PROBE_FIELD_WHO_END,
    PROBE_FIELD_WHAT,
    PROBE_FIELD_NAME,  /* text */
    PROBE_FIELD_VALUE, /* and the PROBE_VALUES - 1 behind it: one of struct probe_value */
};

enum probe_compare { PROBE_EQUAL, PROBE_BELOW, PROBE_ABOVE };

struct probe_term {
    __u8 field;   /* enum probe_field */
    __u8 compare; /* enum probe_compare; of a text PROBE_EQUAL */
    __u8 yes, no; /* the comparison that follows */
    __u32 zero;
    __u64 value[PROBE_NAME_BYTES / 8]; /* a number is in the first */
    __u64 mask[PROBE_NAME_BYTES / 8];  /* the bytes of a text that are compared */
};

struct probe_where {
    __u32 count; /* 0: every event is kept */
    __u32 keys;  /* the parts of a key that it reads, as enum probe_by */
    __u32 early; /* it reads nothing but who the thread is */
    __u32 zero;
    struct probe_term term[PROBE_TERMS_MAX];
};

/* Settings, written before the programs are loaded. */
struct probe_config {
    __u32 by;        /* enum probe_by */
    __u32 filter;    /* 1: only processes in the map of targets */
    __u32 follow;    /* 1: children of targets become targets */
    __u32 own_pid;   /* never counted */
    __u32 cpus;      /* possible processors */
    __u32 max_depth; /* frames of a user stack */
    __u32 detail;    /* the kind explains it */
    __u32 live;      /* net of frees */
    __u32 pages;     /* known pages come before a look-up in the process's map */
    __u32 stream;    /* every event goes to the ring buffer, and nothing is added up */
    __u32 histogram; /* rows are apart by the class of this value, which is one more than its number
                      */
    __u32 zero;
    __u64 own_inode; /* the own inode of a file that the recorder maps into the process; 0: none */
    __u64 command[PROBE_COMMAND_BYTES / 8]; /* only processes of this name; 0: of any */
    struct probe_where where;
};

/* In the map of targets: a process that is looked at, or will be once it executes PROGRAM. */
enum probe_target { PROBE_TARGET_RUNS = 1, PROBE_TARGET_WAITS = 2 };

/* Losses, counted where they happened. */
enum probe_loss {
    PROBE_LOST_ROWS,    /* the table of sums was full */
    PROBE_LOST_STACKS,  /* no loss of events: the table was full, or there was no room to unwind */
    PROBE_LOST_EVENTS,  /* the ring buffer was full */
    PROBE_LOST_TARGETS, /* the table of processes was full */
    PROBE_LOST_BLOCKS,  /* the tables of live blocks were full */
    PROBE_LOST_WITHIN,  /* they came while the processor counted another one */
    PROBE_CUT_STACKS,   /* nor is this: the stack ends where no table was known */
    PROBE_LOSSES
};

/* A frame is the number of a file and the offset in it; file 0: a bare address, of 47 bits. */
enum { PROBE_DEPTH_MAX = 64, PROBE_FILE_SHIFT = ARCH_ADDRESS_BITS };

struct probe_stack {
    __u32 depth;
    __u32 pid;
    __u64 frame[PROBE_DEPTH_MAX]; /* innermost first */
};

/* A row of unwind tables, sorted by offset within a file's run of rows. */
enum probe_cfa {
    PROBE_CFA_NONE,     /* nothing is known: stop */
    PROBE_CFA_SP,       /* offset from the stack pointer */
    PROBE_CFA_BP,       /* offset from rbp */
    PROBE_CFA_PLT,      /* a stub of the procedure linkage table */
    PROBE_CFA_END,      /* the outermost frame: the stack is complete */
    PROBE_CFA_SIGNAL,   /* a signal handler's frame: registers are on the stack */
    PROBE_CFA_REALIGNED /* the word at rbp plus offset; rbp was saved at rbp */
};
struct probe_unwind_row {
    __u32 offset;     /* the offset of the first instruction, in the file */
    __s16 cfa_offset; /* in bytes */
    __u8 cfa;         /* enum probe_cfa */
    __s8 bp_offset;   /* where rbp was saved, from the CFA, in 8 bytes; 0: it was not */
};

/* So that few rows have to be searched: for each 512 bytes of a file the rows that may hold there,
 * the number of the first in the lower half, how many in the upper. */
enum { PROBE_BLOCK_SHIFT = 9 };

/* A file as the kernel knows it. */
struct probe_file_id {
    __u64 inode;
    __u32 device; /* the kernel's own encoding: major << 20 | minor */
    __u32 zero;
};
struct probe_file {
    __u32 number;      /* 1.. */
    __u32 first_block; /* in the array of blocks */
    __u32 blocks;      /* 0: no rows */
    __u32 zero;
};

/* The mapping at a page of a process's memory; end 0: the tool has been asked. */
struct probe_page {
    __u64 pid, page;
};
struct probe_place {
    __u64 start, end, shift;
    struct probe_file_id id;
};

/* Into the ring buffer when a file is met that has no tables yet. */
enum probe_event_type {
    PROBE_EVENT_FILE = 1,
    PROBE_EVENT_PAGE = 2,
    PROBE_EVENT_PAGES = 3, /* in a stream: struct probe_event_pages */
    PROBE_EVENT_KIND = 16
};
struct probe_event_file {
    __u32 type;
    __u32 pid;
    __u64 address;
    struct probe_file_id id;
};

/* Events of pages. */
enum probe_pages {
    PROBE_PAGES_IN,        /* from swap */
    PROBE_PAGES_OUT,       /* there */
    PROBE_PAGES_RECLAIMED, /* directly, by a thread that waited */
    PROBE_PAGES_GROUP,     /* the same, at the limit of a control group */
    PROBE_PAGES_WAIT,      /* a major fault */
    PROBE_PAGES_KILLED     /* for lack of memory */
};
struct probe_event_pages {
    __u32 type;
    __u32 what; /* enum probe_pages */
    __u32 pid, tid;
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u64 pages, ns;
};

#endif
