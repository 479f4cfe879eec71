/* sealed.h - the layout of a sealed recording: sections of compressed streams.
 *
 * Owns: the bytes (docs/format.md has them in words), writing a section and finding and reading
 * one. Refuses: to know what the streams mean (block.h, facts.h). A section stands alone: a reader
 * that finds its magic, with a sound header, can read it; a damaged one loses only itself. All
 * numbers are little-endian. One thread for each writer or reader. */
#ifndef MALLOW_TRACE_SEALED_SEALED_H
#define MALLOW_TRACE_SEALED_SEALED_H

#include <zstd.h>

#include "base/error.h"
#include "trace/bytes.h"

#define SEAL_MAGIC        0x31534c4du /* "MLS1" */
#define SEAL_VERSION      1u
#define SEAL_MINOR        2u           /* additions that earlier readers of the version may skip */
#define SEAL_BLOCK_EVENTS (128u << 10) /* events of a full block that we write, at most */
/* A file that is cut loses the block that it is cut in: at most this part of its events. */
#define SEAL_BLOCK_PARTS 4u
#define SEAL_BLOCK_LEAST 128u       /* events of a block of a small recording */
#define SEAL_BLOCK_MAX   (1u << 20) /* events of a block that we read, at most */
#define SEAL_STREAMS_MAX 64u
#define SEAL_STREAM_MAX  (256u << 20) /* raw bytes of a stream, at most */

enum seal_type {
    SEAL_FILE = 1,  /* first: facts of the recording */
    SEAL_BLOCK = 2, /* events of an image */
    SEAL_NODES = 3, /* stack nodes of an image */
    SEAL_IMAGE = 4, /* facts of an image, before its last block */
    SEAL_END = 5,   /* last: says how many images there are */
    SEAL_EARLY = 6, /* the part of IMAGE that names the events of the blocks from here on */
    SEAL_INDEX = 7  /* behind END: what a reader worked out of an image's events, see index.h */
};

struct seal_header {
    uint32_t magic;
    uint16_t type;    /* enum seal_type */
    uint16_t streams; /* entries of struct seal_stream that end the header */
    uint32_t header_bytes;
    uint32_t image; /* number of the image in the file, from 0 */
    uint64_t
        payload_bytes; /* the bytes of the streams, one behind the other, right after the header */
    uint64_t checksum; /* mlw_checksum_part(0, header with this field 0, header_bytes) */
    uint64_t number;   /* BLOCK, EARLY: from 0 in its image; NODES: first id; END: images;
                          INDEX: enum trace_kept_kind */
    uint64_t made_of;  /* INDEX: see struct store; 0 else, as the next two */
    uint64_t made_by;  /* INDEX: of the version of mallow */
    uint64_t key;      /* INDEX: of what it answers, among those of its kind */
};
_Static_assert(sizeof(struct seal_header) == 64, "the section header is 64 bytes");

/* Follows the header of a BLOCK. State "at the start" is before its first event. */
struct seal_block {
    uint64_t first_event;    /* events of this image before */
    uint64_t first_tick;     /* time of the last event before, or of the first */
    uint64_t last_tick;      /* time of its last event */
    uint64_t live_bytes;     /* requested, at the start */
    uint64_t max_live_bytes; /* after any of its events */
    uint32_t events;
    uint32_t allocs;       /* events of kind ALLOC in it */
    uint32_t used_slots;   /* slots ever used, at the start */
    uint32_t free_slots;   /* those of them that are free at the start */
    uint32_t threads;      /* entries of the thread table */
    uint32_t calls;        /* API calls in it */
    uint32_t new_slots;    /* slots that it is the first to use */
    uint8_t reference;     /* enum seal_reference */
    uint8_t address_epoch; /* 1: addresses start afresh, see block.h */
    uint8_t reserved[2];
    uint64_t reserved2[2];
};
_Static_assert(sizeof(struct seal_block) == 88, "the block header is 88 bytes");

struct seal_stream {
    uint8_t id;    /* the column's: enum seal_column or enum seal_fact */
    uint8_t part;  /* byte plane 0..7, or SEAL_PART_* */
    uint8_t codec; /* 0 stored, 1 a zstd frame */
    uint8_t reserved;
    uint32_t raw_bytes, stored_bytes;
    uint32_t checksum; /* low half of mlw_checksum_part(0, stored bytes) */
};
_Static_assert(sizeof(struct seal_stream) == 16, "a stream's entry is 16 bytes");

enum seal_part {
    SEAL_PART_BYTES = 32,  /* not numbers in planes: bytes or varints */
    SEAL_PART_PATCHES = 33 /* varints: gap, value; replaces values that do not fit in the planes */
};

/* --- writing --- */

struct section {
    struct seal_header header;
    struct seal_block block;
    struct seal_stream streams[SEAL_STREAMS_MAX];
    struct bytes data;
};

struct seal_writer {
    int fd;
    uint64_t offset; /* where the next section goes */
    ZSTD_CCtx *zstd;
    bool stored; /* compress nothing (for readers without zstd) */
};

int seal_writer_open(struct seal_writer *w, int fd, struct error *err);
void seal_writer_close(struct seal_writer *w);
void section_begin(struct section *s, enum seal_type type, uint32_t image, uint64_t number);
/* Compresses and adds a stream; an empty one is left out. A failure marks s->data. */
void section_put(struct seal_writer *w, struct section *s, unsigned id, unsigned part,
                 const void *data, size_t n);
/* Adds numbers as byte planes of the width that suits most of them, and the others as patches. */
void section_put_u32(struct seal_writer *w, struct section *s, unsigned id, const uint32_t *v,
                     size_t n, struct bytes *scratch);
void section_put_u64(struct seal_writer *w, struct section *s, unsigned id, const uint64_t *v,
                     size_t n, struct bytes *scratch);
/* Appends the section to the file. Returns 0, or -1 with *err. */
int section_write(struct seal_writer *w, struct section *s, struct error *err);

/* --- reading --- */

struct section_head {
    uint64_t offset; /* the offset of the section in the file */
    struct seal_header header;
    struct seal_block block; /* the head of a BLOCK */
    struct seal_stream streams[SEAL_STREAMS_MAX];
};

/* Reads the head of the section at `offset`. Returns 1 if it is sound, 0 if there is none, or -1
 * with *err. */
int section_head_read(int fd, uint64_t offset, uint64_t file_bytes, struct section_head *h,
                      struct error *err);
/* Returns the offset of the first sound section at or after `offset`, and fills h; or
 * file_bytes. */
uint64_t section_find(int fd, uint64_t offset, uint64_t file_bytes, struct section_head *h);
/* The stream (id, part), or NULL. */
const struct seal_stream *section_stream(const struct section_head *h, unsigned id, unsigned part);
/* Reads and decompresses a stream into `to`, replacing its content, with 16 spare bytes behind.
 * most: the bound on its raw bytes. Returns 1 if read, 0 if absent (to->n is 0), or -1 with *err
 * if damaged. */
int section_read(int fd, const struct section_head *h, unsigned id, unsigned part, size_t most,
                 ZSTD_DCtx *zstd, struct bytes *scratch, struct bytes *to, struct error *err);

#endif
