/* serve.c - Answers the HTTP requests of --listen: the page, the report, metrics and profiles. A
 * profile of some seconds is answered later, with the difference to the state at the request. */
#include "watch/out/serve.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/json.h"
#include "base/text.h"
#include "watch/out/live_page.h"
#include "watch/out/metrics_file.h"
#include "watch/out/metrics.h"
#include "watch/out/pprof.h"
#include "serve/serve.h"
#include "trust/file.h"
#include "trust/secret.h"

#define MOST_SECONDS      600u
#define SECOND_NS         1000000000ull
#define CERTIFICATE_BYTES (1u << 20)

enum { OK = 200, BAD_REQUEST = 400, NOT_FOUND = 404, GONE = 410, FAILED = 500 };

struct watch_serve {
    struct serve *http;
    struct watch_view *view;
    struct symbols *symbols;
    struct watch_run *run;
    char *token, *certificate, *key;
};

struct delta { /* a profile of some seconds that is being made */
    pid_t pid;
    uint64_t start_ns;
    struct watch_pprof_base base;
};

static void refuse_with(struct serve_reply *reply, unsigned status, const char *why)
{
    reply->status = status;
    reply->type = "text/plain; charset=utf-8";
    buffer_clear(&reply->body);
    text_append(&reply->body, why);
    buffer_append_char(&reply->body, '\n');
}

/* ---- processes ---- */

static bool before(const struct watch_process *a, const struct watch_process *b)
{
    const int x = a->is_program ? 2 : a->asked, y = b->is_program ? 2 : b->asked;
    return x != y                         ? x > y
           : a->joined_ns != b->joined_ns ? a->joined_ns < b->joined_ns
                                          : a->pid < b->pid;
}

/* The one of ?pid=, or, without it, the program, the first that was asked for, the first of all. */
static struct watch_process *choose_served_process(struct watch_serve *s,
                                                   const struct serve_request *request,
                                                   struct serve_reply *reply)
{
    const char *text = serve_argument(request, "pid");
    uint64_t pid = 0;
    struct watch_process *found = NULL;
    if (text && (!human_parse_count(text, &pid) || !pid || pid > INT_MAX)) {
        refuse_with(reply, BAD_REQUEST, "pid: not a process id");
        return NULL;
    }
    for (uint32_t i = 0; i < watch_run_count(s->run); i++) {
        struct watch_process *p = watch_run_process(s->run, i);
        if ((!pid || (uint64_t)p->pid == pid) && !watch_replaced(s->run, p) &&
            (!found || before(p, found)))
            found = p;
    }
    if (!found)
        refuse_with(reply, NOT_FOUND,
                    pid ? "this process is not watched (any more)" : "no process is watched yet");
    return found;
}

static void refuse_memory(struct serve_reply *reply)
{
    struct error err;
    error_memory(&err);
    refuse_with(reply, FAILED, err.text);
}

/* ---- answers ---- */

/* Closes the stream; what it holds becomes the body. */
static void take_stream(struct serve_reply *reply, FILE *stream, char **text, const size_t *bytes)
{
    if (fclose(stream)) {
        free(*text);
        refuse_memory(reply);
        return;
    }
    buffer_append(&reply->body, *text, *bytes);
    free(*text);
}

static void answer_report(struct watch_serve *s, const struct serve_request *request,
                          struct serve_reply *reply)
{
    const char *kind = serve_argument(request, "kind");
    const bool old = kind && !strcmp(kind, "old");
    struct watch_process *p = choose_served_process(s, request, reply);
    struct watch_report report;
    struct error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    if (!p)
        return;
    if (kind && !old && strcmp(kind, "all") != 0) {
        refuse_with(reply, BAD_REQUEST, "kind: all or old");
        return;
    }
    FILE *stream = open_memstream(&text, &bytes);
    int status =
        stream ? watch_run_report(s->run, p, old ? WATCH_OLD : WATCH_ALL,
                                  old ? REPORTED_SCREEN_OLD : REPORTED_SCREEN_ALL, &report, &err)
               : error_memory(&err);
    if (stream && !status)
        status = watch_view_json(s->view, stream, &report, &err);
    if (stream) {
        watch_report_free(&report);
        take_stream(reply, stream, &text, &bytes);
    }
    if (status)
        refuse_with(reply, FAILED, err.text);
    else if (reply->status == OK)
        reply->type = "application/json";
}

static void answer_metrics(struct watch_serve *s, const struct serve_request *request,
                           struct serve_reply *reply)
{
    const bool open = watch_metrics_open(serve_header(request, "Accept"));
    if (watch_metrics_of(&reply->body, s->run, open))
        refuse_memory(reply);
    else
        reply->type = open ? WATCH_METRICS_OPEN_TYPE : WATCH_METRICS_TYPE;
}

/* ---- profiles ---- */

/* The seconds of a difference, 0: none asked for. False: they are none. */
static bool parse_seconds(const char *text, uint64_t *seconds)
{
    *seconds = 0;
    return !text || (*text && strlen(text) <= 4 && strspn(text, "0123456789") == strlen(text) &&
                     human_parse_count(text, seconds) && *seconds && *seconds <= MOST_SECONDS);
}

static int write_served_profile(struct watch_serve *s, struct watch_process *p,
                                const struct watch_sites *sites,
                                const struct watch_pprof_options *options,
                                struct serve_reply *reply, struct error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return error_memory(err);
    reply->type = "application/octet-stream";
    int status = watch_pprof_write(stream, p, sites, s->symbols, options, err);
    take_stream(reply, stream, &text, &bytes);
    return status;
}

