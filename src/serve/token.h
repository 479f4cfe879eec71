/* token.h - whether a request names the token. Pure functions; both texts stay the
 * caller's. */
#ifndef MALLOW_SERVE_TOKEN_H
#define MALLOW_SERVE_TOKEN_H

#include <stdbool.h>

/* authorization: the value of that header, "Bearer TOKEN", or "Basic ..." with the token as the
 * password of any user, which is what browsers and URLs can send. How long this takes says nothing
 * of the token but its length. */
bool token_accepts(const char *token, const char *authorization);

#endif
