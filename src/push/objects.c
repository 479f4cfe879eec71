/* objects.c - see objects.h. */
#include "push/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "curl_library.h"
#include "request.h"
#include "push/push.h"
#include "push/sha256.h"

#define MS_NS        1000000ull
#define SECOND_NS    (1000 * MS_NS)
#define PAUSE_MOST   (60 * SECOND_NS)
#define WORDS_MOST   (64u << 10) /* of an answer whose body is not wanted; and of all headers */
#define LEAST_SPEED  1024l
#define SHOWN_BYTES  160u
#define UPLOAD_BYTES (512l << 10) /* that libcurl takes at once */

struct objects {
    struct objects_options o;
    CURL *curl;
    char *base, *query, *shown; /* the URL before an object's name and behind it */
    char *user_password, *token;
    char error[CURL_ERROR_SIZE];
    /* of one request */
    const char *method, *name;
    const uint8_t *data;
    size_t bytes, at;
    struct buffer *answer;
    size_t before, most, headers_seen;
    bool stopped;
    long http_status;
    char location[SHOWN_BYTES];
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
static int take_parts(struct objects *s, CURLU *u, struct error *err)
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

static int take_url(struct objects *s, struct error *err)
{
    CURLU *u = curl.url();
    char *scheme = NULL, *user = NULL;
    int status;
    if (!u)
        return error_memory(err);
    if (curl.url_set(u, CURLUPART_URL, s->o.url, 0) ||
        curl.url_get(u, CURLUPART_SCHEME, &scheme, 0))
        status = error_set(err, ERROR_USAGE,
                           "'%.200s' is no URL; as in https://store.example/directory/",
                           strchr(s->o.url, '@') ? "this" : s->o.url);
    else if (strcmp(scheme, "http") && strcmp(scheme, "https"))
        status =
            error_set(err, ERROR_USAGE, "%.32s:// is not known; http:// and https:// are", scheme);
    else if (s->o.keys && !curl.url_get(u, CURLUPART_USER, &user, 0))
        status = error_set(err, ERROR_USAGE, "a request is signed or has a user, not both");
    else
        status = take_parts(s, u, err);
    curl.free(scheme);
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

static size_t give(char *to, size_t size, size_t count, void *arg)
{
    struct objects *s = arg;
    size_t n = size * count;
    if (n > s->bytes - s->at)
        n = s->bytes - s->at;
    if (n)
        memcpy(to, s->data + s->at, n);
    s->at += n;
    return n;
}

static int go_back(void *arg, curl_off_t offset, int origin)
{
    struct objects *s = arg;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > s->bytes)
        return CURL_SEEKFUNC_FAIL;
    s->at = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t take_answer(char *from, size_t size, size_t count, void *arg)
{
    struct objects *s = arg;
    const size_t n = size * count;
    if (s->answer->size_bytes - s->before + n > s->most)
        return 0;
    buffer_append(s->answer, from, n);
    return buffer_failed(s->answer) ? 0 : n;
}

static size_t take_header(char *from, size_t size, size_t count, void *arg)
{
    static const char name[] = "location:";
    struct objects *s = arg;
    const size_t n = size * count;
    s->headers_seen += n;
    if (n >= sizeof name && !strncasecmp(from, name, sizeof name - 1)) {
        size_t at = sizeof name - 1, to = 0;
        while (at < n && (from[at] == ' ' || from[at] == '\t'))
            at++;
        while (at < n && (unsigned char)from[at] > ' ' && (unsigned char)from[at] < 127 &&
               from[at] != '?' && to + 1 < sizeof s->location)
            s->location[to++] = from[at++];
        s->location[to] = 0;
    }
    return s->headers_seen > WORDS_MOST ? 0 : n;
}

static int look_up(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct objects *s = arg;
    (void)a, (void)b, (void)c, (void)d;
    s->stopped = s->stopped || (s->o.goes_on && !s->o.goes_on(s->o.arg));
    return s->stopped;
}

static void configure(struct objects *s)
{
    CURL *c = s->curl;
    request_prepare(c, &(struct request){.error = s->error,
                                         .authorities = s->o.authorities,
                                         .body = take_answer,
                                         .header = take_header,
                                         .arg = s});
    curl.easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BYTES);
    curl.easy_setopt(c, CURLOPT_READFUNCTION, give);
    curl.easy_setopt(c, CURLOPT_READDATA, s);
    curl.easy_setopt(c, CURLOPT_SEEKFUNCTION, go_back);
    curl.easy_setopt(c, CURLOPT_SEEKDATA, s);
    curl.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_up);
    curl.easy_setopt(c, CURLOPT_XFERINFODATA, s);
    curl.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    if (s->o.timeout_ns) {
        const long seconds = (long)((s->o.timeout_ns + SECOND_NS - 1) / SECOND_NS);
        curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(s->o.timeout_ns / MS_NS) + 1);
        curl.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, LEAST_SPEED);
        curl.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, seconds);
    }
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
    if (take_url(s, err) || (o->keys && take_keys(s, err))) {
        objects_close(s);
        return NULL;
    }
    configure(s);
    return s;
}

