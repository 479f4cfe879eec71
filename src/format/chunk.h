/* chunk.h - the chunks of a raw (unsealed) recording.
 *
 * A raw recording is a sequence of chunks, appended by the recorder (one `write` each) and by
 * `mallow record`. A chunk stands alone: a reader that finds its magic at any offset, with a length
 * that fits and a checksum that holds, can read it. Bytes between sound chunks are damage; they are
 * skipped and counted. All numbers are little-endian. No libc calls here. */
#ifndef MALLOW_FORMAT_CHUNK_H
#define MALLOW_FORMAT_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#define MLW_CHUNK_MAGIC    0x31434c4du /* "MLC1" */
#define MLW_FORMAT_VERSION 2u          /* that is read */
/* That is written: rows have routes as of 2. */
#define MLW_FORMAT_PLAIN  1u
#define MLW_FORMAT_ROUTED 2u
#define MLW_CHUNK_MAX     (16u << 20)

enum mlw_chunk_type {
    MLW_CHUNK_FILE = 1,     /* first in a file: TLVs, see enum mlw_tlv */
    MLW_CHUNK_PROCESS = 2,  /* a program image begins: TLVs */
    MLW_CHUNK_EVENTS = 3,   /* rows of one stream */
    MLW_CHUNK_END = 4,      /* a program image ended: TLVs */
    MLW_CHUNK_RESIDENT = 5, /* struct mlw_resident[], oldest first, from /proc/PID/statm */
    MLW_CHUNK_SPLIT = 6,    /* TLVs: the resident size by kind of mapping at one moment */
    MLW_CHUNK_CLOCK = 7,    /* struct mlw_clock_pair[] */
    MLW_CHUNK_MARK = 8,     /* TLVs: a mark set from outside */
    MLW_CHUNK_SPACE = 9,    /* zeros: room for what must be written although the disk is full */
    MLW_CHUNK_KERNEL = 10,  /* struct mlw_kernel and its values, again and again; of all images:
                               lost_calls is how many were lost in the recording so far */
    MLW_CHUNK_CARRIED =
        11 /* a flight recorder's: the result of the rows that were released from the file. Records
              of one enum mlw_carried, which is `lane`; `sequence` counts the chunks of an image,
              `first_call` is the generation, base_clock where the rows that are left go on. Image
              0, last: the generation is whole */
};

enum mlw_carried {
    MLW_CARRIED_STREAMS = 1,
    MLW_CARRIED_THREADS = 2,
    MLW_CARRIED_NODES = 3,
    MLW_CARRIED_MODULES = 4,
    MLW_CARRIED_BLOCKS = 5,
    MLW_CARRIED_SUMS = 6
};

enum mlw_chunk_flags {
    MLW_CHUNK_CHANGING =
        0x8000, /* a buffer in use whose rows are just now put together anew; never in a file */
    MLW_CHUNK_INTERIM = 1,  /* a copy of a buffer still in use; void once a chunk of the same image,
                               stream and sequence without this flag is found */
    MLW_CHUNK_RECOVERED = 2 /* saved from the buffer of a process that had died */
};

/* 128 bytes, then payload_bytes of payload. Also the head of a live buffer in shared memory, where
 * payload_bytes grows with every row (released after the row is complete) and checksum is unset. */
