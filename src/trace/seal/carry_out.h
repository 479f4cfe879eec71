/* carry_out.h - the chunks that folding appends to a flight recorder's file.
 *
 * Owns: one write for each. One thread. */
#ifndef MALLOW_TRACE_SEAL_CARRY_OUT_H
#define MALLOW_TRACE_SEAL_CARRY_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/chunk.h"

struct carry_out {
    int fd; /* O_APPEND */
    uint64_t generation, clock;
    uint64_t bytes, blocks; /* written so far */
};

/* Completes the head, and appends head and payload. Returns 0, or -1 with *err. */
int carry_put(struct carry_out *out, struct mlw_chunk *c, const void *payload, size_t n,
              struct error *err);
/* Appends a copy of the chunk at an offset of the file open at fd. Returns 0, or -1 with *err. */
int carry_again(struct carry_out *out, int fd, uint64_t offset, struct error *err);

#endif
