/* request.c - Prepares libcurl handles in the one way that all requests use, stores a bounded
 * answer, and decides whether and when to try again. Pauses between tries double and have an
 * upper bound. */
#include "request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MS_NS       1000000ull
#define SECOND_NS   (1000 * MS_NS)
#define PAUSE_MOST  (60 * SECOND_NS)
#define LEAST_SPEED 1024l

/* ---- the answer ---- */

void answer_begin(struct answer *a)
{
    if (a->body && a->seen) {
        a->body->size_bytes = a->before;
        if (a->body->data)
            a->body->data[a->before] = 0;
    }
    a->before = a->body ? a->body->size_bytes : 0;
    a->seen = a->headers_seen = a->word_bytes = 0;
    a->too_long = false;
    a->words[0] = a->location[0] = 0;
}

static size_t take_body(char *from, size_t size, size_t count, void *arg)
{
    struct answer *a = arg;
    const size_t n = size * count, room = sizeof a->words - 1 - a->word_bytes;
    if (n > a->most - a->seen) {
        a->too_long = true;
        return 0;
    }
    a->seen += n;
    if (a->body) {
        buffer_append(a->body, from, n);
        return buffer_failed(a->body) ? 0 : n;
    }
    memcpy(a->words + a->word_bytes, from, n < room ? n : room);
    a->word_bytes += n < room ? n : room;
    a->words[a->word_bytes] = 0;
    return n;
}

static size_t take_header(char *from, size_t size, size_t count, void *arg)
{
    static const char name[] = "location:";
    struct answer *a = arg;
    const size_t n = size * count;
    a->headers_seen += n;
    if (a->headers_seen > a->headers_most) {
        a->too_long = true;
        return 0;
    }
    if (n >= sizeof name && !strncasecmp(from, name, sizeof name - 1)) {
        size_t at = sizeof name - 1, to = 0;
        while (at < n && (from[at] == ' ' || from[at] == '\t'))
            at++;
        while (at < n && (unsigned char)from[at] > ' ' && from[at] != '?' &&
               to + 1 < sizeof a->location)
            a->location[to++] = from[at++];
        a->location[to] = 0;
    }
    return n;
}

void answer_line(const struct answer *a, char line[ANSWER_WORDS])
{
    const char *text = a->body ? buffer_text(a->body) + a->before : a->words;
    size_t n = 0;
    text += strspn(text, " \t\r\n");
    for (; *text && *text != '\n' && *text != '\r' && n + 1 < ANSWER_WORDS; text++)
        line[n++] = (char)((unsigned char)*text < ' ' || (unsigned char)*text >= 127 ? '?' : *text);
    line[n] = 0;
}

/* ---- the handle ---- */

void request_prepare(CURL *c, const struct request *r)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl.easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl.easy_setopt(c, CURLOPT_USERAGENT, "mallow/" MALLOW_VERSION);
    curl.easy_setopt(c, CURLOPT_ERRORBUFFER, r->error);
    curl.easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl.easy_setopt(c, CURLOPT_WRITEDATA, r->answer);
    curl.easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
    curl.easy_setopt(c, CURLOPT_HEADERDATA, r->answer);
    if (r->authorities)
        curl.easy_setopt(c, CURLOPT_CAINFO, r->authorities);
}

void request_patience(CURL *c, uint64_t timeout_ns)
{
    if (!timeout_ns)
        return;
    curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout_ns / MS_NS) + 1);
    curl.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, LEAST_SPEED);
    curl.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((timeout_ns + SECOND_NS - 1) / SECOND_NS));
}

static int go_back(void *arg, curl_off_t offset, int origin)
{
    struct upload *u = arg;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > u->bytes)
        return CURL_SEEKFUNC_FAIL;
    u->at = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

void request_rewinds(CURL *c, struct upload *u)
{
    curl.easy_setopt(c, CURLOPT_SEEKFUNCTION, go_back);
    curl.easy_setopt(c, CURLOPT_SEEKDATA, u);
}

int request_url(CURLU *u, const char *text, const char *example, const char *instead,
                struct error *err)
{
    char *scheme = NULL;
    int status = 0;
    if (curl.url_set(u, CURLUPART_URL, text, 0) || curl.url_get(u, CURLUPART_SCHEME, &scheme, 0))
        status = error_set(err, ERROR_USAGE, "'%.200s' is not a URL such as %s",
                           strchr(text, '@') ? instead : text, example);
    else if (strcmp(scheme, "http") && strcmp(scheme, "https"))
        status = error_set(err, ERROR_USAGE, "%.32s:// is not supported; use http:// or https://",
                           scheme);
    curl.free(scheme);
    return status;
}

bool request_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl.slist_append(*list, line);
    if (more)
        *list = more;
    return more != NULL;
}

void request_drop_headers(struct curl_slist **list)
{
    for (struct curl_slist *h = *list; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    if (*list)
        curl.slist_free_all(*list);
    *list = NULL;
}

/* ---- another try ---- */

bool request_worth_again(CURLcode code, long status)
{
    switch (code) {
    case CURLE_OK:
        return status == 408 || status == 429 || status == 500 || (status >= 502 && status <= 504);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE: return true;
    default: return false;
    }
}

uint64_t request_asked_ns(CURL *c, uint64_t most_ns)
{
    curl_off_t asked = 0;
    curl.easy_getinfo(c, CURLINFO_RETRY_AFTER, &asked);
    if (asked <= 0)
        return 0;
    return (uint64_t)asked < most_ns / SECOND_NS ? (uint64_t)asked * SECOND_NS : most_ns;
}

uint64_t request_pause_ns(CURL *c, uint64_t *next_ns)
{
    const uint64_t asked = request_asked_ns(c, PAUSE_MOST);
    const uint64_t now = asked ? asked : *next_ns < PAUSE_MOST ? *next_ns : PAUSE_MOST;
    *next_ns = *next_ns < PAUSE_MOST / 2 ? *next_ns * 2 : PAUSE_MOST;
    return now;
}

void request_sleep(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

bool request_is_untrusted(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
}
