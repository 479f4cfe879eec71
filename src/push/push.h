/* push.h - a file sent to a store on the network, by HTTP.
 *
 * Owns: which parts of a URL may be shown (its secrets never come back in a text), which failures
 * are worth another try, and that a server's answer is understood. The only place that knows
 * libcurl. Refuses: other protocols than http and https; following a server elsewhere (the headers
 * that were given for one host are not another's). Threads: one at a time. */
#ifndef MALLOW_PUSH_PUSH_H
#define MALLOW_PUSH_PUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PUSH_URL_BYTES 1024

struct push_options {
    const char *url;           /* http:// or https://; one that ends in / gets the file's name */
    bool post;                 /* POST, else PUT */
    const char *const *header; /* "NAME: VALUE", header_count of them; borrowed */
    size_t header_count;
    const char *authorities; /* file of certificates to trust, NULL: the system's */
    uint64_t retries;        /* tries after the first one */
    uint64_t timeout_ns; /* for a connection, below 1 KiB a second on it, for the whole answer once
                            the file was sent; 0: never */
    uint64_t first_pause_ns; /* before the second try; doubles */
    void (*progress)(void *arg, uint64_t sent_bytes, uint64_t bytes); /* NULL: none */
    void (*again)(void *arg, const char *why, uint64_t pause_ns);     /* NULL: none */
    void *arg;
};

struct push_result {
    char url[PUSH_URL_BYTES];      /* where it went, without user, password and query */
    char location[PUSH_URL_BYTES]; /* the server's name for it, "" when it does not say */
    long status;                   /* HTTP's, of the last answer; 0: there was none */
    uint64_t bytes, duration_ns, tries;
};

/* By what it sends: "libcurl 7.88.1 with OpenSSL/3.0". NULL: it cannot, for which *why and *remedy
 * are set; they live as long as the program, *why until the next call. */
const char *push_library(const char **why, const char **remedy);

/* A line of a header file or of the command line: NULL when it is "NAME: VALUE" as HTTP wants it,
 * else its fault. */
const char *push_header_fault(const char *header);

/* True if the URL is one that push_file takes; ERROR_USAGE else. name: for a URL that ends in /. */
int push_check(const char *url, const char *name, struct error *err);

/* Sends `fd` from its start to its present end, under `name` when the URL ends in a slash. fd must
 * be a regular file. 0: the server took it (2xx). result is filled as far as it came. */
int push_file(int fd, const char *name, const struct push_options *o, struct push_result *result,
              struct error *err);

#endif
