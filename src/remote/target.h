/* target.h - the memory, mappings and threads of a process, or of a core file.
 *
 * Owns: where the bytes come from. Above this border a live process, the stopped child of an
 * injected fork and a core file are the same: sorted regions, threads with registers, reads that
 * may end early, and that make no page where the process has none. Everything in a target is
 * hostile: regions are sorted, do not overlap and do not wrap, however the source described them;
 * what they hold is believed by no caller unchecked. target_read may be called by several threads
 * at once; all else by one thread. */
#ifndef MALLOW_REMOTE_TARGET_H
#define MALLOW_REMOTE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/page.h"
#include "base/error.h"
#include "base/index.h"
#include "remote/handle.h"
#include "remote/resident.h"

enum {
    TARGET_PAGE_BYTES = ARCH_PAGE_BYTES,
    TARGET_REGIONS_MAX = 1 << 20,
    TARGET_THREADS_MAX = 1 << 16,
    TARGET_FILE_BYTES_MOST = 256 << 20,  /* read of files, where their pages are not in memory */
    TARGET_UNASKED_BYTES_MOST = 64 << 20 /* read where pages or files cannot be asked for */
};

#define TARGET_SHARED_BYTES_MOST ((uint64_t)4 << 30) /* read of shared memory */

enum target_region_flag {
    REGION_READ = 1,
    REGION_WRITE = 2,
    REGION_EXEC = 4,
    REGION_SHARED = 8,
    REGION_STACK = 16,   /* the first thread's stack */
    REGION_BREAK = 32,   /* the memory that brk made */
    REGION_SPECIAL = 64, /* the kernel's: vdso, vvar */
    REGION_HUGE = 128    /* private, of the kernel's pool of huge pages */
};

struct target_region {
    uint64_t start, end;    /* [start, end), not empty */
    uint64_t offset;        /* in the file */
    uint32_t flags;         /* enum target_region_flag */
    const char *file;       /* NULL: anonymous; belongs to the target */
    uint64_t device, inode; /* the file's in a live process; 0: not known */
};

struct target_registers { /* the fields of struct user_regs_struct that are needed */
    uint64_t ip, sp, bp, fs_base;
    uint64_t general[16]; /* the general registers, in any order */
};

struct target_thread {
    uint32_t tid;
    char name[32]; /* may be "" */
    struct target_registers registers;
};

enum target_source { TARGET_CORE, TARGET_STOPPED, TARGET_SNAPSHOT };

struct target;

struct target_ops {
    /* At most `bytes` from `address` on into `into`; how many were there. Any thread. */
    size_t (*read)(struct target *t, uint64_t address, void *into, size_t bytes);
    enum resident_state (*page)(struct target *t, uint64_t address); /* NULL: not known */
    /* As target_next; NULL: every byte may be there. */
    uint64_t (*next)(struct target *t, uint64_t at, uint64_t end);
    void (*close)(struct target *t);
};

struct target {
    const struct target_ops *ops;
    void *impl;
    enum target_source source;
    uint32_t pid;        /* 0: not known */
    uint32_t memory_pid; /* the live process whose memory is read; 0: none */
    uint64_t
        moment_ns; /* CLOCK_REALTIME when all threads stood; UINT64_MAX: a core's is not known */
    uint64_t stopped_ns;  /* how long the process could not run; set when it goes on */
    bool knows_pages;     /* target_page does */
    uint64_t own_bytes;   /* that a live process has in memory and swap, or a core's file as data;
                             UINT64_MAX: not known */
    _Atomic bool cut;     /* bytes of its files were left out: more than TARGET_FILE_BYTES_MOST */
    bool cut_regions;     /* there were more than TARGET_REGIONS_MAX */
    bool cut_threads;     /* the same of TARGET_THREADS_MAX */
    bool cut_modules;     /* the same of MODULES_MAX, or of MODULES_TRIED_MAX */
    _Atomic bool unasked; /* there was more to ask for than PRESENT_PAGES_MOST */
    _Atomic uint64_t unread;          /* bytes that target_read_past could not read */
    _Atomic uint64_t unread_at;       /* where some of them are */
    uint64_t unshared;                /* bytes of shared memory above TARGET_SHARED_BYTES_MOST */
    uint64_t elsewhere, elsewhere_at; /* see target_find_elsewhere */
    const char *refused; /* why there is no snapshot, when there could have been; static */
    struct target_region *regions;
    size_t region_count, region_room;
    struct target_thread *threads;
    size_t thread_count, thread_room;
    char **files; /* each path once */
    size_t file_count, file_room;
    struct index file_index;
    char *note;          /* a note for the user: a truncated core; NULL: none. Owned */
    bool cut_off;        /* a core whose end is missing */
    uint64_t lacking;    /* bytes of writable memory that a core leaves out */
    uint64_t lacking_at; /* where the first of them were */
    struct target_page {
        uint64_t page; /* address of the page + 1; 0: empty */
        uint32_t bytes;
        uint8_t data[TARGET_PAGE_BYTES];
    } * pages; /* private: of target_peek */
};

