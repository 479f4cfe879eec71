/* refold RAW OUT STEPS LAST: makes of a whole raw recording the file that a flight recorder would
 * have left, folded STEPS times while it grew, so that both can be compared event by event. At
 * least LAST percent of the chunks are never folded. Prints how often something was folded. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/chunk.h"
#include "trace/trace.h"

struct piece {
    const uint8_t *at;
    size_t n;
    struct mlw_chunk head;
};

static void fail(const char *what)
{
    fprintf(stderr, "refold: %s\n", what);
    exit(1);
}

static void put(int fd, const void *p, size_t n)
{
    if (write(fd, p, n) != (ssize_t)n)
        fail("cannot write");
}

/* The clock before which the piece says nothing: a process inherits what was live when it was
 * forked. */
static uint64_t earliest_of(const struct piece *p)
{
    if (p->head.type == MLW_CHUNK_EVENTS)
        return p->head.base_clock;
    const uint8_t *at = p->at + sizeof p->head, *end = p->at + p->n;
    while (p->head.type == MLW_CHUNK_PROCESS && end - at >= 16) {
        uint16_t tag;
        uint32_t length;
        uint64_t clock;
        memcpy(&tag, at, sizeof tag);
        memcpy(&length, at + 4, sizeof length);
        memcpy(&clock, at + 8, sizeof clock);
        if (tag == MLW_TLV_START)
            return clock;
        at += 8 + ((size_t)length + 7) / 8 * 8;
    }
    return UINT64_MAX;
}

/* FILE with one more TLV. */
static void put_file(int fd, const struct piece *p)
{
    uint8_t payload[8192];
    struct mlw_chunk c = p->head;
    const uint16_t tag[2] = {MLW_TLV_LAST, 0};
    const uint32_t length = 16;
    const uint64_t last[2] = {0, (uint64_t)1 << 40};
    if (c.payload_bytes + 24 > sizeof payload)
        fail("the first chunk is too large");
    memcpy(payload, p->at + sizeof c, c.payload_bytes);
    memcpy(payload + c.payload_bytes, tag, 4);
    memcpy(payload + c.payload_bytes + 4, &length, 4);
    memcpy(payload + c.payload_bytes + 8, last, 16);
    c.payload_bytes += 24;
    c.checksum = mlw_chunk_checksum(&c, payload);
    put(fd, &c, sizeof c);
    put(fd, payload, c.payload_bytes);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        fail("RAW OUT STEPS LAST");
    const size_t steps = strtoul(argv[3], NULL, 10), last = strtoul(argv[4], NULL, 10);
    FILE *in = fopen(argv[1], "rb");
    if (!in || fseek(in, 0, SEEK_END))
        fail("cannot open the recording");
    const size_t bytes = (size_t)ftell(in);
    uint8_t *all = malloc(bytes);
    rewind(in);
    if (!all || fread(all, 1, bytes, in) != bytes)
        fail("cannot read the recording");
    fclose(in);
    struct piece *pieces = calloc(bytes / sizeof(struct mlw_chunk) + 1, sizeof *pieces);
    size_t n = 0;
    for (size_t at = 0; at + sizeof(struct mlw_chunk) <= bytes; at += pieces[n++].n) {
        struct piece *p = &pieces[n];
        memcpy(&p->head, all + at, sizeof p->head);
        if (p->head.magic != MLW_CHUNK_MAGIC)
            fail("damaged");
        *p = (struct piece){all + at, sizeof p->head + p->head.payload_bytes, p->head};
    }
    const int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (fd < 0 || !n)
        fail("cannot make the file");
    put_file(fd, &pieces[0]);
    const off_t head = lseek(fd, 0, SEEK_END);
    off_t released = head;
    size_t folded = 0;
    for (size_t step = 0, i = 1; i < n; step++) {
        const size_t until = step < steps ? (n - 1) * (100 - last) / 100 * (step + 1) / steps : n;
        uint64_t latest = UINT64_MAX; /* rows before it are all in the file */
        for (; i < until; i++)
            put(fd, pieces[i].at, pieces[i].n);
        for (size_t k = i; k < n; k++)
            if (earliest_of(&pieces[k]) < latest)
                latest = earliest_of(&pieces[k]);
        if (latest == UINT64_MAX)
            continue;
        const struct trace_fold_how how = {.from_monotonic_ns = UINT64_MAX / 8,
                                           .latest_clock = latest};
        struct trace_fold_result result;
        struct error err = {0};
        if (trace_fold(fd, &how, &result, &err))
            fail(err.text);
        if (!result.folded)
            continue;
        folded++;
        if ((off_t)result.needed_from > released &&
            fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, released,
                      (off_t)result.needed_from - released))
            fail("cannot release");
        if ((off_t)result.needed_from > released)
            released = (off_t)result.needed_from;
    }
    printf("%zu folds, %" PRIu64 " of %zu bytes released\n", folded, (uint64_t)(released - head),
           bytes);
    return 0;
}