struct mlw_chunk {
    uint32_t magic;
    uint16_t type;         /* enum mlw_chunk_type */
    uint16_t flags;        /* enum mlw_chunk_flags */
    uint32_t header_bytes; /* sizeof(struct mlw_chunk); payload starts there */
    uint32_t payload_bytes;
    uint64_t checksum; /* mlw_chunk_checksum: of the header (this field 0), then the payload */
    uint64_t image;    /* which program image (a process between two execs); unique in the file;
                          0 in chunks that are about the whole recording */
    uint32_t pid;
    uint32_t tid;        /* kernel's thread id */
    uint32_t thread;     /* number of the thread in its image, from 0; never reused */
    uint32_t lane;       /* 0 the thread itself, 1 signal handlers that interrupted the recorder */
    uint32_t sequence;   /* the sequence of this stream (image, thread, lane), from 0 */
    uint32_t calls;      /* call rows in this chunk */
    uint64_t first_call; /* call rows of this stream before this chunk: a gap is a loss */
    uint64_t lost_calls; /* calls of this stream not recorded, so far */
    uint64_t base_clock;
    uint64_t base_address; /* rotated right by 4, as in struct mlw_row_state */
    uint64_t pair_clock;   /* one reading of both clocks, for calibration; 0 when not taken */
    uint64_t pair_monotonic_ns;
    /* Nothing of a file: readers take no notice. For a buffer in a slot of the session: slot_state
     * is atomic (enum mlw_slot_state). thread_pointer is the fs base of the thread that fills it, 0
     * when not known. live_bytes is what the threads of this buffer have allocated (usable bytes)
     * less what they have released, modulo 2^64: over all buffers in use, what the process has
     * live, but for blocks of before the recording. */
    union {
        uint64_t reserved[3];
        struct {
            uint64_t slot_state, thread_pointer, live_bytes;
        };
    };
};

_Static_assert(sizeof(struct mlw_chunk) == 128, "the chunk header is 128 bytes");

/* TLV: u16 tag, u16 zero, u32 length, then length bytes, padded with zeros to a multiple of 8. */
enum mlw_tlv {
    MLW_TLV_VERSION = 1,      /* u32 format version */
    MLW_TLV_CLOCK_KIND = 2,   /* u32 enum mlw_clock_kind */
    MLW_TLV_START = 3,        /* u64 clock, u64 CLOCK_MONOTONIC ns, u64 CLOCK_REALTIME ns */
    MLW_TLV_HOST = 4,         /* text: uname sysname release machine, one space between */
    MLW_TLV_TOOL = 5,         /* text: the writer and its version */
    MLW_TLV_PPID = 6,         /* u32 */
    MLW_TLV_COMMAND = 7,      /* argv, each ended by NUL */
    MLW_TLV_EXE = 8,          /* path */
    MLW_TLV_ENVIRONMENT = 9,  /* only if asked: each ended by NUL */
    MLW_TLV_ALLOCATOR = 10,   /* text: "glibc 2.36", "jemalloc", ..., the path of the next malloc */
    MLW_TLV_STACKS = 11,      /* u32 enum mlw_stack_mode */
    MLW_TLV_SESSION = 12,     /* text: path of the shared buffers, for recovery without a parent */
    MLW_TLV_FORKED_FROM = 13, /* u64 image that this one was forked from (its live blocks, nodes and
                                 modules up to START carry over), absent after exec */
    MLW_TLV_PAGE_BYTES = 14,  /* u32 */
    MLW_TLV_END = 15,    /* u64 clock, u32 enum mlw_end_how, u32 status (as of waitpid, or 0) */
    MLW_TLV_LOST = 16,   /* u64 calls lost, u32 enum mlw_lost_reason, u32 zero */
    MLW_TLV_SPLIT = 17,  /* struct mlw_split */
    MLW_TLV_LABEL = 18,  /* text */
    MLW_TLV_OWN = 19,    /* u64 bytes of memory of the traced program that are the recorder's */
    MLW_TLV_NOTE = 20,   /* text for the user: something that limits this recording */
    MLW_TLV_NAMES = 21,  /* in PROCESS, of recordings made from foreign traces, which have no other
                            names:  functions at addresses. Records u64 pc, u32 line, u8 1: inlined
                            into the next record's (of the same  pc), text function, text file, each
                            ended by NUL and maybe empty; by pc */
    MLW_TLV_KERNEL = 22, /* in FILE: u32, a bit (1 << enum mlw_kernel_kind) for each kind of KERNEL
                            records that is asked for */
    MLW_TLV_LAST = 23,   /* in FILE, of a flight recorder: u64 ns, u64 bytes that are kept; 0: not
                              said */
    MLW_TLV_ATTACHED = 24, /* in PROCESS: it ran before its recording began. u64 blocks, u64 usable
                              bytes that were there then; UINT64_MAX: not known */
    MLW_TLV_LIMITS = 25,   /* in FILE: struct mlw_limits */
    MLW_TLV_TITLE = 26,    /* in END: COMMAND as it was last seen; programs write over it */
    MLW_TLV_COMM = 27,     /* in END: text, the name that the kernel has of it, as last seen */
    MLW_TLV_SETTINGS = 28  /* in PROCESS: those of allocators in its environment, each ended by NUL
                              (format/settings.h); nothing in it: there are none */
};

