/* segments.h - a recording in pieces at a store: sent as it grows, and put together again.
 *
 * Owns: the order in which the pieces, the list of those that are there and the list of all are
 * put, and what of an earlier try is still good. A piece is so many bytes of the file, as they are;
 * its name is its number. Everything is put again whole under the same name: a second time changes
 * nothing, and a process that is killed loses nothing but its time. Refuses: to mix two recordings,
 * to believe a length or a sum of the server's. Functions return 0, or -1 with *err. One thread. */
#ifndef MALLOW_PUSH_SEGMENTS_H
#define MALLOW_PUSH_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "push/objects.h"

#define SEGMENT_BYTES_USUAL (16u << 20)

struct segments_options {
    uint64_t segment_bytes; /* when nothing is there yet; 0: SEGMENT_BYTES_USUAL */
    bool replace;           /* another recording that is there, its list first */
    void (*progress)(void *arg, uint64_t done_bytes, uint64_t bytes); /* NULL: none */
    void *arg;
};

struct segments_result {
    uint64_t bytes, segments;           /* size of the recording */
    uint64_t sent_bytes, sent_segments; /* by this process */
    bool looked;                        /* all were looked at in the end, and have their sizes */
};

struct segments;

/* Asks for the segments there. fd: the recording, which only grows; at least its first 128 bytes
 * are there. ERROR_UNSUPPORTED: another one is there, and not `replace`. NULL with *err. Both are
 * borrowed. */
struct segments *segments_begin(struct objects *to, int fd, const struct segments_options *o,
                                struct error *err);
void segments_free(struct segments *s); /* NULL is fine */

/* Sends the missing part of the first `end` bytes: in whole segments, or with their rest. */
int segments_send(struct segments *s, uint64_t end, bool rest, struct error *err);
/* The recording has `bytes` and stays like that: sends the rest, looks at all and puts the list.
 * must_look: a server that does not answer a look is a failure. */
int segments_finish(struct segments *s, uint64_t bytes, bool must_look, struct error *err);
void segments_result(const struct segments *s, struct segments_result *r);

/* Puts a recording together at the end of `fd`, which is empty. partial: the part that is there,
 * when not all of it is; *whole says which. */
int segments_pull(struct objects *from, int fd, bool partial, const struct segments_options *o,
                  struct segments_result *r, bool *whole, struct error *err);

#endif