/* ---- a request ---- */

static bool append(struct curl_slist **list, const char *text)
{
    struct curl_slist *more = curl.slist_append(*list, text);
    if (more)
        *list = more;
    return more != NULL;
}

/* The headers, to be freed; NULL without memory. */
static struct curl_slist *headers(const struct objects *s)
{
    struct curl_slist *list = NULL;
    bool typed = s->bytes == 0, whole = true;
    if (!s->o.keys) /* a header that is taken away would be signed all the same */
        whole = append(&list, "Expect:");
    for (size_t i = 0; i < s->o.header_count; i++) {
        typed |= !strncasecmp(s->o.header[i], "content-type:", 13);
        whole &= append(&list, s->o.header[i]);
    }
    if (!typed)
        whole &= append(&list, "Content-Type: application/octet-stream");
    if (s->o.keys) {
        char line[sizeof "x-amz-content-sha256: " + SHA256_TEXT];
        uint8_t sum[SHA256_BYTES];
        char text[SHA256_TEXT];
        sha256(s->data, s->bytes, sum);
        sha256_text(sum, text);
        snprintf(line, sizeof line, "x-amz-content-sha256: %s", text);
        whole &= append(&list, line);
        if (s->token)
            whole &= append(&list, s->token);
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
        curl.easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)s->bytes);
        return;
    }
    curl.easy_setopt(c, CURLOPT_UPLOAD, 0L);
    curl.easy_setopt(c, CURLOPT_HTTPGET, 1L);
    if (head)
        curl.easy_setopt(c, CURLOPT_NOBODY, 1L);
    else if (!strcmp(s->method, "DELETE"))
        curl.easy_setopt(c, CURLOPT_CUSTOMREQUEST, s->method);
}

/* The first line of an answer, without what a terminal would act on. */
static void first_line(char to[SHOWN_BYTES], const char *text)
{
    size_t n = 0;
    text += strspn(text, " \t\r\n");
    for (; *text && *text != '\n' && *text != '\r' && n + 1 < SHOWN_BYTES; text++)
        to[n++] = (char)((unsigned char)*text < ' ' || (unsigned char)*text >= 127 ? '?' : *text);
    to[n] = 0;
}

static enum objects_status explain(struct objects *s, CURLcode code, const struct buffer *words,
                                   struct error *err)
{
    const char *why = *s->error ? s->error : curl.easy_strerror(code);
    char line[SHOWN_BYTES];
    if (buffer_failed(s->answer))
        error_memory(err);
    else if (s->stopped)
        error_set(err, ERROR_UNSUPPORTED, "%.200s%s: broken off", s->shown, s->name);
    else if (code == CURLE_WRITE_ERROR)
        error_set(err, ERROR_UNSUPPORTED, "%.200s%s: the answer is longer than it may be (%zu)",
                  s->shown, s->name, s->most);
    else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s%s: %.120s; --ca FILE names the certificates to trust", s->shown, s->name,
                  why);
    else if (code)
        error_set(err, ERROR_UNSUPPORTED, "%.200s%s: %.160s", s->shown, s->name, why);
    else if (s->http_status / 100 == 3)
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s%s answers %ld, elsewhere: %.150s; give that URL if you trust it",
                  s->shown, s->name, s->http_status,
                  *s->location ? s->location : "it does not say where");
    else {
        first_line(line, buffer_text(words) + (words == s->answer ? s->before : 0));
        error_set(err, ERROR_UNSUPPORTED, "%s %.200s%s answers %ld%s%s", s->method, s->shown,
                  s->name, s->http_status, *line ? ": " : "", line);
    }
    return OBJECTS_FAILED;
}