/* The bounds of the program's memory when its recording began, in bytes. 0: not known,
 * MLW_NO_LIMIT: nothing did. */
struct mlw_limits {
    uint64_t memory;  /* the memory of its control groups and those above them */
    uint64_t address; /* RLIMIT_AS */
    uint64_t data;    /* RLIMIT_DATA */
};
#define MLW_NO_LIMIT UINT64_MAX

enum mlw_clock_kind { MLW_CLOCK_TSC = 1, MLW_CLOCK_MONOTONIC_NS = 2 };
enum mlw_stack_mode { MLW_STACKS_FULL = 0, MLW_STACKS_CALLER = 1, MLW_STACKS_NONE = 2 };
enum mlw_end_how {
    MLW_END_UNKNOWN = 0, /* no word of its end: still running, or the recording stopped first */
    MLW_END_EXIT = 1,
    MLW_END_EXEC = 2,
    MLW_END_KILLED = 3 /* by a signal */
};

struct mlw_clock_pair {
    uint64_t clock, monotonic_ns;
};

struct mlw_resident { /* bytes */
    uint64_t clock;
    uint64_t vmsize, rss, rss_shared /* file and shmem pages */;
};

/* Resident bytes by kind of mapping, from /proc/PID/smaps. Their sum and `lazy` are the resident
 * size, and pages of the kernel's pool of huge pages besides. */
struct mlw_split {
    uint64_t clock;
    uint64_t heap;      /* [heap]: the program break */
    uint64_t arenas;    /* glibc's non-main heaps */
    uint64_t anonymous; /* other private anonymous mappings: mmapped blocks, other allocators' */
    uint64_t stacks;
    uint64_t files;  /* mappings of files: code and data; not what a private one of data has of its
                        own, which is `anonymous`; but .bss of the program */
    uint64_t shared; /* shared memory that is not a file */
    uint64_t recorder; /* the part that belongs to the recorder itself */
    uint64_t other;
    uint64_t swapped;      /* not resident; not part of the sum */
    uint64_t mapped;       /* the part of `files` in files that nothing is executed from */
    uint64_t huge;         /* private memory in huge pages */
    uint64_t lazy;         /* given back by MADV_FREE, and still there; in none of the kinds */
    uint64_t hugetlb;      /* HugetlbPages, which the kernel counts as resident nowhere */
    uint64_t forked;       /* private anonymous pages that other processes have as well, since a
                              fork: they are in the resident size of each */
    uint64_t proportional; /* the resident size with each shared page divided among the processes
                              that have it; 0: not known */
};
#define MLW_SPLIT_LEAST 80u /* bytes: earlier writers end before `mapped` */

/* Actions of the kernel, as `mallow record --with` received them; `values` u64 follow. */
struct mlw_kernel {
    uint64_t clock;
    uint32_t pid, tid;
    uint8_t kind;   /* enum mlw_kernel_kind; skip others */
    uint8_t what;   /* see there */
    uint8_t place;  /* FAULT: enum mlw_place */
    uint8_t values; /* at most MLW_KERNEL_VALUES */
    uint32_t zero;
};
_Static_assert(sizeof(struct mlw_kernel) == 24, "the head of a kernel record is 24 bytes");
#define MLW_KERNEL_VALUES 4u

