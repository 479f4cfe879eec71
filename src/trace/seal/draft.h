/* draft.h - a recording is sealed while it is still being written.
 *
 * Owns: an index of the raw file that grows with it, the images under work, and the sealed file in
 * the making, which has no name until it is whole. The result is the file that seal_recording makes
 * of the raw one, byte for byte: rows are taken in the same order, as far as nothing that is still
 * to be written can come before them. Facts that it took for granted are looked at again when all
 * are known; if they do not hold, there is no result, and the raw file is sealed as if there had
 * been no draft. Memory: that of sealing, and 40 bytes a chunk. One thread. */
#ifndef MALLOW_TRACE_SEAL_DRAFT_H
#define MALLOW_TRACE_SEAL_DRAFT_H

#include "seal.h"

struct seal_draft;

/* `fd`: the raw recording, open for reading; `out`: where the sealed file will be. Both stay the
 * caller's. `calls`: how many there will be; 0: not known, then nothing is sealed until there are
 * so many that more do not matter. NULL with *err. */
struct seal_draft *seal_draft_open(int fd, const struct trust_place *out, uint64_t calls,
                                   struct error *err);
struct raw *seal_draft_raw(struct seal_draft *d);
/* The image whose rows are to come; 0: none yet. An id, as in the chunks. */
uint64_t seal_draft_wants(const struct seal_draft *d);
/* Takes the file up to h->file_bytes, then works for a while. 2: there is more to do, 1: it
 * must grow first, -1 with *err: there will be no result. */
int seal_draft_go(struct seal_draft *d, const struct trace_horizon *h, struct error *err);
/* The raw recording is whole, and its index finished (raw_finish). Seals the rest and lets the
 * result take its place. A descriptor of it, or -1 with *err. */
int seal_draft_end(struct seal_draft *d, const struct seal_how *how,
                   struct trace_seal_result *result, struct error *err);
void seal_draft_close(struct seal_draft *d); /* NULL is fine */

#endif
