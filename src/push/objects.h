/* objects.h - objects below one URL: put, looked at, read back and deleted by HTTP.
 *
 * Owns: the connection, which is kept between requests; the signature of a request for stores that
 * speak S3's protocol; which failures are worth another try; how much of an answer is believed.
 * Refuses: other protocols than http and https, and following the server elsewhere. No text shows
 * what may be a secret of the URL, the headers or the keys.
 *
 * Functions return enum objects_status, with *err set for OBJECTS_FAILED. One thread at a time for
 * a struct objects; a process that was forked opens its own. */
#ifndef MALLOW_PUSH_OBJECTS_H
#define MALLOW_PUSH_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum objects_status {
    OBJECTS_FAILED = -1,
    OBJECTS_DONE = 0,
    OBJECTS_ABSENT = 1, /* the server says that there is none: 404 or 410 */
    OBJECTS_REFUSED = 2 /* it does not do that at all: 403, 405 or 501, for a look or a deletion */
};

struct objects_options {
    const char *url;           /* http:// or https://; the objects' names are added to its path */
    const char *name;          /* added before, when the URL ends in a slash; NULL: none */
    const char *const *header; /* "NAME: VALUE", header_count of them; borrowed, as all texts */
    size_t header_count;
    const char *authorities; /* file of certificates to trust, NULL: the system's */
    const char *keys;    /* "ACCESS:SECRET" or "ACCESS:SECRET:TOKEN": sign for S3. NULL: do not */
    const char *region;  /* S3's */
    uint64_t retries;    /* tries after the first one, where there is no `pause` */
    uint64_t timeout_ns; /* for a connection, and below 1 KiB a second on it; 0: never */
    uint64_t first_pause_ns; /* before the second try; doubles, up to a minute */
    /* Before another try, instead of sleeping: to sleep, and to say whether to try. NULL: none. */
    bool (*pause)(void *arg, const char *why, uint64_t tries, uint64_t pause_ns);
    bool (*goes_on)(void *arg); /* asked several times a second; false breaks off. NULL: true */
    void *arg;
};

struct objects;

/* ERROR_USAGE: no such URL, or keys that are none. NULL with *err. Nothing is connected yet. */
struct objects *objects_open(const struct objects_options *o, struct error *err);
void objects_close(struct objects *s); /* NULL is fine */
/* The URL below which they are, with a slash at its end, without user, password and query. */
const char *objects_url(const struct objects *s);

enum objects_status objects_put(struct objects *s, const char *name, const void *data, size_t bytes,
                                struct error *err);
/* Appends the object, of at most `most` bytes, to *to; after a failure, *to is as before. */
enum objects_status objects_get(struct objects *s, const char *name, struct buffer *to, size_t most,
                                struct error *err);
/* How large it is. */
enum objects_status objects_look(struct objects *s, const char *name, uint64_t *bytes,
                                 struct error *err);
enum objects_status objects_delete(struct objects *s, const char *name, struct error *err);

#endif
