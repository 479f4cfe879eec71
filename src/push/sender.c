/* sender.c - Runs the thread that sends letters from the spool to one server. The caller hands
 * letters over under a lock and never waits for the network or the disk. The thread alone owns
 * the spool and libcurl's handles. */
#include "push/sender.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/human.h"
#include "base/thread.h"
#include "curl_library.h"
#include "push/letter.h"
#include "push/push.h"
#include "push/spool.h"
#include "request.h"
#include "trust/secret.h"

/* The URL of a server that things are sent to all the time, below which they go.
 *
 * Owns: what such a URL may be: https://, or http:// on this machine alone, for plain text
 * can be read on the way; no password, query or fragment in it, which command lines and logs show.
 * One thread; the texts stay until the release. */

struct server_url {
    char *base;  /* without the user, ends in / */
    char *user;  /* NULL: none */
    bool secure; /* https */
};

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
        return error_set(err, ERROR_USAGE, "%.32s:// is not supported; use https:// or http://",
                         p->scheme);
    if (p->password)
        return error_set(
            err, ERROR_USAGE,
            "a password in a URL can be seen by other users; use --push-token-file FILE");
    if (p->query || p->fragment)
        return error_set(err, ERROR_USAGE, "the server's URL must not have a query");
    if (!u->secure && !is_loopback(p->host))
        return error_set(err, ERROR_USAGE,
                         "http://%.200s is another machine, and others on the network could read "
                         "the profiles; use https://, or a proxy on 127.0.0.1",
                         p->host);
    const char *slash = p->path[strlen(p->path) - 1] == '/' ? "" : "/";
    if (asprintf(&u->base, "%s://%s:%s%s%s", p->scheme, p->host, p->port, p->path, slash) < 0) {
        u->base = NULL;
        return error_memory(err);
    }
    return 0;
}

static void server_url_release(struct server_url *u)
{
    free(u->base);
    free(u->user);
    *u = (struct server_url){0};
}

