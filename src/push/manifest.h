/* manifest.h - which segments make up a recording: the text that lies beside them at a store.
 *
 * Owns: the names of the objects, and the form of the list. It is what sha256sum(1) checks: a line
 * with the sum and the name for each segment, behind lines that begin with # and hold the rest.
 * Nothing in a list that was read is believed before it was checked. Functions return 0, or -1 with
 * *err. One thread. */
#ifndef MALLOW_PUSH_MANIFEST_H
#define MALLOW_PUSH_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "push/sha256.h"

#define MANIFEST_NAME       "manifest.sha256" /* put last: all segments are there */
#define PROGRESS_NAME       "progress.sha256" /* the same form, of those that are there */
#define MANIFEST_MOST       (64u << 20)       /* bytes of the text */
#define SEGMENT_BYTES_LEAST (64u << 10)
#define SEGMENT_BYTES_MOST  (256u << 20)
#define SEGMENT_NAME_BYTES  16

struct manifest {                 /* begins as zero */
    uint8_t begins[SHA256_BYTES]; /* the sum of the recording's first bytes: says which recording it
                                     is */
    uint64_t segment_bytes;       /* bytes of each segment but the last */
    uint64_t bytes;               /* the whole recording */
    uint8_t (*sums)[SHA256_BYTES];
    uint64_t count;
};

void manifest_name(uint64_t segment, char name[SEGMENT_NAME_BYTES]);
/* How many bytes of the recording are in it; 0 behind the last. */
uint64_t manifest_bytes_of(const struct manifest *m, uint64_t segment);

/* Sets a segment's sum; at most one behind the last. */
int manifest_set(struct manifest *m, uint64_t segment, const uint8_t sum[SHA256_BYTES],
                 struct error *err);
void manifest_write(const struct manifest *m, struct buffer *to);
/* ERROR_FORMAT: it is no such list. On failure, *m is released. */
int manifest_read(struct manifest *m, const char *text, size_t bytes, struct error *err);
void manifest_release(struct manifest *m);

#endif
