/* objects.c - Puts, gets, examines and deletes objects at an HTTP store, signed for S3 if keys
 * are given. It repeats a request that failed for a passing reason. Error texts show neither the
 * query nor the credentials. */
#include "push/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "curl_library.h"
#include "request.h"
#include "push/push.h"
#include "push/sha256.h"

#define SECOND_NS    1000000000ull
#define WORDS_MOST   (64u << 10)  /* an answer whose body is not wanted; and all headers */
#define UPLOAD_BYTES (512l << 10) /* that libcurl takes at once */

struct objects {
    struct objects_options o;
    CURL *curl;
    char *base, *query, *shown; /* the URL before an object's name and behind it */
    char *user_password, *token;
    char error[CURL_ERROR_SIZE];
    /* state of one request */
    const char *method, *name;
    const uint8_t *data;
    struct upload upload;
    struct answer answer;
    bool stopped;
    long http_status;
};

void objects_close(struct objects *s)
{
    if (!s)
        return;
    if (s->curl)
        curl.easy_cleanup(s->curl);
    if (s->user_password)
        explicit_bzero(s->user_password, strlen(s->user_password));
    if (s->token)
        explicit_bzero(s->token, strlen(s->token));
    free(s->base);
    free(s->query);
    free(s->shown);
    free(s->user_password);
    free(s->token);
    free(s);
}

const char *objects_url(const struct objects *s) { return s->shown; }

/* ---- the address ---- */

/* base: the whole URL with a slash at its end, without its query; shown: the same without secrets.
 */
static int objects_take_parts(struct objects *s, CURLU *u, struct error *err)
{
    char *path = NULL, *query = NULL, *text = NULL, *plain = NULL, *more = NULL;
    const char *name = s->o.name ? s->o.name : "";
    int status = -1;
    (void)curl.url_get(u, CURLUPART_QUERY, &query, 0); /* most have none */
    if (curl.url_get(u, CURLUPART_PATH, &path, 0))
        goto out;
    char *escaped = curl.easy_escape(NULL, name, 0);
    const bool named = path[strlen(path) - 1] == '/';
    if (!escaped ||
        asprintf(&more, "%s%s%s", path, named ? escaped : "", named && !*name ? "" : "/") < 0)
        more = NULL;
    curl.free(escaped);
    if (!more || curl.url_set(u, CURLUPART_PATH, more, 0) ||
        curl.url_set(u, CURLUPART_QUERY, NULL, 0) || curl.url_set(u, CURLUPART_FRAGMENT, NULL, 0) ||
        curl.url_get(u, CURLUPART_URL, &text, 0) || curl.url_set(u, CURLUPART_USER, NULL, 0) ||
        curl.url_set(u, CURLUPART_PASSWORD, NULL, 0) || curl.url_get(u, CURLUPART_URL, &plain, 0))
        goto out;
    s->base = strdup(text);
    s->shown = strdup(plain);
    s->query = query ? strdup(query) : NULL;
    status = s->base && s->shown && (s->query || !query) ? 0 : -1;
out:
    curl.free(path);
    curl.free(query);
    curl.free(text);
    curl.free(plain);
    free(more);
    return status ? error_memory(err) : 0;
}

static int objects_take_url(struct objects *s, struct error *err)
{
    CURLU *u = curl.url();
    char *user = NULL;
    if (!u)
        return error_memory(err);
    int status = request_url(u, s->o.url, "https://store.example/directory/", "this", err);
    if (!status && s->o.keys && !curl.url_get(u, CURLUPART_USER, &user, 0))
        status = error_set(err, ERROR_USAGE, "a request is signed or has a user, not both");
    if (!status)
        status = objects_take_parts(s, u, err);
    curl.free(user);
    curl.url_cleanup(u);
    return status;
}

/* ACCESS:SECRET[:TOKEN]. No message repeats any of it. */
static int take_keys(struct objects *s, struct error *err)
{
    const char *first = strchr(s->o.keys, ':');
    const char *second = first ? strchr(first + 1, ':') : NULL;
    if (!first || first == s->o.keys || !first[1] || second == first + 1)
        return error_set(err, ERROR_USAGE,
                         "the file of keys has no line ACCESS:SECRET or ACCESS:SECRET:TOKEN");
    const size_t n = second ? (size_t)(second - s->o.keys) : strlen(s->o.keys);
    s->user_password = strndup(s->o.keys, n);
    if (second && asprintf(&s->token, "x-amz-security-token: %s", second + 1) < 0)
        s->token = NULL;
    return s->user_password && (s->token || !second) ? 0 : error_memory(err);
}

/* ---- what libcurl asks for ---- */