/* The first half of a difference: the samples live now. */
static int begin_delta(struct serve_request *request, const struct watch_process *p,
                       const struct watch_sites *sites, struct error *err)
{
    struct delta *d = calloc(1, sizeof *d);
    if (!d)
        return error_memory(err);
    d->pid = p->pid;
    d->start_ns = p->start_ns;
    request->state = d;
    return watch_pprof_base(&d->base, p, sites, err);
}

static struct watch_process *find_again(struct watch_serve *s, const struct delta *d)
{
    for (uint32_t i = 0; i < watch_run_count(s->run); i++) {
        struct watch_process *p = watch_run_process(s->run, i);
        if (p->pid == d->pid && p->start_ns == d->start_ns)
            return p;
    }
    return NULL;
}

static void answer_profile(struct watch_serve *s, struct serve_request *request,
                           struct serve_reply *reply, const char *default_type)
{
    const char *debug = serve_argument(request, "debug");
    struct delta *d = request->state;
    struct watch_report all;
    struct error err = {0};
    uint64_t seconds;
    if (!parse_seconds(serve_argument(request, "seconds"), &seconds)) {
        refuse_with(reply, BAD_REQUEST, "seconds: a whole number from 1 to 600");
        return;
    }
    if (debug && strcmp(debug, "0") != 0) {
        refuse_with(reply, BAD_REQUEST, "debug: only 0, the binary format of pprof, is supported");
        return;
    }
    struct watch_process *p = d ? find_again(s, d) : choose_served_process(s, request, reply);
    if (!p && d)
        refuse_with(reply, GONE, "the process ended before the time was over");
    if (!p)
        return;
    int status = watch_run_report(s->run, p, WATCH_ALL, REPORTED_SCREEN_ALL, &all, &err);
    const struct watch_pprof_options options = {.default_type = default_type,
                                                .base = d ? &d->base : NULL};
    if (!status && seconds && !request->again) {
        status = begin_delta(request, p, &all.sites, &err);
        reply->wait_ns = status ? 0 : seconds * SECOND_NS;
    } else if (!status) {
        status = write_served_profile(s, p, &all.sites, &options, reply, &err);
    }
    watch_report_free(&all);
    if (status)
        refuse_with(reply, FAILED, err.text);
}

static void forget_served_state(void *arg, void *state)
{
    struct delta *d = state;
    (void)arg;
    free(d->base.values);
    free(d);
}

static void answer_page(struct serve_reply *reply)
{
    reply->type = "text/html; charset=utf-8";
    reply->policy = live_page_policy;
    buffer_append(&reply->body, live_page, live_page_bytes);
}

static void answer(void *arg, struct serve_request *request, struct serve_reply *reply)
{
    struct watch_serve *s = arg;
    if (!strcmp(request->path, "/"))
        answer_page(reply);
    else if (!strcmp(request->path, "/report.json"))
        answer_report(s, request, reply);
    else if (!strcmp(request->path, "/metrics"))
        answer_metrics(s, request, reply);
    else if (!strcmp(request->path, "/debug/pprof/heap"))
        answer_profile(s, request, reply, "inuse_space");
    else if (!strcmp(request->path, "/debug/pprof/allocs"))
        answer_profile(s, request, reply, "alloc_space");
    else
        refuse_with(reply, NOT_FOUND,
                    "not found; the paths are /, /report.json, /metrics, /debug/pprof/heap, "
                    "/debug/pprof/allocs");
}

/* ---- the server ---- */

static char *read_certificate(const char *path, struct error *err)
{
    const struct trust_rule rule = {
        .what = "the certificate", .owners = TRUST_CALLER | TRUST_ROOT, .follow = true};
    size_t bytes;
    const int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, err);
    char *text = fd < 0 ? NULL : trust_read_whole(fd, CERTIFICATE_BYTES, &bytes, err);
    if (fd >= 0)
        close(fd);
    return text;
}

/* Reads the files that the options name. -1: *err says which is wrong, and how. */
static int read_guard(struct watch_serve *s, const struct watch_serve_options *o, struct error *err)
{
    if (o->token_file && !(s->token = trust_secret(o->token_file, "the token file", err)))
        return error_prefix(err, "--token-file");
    if (o->certificate && !(s->certificate = read_certificate(o->certificate, err)))
        return error_prefix(err, "--tls-cert");
    if (o->key && !(s->key = trust_secret_text(o->key, "the private key", err)))
        return error_prefix(err, "--tls-key");
    return 0;
}

struct watch_serve *watch_serve_open(const struct watch_serve_options *o, struct watch_view *view,
                                     struct symbols *symbols, struct error *err)
{
    struct watch_serve *s = calloc(1, sizeof *s);
    if (!s) {
        error_memory(err);
        return NULL;
    }
    s->view = view;
    s->symbols = symbols;
    if (read_guard(s, o, err)) {
        watch_serve_close(s);
        return NULL;
    }
    const struct serve_guard guard = {s->token, s->certificate, s->key};
    s->http =
        serve_open(o->listen, &guard, &(struct serve_owner){s, answer, forget_served_state}, err);
    if (!s->http) {
        error_prefix(err, "--listen");
        watch_serve_close(s);
        return NULL;
    }
    text_printf(stderr, "listening on %s://%s/\n", serve_scheme(s->http), serve_address(s->http));
    return s;
}

void watch_serve_run(struct watch_serve *s, struct watch_run *run) { s->run = run; }

int watch_serve_descriptor(const struct watch_serve *s) { return serve_descriptor(s->http); }

void watch_serve_round(struct watch_serve *s) { serve_round(s->http); }

void watch_serve_close(struct watch_serve *s)
{
    if (!s)
        return;
    serve_close(s->http);
    trust_secret_free(s->token);
    trust_secret_free(s->key);
    free(s->certificate);
    free(s);
}
