/* request.h - what every request of mallow's has in common: the handle, the answer, another try.
 *
 * Owns: that only http and https are spoken, that no redirection is followed, how mallow names
 * itself, how much of an answer is taken and what of it may be shown, and which failures are worth
 * another try. A handle and its answer belong to one thread. */
#ifndef MALLOW_PUSH_REQUEST_H
#define MALLOW_PUSH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "curl_library.h"
#include "base/buffer.h"
#include "base/error.h"

#define ANSWER_WORDS    200u
#define ANSWER_LOCATION 1024u

/* The answer. The body is appended to `body`; without one its beginning goes to `words`. */
struct answer {
    struct buffer *body;
    size_t most, headers_most; /* bytes of the body, of all headers; more end the request */
    /* state of one try */
    size_t before; /* bytes that were in `body` */
    size_t seen, headers_seen;
    bool too_long;
    char words[ANSWER_WORDS];
    size_t word_bytes;
    char location[ANSWER_LOCATION]; /* the server's bytes, to be escaped when shown, without the
                                       query; "": the server does not say */
};

/* A body, of which libcurl takes parts. */
struct upload {
    uint64_t bytes, at; /* all bytes; taken so far */
};

struct request {
    char *error;             /* [CURL_ERROR_SIZE]; what libcurl says of a failure */
    const char *authorities; /* file of certificates to trust, NULL: the system's */
    struct answer *answer;
};

/* Sets the handle up. What r points to must live as long as the handle. */
void request_prepare(CURL *c, const struct request *r);
/* The time for a connection, and for 1 KiB a second on average; 0: for ever. */
void request_patience(CURL *c, uint64_t timeout_ns);
/* libcurl asks for parts again: CURLOPT_SEEKFUNCTION, with u as its data. */
void request_rewinds(CURL *c, struct upload *u);
/* True if text is a URL that requests may go to, taken into u, whose path stays as it is. example:
 * how one looks; instead: what a URL that may hold a password is called. -1: ERROR_USAGE. */
int request_url(CURLU *u, const char *text, const char *example, const char *instead,
                struct error *err);
/* Appends a header. False without memory: the list then is as it was. */
bool request_header(struct curl_slist **list, const char *line);
/* Frees a list, whose lines may hold secrets, and makes it empty. */
void request_drop_headers(struct curl_slist **list);

/* Before a try. What an earlier try appended to the body is taken away. */
void answer_begin(struct answer *a);
/* True: a try ended because of its headers. */
static inline bool answer_head_is_long(const struct answer *a)
{
    return a->headers_seen > a->headers_most;
}
/* The first line of the body, without what a terminal would act on. */
void answer_line(const struct answer *a, char line[ANSWER_WORDS]);

/* True if a try that ended so may end otherwise the next time. status: HTTP's. */
bool request_worth_again(CURLcode code, long status);
/* The server's Retry-After, at most `most_ns`; 0: it has none. */
uint64_t request_asked_ns(CURL *c, uint64_t most_ns);
/* How long to wait before the next try: what the server asks for, else *next_ns, which doubles; a
 * minute at most. */
uint64_t request_pause_ns(CURL *c, uint64_t *next_ns);
void request_sleep(uint64_t ns);
/* "--ca FILE" helps against this failure. */
bool request_is_untrusted(CURLcode code);

#endif
