/* clickhouse_read.c - a store on a server: how its questions are asked.
 *
 * What has a row for each call site is asked in parts. Each part has the processes of some hosts,
 * and no host is in two of them: what the parts count is added up. So the server's memory is
 * bounded, whatever the store holds. The query names the attempts of a part, so the server reads
 * their figures alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/clickhouse.h"
#include "fleet/order.h"
#include "fleet/sums.h"

#define PAIRS_MOST    16000000u /* pairs of a process and a stack in one part */
#define PATHS_MOST    4000000u  /* the same, of what takes more memory */
#define ATTEMPTS_MOST 4000u     /* named in one question, twice; a server reads 256 KiB of text */
#define IDS_MOST      4000u     /* the most identities in one question, likewise */
#define GROUPS_MOST   4000000u  /* sites times processes of one question */
#define FRAMES_MOST   8000000u

char *clickhouse_text(struct buffer *b)
{
    char *text = buffer_failed(b) ? NULL : strdup(buffer_text(b));
    buffer_release(b);
    return text;
}

/* The rows of a query, which it frees. */
static int ask_server(struct clickhouse *c, char *sql, unsigned numbers, store_answer_fn *answer,
                      void *arg, struct error *err)
{
    uint64_t values[STORE_NUMBERS];
    struct buffer text = {0};
    struct binary b = {0};
    int status = sql ? clickhouse_ask_binary(c, sql, &b, err) : error_memory(err);
    free(sql);
    if (status)
        return -1;
    while (!status && binary_more(&b)) {
        for (unsigned i = 0; i < numbers; i++)
            values[i] = binary_number(&b);
        const char *last = binary_text(&b, &text);
        status = binary_end(c, &b, err);
        if (!status)
            status = answer(arg, values, last, err);
    }
    binary_release(&b);
    buffer_release(&text);
    return status;
}

/* ---- parts ---- */

struct selected { /* a process; host: the same number for those of one */
    uint64_t attempt, stacks, host;
};

struct parts {
    struct selected *items; /* those of a host together */
    size_t count, room;
};

static int select_process(void *arg, const uint64_t *n, const char *text, struct error *err)
{
    struct parts *p = arg;
    struct selected *s = ARRAY_ADD(p->items, p->count, p->room);
    (void)text;
    if (!s)
        return error_memory(err);
    *s = (struct selected){n[0], n[1], n[2]};
    return 0;
}

static size_t end_of_host(const struct parts *p, size_t at)
{
    const uint64_t host = p->items[at].host;
    while (at < p->count && p->items[at].host == host)
        at++;
    return at;
}

/* Where the part ends that begins at `at`: whole hosts, at least one. */
static size_t end_of_part(const struct parts *p, size_t at, uint64_t pairs_most)
{
    const size_t begin = at;
    size_t end = at;
    uint64_t pairs = 0;
    while (at < p->count) {
        const size_t next = end_of_host(p, at);
        for (; at < next; at++)
            pairs += p->items[at].stacks < pairs_most ? p->items[at].stacks : pairs_most;
        if (end > begin && (next - begin > ATTEMPTS_MOST || pairs > pairs_most))
            break;
        end = next;
    }
    return end;
}

/* "attempt IN ..." of a part. A host with too many processes is known by its name. */
static char *attempts_of(const struct parts *p, size_t at, size_t end, const struct store_query *q,
                         bool old)
{
    struct buffer b = {0};
    if (end - at > ATTEMPTS_MOST)
        return clickhouse_sql_of_host(q, old, p->items[at].host);
    for (size_t i = at; i < end; i++)
        buffer_printf(&b, "%s%" PRIu64, i > at ? "," : "attempt IN (", p->items[i].attempt);
    buffer_append_char(&b, ')');
    return clickhouse_text(&b);
}

struct asking { /* a question in parts */
    struct clickhouse *c;
    const struct store_query *q;
    bool old; /* the first selection is asked about */
    store_answer_fn *answer;
    void *arg;
    struct sums sums;
};
typedef int part_fn(struct asking *a, const struct clickhouse_some *some, struct error *err);

static int each_part(struct asking *a, uint64_t pairs_most, part_fn *ask, struct error *err)
{
    struct parts p = {0};
    int status =
        ask_server(a->c, clickhouse_sql_of_processes(a->q, a->old), 3, select_process, &p, err);
    for (size_t at = 0, end; at < p.count && !status; at = end) {
        end = end_of_part(&p, at, pairs_most);
        char *attempts = attempts_of(&p, at, end, a->q, a->old);
        status = attempts ? ask(a, &(struct clickhouse_some){.attempts = attempts}, err)
                          : error_memory(err);
        free(attempts);
    }
    free(p.items);
    return status;
}

