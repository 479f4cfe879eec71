/* secret.h - may I send what this file holds as my secret?
 *
 * Owns: how a token, password or key is read: from a file, never from a command line or the
 * environment, which others can see. The file belongs to the caller or root, others can
 * neither read nor write it, its group cannot write it. No message repeats what it holds. Any
 * thread; no state. */
#ifndef MALLOW_TRUST_SECRET_H
#define MALLOW_TRUST_SECRET_H

#include "base/error.h"

#define TRUST_SECRET_BYTES      4096u
#define TRUST_SECRET_TEXT_BYTES 65536u

/* `what`, for messages: "the token file". The secret, one or more printable ASCII characters, to be
 * given to trust_secret_free. NULL with *err. */
char *trust_secret(const char *path, const char *what, struct error *err);
/* The same of a whole file of lines, a private key; up to a NUL in it. */
char *trust_secret_text(const char *path, const char *what, struct error *err);
/* Overwrites it first. NULL is fine. */
void trust_secret_free(char *secret);

#endif
