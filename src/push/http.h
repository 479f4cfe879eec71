/* http.h - questions to one server by HTTP: a body is posted, the whole answer comes back.
 *
 * Owns: the connection, which is kept between questions, and what of the server's answer may be
 * shown. Refuses: other protocols than http and https; following the server elsewhere; passwords in
 * the URL, which command lines and logs would show. Functions return 0, or -1 with *err set; one
 * thread at a time for a struct http_server. */
#ifndef MALLOW_PUSH_HTTP_H
#define MALLOW_PUSH_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct http_server;

/* scheme://[USER@]HOST[:PORT]/NAME, of which *user (NULL: none) and *name ("": none) are the
 * server's own; they live until http_close. authorities: file of certificates to trust, NULL: the
 * system's. NULL with *err: no such URL, or no libcurl. Nothing is connected yet. */
struct http_server *http_open(const char *url, const char *authorities, const char **user,
                              const char **name, struct error *err);
void http_close(struct http_server *h); /* NULL is fine */
/* A header of each question from now on: NAME: VALUE without control characters. */
int http_header(struct http_server *h, const char *name, const char *value, struct error *err);

/* Posts `bytes` of `body` to /?`query` and appends the answer, of at most `most` bytes. The server
 * must answer 2xx; else *err has the first line of what it says. It may have taken the body when
 * -1 is returned: only a question that changes nothing is asked again by itself, by the caller. */
int http_post(struct http_server *h, const char *query, const void *body, size_t bytes,
              struct buffer *answer, size_t most, struct error *err);
/* `text` as part of a query. */
void http_escape(struct buffer *to, const char *text);

#endif
