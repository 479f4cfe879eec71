/* push.c - Sends one file as the body of a request, with retries, a timeout for the answer, and
 * progress. It detects a file that became shorter while it was sent. */
#include "push/push.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "curl_library.h"
#include "request.h"

#define SECOND_NS   1000000000ull
#define ANSWER_MOST (1u << 20) /* bytes of the body, and of all headers: a store says less */

struct sending {
    const struct push_options *o;
    struct push_result *result;
    CURL *curl;
    int fd;
    struct upload upload; /* the file */
    int read_errno;
    bool shorter; /* the file, than it was at the start */
    struct answer answer;
    uint64_t sent_ns; /* when the last byte of the file had been taken from us; 0: not yet */
    bool late;
    char error[CURL_ERROR_SIZE];
};

const char *push_library(const char **why, const char **remedy)
{
    static char text[128];
    *remedy = "apt-get install libcurl4";
    *why = curl_load();
    if (*why)
        return NULL;
    const curl_version_info_data *v = curl.version_info(CURLVERSION_NOW);
    snprintf(text, sizeof text, "libcurl %s with %s", v->version,
             v->ssl_version ? v->ssl_version : "no TLS");
    return text;
}

const char *push_header_fault(const char *header)
{
    static const char *const ours[] = {"content-length", "transfer-encoding", "expect", NULL};
    const size_t name = strcspn(header, ":");
    if (!header[name])
        return "no colon";
    if (!name)
        return "no name";
    for (size_t i = 0; i < name; i++)
        if (!isalnum((unsigned char)header[i]) && !strchr("!#$%&'*+-.^_`|~", header[i]))
            return "a character that no name may have";
    for (const char *p = header + name; *p; p++)
        if ((unsigned char)*p < ' ' && *p != '\t')
            return "a control character";
    for (const char *const *h = ours; *h; h++)
        if (strlen(*h) == name && !strncasecmp(*h, header, name))
            return "a header that push sets itself";
    return NULL;
}

/* ---- the address ---- */

/* The whole URL, to be freed with curl.free; `shown` (PUSH_URL_BYTES) is the part that may be
 * shown. NULL: *err is set. */
static char *address(const char *url, const char *name, char *shown, struct error *err)
{
    const char *why, *remedy;
    if (!push_library(&why, &remedy)) {
        error_set(err, ERROR_UNSUPPORTED, "%.200s; '%s' and try again", why, remedy);
        return NULL;
    }
    CURLU *u = curl.url();
    char *path = NULL, *whole = NULL, *plain = NULL;
    if (!u)
        goto no_memory;
    if (request_url(u, url, "https://store.example/directory/", "the value of --to", err))
        goto out;
    if (curl.url_get(u, CURLUPART_PATH, &path, 0))
        goto no_memory;
    if (path[strlen(path) - 1] == '/') {
        if (!name) {
            error_set(err, ERROR_USAGE,
                      "standard input has no name: give a URL that does not end in '/'");
            goto out;
        }
        char *escaped = curl.easy_escape(NULL, name, 0), *more = NULL;
        int n = escaped ? asprintf(&more, "%s%s", path, escaped) : -1;
        const CURLUcode bad =
            n < 0 ? CURLUE_OUT_OF_MEMORY : curl.url_set(u, CURLUPART_PATH, more, 0);
        curl.free(escaped);
        if (n >= 0)
            free(more);
        if (bad)
            goto no_memory;
    }
    if (curl.url_get(u, CURLUPART_URL, &whole, 0) || curl.url_set(u, CURLUPART_USER, NULL, 0) ||
        curl.url_set(u, CURLUPART_PASSWORD, NULL, 0) || curl.url_set(u, CURLUPART_QUERY, NULL, 0) ||
        curl.url_set(u, CURLUPART_FRAGMENT, NULL, 0) || curl.url_get(u, CURLUPART_URL, &plain, 0)) {
        curl.free(whole);
        whole = NULL;
        goto no_memory;
    }
    snprintf(shown, PUSH_URL_BYTES, "%s", plain);
    goto out;
no_memory:
    error_memory(err);
out:
    curl.free(path);
    curl.free(plain);
    curl.url_cleanup(u);
    return whole;
}

int push_check(const char *url, const char *name, struct error *err)
{
    char shown[PUSH_URL_BYTES];
    char *whole = address(url, name, shown, err);
    if (!whole)
        return -1; /* perhaps without a library that could free it */
    curl.free(whole);
    return 0;
}

/* ---- what libcurl asks for ---- */

static size_t push_give_body(char *to, size_t size, size_t count, void *arg)
{
    struct sending *s = arg;
    size_t room = size * count;
    if (room > s->upload.bytes - s->upload.at)
        room = s->upload.bytes - s->upload.at;
    if (!room)
        return 0;
    const ssize_t n = pread(s->fd, to, room, (off_t)s->upload.at);
    if (n <= 0) {
        s->read_errno = n < 0 ? errno : 0;
        s->shorter = n == 0;
        return CURL_READFUNC_ABORT;
    }
    s->upload.at += (uint64_t)n;
    return (size_t)n;
}

static int push_show_progress(void *arg, curl_off_t down, curl_off_t down_now, curl_off_t up,
                              curl_off_t up_now)
{
    struct sending *s = arg;
    (void)down, (void)down_now, (void)up;
    if (s->o->progress)
        s->o->progress(s->o->arg, (uint64_t)up_now, s->upload.bytes);
    /* A server that drips is never silent: once it has the file, its whole answer has one timeout.
     */
    const uint64_t now = clock_monotonic_ns();
    if (s->upload.at < s->upload.bytes || !s->o->timeout_ns)
        s->sent_ns = 0;
    else if (!s->sent_ns)
        s->sent_ns = now;
    s->late = s->sent_ns && now - s->sent_ns > s->o->timeout_ns + SECOND_NS;
    return s->late;
}

