/* fuzz_sealed.c - fuzz target: any bytes, as a sealed recording, with the checksums put right. */
#include <stdlib.h>
#include <string.h>

#include "format/chunk.h"
#include "fuzz.h"
#include "trace/sealed/sealed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    for (size_t at = 0; at + sizeof(struct seal_header) <= n;) {
        struct seal_header h;
        memcpy(&h, copy + at, sizeof h);
        size_t fixed = sizeof h + (h.type == SEAL_BLOCK ? sizeof(struct seal_block) : 0);
        size_t head = fixed + h.streams * sizeof(struct seal_stream);
        if (h.magic != SEAL_MAGIC || h.streams > SEAL_STREAMS_MAX || head > n - at) {
            at++;
            continue;
        }
        uint64_t sum = 0;
        for (unsigned i = 0; i < h.streams; i++) {
            struct seal_stream s;
            uint8_t *entry = copy + at + fixed + i * sizeof s;
            memcpy(&s, entry, sizeof s);
            uint64_t from = at + head + sum;
            if (from + s.stored_bytes <= n)
                s.checksum = (uint32_t)mlw_checksum_part(0, copy + from, s.stored_bytes);
            memcpy(entry, &s, sizeof s);
            sum += s.stored_bytes;
        }
        h.header_bytes = (uint32_t)head;
        h.payload_bytes = sum;
        h.checksum = 0;
        memcpy(copy + at, &h, sizeof h);
        h.checksum = mlw_checksum_part(0, copy + at, head);
        memcpy(copy + at, &h, sizeof h);
        at += head + (sum < n ? sum : n);
    }
    fuzz_recording(copy, n);
    free(copy);
    return 0;
}