/* -1 with *err: ERROR_USAGE for a URL that is none of these, ERROR_UNSUPPORTED without libcurl. */
static int server_url_parse(struct server_url *u, const char *text, struct error *err)
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
        error_set(err, ERROR_USAGE, "'%.200s' is not a URL such as https://HOST:4040",
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

#define SECOND_NS   1000000000ull
#define FIRST_PAUSE (SECOND_NS)
#define PAUSE_MOST  (60 * SECOND_NS)
#define ASKED_MOST  (600 * SECOND_NS) /* the longest Retry-After of a server that is obeyed */
#define CONNECT_MS  10000L
#define REQUEST_MS  60000L
#define IDLE_MS     60000
#define ANSWER_MOST 65536u
#define NEWS_MOST   4u

struct handed {
    char *data;
    size_t size;
};

struct sender {
    struct sender_options o;
    struct server_url url;
    pthread_t thread;
    bool begun;
    int wake; /* an eventfd */

    pthread_mutex_t lock; /* for these: */
    struct handed *handed;
    size_t handed_count, handed_room;
    uint64_t handed_bytes, handed_dropped;
    bool ending;
    uint64_t deadline_ns;
    struct {
        char text[512];
        bool wrong;
    } news[NEWS_MOST]; /* oldest first */
    size_t news_count;

    /* The thread's own while it runs. */
    struct spool spool;
    CURLM *multi;
    CURL *curl;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    char *data;      /* the letter that is sent now; NULL: none is chosen */
    size_t size, at; /* bytes of data; start of the next letter of those that belong together */
    uint64_t number;
    struct letter letter;
    bool on_its_way;
    struct answer answer;
    uint64_t next_try_ns, pause_ns;
    long said;        /* the last complaint: a status, or an enum complaint; 0: it works */
    bool passed_over; /* a letter of the spool that cannot be read, and that was said */
    struct sender_counts counts;
};

/* ---- what the user learns ---- */

static void sender_say(struct sender *s, bool wrong, const char *text)
{
    pthread_mutex_lock(&s->lock);
    if (s->news_count == NEWS_MOST) /* the latest counts */
        s->news_count--;
    snprintf(s->news[s->news_count].text, sizeof s->news->text, "%s", text);
    s->news[s->news_count++].wrong = wrong;
    pthread_mutex_unlock(&s->lock);
}

/* A complaint of one kind is printed once until it works again: texts hold times. */
enum complaint { OURS = -1, IN_PART = -2, NO_ANSWER = -1000 };

static void sender_complain(struct sender *s, long kind, const char *text)
{
    if (s->said != kind)
        sender_say(s, true, text);
    s->said = kind;
}

bool sender_news(struct sender *s, char line[512], bool *wrong)
{
    pthread_mutex_lock(&s->lock);
    const bool is = s->news_count != 0;
    *wrong = false;
    if (is) {
        memcpy(line, s->news[0].text, sizeof s->news->text);
        *wrong = s->news[0].wrong;
        s->news_count--;
        memmove(&s->news[0], &s->news[1], s->news_count * sizeof s->news[0]);
    }
    pthread_mutex_unlock(&s->lock);
    return is;
}

/* ---- one request ---- */

static void sender_configure(struct sender *s)
{
    CURL *c = s->curl;
    request_prepare(c, &(struct request){.error = s->error,
                                         .authorities = s->o.authorities,
                                         .answer = &s->answer});
    curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl.easy_setopt(c, CURLOPT_TIMEOUT_MS, REQUEST_MS);
    if (!s->url.secure) /* nor does plain text leave the machine by a proxy */
        curl.easy_setopt(c, CURLOPT_PROXY, "");
    if (s->url.user)
        curl.easy_setopt(c, CURLOPT_USERNAME, s->url.user);
}

/* Adds NAME: VALUE; libcurl copies it. */
static int add_header(struct sender *s, const char *name, const char *value, struct error *err)
{
    char *line = NULL;
    if (asprintf(&line, *value ? "%s: %s" : "%s:", name, value) < 0)
        return error_memory(err);
    const bool added = request_header(&s->headers, line);
    explicit_bzero(line, strlen(line));
    free(line);
    return added ? 0 : error_memory(err);
}

/* The token of now. */
static int add_token(struct sender *s, struct error *err)
{
    char *token, *value = NULL;
    int status = 0;
    if (!s->o.token_file)
        return 0;
    if (!(token = trust_secret(s->o.token_file, "the token file", err)))
        return -1;
    if (s->url.user)
        status = curl.easy_setopt(s->curl, CURLOPT_PASSWORD, token) ? error_memory(err) : 0;
    else if (asprintf(&value, "Bearer %s", token) < 0)
        status = error_memory(err);
    else
        status = add_header(s, "Authorization", value, err);
    trust_secret_free(token);
    if (value)
        explicit_bzero(value, strlen(value));
    free(value);
    return status;
}

static int begin_request(struct sender *s, struct error *err)
{
    char *url = NULL;
    request_drop_headers(&s->headers);
    if (add_token(s, err) || add_header(s, "Content-Type", s->letter.type, err) ||
        (s->letter.encoding && add_header(s, "Content-Encoding", s->letter.encoding, err)) ||
        add_header(s, "Expect", "", err))
        return -1;
    if (asprintf(&url, "%s%s", s->url.base, s->letter.target) < 0)
        return error_memory(err);
    answer_begin(&s->answer);
    s->error[0] = 0;
    curl.easy_setopt(s->curl, CURLOPT_URL, url);
    curl.easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->headers);
    curl.easy_setopt(s->curl, CURLOPT_POST, 1L);
    curl.easy_setopt(s->curl, CURLOPT_POSTFIELDS, s->letter.body);
    curl.easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->letter.bytes);
    free(url);
    if (curl.multi_add_handle(s->multi, s->curl))
        return error_memory(err);
    s->on_its_way = true;
    return 0;
}

