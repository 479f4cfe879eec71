/* raw.h - the index of a raw recording: which chunks there are, of which streams, and what the
 * chunks other than events say.
 *
 * Owns: finding chunks among damage, choosing among copies, the facts of the images. Refuses: to
 * decode rows (merge.h does). Memory: 32 bytes a chunk, and the facts. One thread. */
#ifndef MALLOW_TRACE_RAW_RAW_H
#define MALLOW_TRACE_RAW_RAW_H

#include "base/error.h"
#include "format/chunk.h"
#include "kernel.h"
#include "trace/bytes.h"
#include "trust/file.h"

/* An event chunk. In the final order: by image, thread, lane, sequence. */
struct raw_chunk {
    uint64_t offset; /* of the header; the top bit says: in the second file (recovered rows) */
    uint32_t stream; /* index into streams[] */
    uint32_t sequence;
    uint32_t payload_bytes;
    uint32_t calls;
    uint32_t interim; /* 1: a copy of a buffer still in use */
    uint32_t reserved;
};
#define RAW_SECOND_FILE ((uint64_t)1 << 63)

/* What one thread (or the signal handlers in it) wrote. */
struct raw_stream {
    uint32_t image; /* index into images[] */
    uint32_t thread, lane, tid;
    uint32_t thread_index;        /* dense number of the thread in its image */
    uint32_t first_chunk, chunks; /* range of the sorted chunks[] */
    uint64_t first_clock;         /* base clock of its first chunk */
    uint64_t lost_calls;          /* as the stream itself said, at most */
    uint64_t gap_calls;           /* rows that are missing between its chunks */
};

struct raw_mark {
    uint64_t clock;
    char *label;
};

struct raw_image {
    uint64_t id, forked_from; /* 0: none */
    uint32_t pid, ppid;
    uint32_t parent; /* index of the image forked from, or UINT32_MAX */
    bool described;  /* its PROCESS chunk was found */
    bool ended;
    bool alive;                       /* raw_note_living: it may still write */
    bool recovered;                   /* its session was read; no process uses it */
    struct trust_identity session_id; /* then */
    uint32_t end_how, end_status, stack_mode, page_bytes;
    uint64_t start_clock, start_monotonic_ns, start_realtime_ns, end_clock;
    uint64_t lost_reported; /* by the process itself or its parent, in END */
    uint64_t own_bytes;
    uint64_t first_clock, last_clock; /* seen anywhere; first UINT64_MAX when nothing was */
    const char *command, *environment, *exe, *allocator, *session;
    size_t command_bytes, environment_bytes; /* NUL-ended pieces */
    bool has_environment;
    const char **notes;
    size_t note_count, note_cap;
    struct bytes names; /* of MLW_TLV_NAMES, one behind the other */
    struct mlw_resident *residents;
    size_t resident_count, resident_cap;
    struct mlw_split *splits;
    size_t split_count, split_cap;
    struct raw_mark *marks;
    size_t mark_count, mark_cap;
    uint32_t first_stream, streams; /* range of the sorted streams[] */
    uint32_t threads;               /* dense */
};

struct raw {
    int fd, second_fd; /* second_fd: rows saved from a dead session, or -1 */
    uint64_t file_bytes, damaged_bytes;
    uint32_t clock_kind;
    bool has_file; /* the FILE chunk was found */
    uint64_t start_clock, start_monotonic_ns, start_realtime_ns;
    const char *host, *tool;
    struct mlw_clock_pair *pairs;
    size_t pair_count, pair_cap;
    struct raw_mark *marks; /* about the whole recording (image 0) */
    size_t mark_count, mark_cap;
    const char **notes;
    size_t note_count, note_cap;
    struct raw_image *images;
    size_t image_count, image_cap;
    struct kernel_events kernel;
    struct raw_stream *streams;
    size_t stream_count, stream_cap;
    struct raw_chunk *chunks;
    size_t chunk_count, chunk_cap;
    struct arena arena;
    struct pair_map image_map, stream_map;
};

/* Scanning takes about one part in so many of what sealing takes as well; that much of the progress
 * is its. */
#define RAW_SCAN_SHARE 10

/* Scans the file open at fd (kept, not closed by raw_close). Returns 0, or -1 with *err when the
 * file cannot be read, is no recording at all, or is of a later version. Damage is no error. */
int raw_open(struct raw *r, int fd, void (*progress)(void *, uint64_t, uint64_t), void *arg,
             struct error *err);
/* Adds the chunks of another file (recovered rows), before raw_finish. */
int raw_add(struct raw *r, int fd, struct error *err);
/* Sorts, chooses among copies, counts gaps. Call once, after raw_open and raw_add. */
int raw_finish(struct raw *r, struct error *err);
void raw_close(struct raw *r);

/* Whether fd starts like (or, when damaged at its start, somewhere contains) a raw recording:
 * 1 yes, 0 no, -1 error. */
int raw_probe(int fd, struct error *err);

/* Notes which images may still write to it: those without an end whose process lives here. */
void raw_note_living(struct raw *r);
/* Whether there are any. One whose session was read since was over all the same: its number is
 * another process's now. */
bool raw_is_live(const struct raw *r);

#endif