static size_t objects_give_body(char *to, size_t size, size_t count, void *arg)
{
    struct objects *s = arg;
    size_t n = size * count;
    if (n > s->upload.bytes - s->upload.at)
        n = s->upload.bytes - s->upload.at;
    if (n)
        memcpy(to, s->data + s->upload.at, n);
    s->upload.at += n;
    return n;
}

static int objects_look_up(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct objects *s = arg;
    (void)a, (void)b, (void)c, (void)d;
    s->stopped = s->stopped || (s->o.goes_on && !s->o.goes_on(s->o.arg));
    return s->stopped;
}

static void objects_configure(struct objects *s)
{
    CURL *c = s->curl;
    request_prepare(c, &(struct request){.error = s->error,
                                         .authorities = s->o.authorities,
                                         .answer = &s->answer});
    curl.easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BYTES);
    curl.easy_setopt(c, CURLOPT_READFUNCTION, objects_give_body);
    curl.easy_setopt(c, CURLOPT_READDATA, s);
    request_rewinds(c, &s->upload);
    curl.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, objects_look_up);
    curl.easy_setopt(c, CURLOPT_XFERINFODATA, s);
    curl.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    request_patience(c, s->o.timeout_ns);
    if (s->o.keys) {
        char provider[128];
        snprintf(provider, sizeof provider, "aws:amz:%s:s3", s->o.region);
        curl.easy_setopt(c, CURLOPT_AWS_SIGV4, provider);
        curl.easy_setopt(c, CURLOPT_USERPWD, s->user_password);
    } else
        curl.easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
}

struct objects *objects_open(const struct objects_options *o, struct error *err)
{
    const char *why, *remedy;
    if (!push_library(&why, &remedy)) {
        error_set(err, ERROR_UNSUPPORTED, "%.200s; '%s' and try again", why, remedy);
        return NULL;
    }
    struct objects *s = calloc(1, sizeof *s);
    if (!s || !(s->curl = curl.easy_init())) {
        error_memory(err);
        objects_close(s);
        return NULL;
    }
    s->o = *o;
    if (objects_take_url(s, err) || (o->keys && take_keys(s, err))) {
        objects_close(s);
        return NULL;
    }
    objects_configure(s);
    return s;
}

/* ---- a request ---- */

/* The headers, to be freed; NULL without memory. */
static struct curl_slist *objects_headers(const struct objects *s)
{
    struct curl_slist *list = NULL;
    bool typed = s->upload.bytes == 0, whole = true;
    if (!s->o.keys) /* a removed header would still be signed */
        whole = request_header(&list, "Expect:");
    for (size_t i = 0; i < s->o.header_count; i++) {
        typed |= !strncasecmp(s->o.header[i], "content-type:", 13);
        whole &= request_header(&list, s->o.header[i]);
    }
    if (!typed)
        whole &= request_header(&list, "Content-Type: application/octet-stream");
    if (s->o.keys) {
        char line[sizeof "x-amz-content-sha256: " + SHA256_TEXT];
        uint8_t sum[SHA256_BYTES];
        char text[SHA256_TEXT];
        sha256(s->data, s->upload.bytes, sum);
        sha256_text(sum, text);
        snprintf(line, sizeof line, "x-amz-content-sha256: %s", text);
        whole &= request_header(&list, line);
        if (s->token)
            whole &= request_header(&list, s->token);
    }
    if (whole)
        return list;
    curl.slist_free_all(list);
    return NULL;
}

static void choose_method(struct objects *s)
{
    CURL *c = s->curl;
    const bool put = !strcmp(s->method, "PUT"), head = !strcmp(s->method, "HEAD");
    curl.easy_setopt(c, CURLOPT_CUSTOMREQUEST, NULL);
    if (put) {
        curl.easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl.easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)s->upload.bytes);
        return;
    }
    curl.easy_setopt(c, CURLOPT_UPLOAD, 0L);
    curl.easy_setopt(c, CURLOPT_HTTPGET, 1L);
    if (head)
        curl.easy_setopt(c, CURLOPT_NOBODY, 1L);
    else if (!strcmp(s->method, "DELETE"))
        curl.easy_setopt(c, CURLOPT_CUSTOMREQUEST, s->method);
}

