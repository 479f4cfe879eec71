/* raw.h - the index of a raw recording: which chunks there are, of which streams, and what the
 * chunks other than events say.
 *
 * Owns: finding chunks among damage, choosing among copies, the facts of the images. Refuses: to
 * decode rows (merge.h does). Memory: 32 bytes a chunk, and the facts. One thread. */
#ifndef MALLOW_TRACE_RAW_RAW_H
#define MALLOW_TRACE_RAW_RAW_H

#include "index.h"

/* The share of scanning in the progress of sealing: one part in this many. */
#define RAW_SCAN_SHARE 10

/* Scans the file open at fd, which stays the caller's. Returns 0, or -1 with *err if the file
 * cannot be read, is not a recording, or is of a later version. Damage is not an error. */
int raw_open(struct raw *r, int fd, void (*progress)(void *, uint64_t, uint64_t), void *arg,
             struct error *err);
/* Adds the chunks of another file (recovered rows), before raw_finish. */
int raw_add(struct raw *r, int fd, struct error *err);
/* Begins an index of a recording that is still being written, instead of raw_open. raw_grow adds
 * the complete chunks up to `to`, a size that the file had. Streams are then sorted and may be
 * read up to `chunks`. Known facts of a stream or an image do not change, or `odd` is set. Call
 * raw_finish at the end, as after raw_open. */
void raw_grow_begin(struct raw *r, int fd);
int raw_grow(struct raw *r, uint64_t to, struct error *err);
/* True if all rows of an image may be read; only for an image that is complete in the file. */
bool raw_image_is_whole(const struct raw *r, uint32_t image);
/* Sorts the samples of an image, as raw_finish does for all. */
void raw_finish_image(struct raw *r, uint32_t image);
/* Sorts the index, chooses among copies, and counts gaps. Call it once, after raw_open and
 * raw_add. Returns 0, or -1 with *err. */
int raw_finish(struct raw *r, struct error *err);
void raw_close(struct raw *r);

/* True if fd starts like (or, when damaged at its start, somewhere contains) a raw recording:
 * 1 yes, 0 no, -1 error. */
int raw_probe(int fd, struct error *err);

/* Notes the images that may still write to the file: those without an end whose process lives on
 * this machine. */
void raw_note_living(struct raw *r);
/* True if there are such images. An image whose session was read since does not count: its
 * process id belongs to another process now. */
bool raw_is_live(const struct raw *r);

#endif
