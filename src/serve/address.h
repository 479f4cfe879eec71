/* address.h - addresses to listen on, as they are written and as clients name them. Pure functions.
 */
#ifndef MALLOW_SERVE_ADDRESS_H
#define MALLOW_SERVE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

/* "127.0.0.1:80", "[::1]:80", "localhost:0". *loopback: only this machine can reach it. -1: *err
 * names its fault. */
int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes, bool *loopback,
                  struct error *err);

/* True if a Host header names this machine: a loopback address or localhost, with any port (one may
 * have been forwarded). A page of another site reaches this server under that site's name only. */
bool address_is_own_host(const char *host);

#endif
