/* carried.h - what a flight recorder's file says of rows that are no longer in it.
 *
 * A flight recorder (`mallow record --last`) folds rows that left its window into CARRIED chunks
 * and releases their part of the file. Owns: which of these chunks count (those of the last
 * generation that is whole), where the streams go on, and which parts of the file may be released.
 * Nothing in them is believed. Memory: 40 bytes a chunk of the recording. One thread. */
#ifndef MALLOW_TRACE_RAW_CARRIED_H
#define MALLOW_TRACE_RAW_CARRIED_H

#include "index.h"

/* Notes a sound chunk; call it for each one before reading it. Returns false without memory. */
bool carried_note(struct raw *r, const struct mlw_chunk *c, const uint8_t *payload,
                  uint64_t offset);
/* Chooses the chunks that count, after the last one was noted, and makes the streams that they
 * name. Returns 0, or -1 with *err. */
int carried_choose(struct raw *r, struct error *err);
void carried_free(struct carried *c);

/* True if the rows of a chunk of the stream are all released. */
bool carried_is_released(const struct raw_stream *s, uint32_t sequence, uint32_t payload_bytes);

/* Returns how many of the n bytes at p are zero before the first that is not. */
size_t carried_zeros(const uint8_t *p, size_t n);

/* Reads the payload of a chunk that counts. The caller frees it. NULL with *err. */
uint8_t *carried_read(const struct raw *r, const struct carried_chunk *k, struct error *err);

/* Returns the clock at which a window ends: that of the last row, or, while a program runs, of
 * the last write to the file. */
uint64_t carried_latest(const struct raw *r);

#endif
