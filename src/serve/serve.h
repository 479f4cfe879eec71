/* serve.h - a small HTTP server for one thread that also does other things.
 *
 * Owns: the socket, who may ask (this machine, under a name that no foreign page can take; or who
 * has the token), TLS, the bounds on connections, headers and time. Refuses: an address that is not
 * loopback without a token and TLS, threads, to wait. The owner decides the answers. One thread. */
#ifndef MALLOW_SERVE_SERVE_H
#define MALLOW_SERVE_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define SERVE_ADDRESS_BYTES 80

struct serve;

/* A GET or HEAD, for the call only. */
struct serve_request {
    const char *path; /* decoded, without the query */
    void *state;      /* the owner's, NULL at first; kept while the answer is put off */
    bool again;       /* the time that was asked for with wait_ns is over */
    void *connection; /* private */
};

struct serve_reply {
    unsigned status;    /* HTTP's */
    const char *type;   /* Content-Type */
    const char *coding; /* Content-Encoding; NULL: none */
    const char *policy; /* Content-Security-Policy; NULL: nothing is allowed */
    struct buffer body; /* taken over */
    uint64_t wait_ns;   /* not 0: no answer yet; ask again after so long */
};

struct serve_owner {
    void *arg;
    void (*answer)(void *arg, struct serve_request *request, struct serve_reply *reply);
    /* A request with a state is over, answered or not. */
    void (*forget)(void *arg, void *state);
};

#define SERVE_TOKEN_LEAST 16u /* characters of a token that others than this machine may try */

/* Texts that stay the caller's for as long as the server is there; NULL: none. */
struct serve_guard {
    const char *token;             /* that every request must name */
    const char *certificate, *key; /* PEM; both: TLS */
};

/* Listens on "ADDR:PORT": an IPv4 address, [::1], or localhost; port 0: any. NULL: *err says
 * why not (ERROR_USAGE: the text names the fault of the address). No descriptor of it is inherited
 * by programs that are started later. */
struct serve *serve_open(const char *address, const struct serve_guard *guard,
                         const struct serve_owner *owner, struct error *err);
void serve_close(struct serve *s); /* NULL is fine */

/* "http" or "https", and "127.0.0.1:4711", with the port that was chosen. */
const char *serve_scheme(const struct serve *s);
const char *serve_address(const struct serve *s);

/* Readable when there is something to do. */
int serve_descriptor(const struct serve *s);

/* Answers what has arrived, lets go of who took too long, and returns without waiting. To be called
 * when the descriptor is readable, and a few times a second in any case. */
void serve_round(struct serve *s);

/* An argument of a request's query, or a header; NULL: not there. */
const char *serve_argument(const struct serve_request *request, const char *name);
const char *serve_header(const struct serve_request *request, const char *name);

#endif
