/* push.c - Pushes profiles or rows of watched processes to a server at intervals. It keeps the
 * state of the last push of each process, so that a profile holds the difference. A profile that
 * is too large is sent in halves. Sending itself happens in another thread. */
#include "watch/out/push.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/text.h"
#include "watch/out/otlp.h"
#include "fleet/fleet.h"
#include "push/http.h"
#include "push/letter.h"
#include "push/sender.h"

#define SECOND_NS     1000000000ull
#define END_NS        (5 * SECOND_NS) /* for those left at the end */
#define EVERY_NS      (60 * SECOND_NS)
#define SPOOL_BYTES   (64ull << 20)
#define PROFILE_BYTES (4ull << 20) /* Pyroscope's limit without configuration */
#define LABELS_MOST   24u          /* Pyroscope takes 30, some of which are its own */
#define LABEL_BYTES   1024u
#define SERVICE_NAME  "service_name"

struct pushed { /* a process */
    pid_t pid;
    uint64_t start_ns, next_ns;
    struct watch_pprof_base base; /* base of the last push; values NULL: there was none */
    bool seen;
};

struct watch_push {
    struct note note;
    const struct watch_push_options *o;
    int as;
    char *server, *database; /* for --push-as clickhouse: the two parts of the URL */
    struct sender *sender;
    char host[256];
    uint64_t every_ns, most_bytes, began_ns;
    struct pushed *items;
    size_t count, room;
    uint64_t too_large; /* profiles of one stack beyond the bound */
    char news[600];
    bool failed; /* something of our own; said once */
    char why[512];
};

enum { PYROSCOPE, OTLP, CLICKHOUSE }; /* watch_push_options.as */
static const char *const kinds[] = {"pyroscope", "otlp", "clickhouse"};

/* ---- labels ---- */

/* NULL, or the fault of KEY=VALUE. Pyroscope has no quotes for what separates its labels. */
static const char *label_fault(const char *label, int as)
{
    const char *equals = strchr(label, '=');
    if (!equals)
        return "no '='";
    if (equals == label || isdigit((unsigned char)*label) || !strncmp(label, "__", 2))
        return "a name begins with a letter, and not with '__'";
    for (const char *p = label; p < equals; p++)
        if (!isalnum((unsigned char)*p) && *p != '_' && (as != OTLP || *p != '.'))
            return "a name has letters, digits and '_' (otlp: and '.')";
    if (!equals[1])
        return "no value";
    if (strlen(label) > LABEL_BYTES)
        return "longer than 1024 bytes";
    for (const char *p = equals + 1; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p > '~' || strchr(",{}=\"\\", *p))
            return "a value has no blanks, commas, braces, quotes, '=', and is ASCII";
    return NULL;
}

static bool same_name(const char *a, const char *b)
{
    const size_t n = strcspn(a, "=");
    return n == strcspn(b, "=") && !strncmp(a, b, n);
}

static int check_labels(const struct text_list *labels, int as, struct error *err)
{
    if (labels->count > LABELS_MOST)
        return error_set(err, ERROR_USAGE, "--label: servers accept %u labels at most",
                         LABELS_MOST);
    for (size_t i = 0; i < labels->count; i++) {
        const char *fault = label_fault(labels->items[i], as);
        if (fault)
            return error_set(err, ERROR_USAGE, "--label: '%s' is not KEY=VALUE: %s",
                             labels->items[i], fault);
        for (size_t k = 0; k < i; k++)
            if (same_name(labels->items[i], labels->items[k]))
                return error_set(err, ERROR_USAGE, "--label: '%s' is given twice",
                                 labels->items[i]);
    }
    return 0;
}

/* The value of a label that was given, or NULL. */
static const char *given_label(const struct watch_push *push, const char *name)
{
    for (size_t i = 0; i < push->o->labels.count; i++)
        if (same_name(push->o->labels.items[i], name))
            return strchr(push->o->labels.items[i], '=') + 1;
    return NULL;
}

/* A program chooses its name: of what could end a label it keeps nothing. */
static void append_clean(struct buffer *to, const char *text)
{
    for (unsigned n = 0; *text && n < 200; text++, n++)
        buffer_append_char(to,
                           isalnum((unsigned char)*text) || strchr("._-/", *text) ? *text : '_');
}

