/* index.h - the parts of an indexed raw recording, for raw.h and those that work for it.
 *
 * Owns: the records of chunks, streams and images. One thread. */
#ifndef MALLOW_TRACE_RAW_INDEX_H
#define MALLOW_TRACE_RAW_INDEX_H

#include "base/error.h"
#include "format/chunk.h"
#include "kernel.h"
#include "trace/bytes.h"
#include "trust/file.h"

struct carried_chunk {
    uint64_t offset; /* the offset of its header */
    uint64_t image_id, generation, clock;
    uint32_t kind; /* enum mlw_carried */
    uint32_t part, payload_bytes;
};

/* A chunk of any type, in the order of the file. */
struct carried_piece {
    uint64_t offset, image_id;
    uint64_t clock; /* for EVENTS the clock when it was written (0: unknown); for others the clock
                       of its last record */
    uint32_t type;
    uint32_t stream, sequence, payload_bytes; /* for EVENTS; stream as in raw.met[] */
};

struct carried {
    bool on;                      /* the file is a flight recorder's */
    uint64_t last_ns, last_bytes; /* its window; 0: not said */
    uint64_t generation;          /* the last that is whole; 0: none */
    uint64_t clock;               /* the clock of that one */
    struct carried_chunk *chunks; /* after carried_choose: those that count, by image and part */
    size_t count, cap;
    struct carried_piece *pieces; /* only when `on` */
    size_t piece_count, piece_cap;
};

/* A chunk of events. */
struct raw_chunk {
    uint64_t offset; /* the offset of the header; the top bit says: in the second file (recovered
                        rows) */
    uint64_t first_call, base_clock;
    uint32_t sequence;
    uint32_t payload_bytes;
    uint32_t calls;
    uint32_t interim; /* 1: a copy of a buffer still in use */
};
#define RAW_SECOND_FILE ((uint64_t)1 << 63)

/* The rows that one thread, or the signal handlers in it, wrote. Pointers to it stay valid. */
struct raw_stream {
    uint32_t image; /* index into images[] */
    uint32_t thread, lane, tid;
    uint32_t index;          /* into the sorted streams[] */
    uint32_t thread_index;   /* dense number of the thread in its image */
    struct raw_chunk *chunk; /* [held] after raw_finish by sequence, one of each; before, those
                                that are no copies stand in front, in the order of the file */
    uint32_t chunks; /* chunks that may be read: all after raw_finish; while the file grows, those
                        that follow one another without a gap */
    uint32_t held, chunk_room;
    struct raw_chunk *copy; /* [copies] interim ones, while the recording grows */
    uint32_t copies, copy_room;
    uint64_t ready_calls; /* in chunks[]; while it grows */
    bool hidden;          /* while the file grows: a thread with a lower number may still appear */
    bool merging;         /* for merge.c: it knows of this stream */
    uint64_t first_clock; /* base clock of its first chunk */
    uint64_t lost_calls;  /* the most that the stream itself reported */
    uint64_t gap_calls;   /* rows that are missing between its chunks */
    /* For a flight recorder: rows up to this position were released, or count as released. */
    bool skips;
    uint32_t skip_sequence, skip_bytes; /* a chunk, and how much of its payload */
    uint64_t skip_calls;
    uint32_t whole;  /* all chunks before this sequence were seen, and not as copies */
    uint32_t pieces; /* chunks of it in the file */
};

#define RAW_EARLY_NS 200000000u

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
    bool attached;                        /* MLW_TLV_ATTACHED */
    uint64_t before_blocks, before_bytes; /* its sums before the window; UINT64_MAX: not known */
    uint64_t lost_reported;               /* by the process itself or its parent, in END */
    uint64_t own_bytes;
    uint64_t first_clock, last_clock; /* over all records; first_clock UINT64_MAX: there is none */
    const char *command, *environment, *exe, *allocator, *session;
    size_t command_bytes, environment_bytes; /* NUL-ended pieces */
    const char *title, *comm;                /* as they were at the end; NULL: not known */
    size_t title_bytes;                      /* NUL-ended pieces */
    bool has_environment, has_settings;      /* settings: at least these are in environment */
    const char **notes;
    size_t note_count, note_cap, early_notes; /* early: known when its PROCESS chunk was read */
    struct bytes names;                       /* the names of MLW_TLV_NAMES, one behind the other */
    struct mlw_resident *residents;
    size_t resident_count, resident_cap;
    struct mlw_split *splits;
    size_t split_count, split_cap;
    struct raw_mark *marks;
    size_t mark_count, mark_cap;
    uint32_t first_stream, streams;  /* range of the sorted streams[] */
    uint32_t threads;                /* dense */
    uint64_t process_offset;         /* where its last PROCESS chunk begins; 0: none was found */
    uint32_t first_carried, carried; /* range of raw.carried.chunks[] */
    uint64_t carried_clock;          /* its rows before are released */
    uint64_t end_offset,
        last_offset; /* where its last END begins, and its last chunk but CARRIED */
    bool folded;     /* by this reader: newer CARRIED chunks are in the file */
};

struct raw {
    int fd, second_fd; /* second_fd: rows saved from a dead session, or -1 */
    uint64_t file_bytes, damaged_bytes;
    bool growing; /* see raw_grow */
    bool odd; /* if growing: the file has something that sealing while it grows does not support */
    uint64_t ready_calls; /* if growing: call rows that may be read */
    uint32_t clock_kind;
    bool has_file; /* the FILE chunk was found */
    bool routed;   /* rows may have routes: FILE or a PROCESS says that version */
    uint64_t start_clock, start_monotonic_ns, start_realtime_ns;
    const char *host, *tool;
    struct mlw_limits limits;
    const struct trace_namer *namer; /* the namer of the caller that seals; NULL: none */
    struct mlw_clock_pair *pairs;
    size_t pair_count, pair_cap;
    struct mlw_clock_pair early_pair; /* the first of a CLOCK chunk that is RAW_EARLY_NS after the
                                         start; clock 0: there is none */
    struct raw_mark *marks;           /* about the whole recording (image 0) */
    size_t mark_count, mark_cap;
    const char **notes;
    size_t note_count, note_cap;
    struct raw_image *images;
    size_t image_count, image_cap;
    struct kernel_events kernel;
    struct carried carried;
    struct raw_stream **met;     /* [stream_count] in the order of the file */
    struct raw_stream **streams; /* after raw_finish: the same by image, thread, lane */
    size_t stream_count, met_cap, streams_cap;
    struct arena arena;
    struct pair_map image_map, stream_map;
};

/* Finds or makes the image of an id. NULL without memory. */
struct raw_image *raw_image_of(struct raw *r, uint64_t id);
/* Widens the image's range of clocks by this one; 0: not known. */
void raw_see_clock(struct raw_image *im, uint64_t clock);
/* Sets `parent` of the images. */
void raw_find_parents(struct raw *r);
void raw_sort_pairs(struct raw *r);
/* Makes streams[], sorted by image, thread and lane, and the range of each image. Returns 0, or
 * -1 with *err. */
int raw_sort_streams(struct raw *r, struct error *err);
/* Finds or makes a stream. NULL without memory. */
struct raw_stream *raw_stream_of(struct raw *r, uint64_t image, uint32_t thread, uint32_t lane);

#endif
