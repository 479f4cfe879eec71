/* attach.h - the request to libmallow-attach.so or libmallow-attach-record.so when it begins in a
 * process that runs already.
 *
 * The injector (src/inject) writes it on the borrowed thread's stack and calls the library with its
 * address; the library answers in `result`. */
#ifndef MALLOW_FORMAT_ATTACH_H
#define MALLOW_FORMAT_ATTACH_H

#include <stdint.h>

#define MLW_ATTACH_LIBRARY        "libmallow-attach.so"        /* samples: mallow watch */
#define MLW_ATTACH_RECORD_LIBRARY "libmallow-attach-record.so" /* records: mallow record */
#define MLW_ATTACH_VERSION        4u
/* Functions of the libraries, int64_t (struct mlw_attach *), which also set `result`. */
#define MLW_ATTACH_BEGIN "mallow_attach_begin"
#define MLW_ATTACH_END   "mallow_attach_end"

enum mlw_attach_result {
    MLW_ATTACH_NOT_RUN = 0,
    MLW_ATTACH_DONE = 1,
    MLW_ATTACH_ALREADY = 2, /* begin: it is at work; end: it is not */
    MLW_ATTACH_VERSION_DIFFERS = 3,
    MLW_ATTACH_NO_ALLOCATOR = 4, /* malloc, free, calloc or realloc is not glibc's, or not found */
    MLW_ATTACH_NO_MEMORY = 5,    /* for the tables */
    MLW_ATTACH_NO_SEGMENT = 6,   /* no memory to share with readers */
    MLW_ATTACH_NO_WRITE = 7,     /* bindings cannot be written to */
    MLW_ATTACH_NO_WIPE = 8,      /* MADV_WIPEONFORK is refused */
    MLW_ATTACH_CONFINED = 9,     /* a filter of system calls came meanwhile */
    MLW_ATTACH_BUSY = 10         /* a thread is in the middle of a call of an earlier round */
};

struct mlw_attach { /* 1,216 bytes */
    uint32_t version;
    uint32_t result;  /* enum mlw_attach_result; written by the library */
    uint64_t period;  /* the period of samples, bytes; 0: the default */
    uint32_t slots;   /* bindings that were changed, or changed back; written by the library */
    uint32_t measure; /* not 0: the library asks the allocator for `bytes` */
    uint32_t
        stay_ms;     /* when all is done, the thread stays so long to be put back by the injector */
    uint32_t busy;   /* end: threads are in the middle of a call, and what they use stays open: to
                        be asked again; written by the library */
    uint64_t token;  /* the token of the answer */
    uint32_t reader; /* who reads the samples, a process id */
    uint32_t reserved;
    uint64_t blocks, bytes; /* that are there at the beginning; UINT64_MAX: not known */
    char preload[1024];     /* the library for programs that the process starts; "": not followed */
    char session[128]; /* for libmallow-attach-record.so: the path of the recording's shared memory
                        */
};

/* The same answer in the library's own memory, MLW_ATTACH_ANSWER: it is still there when the thread
 * has gone on by itself. */
#define MLW_ATTACH_ANSWER "mallow_attach_answer"

enum mlw_attach_done {
    MLW_ATTACH_STAYS = 1,  /* the thread holds nothing, and stays */
    MLW_ATTACH_LEAVES = 2, /* no injector came for it: it goes on by itself */
    MLW_ATTACH_LOOKS = 3   /* it has a file open for a moment: it is not to be put back now */
};

struct mlw_attach_answer {
    uint64_t token; /* the token of the request; the other words are of an earlier one until then */
    uint32_t done;  /* enum mlw_attach_done */
    uint32_t result, slots, busy;
};

#endif