static bool wait_before(const struct objects *s, const char *why, uint64_t tries, uint64_t *next)
{
    curl_off_t asked = 0;
    curl.easy_getinfo(s->curl, CURLINFO_RETRY_AFTER, &asked);
    uint64_t now =
        asked > 0 && (uint64_t)asked < PAUSE_MOST / SECOND_NS ? (uint64_t)asked * SECOND_NS : *next;
    if (asked > 0 && (uint64_t)asked >= PAUSE_MOST / SECOND_NS)
        now = PAUSE_MOST;
    *next = *next * 2 < PAUSE_MOST ? *next * 2 : PAUSE_MOST;
    if (s->o.pause)
        return s->o.pause(s->o.arg, why, tries, now);
    if (tries > s->o.retries)
        return false;
    struct timespec t = {(time_t)(now / SECOND_NS), (long)(now % SECOND_NS)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
    return true;
}

static void cut(struct buffer *b, size_t bytes)
{
    b->size_bytes = bytes;
    if (b->data)
        b->data[bytes] = 0;
}

/* All tries of one request; the answer's body comes into *to. */
static enum objects_status ask(struct objects *s, const char *method, const char *name,
                               struct buffer *to, size_t most, struct error *err)
{
    char *url = NULL;
    s->method = method;
    s->name = name;
    struct curl_slist *list = headers(s);
    if (!list || asprintf(&url, "%s%s%s%s", s->base, name, s->query ? "?" : "",
                          s->query ? s->query : "") < 0) {
        curl.slist_free_all(list);
        error_memory(err);
        return OBJECTS_FAILED;
    }
    choose_method(s);
    curl.easy_setopt(s->curl, CURLOPT_URL, url);
    curl.easy_setopt(s->curl, CURLOPT_HTTPHEADER, list);
    s->answer = to;
    s->before = to->size_bytes;
    s->most = most;
    enum objects_status status = OBJECTS_FAILED;
    uint64_t next = s->o.first_pause_ns ? s->o.first_pause_ns : SECOND_NS;
    for (uint64_t tries = 1;; tries++) {
        cut(to, s->before);
        s->at = s->headers_seen = 0;
        s->http_status = 0;
        s->stopped = false;
        s->error[0] = s->location[0] = 0;
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
            status = explain(s, code, to, err);
        if (status != OBJECTS_FAILED || s->stopped || !request_worth_again(code, s->http_status) ||
            !wait_before(s, err->text, tries, &next))
            break;
    }
    if (status != OBJECTS_DONE)
        cut(to, s->before);
    curl.slist_free_all(list);
    free(url);
    return status;
}

enum objects_status objects_put(struct objects *s, const char *name, const void *data, size_t bytes,
                                struct error *err)
{
    struct buffer words = {0};
    s->data = data;
    s->bytes = bytes;
    const enum objects_status status = ask(s, "PUT", name, &words, WORDS_MOST, err);
    buffer_release(&words);
    s->bytes = 0;
    return status;
}

enum objects_status objects_get(struct objects *s, const char *name, struct buffer *to, size_t most,
                                struct error *err)
{
    return ask(s, "GET", name, to, most, err);
}

enum objects_status objects_look(struct objects *s, const char *name, uint64_t *bytes,
                                 struct error *err)
{
    struct buffer words = {0};
    curl_off_t length = -1;
    const enum objects_status status = ask(s, "HEAD", name, &words, WORDS_MOST, err);
    buffer_release(&words);
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
    struct buffer words = {0};
    const enum objects_status status = ask(s, "DELETE", name, &words, WORDS_MOST, err);
    buffer_release(&words);
    return status;
}
