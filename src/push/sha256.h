/* sha256.h - SHA-256 (FIPS 180-4) of bytes in memory: what stores and sha256sum compare.
 *
 * Owns nothing. Any thread. */
#ifndef MALLOW_PUSH_SHA256_H
#define MALLOW_PUSH_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u
#define SHA256_TEXT  (2 * SHA256_BYTES + 1)

void sha256(const void *data, size_t bytes, uint8_t sum[SHA256_BYTES]);
/* As sixty-four hexadecimal digits, in lower case. */
void sha256_text(const uint8_t sum[SHA256_BYTES], char text[SHA256_TEXT]);

#endif