/* ---- letters ---- */

static void drop_letter(struct sender *s)
{
    free(s->data);
    s->data = NULL;
}

/* The next of the letters that belong together. */
static bool sender_next_part(struct sender *s)
{
    struct error ignored = {0};
    size_t taken = 0;
    if (letter_read(s->data + s->at, s->size - s->at, &s->letter, &taken, &ignored))
        return false;
    s->at += taken;
    return true;
}

static void sender_give_up(struct sender *s)
{
    spool_remove(&s->spool, s->number);
    s->spool.damaged++;
    drop_letter(s);
}

/* The oldest letter that can be read becomes the one to be sent, if there is one. -1 with *err:
 * none can for now. */
static int sender_choose_letter(struct sender *s, struct error *err)
{
    while (!s->data) {
        if (spool_first(&s->spool, &s->data, &s->number, &s->size, err))
            return -1;
        if (err->kind && !s->passed_over)
            sender_say(s, true, err->text);
        s->passed_over = err->kind != ERROR_NONE;
        s->at = 0;
        if (!s->data || sender_next_part(s))
            return 0;
        sender_give_up(s);
    }
    return 0;
}

/* From the half to the whole. */
static uint64_t jitter(uint64_t ns)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (uint32_t)clock_monotonic_ns(); /* the kernel has none yet */
    return ns / 2 + ns / 2 * (random % 1024) / 1023;
}

static void wait_before_next(struct sender *s, uint64_t asked_ns)
{
    s->counts.failures++;
    uint64_t pause = jitter(s->pause_ns);
    if (asked_ns > pause)
        pause = asked_ns + jitter(asked_ns / 10);
    s->next_try_ns = clock_monotonic_ns() + pause;
    s->pause_ns = s->pause_ns * 2 < PAUSE_MOST ? s->pause_ns * 2 : PAUSE_MOST;
}

/* The server will not take this letter, whenever it is sent. */
static bool is_refused(long status)
{
    return status == 400 || status == 413 || status == 415 || status == 422;
}

static void say_why(struct sender *s, CURLcode code, long status)
{
    struct error e = {0};
    char line[ANSWER_WORDS];
    answer_line(&s->answer, line);
    if (request_is_untrusted(code))
        error_set(&e, ERROR_UNSUPPORTED,
                  "%.200s: %.160s; --ca FILE names the certificates to trust", s->url.base,
                  *s->error ? s->error : curl.easy_strerror(code));
    else if (code)
        error_set(&e, ERROR_UNSUPPORTED, "%.200s: %.200s; it is tried again", s->url.base,
                  *s->error ? s->error : curl.easy_strerror(code));
    else
        error_set(&e, ERROR_UNSUPPORTED, "%.200s answers %ld%s%.100s; %s", s->url.base, status,
                  *line ? ": " : "", line,
                  is_refused(status) ? "it is not sent again"
                  : status / 100 == 3
                      ? "redirections are not followed: give that URL if you trust it"
                      : "it is tried again");
    sender_complain(s, code ? NO_ANSWER - (long)code : status, e.text);
}