static int join_sums_row(void *arg, const uint64_t *numbers, const char *text, struct error *err)
{
    struct asking *a = arg;
    struct store_row r;
    (void)text;
    memcpy(&r, numbers, sizeof r);
    return sums_join(&a->sums, &r, err);
}

static int ask_sites_of_part(struct asking *a, const struct clickhouse_some *some,
                             struct error *err)
{
    return ask_server(a->c, clickhouse_sql_of_some(a->q, some), sizeof(struct store_row) / 8,
                      join_sums_row, a, err);
}

/* The sums of values and squares at a path. */
static int hand_moments(void *arg, const uint64_t *n, const char *text, struct error *err)
{
    static const unsigned shift[] = {0, 22, 42, 64, 84};
    const struct asking *a = arg;
    unsigned __int128 squares = 0;
    for (unsigned i = 0; i < 5; i++) {
        const unsigned __int128 part = n[4 + i];
        squares = shift[i] && part >> (128 - shift[i]) ? STORE_SQUARES_MOST
                                                       : store_squares(squares, part << shift[i]);
    }
    const uint64_t held[HELD_NUMBERS] = {[HELD_PATH] = n[0],
                                         [HELD_SITE] = n[1],
                                         [HELD_NEWER] = !a->old,
                                         [HELD_PROCESSES] = n[2],
                                         [HELD_SUM] = n[3],
                                         [HELD_SQUARES] = (uint64_t)squares,
                                         [HELD_SQUARES_HIGH] = (uint64_t)(squares >> 64)};
    return a->answer(a->arg, held, text, err);
}

static int ask_held_of_part(struct asking *a, const struct clickhouse_some *some, struct error *err)
{
    return ask_server(a->c, clickhouse_sql_of_moments(a->q, some), 9, hand_moments, a, err);
}

/* ---- of some sites ---- */

static int add_to_order(void *arg, const uint64_t *n, const char *text, struct error *err)
{
    (void)text;
    return order_add(arg, (struct order_item){n[0], n[1], n[2]}, err);
}

/* The sites with most, as many at once as bound the server's memory, and its text. */
static int ask_some_sites(struct clickhouse *c, struct store_query *q, unsigned numbers,
                          store_answer_fn *answer, void *arg, struct error *err)
{
    struct order o = {.leaks = q->what == ASK_LEAKS};
    const uint64_t most = GROUPS_MOST / (q->processes + 1);
    const size_t step = most < 1 ? 1 : most > IDS_MOST ? IDS_MOST : most;
    uint64_t sites[IDS_MOST];
    int status = ask_server(c, clickhouse_sql_of_sums(q), 3, add_to_order, &o, err);
    order_pick(&o, q);
    for (size_t at = 0; at < o.count && !status; at += step) {
        struct clickhouse_some some = {.sites = sites};
        for (; some.count < step && at + some.count < o.count; some.count++)
            sites[some.count] = o.items[at + some.count].site;
        status = ask_server(c, clickhouse_sql_of_some(q, &some), numbers, answer, arg, err);
    }
    order_release(&o);
    return status;
}

int clickhouse_ask(struct fleet_store *s, struct store_query *q, unsigned numbers,
                   store_answer_fn *answer, void *arg, struct error *err)
{
    struct asking a = {.c = clickhouse_of(s), .q = q, .answer = answer, .arg = arg};
    int status;
    if (q->call_sites && a.c->earlier)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s is of an earlier mallow and does not know call sites yet: "
                         "'mallow fleet init --store URL' adds them; --json has whole stacks",
                         a.c->base.where);
    switch (q->what) {
    case ASK_SITES:
        a.sums.by = q->by;
        status = each_part(&a, PAIRS_MOST, ask_sites_of_part, err);
        status = status ? status : sums_rows(&a.sums, answer, arg, err);
        sums_release(&a.sums);
        return status;
    case ASK_HELD:
        a.old = true;
        status = each_part(&a, PATHS_MOST, ask_held_of_part, err);
        a.old = false;
        return status ? status : each_part(&a, PATHS_MOST, ask_held_of_part, err);
    case ASK_LEAKS:
    case ASK_SPREAD: return ask_some_sites(a.c, q, numbers, answer, arg, err);
    default: return ask_server(a.c, clickhouse_sql(s, q), numbers, answer, arg, err);
    }
}

/* ---- frames ---- */

static const struct known_frame *known(struct clickhouse *c, uint64_t site)
{
    bool fresh;
    /* a number is given to a site that is not known; its frame is damaged then */
    const uint32_t id = strings_id(&c->frame_ids, &site, sizeof site, &fresh);
    if (!id || id > c->frame_room || fresh || c->frames[id - 1].json == SIZE_MAX)
        return NULL;
    return &c->frames[id - 1];
}