/* NAME{KEY=VALUE,...} */
static void append_name(struct buffer *to, const struct watch_push *push,
                        const struct watch_process *p)
{
    const char *service = given_label(push, SERVICE_NAME);
    append_clean(to, service ? service : watch_process_name(p));
    buffer_append_char(to, '{');
    if (!given_label(push, "hostname"))
        buffer_printf(to, "hostname=%s,", push->host);
    if (!given_label(push, "pid"))
        buffer_printf(to, "pid=%d,", (int)p->pid);
    if (p->elsewhere) /* process ids are of that namespace */
        buffer_printf(to, "pid_namespace=%llu,", (unsigned long long)p->segment.head.pid_namespace);
    for (size_t i = 0; i < push->o->labels.count; i++)
        if (!same_name(push->o->labels.items[i], SERVICE_NAME))
            buffer_printf(to, "%s,", push->o->labels.items[i]);
    if (to->size_bytes && to->data[to->size_bytes - 1] == ',')
        to->size_bytes--;
    buffer_append_char(to, '}');
}

/* ---- profiles ---- */

static uint64_t realtime_ns(const struct watch_process *p, uint64_t time_ns)
{
    return p->segment.head.start_realtime_ns + (time_ns - p->start_ns);
}

/* /ingest of Pyroscope. */
static void append_ingest(struct buffer *target, const struct watch_push *push,
                          const struct watch_process *p, uint64_t since_ns)
{
    struct buffer name = {0};
    const uint64_t from = realtime_ns(p, since_ns) / SECOND_NS;
    const uint64_t until = realtime_ns(p, p->time_ns) / SECOND_NS;
    append_name(&name, push, p);
    buffer_append_text(target, "ingest?name=");
    http_escape(target, buffer_text(&name));
    buffer_printf(target, "&from=%llu&until=%llu&format=pprof&spyName=mallow",
                  (unsigned long long)from, (unsigned long long)(until > from ? until : from + 1));
    target->failed |= buffer_failed(&name);
    buffer_release(&name);
}

static void give(struct watch_push *push, const struct watch_process *p, uint64_t since_ns,
                 const void *profile, size_t bytes)
{
    struct buffer target = {0}, bytes_of = {0};
    struct letter letter = {.type = "application/octet-stream", .body = profile, .bytes = bytes};
    if (push->as == OTLP) {
        buffer_append_text(&target, OTLP_PATH);
        letter.type = "application/x-protobuf";
        letter.encoding = "gzip";
    } else {
        append_ingest(&target, push, p, since_ns);
    }
    letter.target = buffer_text(&target);
    letter_write(&bytes_of, &letter);
    bytes_of.failed |= buffer_failed(&target);
    buffer_release(&target);
    sender_give(push->sender, &bytes_of);
}

/* The process as a resource of OpenTelemetry, by the names of its conventions. */
static struct otlp *resource(const struct watch_push *push, const struct watch_process *p,
                             struct error *err)
{
    const char *service = given_label(push, SERVICE_NAME);
    struct otlp *o = otlp_new(err);
    if (!o)
        return NULL;
    otlp_attribute(o, "service.name", service ? service : watch_process_name(p));
    otlp_attribute(o, "process.executable.name", watch_process_name(p));
    otlp_attribute_number(o, "process.pid", (int)p->pid);
    otlp_attribute(o, "host.name", push->host);
    if (p->elsewhere)
        otlp_attribute_number(o, "mallow.pid_namespace", (int64_t)p->segment.head.pid_namespace);
    for (size_t i = 0; i < push->o->labels.count; i++) {
        const char *label = push->o->labels.items[i], *value = strchr(label, '=') + 1;
        char key[LABEL_BYTES];
        snprintf(key, sizeof key, "%.*s", (int)(value - 1 - label), label);
        if (strcmp(key, SERVICE_NAME) != 0)
            otlp_attribute(o, key, value);
    }
    return o;
}

