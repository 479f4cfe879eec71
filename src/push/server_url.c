/* server_url.c - see server_url.h. */
#include "push/server_url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "curl_library.h"
#include "push/push.h"

struct parts {
    char *scheme, *host, *port, *path, *password, *query, *fragment;
};

static void free_parts(struct parts *p)
{
    free(p->scheme), free(p->host), free(p->port), free(p->path);
    free(p->password), free(p->query), free(p->fragment);
}

/* True if this host is this machine. */
static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    char inner[INET6_ADDRSTRLEN] = "";
    if (*host == '[')
        snprintf(inner, sizeof inner, "%.*s", (int)strcspn(host + 1, "]"), host + 1);
    return !strcmp(host, "localhost") ||
           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127) ||
           (inet_pton(AF_INET6, inner, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

static int judge_url(struct server_url *u, const struct parts *p, struct error *err)
{
    if (!p->scheme || !p->host || !p->port || !p->path)
        return error_memory(err);
    u->secure = !strcmp(p->scheme, "https");
    if (!u->secure && strcmp(p->scheme, "http") != 0)
        return error_set(err, ERROR_USAGE, "%.32s:// is not known; https:// and http:// are",
                         p->scheme);
    if (p->password)
        return error_set(err, ERROR_USAGE,
                         "a password does not belong into a URL, where other users can see it; "
                         "--push-token-file FILE has it");
    if (p->query || p->fragment)
        return error_set(err, ERROR_USAGE, "the server's URL has a query; give it without");
    if (!u->secure && !is_loopback(p->host))
        return error_set(err, ERROR_USAGE,
                         "http://%.200s is another machine, and everybody on the way could read "
                         "the profiles; https:// it must be, or a proxy on 127.0.0.1",
                         p->host);
    const char *slash = p->path[strlen(p->path) - 1] == '/' ? "" : "/";
    if (asprintf(&u->base, "%s://%s:%s%s%s", p->scheme, p->host, p->port, p->path, slash) < 0) {
        u->base = NULL;
        return error_memory(err);
    }
    return 0;
}

int server_url_parse(struct server_url *u, const char *text, struct error *err)
{
    const char *why, *remedy;
    *u = (struct server_url){0};
    if (!push_library(&why, &remedy))
        return error_set(err, ERROR_UNSUPPORTED, "%.200s; '%s' and try again", why, remedy);
    CURLU *parsed = curl.url();
    if (!parsed)
        return error_memory(err);
    int status = -1;
    if (curl.url_set(parsed, CURLUPART_URL, text, 0)) {
        error_set(err, ERROR_USAGE, "'%.200s' is no URL; as in https://HOST:4040",
                  strchr(text, '@') ? "the server's name" : text);
    } else {
        struct parts p = {.scheme = curl_part(parsed, CURLUPART_SCHEME, 0),
                          .host = curl_part(parsed, CURLUPART_HOST, 0),
                          .port = curl_part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT),
                          .path = curl_part(parsed, CURLUPART_PATH, 0),
                          .password = curl_part(parsed, CURLUPART_PASSWORD, 0),
                          .query = curl_part(parsed, CURLUPART_QUERY, 0),
                          .fragment = curl_part(parsed, CURLUPART_FRAGMENT, 0)};
        u->user = curl_part(parsed, CURLUPART_USER, CURLU_URLDECODE);
        status = judge_url(u, &p, err);
        free_parts(&p);
    }
    curl.url_cleanup(parsed);
    if (status)
        server_url_release(u);
    return status;
}

void server_url_release(struct server_url *u)
{
    free(u->base);
    free(u->user);
    *u = (struct server_url){0};
}
