/* sender.h - letters sent to one server while something else goes on.
 *
 * Owns: a thread, which alone talks to the server and to the spool, so that neither a server nor a
 * disk is ever waited for by who gives it letters. Letters go in order, one at a time. One that
 * fails for the moment (no connection; 408, 429, 5xx; but also 401, 403, 404 or a redirection,
 * which are the configuration's fault) is tried again, after a pause that doubles, is drawn at
 * random, and is never shorter than the server's Retry-After. One that the server refuses for
 * itself (400, 413, 415, 422) is counted and not sent again. Redirections are not followed.
 * Certificates are checked. The token is read anew for each request, so that it can be changed.
 *
 * A letter that was sent when the process was killed, before the answer came, is sent again by the
 * next. All functions are for one thread. */
#ifndef MALLOW_PUSH_SENDER_H
#define MALLOW_PUSH_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct sender_options { /* texts are borrowed until sender_close */
    const char
        *url; /* https://, or http:// on this machine alone; no password, query or fragment */
    const char *token_file;  /* sent as a bearer's, or, when the URL has a user, as the password;
                                NULL: none */
    const char *authorities; /* file of certificates to trust, NULL: the system's */
    const char *spool;       /* directory; NULL: letters wait in memory */
    const char *kind;        /* kind of the letters; small letters */
    uint64_t spool_bytes;
    /* True if an answer of status 2xx, of which there are the first 199 bytes, says that the letter
     * was refused anyway; called by the thread. NULL: none does. */
    bool (*refused)(const void *answer, size_t bytes);
};

struct sender_counts { /* counts of letters */
    uint64_t sent, sent_bytes;
    uint64_t refused;  /* by the server */
    uint64_t dropped;  /* gave way to later ones */
    uint64_t damaged;  /* files of the spool that could not be read */
    uint64_t stored;   /* in the spool, for the next process */
    uint64_t lost;     /* at the end neither sent nor stored */
    uint64_t failures; /* requests that failed and were, or would have been, tried again */
};

struct sender;

/* Checks everything that can be checked without the server. NULL with *err. */
struct sender *sender_open(const struct sender_options *o, struct error *err);
/* Starts the thread. After it, no child may be forked that does more than to execute. */
int sender_begin(struct sender *s, struct error *err);
bool sender_begun(const struct sender *s);

/* Takes the bytes of a letter (letter_write) out of the buffer. Never waits. */
void sender_give(struct sender *s, struct buffer *letter);

/* The result, if there is news: one line. wrong: it is a complaint. */
bool sender_news(struct sender *s, char line[512], bool *wrong);

/* Sends the letters that are left, for `most_ns` at most and until something fails, and ends the
 * thread. */
void sender_end(struct sender *s, uint64_t most_ns, struct sender_counts *counts);
void sender_close(struct sender *s); /* NULL is fine; after sender_end if it had begun */

#endif