enum mlw_kernel_kind {
    MLW_KERNEL_FAULT = 1,   /* a page fault; what: enum mlw_access, and MLW_FAULT_MAJOR; address */
    MLW_KERNEL_LEVEL = 2,   /* the resident bytes: files, anonymous, swapped out, shared */
    MLW_KERNEL_ARENA = 3,   /* glibc's allocator; what: number of its probe, see docs; arguments */
    MLW_KERNEL_SWAP = 4,    /* `what` is enum mlw_pages; values: pages, nanoseconds */
    MLW_KERNEL_RECLAIM = 5, /* the same */
    MLW_KERNEL_KINDS = 6
};
#define MLW_FAULT_MAJOR 128u
enum mlw_access {
    MLW_ACCESS_KERNEL = 0, /* the kernel touched it for the program */
    MLW_ACCESS_READ = 1,
    MLW_ACCESS_WRITE = 2,
    MLW_ACCESS_COPY = 3, /* written where it was shared or read-only: copied */
    MLW_ACCESS_CODE = 4,
    MLW_ACCESSES = 5
};
/* Where a fault was. The last two only sealing knows. */
enum mlw_place {
    MLW_PLACE_UNKNOWN = 0, /* the map of the process was being changed */
    MLW_PLACE_HEAP = 1,    /* the program break */
    MLW_PLACE_STACK = 2,   /* the first thread's stack */
    MLW_PLACE_FILE = 3,
    MLW_PLACE_ANONYMOUS = 4,
    MLW_PLACE_RECORDER = 5, /* memory that is the recorder's */
    MLW_PLACE_BLOCK = 6,    /* in a block, or in what the allocator keeps beside it */
    MLW_PLACE_MAPPED = 7,   /* in a mapping that the program itself made */
    MLW_PLACES = 8
};
enum mlw_pages {
    MLW_PAGES_IN = 0,        /* came back from swap */
    MLW_PAGES_OUT = 1,       /* went there */
    MLW_PAGES_RECLAIMED = 2, /* directly by the program, which waited */
    MLW_PAGES_GROUP = 3,     /* the same, at the limit of its control group */
    MLW_PAGES_WAIT = 4,      /* a major fault was waited for: 0 pages, and how long */
    MLW_PAGES_KILLED = 5,    /* for lack of memory */
    MLW_PAGES_WHATS = 6
};

/* Four independent lanes of multiply-and-rotate over 8-byte words (zero-padded at the end): about
 * 16 bytes a cycle, so that it costs nothing beside the write. Not cryptographic. */
static inline __attribute__((unused)) uint64_t mlw_checksum_part(uint64_t h, const void *data,
                                                                 size_t n)
{
    const uint8_t *p = (const uint8_t *)data;
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t l[4] = {h, h ^ k, h + k, ~h};
    while (n >= 32) {
        for (unsigned i = 0; i < 4; i++) {
            uint64_t w;
            __builtin_memcpy(&w, p + i * 8, 8);
            l[i] = (l[i] ^ w) * k;
            l[i] = l[i] << 29 | l[i] >> 35;
        }
        p += 32;
        n -= 32;
    }
    for (unsigned i = 0; n; i++) {
        uint64_t w = 0;
        size_t m = n < 8 ? n : 8;
        for (size_t b = 0; b < m; b++)
            w |= (uint64_t)p[b] << b * 8;
        l[i] = (l[i] ^ w ^ (uint64_t)m << 56) * k;
        l[i] = l[i] << 29 | l[i] >> 35;
        p += m;
        n -= m;
    }
    uint64_t r = l[0];
    for (unsigned i = 1; i < 4; i++) {
        r = (r ^ l[i]) * k;
        r ^= r >> 32;
    }
    return r;
}

/* The checksum of a chunk whose payload follows at `payload`. */
static inline __attribute__((unused)) uint64_t mlw_chunk_checksum(const struct mlw_chunk *c,
                                                                  const void *payload)
{
    struct mlw_chunk copy = *c;
    copy.checksum = 0;
    return mlw_checksum_part(mlw_checksum_part(0, &copy, sizeof copy), payload, c->payload_bytes);
}

#endif
