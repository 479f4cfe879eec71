/* raw.h - the index of a raw recording: which chunks there are, of which streams, and what the
 * chunks other than events say.
 *
 * Owns: finding chunks among damage, choosing among copies, the facts of the images. Refuses: to
 * decode rows (merge.h does). Memory: 32 bytes a chunk, and the facts. One thread. */
#ifndef MALLOW_TRACE_RAW_RAW_H
#define MALLOW_TRACE_RAW_RAW_H

#include "index.h"

/* Scanning takes about one part in so many of what sealing takes as well; that much of the progress
 * is its. */
#define RAW_SCAN_SHARE 10

/* Scans the file open at fd (kept, not closed by raw_close). Returns 0, or -1 with *err when the
 * file cannot be read, is no recording at all, or is of a later version. Damage is no error. */
int raw_open(struct raw *r, int fd, void (*progress)(void *, uint64_t, uint64_t), void *arg,
             struct error *err);
/* Adds the chunks of another file (recovered rows), before raw_finish. */
int raw_add(struct raw *r, int fd, struct error *err);
/* Instead of raw_open: of a recording that is still being written. raw_grow takes the whole chunks
 * up to `to`, a size that the file had; streams are sorted and may be read as far as `chunks` says.
 * Facts of a stream or an image stay, and more come; else `odd` is set. At the end raw_finish
 * follows, as after raw_open. */
void raw_grow_begin(struct raw *r, int fd);
int raw_grow(struct raw *r, uint64_t to, struct error *err);
/* For an image to which nothing more is written: whether all of it may be read. */
bool raw_image_is_whole(const struct raw *r, uint32_t image);
/* Sorts its samples, as raw_finish does. */
void raw_finish_image(struct raw *r, uint32_t image);
/* Sorts, chooses among copies, counts gaps. Call once, after raw_open and raw_add. */
int raw_finish(struct raw *r, struct error *err);
void raw_close(struct raw *r);

/* True if fd starts like (or, when damaged at its start, somewhere contains) a raw recording:
 * 1 yes, 0 no, -1 error. */
int raw_probe(int fd, struct error *err);

/* Notes which images may still write to it: those without an end whose process lives here. */
void raw_note_living(struct raw *r);
/* True if there are any. A process whose session was read since is not: its number is another
 * process's now. */
bool raw_is_live(const struct raw *r);

#endif
