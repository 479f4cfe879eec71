/* http.c - Sends questions to one server and returns the whole answer. The connection stays open
 * between questions. Error texts show the URL without its user and password. */
#include "push/http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "curl_library.h"
#include "request.h"
#include "push/push.h"

#define CONNECT_MS   10000L
#define SILENCE_S    600L /* how long a question may take without a byte either way */
#define HEADERS_MOST 65536u

struct http_server {
    CURL *curl;
    char *base, *shown; /* the URL up to its path, with and without its user */
    char *user, *name;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    /* one question's */
    struct answer answer;
};

void http_close(struct http_server *h)
{
    if (!h)
        return;
    if (h->curl)
        curl.easy_cleanup(h->curl);
    request_drop_headers(&h->headers);
    free(h->base);
    free(h->shown);
    free(h->user);
    free(h->name);
    free(h);
}

/* Takes the URL apart. */
static int http_take_url(struct http_server *h, CURLU *u, const char *url, struct error *err)
{
    int status = request_url(u, url, "http://HOST:8123/DATABASE", "the store's name", err);
    if (status)
        return status;
    char *scheme = curl_part(u, CURLUPART_SCHEME, 0),
         *password = curl_part(u, CURLUPART_PASSWORD, 0);
    char *host = curl_part(u, CURLUPART_HOST, 0),
         *path = curl_part(u, CURLUPART_PATH, CURLU_URLDECODE);
    char *port = curl_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT),
         *query = curl_part(u, CURLUPART_QUERY, 0);
    h->user = curl_part(u, CURLUPART_USER, CURLU_URLDECODE);
    if (!scheme || !host || !path || !port)
        status = error_memory(err); /* every URL of http has these */
    else if (password)
        status = error_set(err, ERROR_USAGE,
                           "a password in a URL can be seen by other users; use --key-file FILE");
    else if (query)
        status = error_set(err, ERROR_USAGE, "the store's URL has a query; it must end in a name");
    if (!status) {
        const size_t n = strlen(path);
        if (n > 1 && path[n - 1] == '/')
            path[n - 1] = 0;
        h->name = strdup(path + (*path == '/'));
        if (asprintf(&h->base, "%s://%s:%s/", scheme, host, port) < 0)
            h->base = NULL;
        h->shown = h->base ? strdup(h->base) : NULL;
        if (!h->name || !h->shown)
            status = error_memory(err);
    }
    free(scheme), free(password), free(host), free(path), free(port), free(query);
    return status;
}

static void http_configure(struct http_server *h, const char *authorities)
{
    CURL *c = h->curl;
    request_prepare(
        c, &(struct request){.error = h->error, .authorities = authorities, .answer = &h->answer});
    curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
}

struct http_server *http_open(const char *url, const char *authorities, const char **user,
                              const char **name, struct error *err)
{
    const char *why, *remedy;
    if (!push_library(&why, &remedy)) {
        error_set(err, ERROR_UNSUPPORTED, "%.200s; '%s' and try again", why, remedy);
        return NULL;
    }
    struct http_server *h = calloc(1, sizeof *h);
    CURLU *u = curl.url();
    int status = -1;
    if (!h || !u || !(h->curl = curl.easy_init()))
        error_memory(err);
    else
        status = http_take_url(h, u, url, err);
    curl.url_cleanup(u);
    /* nothing of the answer is waited for before the body is sent */
    if (!status)
        status = http_header(h, "Expect", "", err);
    if (status) {
        http_close(h);
        return NULL;
    }
    http_configure(h, authorities);
    *user = h->user;
    *name = h->name;
    return h;
}

int http_header(struct http_server *h, const char *name, const char *value, struct error *err)
{
    char *line = NULL;
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p == 127)
            return error_set(err, ERROR_USAGE, "%s has a control character", name);
    if (asprintf(&line, *value ? "%s: %s" : "%s:", name, value) < 0)
        return error_memory(err);
    const bool added = request_header(&h->headers, line);
    explicit_bzero(line, strlen(line));
    free(line);
    return added ? 0 : error_memory(err);
}

void http_escape(struct buffer *to, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (isalnum(*p) || strchr("-._~", *p))
            buffer_append_char(to, (char)*p);
        else
            buffer_printf(to, "%%%02X", *p);
}

static int http_explain(struct http_server *h, CURLcode code, long status, struct error *err)
{
    char line[ANSWER_WORDS];
    if (buffer_failed(h->answer.body))
        return error_memory(err);
    if (answer_head_is_long(&h->answer))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s: the answer's headers are longer than %zu bytes", h->shown,
                         h->answer.headers_most);
    if (code == CURLE_WRITE_ERROR)
        return error_set(err, ERROR_UNSUPPORTED, "%.200s: the answer is longer than %zu bytes",
                         h->shown, h->answer.most);
    if (request_is_untrusted(code))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s: %.160s; --ca FILE names the certificates to trust", h->shown,
                         *h->error ? h->error : curl.easy_strerror(code));
    if (code)
        return error_set(err, ERROR_UNSUPPORTED, "%.200s: %.200s", h->shown,
                         *h->error ? h->error : curl.easy_strerror(code));
    answer_line(&h->answer, line);
    return error_set(err, ERROR_UNSUPPORTED, "%.200s answers %ld%s%s", h->shown, status,
                     *line ? ": " : "", line);
}

int http_post(struct http_server *h, const char *query, const void *body, size_t bytes,
              struct buffer *answer, size_t most, struct error *err)
{
    char *url = NULL;
    long status = 0;
    if (asprintf(&url, "%s?%s", h->base, query) < 0)
        return error_memory(err);
    h->answer = (struct answer){.body = answer, .most = most, .headers_most = HEADERS_MOST};
    answer_begin(&h->answer);
    *h->error = 0;
    curl.easy_setopt(h->curl, CURLOPT_URL, url);
    curl.easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    curl.easy_setopt(h->curl, CURLOPT_POST, 1L);
    curl.easy_setopt(h->curl, CURLOPT_POSTFIELDS, bytes ? body : "");
    curl.easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
    const CURLcode code = curl.easy_perform(h->curl);
    curl.easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    free(url);
    return !code && status / 100 == 2 ? 0 : http_explain(h, code, status, err);
}
