/* sink.h - appending chunks to a recording from outside the traced program.
 *
 * Owns: building chunks of TLVs, and the one write that a chunk leaves with. Refuses: to continue a
 * chunk that was written in part (others append to the same file in between): a torn chunk is
 * damage that readers skip, and it is counted here. One thread; no signals. */
#ifndef MALLOW_RECORD_SINK_H
#define MALLOW_RECORD_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/chunk.h"

struct sink {
    int fd;                           /* O_APPEND; -1: every write fails */
    uint64_t chunks;                  /* written whole */
    uint64_t bytes;                   /* written, torn ones included */
    uint64_t failed;                  /* chunks that were not written whole */
    uint64_t failed_calls;            /* call rows in them, INTERIM ones not counted */
    int last_errno;                   /* errno of the last failure */
    int reserve_fd;                   /* the same file without O_APPEND; -1: there is no reserve */
    uint64_t reserve_at, reserve_end; /* the rest of the reserve */
};

/* Completes *c (magic, header_bytes, payload_bytes, checksum; reserved[] becomes 0) and appends it
 * with its payload in one write. Returns 0, or -1 when it did not get there whole: counted. */
int sink_write(struct sink *s, struct mlw_chunk *c, const void *payload, size_t payload_bytes);

/* Sets `bytes` of the file aside, in a SPACE chunk at its end, for chunks that must arrive although
 * the disk is full. No other process may be writing yet. fd: the file, not O_APPEND; the sink owns
 * it from then on. Without a reserve (-1 is returned) the recording goes on. */
int sink_reserve(struct sink *s, int fd, size_t bytes);

/* As sink_write, but a chunk that cannot be appended goes into the reserve as long as that has
 * room. */
int sink_write_surely(struct sink *s, struct mlw_chunk *c, const void *payload,
                      size_t payload_bytes);

/* TLVs under construction. A TLV that does not fit is left out, and `full` is set. */
struct tlv {
    uint8_t *bytes;
    size_t n, room;
    bool full;
};
void tlv_put(struct tlv *t, enum mlw_tlv tag, const void *data, size_t n);
void tlv_put_u32(struct tlv *t, enum mlw_tlv tag, uint32_t v);
void tlv_put_text(struct tlv *t, enum mlw_tlv tag, const char *text);
/* Puts the settings of allocators from an environment (an open /proc/PID/environ, which stays
 * open). It puts nothing if fd is -1 or cannot be read. */
void tlv_put_settings(struct tlv *t, int fd);

/* The clock of a recording, read outside the traced program: the same ticks. */
enum mlw_clock_kind clock_choose(void); /* TSC when it is invariant and the kernel trusts it */
uint64_t clock_read(enum mlw_clock_kind kind);
uint64_t clock_realtime_ns(void);
/* Both clocks at one moment: the tightest of several tries. */
struct mlw_clock_pair clock_pair(enum mlw_clock_kind kind);

#endif
