#include "serve/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/human.h"

#define LOOPBACK_NET 127u /* 127.0.0.0/8 */

/* Splits at the colon of the port. Returns the port's text, "" without one; NULL: no such form. */
static const char *split(const char *text, char *host, size_t room, bool *bracketed)
{
    const char *end, *begin = text;
    *bracketed = *text == '[';
    if (*bracketed) {
        begin++;
        end = strchr(begin, ']');
        if (!end || (end[1] && end[1] != ':'))
            return NULL;
    } else {
        end = begin + strcspn(begin, ":");
    }
    if (end == begin || (size_t)(end - begin) >= room)
        return NULL;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = 0;
    end += *bracketed;
    return *end == ':' ? end + 1 : end;
}

static bool loopback4(struct in_addr a) { return ntohl(a.s_addr) >> 24 == LOOPBACK_NET; }

int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes, bool *loopback,
                  struct error *err)
{
    char host[INET6_ADDRSTRLEN + 1];
    bool bracketed;
    uint64_t port;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    const char *digits = split(text, host, sizeof host, &bracketed);
    memset(out, 0, sizeof *out);
    if (!digits || !*digits || strlen(digits) > 5 ||
        strspn(digits, "0123456789") != strlen(digits) || !human_parse_count(digits, &port) ||
        port > UINT16_MAX)
        return error_set(err, ERROR_USAGE,
                         "'%s' is not an address and a port such as 127.0.0.1:8080", text);
    if (bracketed) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *bytes = sizeof *v6;
        if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
            return error_set(err, ERROR_USAGE, "'%s' is not an IPv6 address", host);
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    } else {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *bytes = sizeof *v4;
        if (inet_pton(AF_INET, strcasecmp(host, "localhost") ? host : "127.0.0.1", &v4->sin_addr) !=
            1)
            return error_set(err, ERROR_USAGE,
                             "'%s' is not an address such as 127.0.0.1 (names are not looked up)",
                             host);
        *loopback = loopback4(v4->sin_addr);
    }
    return 0;
}

bool address_is_own_host(const char *text)
{
    char host[INET6_ADDRSTRLEN + 1];
    bool bracketed;
    struct in_addr v4;
    struct in6_addr v6;
    const char *port = split(text, host, sizeof host, &bracketed);
    if (!port || strspn(port, "0123456789") != strlen(port))
        return false;
    if (bracketed)
        return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    return !strcasecmp(host, "localhost") || (inet_pton(AF_INET, host, &v4) == 1 && loopback4(v4));
}