static int write_pushed_sites(const struct watch_push *push, FILE *out,
                              const struct watch_process *p, const struct watch_sites *sites,
                              struct symbols *symbols, const struct watch_pprof_options *options,
                              struct error *err)
{
    if (push->as == PYROSCOPE)
        return watch_pprof_write(out, p, sites, symbols, options, err);
    struct otlp *o = resource(push, p, err);
    return o ? watch_otlp_write(o, out, p, sites, symbols, options, err) : -1;
}

/* The size of a gzipped profile without compression: gzip's last four bytes. */
static uint64_t unzipped_bytes(const char *profile, size_t bytes)
{
    const unsigned char *end = (const unsigned char *)profile + bytes;
    return bytes < 4 ? 0
                     : end[-4] | (uint64_t)end[-3] << 8 | (uint64_t)end[-2] << 16 |
                           (uint64_t)end[-1] << 24;
}

struct range { /* range of sites, [from, until) */
    uint32_t from, until;
};

/* The profile of these sites, or, while it is too large, of each half. */
static int push_sites(struct watch_push *push, const struct watch_process *p,
                      const struct watch_sites *sites, struct symbols *symbols,
                      const struct watch_pprof_base *base, struct range range, struct error *err)
{
    const struct watch_pprof_options options = {
        .base = base, .in_use_whole = true, .from = range.from, .until = range.until};
    char *profile = NULL;
    size_t bytes = 0;
    if (range.from == range.until)
        return 0;
    FILE *stream = open_memstream(&profile, &bytes);
    if (!stream)
        return error_memory(err);
    int status = write_pushed_sites(push, stream, p, sites, symbols, &options, err);
    if (fclose(stream) && !status)
        status = error_memory(err);
    if (!status && unzipped_bytes(profile, bytes) <= push->most_bytes) {
        give(push, p, base && base->values ? base->time_ns : p->start_ns, profile, bytes);
    } else if (!status && range.until - range.from == 1) {
        push->too_large++;
    } else if (!status) {
        const uint32_t middle = range.from + (range.until - range.from) / 2;
        status = push_sites(push, p, sites, symbols, base, (struct range){range.from, middle}, err);
        if (!status)
            status =
                push_sites(push, p, sites, symbols, base, (struct range){middle, range.until}, err);
    }
    free(profile);
    return status;
}

/* How many sites, which are put first, have something to say since the base. */
static uint32_t worth_pushing(struct watch_sites *sites, const struct watch_pprof_base *base)
{
    const struct watch_pprof_options options = {.base = base, .in_use_whole = true};
    int64_t values[WATCH_PPROF_VALUES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < sites->count; i++)
        if (watch_pprof_values(&sites->items[i], &options, values)) {
            const struct watch_site swapped = sites->items[n];
            sites->items[n++] = sites->items[i];
            sites->items[i] = swapped;
        }
    return n;
}

/* ---- rows of a store ---- */

/* One insertion becomes a letter behind the others of the report. */
static int add_rows(void *arg, const char *query, const void *body, size_t bytes, struct error *err)
{
    struct buffer *letters = arg, target = {0};
    buffer_printf(&target, "?%s", query);
    letter_write(letters, &(struct letter){.target = buffer_text(&target),
                                           .type = "application/octet-stream",
                                           .body = body,
                                           .bytes = bytes});
    letters->failed |= buffer_failed(&target);
    buffer_release(&target);
    return buffer_failed(letters) ? error_memory(err) : 0;
}

/* A store refuses numbers from 2^63 on. */
static uint64_t bounded(uint64_t v) { return v < INT64_MAX ? v : INT64_MAX - 1; }

static struct fleet_estimate estimate_to_store(const struct estimate *e)
{
    const struct estimate_interval i = estimate_bytes_interval(e);
    return (struct fleet_estimate){.bytes = bounded(estimate_whole(e->bytes)),
                                   .low = bounded(estimate_whole(i.low)),
                                   .high = bounded(estimate_whole(i.high)),
                                   .blocks = bounded(estimate_whole(e->blocks)),
                                   .samples = e->samples,
                                   .sampled_bytes = bounded(e->sampled_bytes)};
}