static enum objects_status objects_explain(struct objects *s, CURLcode code, struct error *err)
{
    const char *why = *s->error ? s->error : curl.easy_strerror(code);
    char line[ANSWER_WORDS];
    if (s->answer.body && buffer_failed(s->answer.body))
        error_memory(err);
    else if (s->stopped)
        error_set(err, ERROR_UNSUPPORTED, "%.200s%s: broken off", s->shown, s->name);
    else if (answer_head_is_long(&s->answer))
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s%s: the answer's headers are longer than %zu bytes", s->shown, s->name,
                  s->answer.headers_most);
    else if (code == CURLE_WRITE_ERROR)
        error_set(err, ERROR_UNSUPPORTED, "%.200s%s: the answer is longer than %zu bytes", s->shown,
                  s->name, s->answer.most);
    else if (request_is_untrusted(code))
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s%s: %.120s; --ca FILE names the certificates to trust", s->shown, s->name,
                  why);
    else if (code)
        error_set(err, ERROR_UNSUPPORTED, "%.200s%s: %.160s", s->shown, s->name, why);
    else if (s->http_status / 100 == 3)
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s%s answers %ld, a redirection to %.150s; give that URL if you trust it",
                  s->shown, s->name, s->http_status,
                  *s->answer.location ? s->answer.location : "an unnamed place");
    else {
        answer_line(&s->answer, line);
        error_set(err, ERROR_UNSUPPORTED, "%s %.200s%s answers %ld%s%s", s->method, s->shown,
                  s->name, s->http_status, *line ? ": " : "", line);
    }
    return OBJECTS_FAILED;
}

static bool wait_before(const struct objects *s, const char *why, uint64_t tries, uint64_t *next)
{
    const uint64_t now = request_pause_ns(s->curl, next);
    if (s->o.pause)
        return s->o.pause(s->o.arg, why, tries, now);
    if (tries > s->o.retries)
        return false;
    request_sleep(now);
    return true;
}

/* All tries of one request; the answer's body comes into *to, unless it is NULL. */
static enum objects_status objects_ask(struct objects *s, const char *method, const char *name,
                                       struct buffer *to, size_t most, struct error *err)
{
    char *url = NULL;
    s->method = method;
    s->name = name;
    struct curl_slist *list = objects_headers(s);
    if (!list || asprintf(&url, "%s%s%s%s", s->base, name, s->query ? "?" : "",
                          s->query ? s->query : "") < 0) {
        curl.slist_free_all(list);
        error_memory(err);
        return OBJECTS_FAILED;
    }
    choose_method(s);
    curl.easy_setopt(s->curl, CURLOPT_URL, url);
    curl.easy_setopt(s->curl, CURLOPT_HTTPHEADER, list);
    s->answer = (struct answer){.body = to, .most = most, .headers_most = WORDS_MOST};
    enum objects_status status = OBJECTS_FAILED;
    uint64_t next = s->o.first_pause_ns ? s->o.first_pause_ns : SECOND_NS;
    for (uint64_t tries = 1;; tries++) {
        answer_begin(&s->answer);
        s->upload.at = 0;
        s->http_status = 0;
        s->stopped = false;
        s->error[0] = 0;
        const CURLcode code = curl.easy_perform(s->curl);
        curl.easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &s->http_status);
        if (!code && s->http_status / 100 == 2)
            status = OBJECTS_DONE;
        else if (!code && (s->http_status == 404 || s->http_status == 410) && *method != 'P')
            status = OBJECTS_ABSENT;
        else if (!code && (*method == 'H' || *method == 'D') &&
                 (s->http_status == 403 || s->http_status == 405 || s->http_status == 501))
            status = OBJECTS_REFUSED;
        else
            status = objects_explain(s, code, err);
        if (status != OBJECTS_FAILED || s->stopped || !request_worth_again(code, s->http_status) ||
            !wait_before(s, err->text, tries, &next))
            break;
    }
    if (status != OBJECTS_DONE)
        answer_begin(&s->answer); /* nothing of a failure stays in *to */
    curl.slist_free_all(list);
    free(url);
    return status;
}

enum objects_status objects_put(struct objects *s, const char *name, const void *data, size_t bytes,
                                struct error *err)
{
    s->data = data;
    s->upload.bytes = bytes;
    const enum objects_status status = objects_ask(s, "PUT", name, NULL, WORDS_MOST, err);
    s->upload.bytes = 0;
    return status;
}

enum objects_status objects_get(struct objects *s, const char *name, struct buffer *to, size_t most,
                                struct error *err)
{
    return objects_ask(s, "GET", name, to, most, err);
}

enum objects_status objects_look(struct objects *s, const char *name, uint64_t *bytes,
                                 struct error *err)
{
    curl_off_t length = -1;
    const enum objects_status status = objects_ask(s, "HEAD", name, NULL, WORDS_MOST, err);
    if (status != OBJECTS_DONE)
        return status;
    curl.easy_getinfo(s->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (length < 0)
        return OBJECTS_REFUSED; /* it does not say */
    *bytes = (uint64_t)length;
    return OBJECTS_DONE;
}

enum objects_status objects_delete(struct objects *s, const char *name, struct error *err)
{
    return objects_ask(s, "DELETE", name, NULL, WORDS_MOST, err);
}
