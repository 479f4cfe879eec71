#include "serve/token.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Looks at every character of the token, whatever the first that differs. */
static bool same_token(const char *token, const char *given)
{
    const size_t length = strlen(token), all = strlen(given);
    volatile unsigned char differs = length != all;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)(token[i] ^ given[i < all ? i : all]);
    return !differs;
}

static int digit64(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Text in base 64 up to its padding; NULL when it is none, or there is no memory. To be freed. */
static char *decode64(const char *text)
{
    const size_t length = strcspn(text, "=");
    char *out = calloc(1, length + 1);
    unsigned bits = 0, value = 0;
    size_t n = 0;
    for (size_t i = 0; out && i < length; i++) {
        const int digit = digit64(text[i]);
        if (digit < 0) {
            free(out);
            return NULL;
        }
        value = value << 6 | (unsigned)digit;
        bits += 6;
        if (bits >= 8)
            out[n++] = (char)(value >> (bits -= 8) & 0xff);
    }
    return out;
}

/* The text behind the scheme; NULL: it is another one. */
static const char *behind(const char *text, const char *scheme)
{
    const size_t n = strlen(scheme);
    if (strncasecmp(text, scheme, n) != 0 || text[n] != ' ')
        return NULL;
    return text + n + strspn(text + n, " ");
}

bool token_accepts(const char *token, const char *authorization)
{
    const char *given = behind(authorization, "Bearer");
    if (given)
        return same_token(token, given);
    given = behind(authorization, "Basic");
    char *decoded = given ? decode64(given) : NULL;
    const char *password = decoded ? strchr(decoded, ':') : NULL;
    const bool accepted = password && same_token(token, password + 1);
    if (decoded)
        explicit_bzero(decoded, strlen(decoded));
    free(decoded);
    return accepted;
}