static bool site_to_store(const struct watch_rows *rows, const struct watch_row *row,
                          struct fleet_report_site *to)
{
    const struct watch_site *s = &row->site;
    *to = (struct fleet_report_site){.estimate = estimate_to_store(&s->chosen),
                                     .oldest_ns = s->oldest_ns,
                                     .allocated_bytes =
                                         bounded(estimate_whole(s->sums.allocated_bytes)),
                                     .freed_bytes = bounded(estimate_whole(s->sums.freed_bytes)),
                                     .call_site = row->first,
                                     .count = names_shown(rows->names, row->frames, row->count)};
    to->frames = calloc(to->count + 1, sizeof *to->frames);
    for (size_t i = 0; to->frames && i < to->count; i++)
        to->frames[i] = *names_frame(rows->names, row->frames[i]);
    return to->frames != NULL;
}

/* The report as a store has it; its sites, their frames and its command are to be freed. */
static bool report_to_store(const struct watch_report *r, const struct watch_rows *rows,
                            const char *host, struct fleet_report *to)
{
    const struct watch_process *p = r->process;
    const uint64_t start = p->segment.head.start_realtime_ns;
    bool good = true;
    *to = (struct fleet_report){
        .host = host,
        .exe = p->stacks.image.exe ? p->stacks.image.exe : "",
        .kind = watch_kind_name(r->kind),
        .process_end = r->kind == WATCH_FINAL ? watch_life_name(p) : "",
        .command = fleet_command(p->stacks.image.command),
        .pid = (uint64_t)p->pid,
        .start_ns = start,
        .time_ns = start + (p->time_ns > p->start_ns ? p->time_ns - p->start_ns : 0),
        .period = watch_period(p, false),
        .dropped = watch_dropped(p),
        .sites_total = rows->count,
        .total = estimate_to_store(&rows->total),
        .sites = calloc(rows->count + 1, sizeof *to->sites)};
    for (size_t i = 0; to->sites && good && i < rows->count; i++)
        good = site_to_store(rows, &rows->items[i], &to->sites[to->site_count++]);
    return to->sites && to->command && good;
}

/* A report, as `fleet load` would insert it. */
static int push_rows(struct watch_push *push, const struct watch_report *r, struct watch_view *view,
                     struct error *err)
{
    const struct text_list *given = &push->o->labels;
    struct fleet_label labels[LABELS_MOST];
    struct fleet_load_options options = {.host = given_label(push, "hostname"),
                                         .service = given_label(push, SERVICE_NAME),
                                         .labels = labels};
    struct buffer letters = {0};
    struct watch_rows rows;
    struct fleet_report report;
    char host[HOST_NAME_MAX + 1] = "";
    if (gethostname(host, sizeof host))
        *host = 0;
    for (size_t i = 0; i < given->count; i++)
        if (!same_name(given->items[i], SERVICE_NAME) && !same_name(given->items[i], "hostname"))
            (void)fleet_parse_label(given->items[i], &labels[options.label_count++]);
    if (watch_view_rows(view, r, &rows, err))
        return -1;
    int status = report_to_store(r, &rows, host, &report)
                     ? fleet_report_rows(&report, push->database, &options, add_rows, &letters, err)
                     : error_memory(err);
    if (!status && letters.size_bytes)
        sender_give(push->sender, &letters);
    for (size_t i = 0; i < report.site_count; i++)
        free(report.sites[i].frames);
    free(report.sites);
    free((char *)(uintptr_t)report.command);
    watch_rows_free(&rows);
    buffer_release(&letters);
    return status;
}

static void push_has_failed(struct watch_push *push, const struct error *err)
{
    if (push->failed)
        return;
    push->failed = true;
    snprintf(push->why, sizeof push->why, "%s", err->text);
}

