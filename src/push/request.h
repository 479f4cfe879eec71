/* request.h - what every request of mallow's has in common, and which failures are worth another
 * try.
 *
 * Owns: that only http and https are spoken, that no redirection is followed, how mallow names
 * itself, and where answers go. A handle belongs to one thread. */
#ifndef MALLOW_PUSH_REQUEST_H
#define MALLOW_PUSH_REQUEST_H

#include <stdbool.h>

#include "curl_library.h"

typedef size_t request_bytes(char *from, size_t size, size_t count, void *arg);

struct request {
    char *error;             /* [CURL_ERROR_SIZE]; what libcurl says of a failure */
    const char *authorities; /* file of certificates to trust, NULL: the system's */
    request_bytes *body, *header;
    void *arg; /* of both */
};

/* Sets the handle up. What r points to must live as long as the handle. */
void request_prepare(CURL *c, const struct request *r);

/* Whether a try that ended so may end otherwise the next time. status: HTTP's. */
bool request_worth_again(CURLcode code, long status);

#endif
