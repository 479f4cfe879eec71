/* gen.h - writes raw recordings for tests, from calls that a test makes up or really makes. */
#ifndef MALLOW_TESTS_TRACE_GEN_H
#define MALLOW_TESTS_TRACE_GEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "format/row.h"
#include "format/chunk.h"

/* One stream: a chunk in the making. */
struct gen_stream {
    struct mlw_chunk head;
    struct mlw_row_state state;
    uint8_t *p;
    uint8_t payload[65536 - sizeof(struct mlw_chunk)];
    uint32_t limit; /* payload bytes at which a chunk leaves; 0: when full */
};

struct gen {
    FILE *f;
    uint64_t clock;
};

/* FILE chunk: the recording starts at the clock and the given nanoseconds. */
void gen_open(struct gen *g, FILE *f, uint64_t clock, uint64_t monotonic_ns);
/* A PROCESS chunk. forked_from: image, or 0. */
void gen_process(struct gen *g, uint64_t image, uint32_t pid, uint64_t forked_from, uint64_t clock,
                 uint64_t monotonic_ns);
void gen_end(struct gen *g, uint64_t image, uint32_t pid, uint64_t clock, uint32_t how,
             uint32_t status);
void gen_pair(struct gen *g, uint64_t clock, uint64_t monotonic_ns);
void gen_stream_begin(struct gen_stream *s, uint64_t image, uint32_t pid, uint32_t tid,
                      uint32_t thread, uint64_t clock);
/* Rows; a full chunk leaves by itself. usable UINT64_MAX: the usual. */
void gen_call(struct gen *g, struct gen_stream *s, unsigned op, uint64_t clock, uint64_t address,
              uint64_t size, uint32_t stack, uint64_t usable, uint64_t argument, unsigned path);
void gen_meta(struct gen *g, struct gen_stream *s, unsigned kind, const void *data, uint16_t n);
void gen_node(struct gen *g, struct gen_stream *s, uint32_t id, uint32_t parent, uint64_t pc,
              uint32_t module, uint8_t flags);
void gen_module(struct gen *g, struct gen_stream *s, uint32_t id, uint64_t start, uint64_t end,
                uint64_t bias, const char *path);
void gen_control(struct gen *g, struct gen_stream *s, uint64_t clock, uint8_t control);
void gen_mark(struct gen *g, struct gen_stream *s, uint64_t clock, const char *label);
/* Writes the chunk in the making, if it has rows; flags of enum mlw_chunk_flags (an interim copy
 * leaves it in the making). */
void gen_flush(struct gen *g, struct gen_stream *s, unsigned flags);
/* Any chunk. */
void gen_chunk(struct gen *g, struct mlw_chunk *head, const void *payload, uint32_t n);

#endif