/* ---- one request ---- */

/* The type of the content, for stores that care: known by its first byte, as no two of ours begin
 * alike. */
static const char *content_type(int fd)
{
    char first = 0;
    if (pread(fd, &first, 1, 0) != 1)
        first = 0;
    return first == '{'   ? "Content-Type: application/json"
           : first == '<' ? "Content-Type: text/html"
                          : "Content-Type: application/octet-stream";
}

/* The headers, to be freed; NULL without memory. */
static struct curl_slist *push_headers(const struct push_options *o, int fd)
{
    struct curl_slist *list = NULL;
    bool typed = false, whole = true;
    for (size_t i = 0; i < o->header_count; i++) {
        typed |= !strncasecmp(o->header[i], "content-type:", 13);
        whole &= request_header(&list, o->header[i]);
    }
    if (!typed)
        whole &= request_header(&list, content_type(fd));
    if (whole)
        return list;
    curl.slist_free_all(list);
    return NULL;
}

static void push_configure(struct sending *s, const char *url, const struct curl_slist *list)
{
    const struct push_options *o = s->o;
    CURL *c = s->curl;
    curl.easy_setopt(c, CURLOPT_URL, url);
    request_prepare(c, &(struct request){
                           .error = s->error, .authorities = o->authorities, .answer = &s->answer});
    curl.easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    curl.easy_setopt(c, CURLOPT_HTTPHEADER, list);
    curl.easy_setopt(c, CURLOPT_READFUNCTION, push_give_body);
    curl.easy_setopt(c, CURLOPT_READDATA, s);
    request_rewinds(c, &s->upload);
    curl.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, push_show_progress);
    curl.easy_setopt(c, CURLOPT_XFERINFODATA, s);
    curl.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    request_patience(c, o->timeout_ns);
    if (o->post) {
        curl.easy_setopt(c, CURLOPT_POST, 1L);
        curl.easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->upload.bytes);
    } else {
        curl.easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl.easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)s->upload.bytes);
    }
}

/* Why it failed. */
static void push_explain(struct sending *s, CURLcode code, struct error *err)
{
    const struct push_result *r = s->result;
    if (s->shorter) {
        error_set(err, ERROR_FORMAT, "the file became shorter while it was sent");
    } else if (s->read_errno) {
        errno = s->read_errno;
        error_system(err, "cannot read the file");
    } else if (s->answer.too_long) {
        error_set(err, ERROR_UNSUPPORTED, "%.200s: the answer is longer than %u KiB", r->url,
                  ANSWER_MOST >> 10);
    } else if (s->late) {
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s: the answer was still incomplete %llu s after the file was sent", r->url,
                  (unsigned long long)(s->o->timeout_ns / SECOND_NS + 1));
    } else if (request_is_untrusted(code)) {
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s: %.160s; --ca FILE names the certificates to trust", r->url,
                  *s->error ? s->error : curl.easy_strerror(code));
    } else if (code) {
        error_set(err, ERROR_UNSUPPORTED, "%.200s: %.200s", r->url,
                  *s->error ? s->error : curl.easy_strerror(code));
    } else if (r->status / 100 == 3) {
        error_set(err, ERROR_UNSUPPORTED,
                  "%.200s answers %ld, a redirection to %.200s; give that URL if you trust it",
                  r->url, r->status, *r->location ? r->location : "an unnamed place");
    } else {
        char line[ANSWER_WORDS];
        answer_line(&s->answer, line);
        error_set(err, ERROR_UNSUPPORTED, "%.200s answers %ld%s%.160s", r->url, r->status,
                  *line ? ": " : "", line);
    }
}

/* All tries. 0, or -1 with *err. */
static int push_send_all(struct sending *s, struct error *err)
{
    uint64_t pause = s->o->first_pause_ns;
    for (;;) {
        s->upload.at = s->sent_ns = 0;
        answer_begin(&s->answer);
        s->late = false;
        s->error[0] = 0;
        s->result->status = 0;
        s->result->tries++;
        const CURLcode code = curl.easy_perform(s->curl);
        curl.easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &s->result->status);
        snprintf(s->result->location, sizeof s->result->location, "%s", s->answer.location);
        if (!code && s->result->status / 100 == 2)
            return 0;
        push_explain(s, code, err);
        if (!request_worth_again(code, s->result->status) || s->result->tries > s->o->retries)
            return -1;
        const uint64_t now = request_pause_ns(s->curl, &pause);
        if (s->o->again)
            s->o->again(s->o->arg, err->text, now);
        request_sleep(now);
    }
}

int push_file(int fd, const char *name, const struct push_options *o, struct push_result *result,
              struct error *err)
{
    const uint64_t start = clock_monotonic_ns();
    struct stat st;
    *result = (struct push_result){0};
    if (fstat(fd, &st))
        return error_system(err, "cannot examine the file");
    char *url = address(o->url, name, result->url, err);
    if (!url)
        return -1;
    result->bytes = (uint64_t)st.st_size;
    struct sending s = {.o = o,
                        .result = result,
                        .fd = fd,
                        .upload = {.bytes = result->bytes},
                        .curl = curl.easy_init(),
                        .answer = {.most = ANSWER_MOST, .headers_most = ANSWER_MOST}};
    struct curl_slist *list = push_headers(o, fd);
    int status = -1;
    if (!s.curl || !list) {
        error_memory(err);
    } else {
        push_configure(&s, url, list);
        status = push_send_all(&s, err);
    }
    curl.easy_cleanup(s.curl);
    curl.slist_free_all(list);
    curl.free(url);
    result->duration_ns = clock_monotonic_ns() - start;
    return status;
}
