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

/* fd: the raw recording, open for reading; out: the place of the sealed file; both stay the
 * caller's. calls: the number of calls in the end; 0: not known, and sealing begins when more
 * calls would not change the size of blocks. NULL with *err. */
struct seal_draft *seal_draft_open(int fd, const struct trust_place *out, uint64_t calls,
                                   struct error *err);
struct raw *seal_draft_raw(struct seal_draft *d);
/* Returns the id of the image whose rows are needed next; 0: none yet. */
uint64_t seal_draft_wants(const struct seal_draft *d);
/* Takes the file up to h->file_bytes, and works for a while. Returns 2 if there is more to do, 1
 * if the file must grow first, or -1 with *err if there will be no result. */
int seal_draft_go(struct seal_draft *d, const struct trace_horizon *h, struct error *err);
/* Seals the rest and puts the result in its place. The raw recording must be complete, and its
 * index finished (raw_finish). Returns a descriptor of the sealed file, or -1 with *err. */
int seal_draft_end(struct seal_draft *d, const struct seal_how *how,
                   struct trace_seal_result *result, struct error *err);
void seal_draft_close(struct seal_draft *d); /* NULL is fine */

#endif
