/* letter.h - the content of one request: the target, the type, the bytes.
 *
 * Owns: the bytes of a letter, which are the same in memory and in a spool's file: lines of text
 * ("mallow push 1", "to TARGET", "type TYPE", "encoding ENCODING", "bytes N"), an empty line, the
 * body. Lines of a file cannot add a header to a request, whichever process wrote it. Any thread;
 * no state. */
#ifndef MALLOW_PUSH_LETTER_H
#define MALLOW_PUSH_LETTER_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

struct letter {
    const char *target;   /* path and query below the server's URL: "ingest?name=..." */
    const char *type;     /* Content-Type */
    const char *encoding; /* Content-Encoding; NULL: none */
    const void *body;
    size_t bytes;
};

/* Appends the letter. Its texts are ASCII without controls. */
void letter_write(struct buffer *out, const struct letter *l);

/* Takes the first letter of `size` bytes apart, in place: *l points into them, and *taken of them
 * are its. Others may follow: they are sent one after the other, and belong together. -1 with *err:
 * no letter, or cut. */
int letter_read(char *data, size_t size, struct letter *l, size_t *taken, struct error *err);

#endif