static int remember(struct clickhouse *c, uint64_t site, struct known_frame f, const char *json,
                    struct error *err)
{
    bool fresh;
    const uint32_t id = strings_id(&c->frame_ids, &site, sizeof site, &fresh);
    if (!id)
        return error_memory(err);
    if (id > FRAMES_MOST)
        return error_set(err, ERROR_UNSUPPORTED, "%.300s has more than %u frames to show",
                         c->base.where, FRAMES_MOST);
    const size_t before = c->frame_room;
    if (!ARRAY_ROOM(c->frames, id, c->frame_room))
        return error_memory(err);
    for (size_t i = before; i < c->frame_room; i++)
        c->frames[i].json = SIZE_MAX;
    f.json = c->frame_json.size_bytes;
    buffer_append(&c->frame_json, json, strlen(json) + 1);
    c->frames[id - 1] = f;
    return buffer_failed(&c->frame_json) ? error_memory(err) : 0;
}

/* called: what stands for the call site, from 1; a call site of its own has no callers. */
static char *frames_sql(const uint64_t *sites, size_t count, bool call_sites)
{
    struct buffer sql = {0}, list = {0};
    for (size_t i = 0; i < count; i++)
        buffer_printf(&list, "%s%" PRIu64, i ? "," : "", sites[i]);
    if (call_sites)
        buffer_printf(&sql,
                      "SELECT id, toUInt64(0), toUInt64(0), any(json) FROM frame WHERE id IN (%s)"
                      " GROUP BY id",
                      buffer_text(&list));
    else
        buffer_printf(
            &sql,
            "SELECT id, above, called_frame, json FROM (SELECT id, any(parent) AS above,"
            " any(frame) AS which, max(called) AS called_frame FROM site WHERE id IN (%s)"
            " GROUP BY id) AS sites GLOBAL ALL INNER JOIN (SELECT id AS which, any(json) AS json"
            " FROM frame WHERE id GLOBAL IN (SELECT frame FROM site WHERE id IN (%s)) GROUP BY id)"
            " AS frames USING which",
            buffer_text(&list), buffer_text(&list));
    buffer_release(&list);
    return clickhouse_text(&sql);
}

struct bringing {
    struct clickhouse *c;
    uint64_t *parents; /* those above that may not be known yet */
    size_t count, most;
};

static int bring_site(void *arg, const uint64_t *n, const char *text, struct error *err)
{
    struct bringing *g = arg;
    if (g->count < g->most && n[1])
        g->parents[g->count++] = n[1];
    return remember(g->c, n[0], (struct known_frame){n[1], (int64_t)n[2] - 1, 0}, text, err);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts; leaves each once, without 0 and those that are known. */
static size_t unknown(struct clickhouse *c, uint64_t *sites, size_t count)
{
    size_t kept = 0;
    qsort(sites, count, sizeof *sites, by_number);
    for (size_t i = 0; i < count; i++)
        if (sites[i] && (!kept || sites[kept - 1] != sites[i]) && !known(c, sites[i]))
            sites[kept++] = sites[i];
    return kept;
}

int clickhouse_prepare_frames(struct fleet_store *s, const uint64_t *sites, size_t count,
                              bool call_sites, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    uint64_t *now = malloc((count + 1) * sizeof *now), *next = malloc((count + 1) * sizeof *next);
    int status = 0;
    if (!now || !next) {
        free(now);
        free(next);
        return error_memory(err);
    }
    memcpy(now, sites, count * sizeof *now);
    for (unsigned depth = 0; !status && depth < STORE_DEEPEST; depth++) {
        struct bringing g = {.c = c, .parents = next};
        count = unknown(c, now, count);
        g.most = count;
        if (!count)
            break;
        for (size_t at = 0; at < count && !status; at += IDS_MOST)
            status = ask_server(
                c, frames_sql(now + at, count - at < IDS_MOST ? count - at : IDS_MOST, call_sites),
                3, bring_site, &g, err);
        uint64_t *other = now;
        now = next;
        next = other;
        count = g.count;
    }
    free(now);
    free(next);
    return status;
}

int clickhouse_frames(struct fleet_store *s, uint64_t site, bool call_sites, uint64_t *call_site,
                      store_frame_fn *frame, void *arg, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    int status = clickhouse_prepare_frames(s, &site, 1, call_sites, err);
    *call_site = 0;
    for (unsigned depth = 0; site && !status; depth++) {
        const struct known_frame *f = known(c, site);
        if (depth == STORE_DEEPEST || !f)
            return error_set(err, ERROR_FORMAT,
                             "%.300s is damaged: the frames of a call site are missing",
                             c->base.where);
        if (!depth && f->call_site > 0)
            *call_site = (uint64_t)f->call_site;
        site = f->parent;
        status = frame(arg, c->frame_json.data + f->json, err);
    }
    return status;
}
