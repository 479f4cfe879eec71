/* carry_out.c - Appends a chunk to a flight recorder's file by one write. A partial write is an
 * error; its bytes count in the size of the file, and its checksum keeps readers from using it. */
#include "carry_out.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/bytes.h"
#include "trust/file.h"

int carry_put(struct carry_out *out, struct mlw_chunk *c, const void *payload, size_t n,
              struct error *err)
{
    struct bytes b = {0};
    c->magic = MLW_CHUNK_MAGIC;
    c->header_bytes = sizeof *c;
    c->payload_bytes = (uint32_t)n;
    memset(c->reserved, 0, sizeof c->reserved);
    c->checksum = mlw_chunk_checksum(c, payload);
    bytes_put(&b, c, sizeof *c);
    bytes_put(&b, payload, n);
    const ssize_t done = b.failed ? 0 : write(out->fd, b.data, b.n);
    const bool whole = !b.failed && done == (ssize_t)b.n;
    const int failed = b.failed   ? error_memory_for(err, "folding")
                       : whole    ? 0
                       : done < 0 ? error_system(err, "cannot append to the recording")
                                  : error_set(err, ERROR_SYSTEM,
                                              "cannot append to the recording: %zd of %zu bytes "
                                              "were written",
                                              done, b.n);
    out->bytes += done > 0 ? (uint64_t)done : 0;
    bytes_free(&b);
    return failed;
}

int carry_again(struct carry_out *out, int fd, uint64_t offset, struct error *err)
{
    struct mlw_chunk c;
    if (trust_read(fd, &c, sizeof c, offset) != sizeof c)
        return error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
    uint8_t *payload = malloc((size_t)c.payload_bytes + 1);
    if (!payload)
        return error_memory_for(err, "folding");
    const int status =
        trust_read(fd, payload, c.payload_bytes, offset + sizeof c) == c.payload_bytes
            ? carry_put(out, &c, payload, c.payload_bytes, err)
            : error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
    free(payload);
    return status;
}