static void finished(struct sender *s, CURLcode code)
{
    long status = 0;
    curl.easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    const uint64_t asked_ns = request_asked_ns(s->curl, ASKED_MOST);
    curl.multi_remove_handle(s->multi, s->curl);
    s->on_its_way = false;
    request_drop_headers(&s->headers);
    /* An answer too long to be kept still counts by its status. */
    const bool whole = !code || (code == CURLE_WRITE_ERROR && s->answer.too_long);
    if (whole && status / 100 == 2 && s->o.refused &&
        s->o.refused(s->answer.words, s->answer.word_bytes)) {
        s->counts.refused++;
        sender_complain(
            s, IN_PART,
            "the server accepted a part of a push and refused the rest, which is not sent again");
    } else if (whole && status / 100 == 2) {
        s->pause_ns = FIRST_PAUSE;
        s->next_try_ns = 0;
        s->counts.sent_bytes += s->letter.bytes;
        if (s->at < s->size) {
            if (!sender_next_part(s))
                sender_give_up(s);
            return;
        }
        s->counts.sent++;
        if (s->said && s->said != IN_PART && !is_refused(s->said))
            sender_say(s, false, "the server accepts profiles again");
        s->said = 0;
    } else if (whole && is_refused(status)) {
        s->counts.refused++;
        say_why(s, CURLE_OK, status);
    } else if (code == CURLE_URL_MALFORMAT) { /* the server's part of it was parsed before */
        s->spool.damaged++;
    } else {
        say_why(s, code, status);
        wait_before_next(s, asked_ns);
        return;
    }
    spool_remove(&s->spool, s->number);
    drop_letter(s);
    s->pause_ns = FIRST_PAUSE;
    s->next_try_ns = 0;
}

/* ---- the thread ---- */

static void take_handed(struct sender *s, bool *ending, uint64_t *deadline_ns)
{
    struct error err = {0};
    pthread_mutex_lock(&s->lock);
    struct handed *list = s->handed;
    const size_t count = s->handed_count;
    s->handed = NULL;
    s->handed_count = s->handed_room = 0;
    s->handed_bytes = 0;
    s->counts.dropped += s->handed_dropped;
    s->handed_dropped = 0;
    *ending = s->ending;
    *deadline_ns = s->deadline_ns;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < count; i++)
        if (spool_add(&s->spool, list[i].data, list[i].size, &err))
            sender_complain(s, OURS, err.text);
    free(list);
}

static void begin_next(struct sender *s)
{
    struct error err = {0};
    if (!sender_choose_letter(s, &err) && (!s->data || !begin_request(s, &err)))
        return;
    sender_complain(s, OURS, err.text);
    wait_before_next(s, 0);
}

static void look_for_answers(struct sender *s)
{
    int running, left;
    const CURLMsg *m;
    curl.multi_perform(s->multi, &running);
    while ((m = curl.multi_info_read(s->multi, &left)))
        if (m->msg == CURLMSG_DONE)
            finished(s, m->data.result);
}

static void wait_for_something(struct sender *s, uint64_t until_ns)
{
    struct curl_waitfd fd = {.fd = s->wake, .events = CURL_WAIT_POLLIN};
    const uint64_t now = clock_monotonic_ns();
    uint64_t ms = until_ns > now ? (until_ns - now) / 1000000 + 1 : 0, count;
    if (ms > IDLE_MS)
        ms = IDLE_MS;
    curl.multi_wait(s->multi, &fd, 1, (int)ms, NULL);
    while (read(s->wake, &count, sizeof count) > 0)
        ;
}

static void *run_sender(void *arg)
{
    struct sender *s = arg;
    bool ending = false, last_try = false;
    uint64_t deadline_ns = 0;
    for (;;) {
        take_handed(s, &ending, &deadline_ns);
        if (ending && !last_try) {
            last_try = true;
            s->next_try_ns = 0;
        }
        const uint64_t now = clock_monotonic_ns();
        if (!s->on_its_way && now >= s->next_try_ns)
            begin_next(s);
        look_for_answers(s);
        const bool failed = s->next_try_ns != 0, empty = !s->data && !s->spool.count;
        if (ending && (now >= deadline_ns || (!s->on_its_way && (failed || empty))))
            return NULL;
        if (s->on_its_way)
            wait_for_something(s, ending ? deadline_ns : UINT64_MAX);
        else if (empty)
            wait_for_something(s, UINT64_MAX);
        else
            wait_for_something(s, s->next_try_ns);
    }
}

/* ---- the caller's side ---- */