/* The state of now, of which a profile is made when `send`; the next one has the difference. */
static void look_at_pushed(struct watch_push *push, const struct watch_sources *from,
                           struct watch_process *p, struct pushed *state, enum watch_kind kind,
                           bool send)
{
    struct watch_report all;
    struct watch_pprof_base now = {0};
    struct error err = {0};
    int status = watch_run_report(from->run, p, kind, REPORTED_SCREEN_ALL, &all, &err);
    if (!status && push->as == CLICKHOUSE) {
        status = send ? push_rows(push, &all, from->view, &err) : 0;
    } else if (!status && !(status = watch_pprof_base(&now, p, &all.sites, &err)) && send) {
        const struct watch_pprof_base *base = state->base.values ? &state->base : NULL;
        const uint32_t sites = worth_pushing(&all.sites, base);
        status =
            push_sites(push, p, &all.sites, from->symbols, base, (struct range){0, sites}, &err);
    }
    watch_report_free(&all);
    if (status) {
        push_has_failed(push, &err);
        free(now.values);
        return;
    }
    free(state->base.values);
    state->base = now;
}

/* ---- processes ---- */

static struct pushed *find_pushed(struct watch_push *push, const struct watch_process *p)
{
    for (size_t i = 0; i < push->count; i++)
        if (push->items[i].pid == p->pid && push->items[i].start_ns == p->start_ns)
            return &push->items[i];
    return NULL;
}

/* Adds a process. Its allocations from before the watch are in no profile of it: the server would
 * take it for the work of the first minute. */
static struct pushed *add_pushed(struct watch_push *push, const struct watch_sources *from,
                                 struct watch_process *p, uint64_t now)
{
    struct pushed *state = ARRAY_ADD(push->items, push->count, push->room);
    if (!state)
        return NULL;
    state->pid = p->pid;
    state->start_ns = p->start_ns;
    state->next_ns = now + push->every_ns;
    if (!p->is_program && p->start_ns < push->began_ns)
        look_at_pushed(push, from, p, state, WATCH_ALL, false);
    return state;
}

static void forget_pushed(struct watch_push *push, size_t index)
{
    free(push->items[index].base.values);
    push->items[index] = push->items[--push->count];
}

void watch_push_tick(struct watch_push *push, const struct watch_sources *from)
{
    const uint64_t now = clock_monotonic_ns();
    struct error err = {0};
    if (!sender_begun(push->sender) && sender_begin(push->sender, &err))
        push_has_failed(push, &err);
    for (size_t i = 0; i < push->count; i++)
        push->items[i].seen = false;
    for (uint32_t i = 0; i < watch_run_count(from->run); i++) {
        struct watch_process *p = watch_run_process(from->run, i);
        struct pushed *state = find_pushed(push, p);
        if (!state && p->life == WATCH_RUNNING)
            state = add_pushed(push, from, p, now);
        if (!state)
            continue;
        state->seen = true;
        if (p->life == WATCH_RUNNING && now >= state->next_ns) {
            state->next_ns = now + push->every_ns;
            look_at_pushed(push, from, p, state, WATCH_ALL, true);
        }
    }
    for (size_t i = push->count; i-- > 0;)
        if (!push->items[i].seen)
            forget_pushed(push, i);
}

void watch_push_last(struct watch_push *push, const struct watch_sources *from,
                     struct watch_process *p)
{
    struct pushed *state = find_pushed(push, p);
    if (!state)
        state = add_pushed(push, from, p, clock_monotonic_ns());
    if (!state)
        return;
    look_at_pushed(push, from, p, state, WATCH_FINAL, true);
    forget_pushed(push, (size_t)(state - push->items));
}

/* ---- beginning and ending ---- */

static int check_push_options(const struct watch_push_options *o, struct error *err)
{
    if (o->url && o->as == CLICKHOUSE && o->most_bytes)
        return error_set(err, ERROR_USAGE,
                         "--push-size applies to profiles only: a report in a store is not split");
    return o->url ? check_labels(&o->labels, o->as, err) : 0;
}