/* A process that runs on: it has a handle, and its mappings are read by target_map. NULL when out
 * of memory. */
struct target *target_look(pid_t pid);

/* Reads the mappings of a live process (anew). 0; or why they could not be read, as errno: EACCES
 * and EPERM: they are hidden from us; ESRCH: there are none. */
int target_map(struct target *t);

/* Its image: its memory is read and written by that. Not of a core. */
const struct handle *target_handle(const struct target *t);

/* Opens the very file that is mapped in a region of a live process; the caller closes it. -1 with
 * *err: ERROR_SYSTEM: the kernel does not give it; else it is no regular file. */
int target_open_mapped(const struct target *t, const struct target_region *r, struct error *err);

/* Stops every thread of the process. Returns NULL with *err set when that cannot be: then nothing
 * was changed, and the text says what to do. */
struct target *target_stop(uint32_t pid, struct error *err);

/* Lets the process go on, if it stands. Counts into stopped_ns. */
void target_let_go(struct target *t);

/* The same, and ends the copy of a snapshot: the memory cannot be read any more. */
void target_finish(struct target *t);

/* Takes a snapshot of the process that stands where that is safe: then it goes on, and the copy is
 * read. Otherwise `refused` says why and the process stands still. */
void target_snapshot(struct target *t);

/* True if the copy lacks more of the process's memory than could be kept, because the process asked
 * for that (MADV_DONTFORK): then the copy cannot be used. */
bool target_copy_lacks(struct target *t);

/* Finds memory of a live process that it has elsewhere: pages that are not there, of which another
 * program is asked when they are touched (userfaultfd). What they hold is not known. */
void target_find_elsewhere(struct target *t);

/* Opens a core file (x86-64, of the kernel or of gdb). fd is taken over. name: for messages. */
struct target *target_core(int fd, const char *name, struct error *err);

/* For a core: the mapped file of this path may be read where the core left its bytes out. fd is
 * taken over; -1: it may not. Of another target: nothing (and fd stays the caller's). */
void target_core_file(struct target *t, const char *path, int fd);

void target_close(struct target *t); /* NULL is fine */

/* How many bytes could be read, from the first on. */
size_t target_read(struct target *t, uint64_t address, void *into, size_t bytes);

/* The same, and goes on behind a page that cannot be read: such pages are zeros in `into`. They are
 * counted in `unread` where there is something that the process may have written there. How many
 * bytes there are up to the last page that could be read. */
size_t target_read_past(struct target *t, uint64_t address, void *into, size_t bytes);

/* The first address in [at, end) at which there may be something other than zeros and what files
 * hold, or end: what a process reserved and never used is passed at once. */
uint64_t target_next(struct target *t, uint64_t at, uint64_t end);

/* All of them, or false. */
bool target_get(struct target *t, uint64_t address, void *into, size_t bytes);

/* The word at an address; false when it is not there. Keeps some pages, which target_forget drops:
 * of a process that runs on they are old soon. One thread. */
bool target_peek(struct target *t, uint64_t address, uint64_t *word);
void target_forget(struct target *t);

/* True if the page of an address was there before anything was read. Where that is not known, it
 * was. Any thread. */
enum resident_state target_page(struct target *t, uint64_t address);
bool target_knows_pages(const struct target *t);

/* A text of printable characters at an address, at most room - 1 of them, ended by NUL; its
 * length, 0 when there is none. */
size_t target_text(struct target *t, uint64_t address, char *text, size_t room);

/* The number of a path in `files`, where it is kept once; TARGET_NO_FILE without memory. */
#define TARGET_NO_FILE UINT32_MAX
uint32_t target_file(struct target *t, const char *path);

/* The region that holds the address, or NULL. */
const struct target_region *target_region_at(const struct target *t, uint64_t address);

/* True if the program may have addresses of blocks there: memory of its own, also such that no
 * thread may write to at the moment, and memory that it shares and that is no file's. */
bool target_refers(const struct target_region *r);

/* For the sources: all of these return -1 when out of memory. A region that is empty, wraps or
 * lies beyond the user's addresses is left out. Its file's path is copied. */
int target_add_region(struct target *t, struct target_region r);
/* Sorts; cuts off what overlaps. */
void target_regions_done(struct target *t);
struct target_thread *target_add_thread(struct target *t, uint32_t tid);
/* Appends to the note; "; " between. */
void target_note(struct target *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An empty target. */
struct target *target_new(void);

#endif