static void wake_sender(const struct sender *s)
{
    const uint64_t one = 1;
    while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

struct sender *sender_open(const struct sender_options *o, struct error *err)
{
    struct sender *s = calloc(1, sizeof *s);
    if (!s) {
        error_memory(err);
        return NULL;
    }
    s->o = *o;
    s->pause_ns = FIRST_PAUSE;
    s->answer.most = s->answer.headers_most = ANSWER_MOST;
    s->spool.place.dir = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    char *token = NULL;
    if (s->wake < 0)
        error_system(err, "cannot make an eventfd");
    else if (!server_url_parse(&s->url, o->url, err) &&
             (!o->token_file || (token = trust_secret(o->token_file, "the token file", err))) &&
             !spool_open(&s->spool, o->spool, o->kind, o->spool_bytes, err)) {
        trust_secret_free(token);
        s->multi = curl.multi_init();
        s->curl = curl.easy_init();
        if (s->multi && s->curl) {
            sender_configure(s);
            return s;
        }
        token = NULL;
        error_memory(err);
    }
    trust_secret_free(token);
    sender_close(s);
    return NULL;
}

int sender_begin(struct sender *s, struct error *err)
{
    const int number = thread_start(&s->thread, run_sender, s);
    s->begun = !number;
    errno = number;
    return number ? error_system(err, "cannot start a thread to push") : 0;
}

bool sender_begun(const struct sender *s) { return s->begun; }

void sender_give(struct sender *s, struct buffer *letter)
{
    pthread_mutex_lock(&s->lock);
    /* A disk that stands still: what it cannot take gives way here, but not to a letter that is
     * too large in any case. */
    while (s->handed_count && letter->size_bytes <= s->o.spool_bytes &&
           s->handed_bytes + letter->size_bytes > s->o.spool_bytes) {
        s->handed_bytes -= s->handed[0].size;
        free(s->handed[0].data);
        s->handed_count--;
        memmove(s->handed, s->handed + 1, s->handed_count * sizeof *s->handed);
        s->handed_dropped++;
    }
    struct handed *h = buffer_failed(letter) || letter->size_bytes > s->o.spool_bytes
                           ? NULL
                           : ARRAY_ADD(s->handed, s->handed_count, s->handed_room);
    if (h) {
        *h = (struct handed){letter->data, letter->size_bytes};
        s->handed_bytes += h->size;
        *letter = (struct buffer){0};
    } else {
        s->handed_dropped++;
        buffer_release(letter);
    }
    pthread_mutex_unlock(&s->lock);
    wake_sender(s);
}

void sender_end(struct sender *s, uint64_t most_ns, struct sender_counts *counts)
{
    bool ending;
    uint64_t deadline_ns;
    if (s->begun) {
        pthread_mutex_lock(&s->lock);
        s->ending = true;
        s->deadline_ns = clock_monotonic_ns() + most_ns;
        pthread_mutex_unlock(&s->lock);
        wake_sender(s);
        pthread_join(s->thread, NULL);
        s->begun = false;
    }
    take_handed(s, &ending, &deadline_ns);
    *counts = s->counts;
    counts->stored = spool_stored(&s->spool);
    counts->lost = s->spool.count - counts->stored;
    counts->dropped += s->spool.dropped;
    counts->damaged = s->spool.damaged;
}

void sender_close(struct sender *s)
{
    if (!s)
        return;
    /* A request that was given up may hang in the resolver, which its handle would wait for. */
    if (!s->on_its_way) {
        request_drop_headers(&s->headers);
        if (s->curl)
            curl.easy_cleanup(s->curl);
        if (s->multi)
            curl.multi_cleanup(s->multi);
        drop_letter(s);
    }
    for (size_t i = 0; i < s->handed_count; i++)
        free(s->handed[i].data);
    free(s->handed);
    spool_close(&s->spool);
    server_url_release(&s->url);
    if (s->wake >= 0)
        close(s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
