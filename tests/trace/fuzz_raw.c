/* fuzz_raw.c - fuzz target: any bytes, as a raw recording. Checksums are put right first, so that
 * what is behind them is reached. */
#include <stdlib.h>
#include <string.h>

#include "format/chunk.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    for (size_t at = 0; at + sizeof(struct mlw_chunk) <= n;) {
        struct mlw_chunk c;
        memcpy(&c, copy + at, sizeof c);
        if (c.magic != MLW_CHUNK_MAGIC || c.payload_bytes > n - at - sizeof c) {
            at++;
            continue;
        }
        c.checksum = mlw_chunk_checksum(&c, copy + at + sizeof c);
        memcpy(copy + at, &c, sizeof c);
        at += sizeof c + c.payload_bytes;
    }
    fuzz_recording(copy, n);
    free(copy);
    return 0;
}