/* http://HOST:PORT/DATABASE into the server's URL and the database. */
static int split_url(struct watch_push *p, const char *url, struct error *err)
{
    const char *host = strstr(url, "://");
    const size_t before = host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/") : strlen(url);
    const char *name = url + before + (url[before] == '/');
    p->server = strndup(url, before);
    p->database = strndup(name, strcspn(name, "/"));
    if (!p->server || !p->database)
        return error_memory(err);
    if (!*p->database || name[strlen(p->database)] ||
        strspn(p->database, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") !=
            strlen(p->database))
        return error_set(err, ERROR_USAGE,
                         "--push: the URL of a ClickHouse ends in a database, as in "
                         "http://127.0.0.1:8123/fleet");
    return 0;
}

static void free_push(struct watch_push *push)
{
    sender_close(push->sender);
    while (push->count)
        forget_pushed(push, push->count - 1);
    free(push->items);
    free(push->server);
    free(push->database);
    free(push);
}

int watch_push_open(struct watch_push **push, const struct watch_push_options *o,
                    const char *token_file, struct note note, struct error *err)
{
    *push = NULL;
    if (check_push_options(o, err))
        return -1;
    if (!o->url)
        return 0;
    struct watch_push *p = calloc(1, sizeof *p);
    if (!p)
        return error_memory(err);
    p->as = o->as < 0 ? PYROSCOPE : o->as;
    int bad = p->as == CLICKHOUSE ? split_url(p, o->url, err) : 0;
    if (!bad) {
        const struct sender_options options = {
            .url = p->server ? p->server : o->url,
            .token_file = o->token_file ? o->token_file : token_file,
            .authorities = o->ca,
            .spool = o->spool,
            .kind = kinds[p->as],
            .refused = p->as == OTLP ? otlp_rejected : NULL,
            .spool_bytes = o->spool_bytes ? o->spool_bytes : SPOOL_BYTES};
        p->sender = sender_open(&options, err);
        bad = !p->sender;
    }
    if (bad) {
        free_push(p);
        return -1;
    }
    struct buffer host = {0};
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) || !*name)
        snprintf(name, sizeof name, "unknown");
    append_clean(&host, name);
    snprintf(p->host, sizeof p->host, "%s", buffer_text(&host));
    buffer_release(&host);
    p->note = note;
    p->o = o;
    p->every_ns = o->every_ns ? o->every_ns : EVERY_NS;
    p->most_bytes = o->most_bytes ? o->most_bytes : PROFILE_BYTES;
    p->began_ns = clock_monotonic_ns();
    *push = p;
    return 0;
}

const char *watch_push_news(struct watch_push *push, bool *wrong)
{
    char line[512];
    *wrong = true;
    if (*push->why)
        snprintf(push->news, sizeof push->news, "--push: %s", push->why);
    else if (sender_news(push->sender, line, wrong))
        snprintf(push->news, sizeof push->news, "--push: %s", line);
    else
        return NULL;
    push->why[0] = 0;
    return push->news;
}

static void append_count(struct buffer *to, uint64_t n, const char *what)
{
    if (n)
        buffer_printf(to, "%s%s %s", to->size_bytes ? "; " : "", COUNT(n), what);
}

static void print_end(const struct watch_push *push, const struct sender_counts *c, bool quiet)
{
    struct buffer text = {0};
    const bool whole =
        !c->refused && !c->dropped && !c->damaged && !c->lost && !c->stored && !push->too_large;
    if (whole && quiet)
        return;
    buffer_printf(&text, "%s sent (%s)", COUNT(c->sent), SIZE(c->sent_bytes));
    append_count(&text, c->stored, "in the spool, for the next watch");
    append_count(&text, c->dropped, "dropped, because the spool was full");
    append_count(&text, c->refused, "refused by the server");
    append_count(&text, c->lost,
                 "lost, because the server did not take them and there is no spool");
    append_count(&text, c->damaged, "damaged in the spool");
    append_count(&text, push->too_large, "larger than --push-size with one stack");
    note_line(&push->note, "--push: %s: %s", push->as == CLICKHOUSE ? "reports" : "profiles",
              buffer_text(&text));
    buffer_release(&text);
}

void watch_push_end(struct watch_push *push, bool quiet)
{
    struct sender_counts counts;
    bool wrong;
    if (!push)
        return;
    sender_end(push->sender, END_NS, &counts);
    for (const char *line; (line = watch_push_news(push, &wrong));)
        if (wrong || !quiet)
            note_line(&push->note, "%s", line);
    print_end(push, &counts, quiet);
    free_push(push);
}
