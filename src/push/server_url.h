/* server_url.h - the URL of a server that things are sent to all the time, below which they go.
 *
 * Owns: what such a URL may be: https://, or http:// on this machine alone, for plain text
 * can be read on the way; no password, query or fragment in it, which command lines and logs show.
 * One thread; the texts stay until the release. */
#ifndef MALLOW_PUSH_SERVER_URL_H
#define MALLOW_PUSH_SERVER_URL_H

#include <stdbool.h>

#include "base/error.h"

struct server_url {
    char *base;  /* without the user, ends in / */
    char *user;  /* NULL: none */
    bool secure; /* https */
};

/* -1 with *err: ERROR_USAGE for a URL that is none of these, ERROR_UNSUPPORTED without libcurl. */
int server_url_parse(struct server_url *u, const char *text, struct error *err);
void server_url_release(struct server_url *u);

#endif
