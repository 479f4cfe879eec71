/* clickhouse.c - a store on a server of ClickHouse: opening it, and a load. */
#include "fleet/clickhouse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fleet/hash.h"

#define VERSION     3
#define ANSWER_MOST ((size_t)256 << 20)
#define SENT_MOST   2000000u /* identities remembered, of each kind */

/* ---- questions ---- */

int clickhouse_post(struct clickhouse *c, const char *query, const void *body, size_t bytes,
                    struct buffer *answer, struct error *err)
{
    struct buffer all = {0};
    buffer_append_text(&all, "wait_end_of_query=1&insert_distributed_sync=1");
    if (c->database) {
        buffer_append_text(&all, "&database=");
        http_escape(&all, c->database);
    }
    if (query) {
        buffer_append_text(&all, "&query=");
        http_escape(&all, query);
    }
    const int status =
        buffer_failed(&all) ? error_memory(err)
        : c->server ? http_post(c->server, buffer_text(&all), body, bytes, answer, ANSWER_MOST, err)
                    : c->rows_to(c->rows_arg, buffer_text(&all), body, bytes, err);
    buffer_release(&all);
    c->base.broken |= status != 0;
    return status;
}

static int run_sql(struct clickhouse *c, const char *sql, struct error *err)
{
    struct buffer answer = {0};
    const int status = clickhouse_post(c, NULL, sql, strlen(sql), &answer, err);
    buffer_release(&answer);
    return status;
}

int clickhouse_ask(struct clickhouse *c, const char *sql, struct binary *answer, struct error *err)
{
    struct buffer text = {0};
    buffer_printf(&text, "%s FORMAT RowBinary", sql);
    *answer = (struct binary){0};
    const int status = buffer_failed(&text) ? error_memory(err)
                                            : clickhouse_post(c, NULL, buffer_text(&text),
                                                              text.size_bytes, &answer->bytes, err);
    buffer_release(&text);
    if (status)
        binary_release(answer);
    return status;
}

uint64_t binary_number(struct binary *b)
{
    uint64_t v = 0;
    if (b->bytes.size_bytes - b->at < sizeof v) {
        b->bad = true;
        return 0;
    }
    memcpy(&v, b->bytes.data + b->at, sizeof v);
    b->at += sizeof v;
    return v;
}

const char *binary_text(struct binary *b, struct buffer *room)
{
    uint64_t bytes = 0;
    buffer_clear(room);
    for (unsigned shift = 0;; shift += 7) {
        if (b->at >= b->bytes.size_bytes || shift > 56) {
            b->bad = true;
            return "";
        }
        const uint8_t byte = (uint8_t)b->bytes.data[b->at++];
        bytes |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    if (bytes > b->bytes.size_bytes - b->at) {
        b->bad = true;
        return "";
    }
    buffer_append(room, b->bytes.data + b->at, bytes);
    b->at += bytes;
    b->bad |= buffer_failed(room);
    return buffer_text(room);
}

void binary_release(struct binary *b) { buffer_release(&b->bytes); }

int binary_end(struct clickhouse *c, const struct binary *b, struct error *err)
{
    return b->bad ? error_set(err, ERROR_FORMAT,
                              "the answer of %.300s was cut, or answers another "
                              "question",
                              c->base.where)
                  : 0;
}

void clickhouse_quote(struct buffer *to, const char *text, size_t bytes)
{
    buffer_append_char(to, '\'');
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\'' || text[i] == '\\')
            buffer_append_char(to, '\\');
        buffer_append_char(to, text[i]);
    }
    buffer_append_char(to, '\'');
}

/* ---- opening ---- */

bool clickhouse_is_url(const char *where) { return strstr(where, "://") != NULL; }

static void forget_load(struct clickhouse *c)
{
    clickhouse_forget_rows(c);
    for (size_t i = 0; i < c->pending_count; i++) {
        struct clickhouse_pending *p = &c->pending[i];
        buffer_release(&p->row);
        buffer_release(&p->label_keys);
        buffer_release(&p->label_values);
        buffer_release(&p->module_ids);
        buffer_release(&p->module_paths);
    }
    free(c->pending);
    c->pending = NULL;
    c->pending_count = 0;
    clickhouse_forget_watched(c);
}

static void forget_sent(struct clickhouse *c)
{
    for (int t = 0; t <= T_STACK; t++)
        strings_release(&c->sent[t]);
}

static void do_close(struct fleet_store *s)
{
    struct clickhouse *c = clickhouse_of(s);
    forget_load(c);
    forget_sent(c);
    clickhouse_release_rows(c);
    strings_release(&c->frame_ids);
    buffer_release(&c->frame_json);
    free(c->frames);
    free(c->database);
    http_close(c->server);
}

/* A database and a cluster stand in statements as they are. */
static bool is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *text && !(*text >= '0' && *text <= '9') && strspn(text, letters) == strlen(text) &&
           strlen(text) <= 64;
}

static const struct store_engine engine;

static int bad_database(const char *where, struct error *err)
{
    return error_set(err, ERROR_USAGE,
                     "%.200s does not end in the name of a database, which has letters, "
                     "digits and _; as in http://HOST:8123/fleet",
                     where);
}

struct fleet_store *clickhouse_apart(const char *database, fleet_rows_fn *rows, void *arg,
                                     struct error *err)
{
    struct clickhouse *c = calloc(1, sizeof *c);
    int status = c ? 0 : error_memory(err);
    if (c) {
        c->base.engine = &engine;
        c->base.where = strdup(database);
        c->database = strdup(database);
        c->rows_to = rows;
        c->rows_arg = arg;
        status = !c->database || !c->base.where ? error_memory(err)
                 : is_name(database)            ? 0
                                                : bad_database(database, err);
    }
    if (!status)
        return &c->base;
    fleet_close(c ? &c->base : NULL);
    return NULL;
}

static struct clickhouse *connect_to(const char *where, const struct fleet_access *access,
                                     struct error *err)
{
    struct clickhouse *c = calloc(1, sizeof *c);
    const char *user, *name;
    if (!c || !(c->base.where = strdup(where))) {
        error_memory(err);
        free(c);
        return NULL;
    }
    c->base.engine = &engine;
    c->server = http_open(where, access->authorities, &user, &name, err);
    int status = c->server ? 0 : -1;
    if (!status && !is_name(name))
        status = bad_database(where, err);
    if (!status && !(c->database = strdup(name)))
        status = error_memory(err);
    if (!status && user)
        status = http_header(c->server, "X-ClickHouse-User", user, err);
    if (!status && access->key)
        status = http_header(c->server, "X-ClickHouse-Key", access->key, err);
    if (status) {
        fleet_close(&c->base);
        return NULL;
    }
    return c;
}

/* *version: 0 when there is no store. */
static int find_version(struct clickhouse *c, uint64_t *version, struct error *err)
{
    struct buffer sql = {0};
    struct binary b;
    char *database = c->database;
    buffer_append_text(&sql, "SELECT count() FROM system.tables WHERE name = 'mallow_store' AND "
                             "database = ");
    clickhouse_quote(&sql, database, strlen(database));
    *version = 0;
    c->database = NULL; /* which need not exist */
    int status =
        buffer_failed(&sql) ? error_memory(err) : clickhouse_ask(c, buffer_text(&sql), &b, err);
    c->database = database;
    buffer_release(&sql);
    if (status)
        return -1;
    const bool there = binary_number(&b) != 0;
    status = binary_end(c, &b, err);
    binary_release(&b);
    if (status || !there)
        return status;
    if (clickhouse_ask(c, "SELECT max(version) FROM mallow_store", &b, err))
        return -1;
    *version = binary_number(&b);
    status = binary_end(c, &b, err);
    binary_release(&b);
    return status;
}

static int check_version(const struct clickhouse *c, uint64_t version, struct error *err)
{
    if (!version)
        return error_set(err, ERROR_USAGE,
                         "there is no store %.200s; 'mallow fleet init --store URL' makes one",
                         c->base.where);
    if (version != VERSION)
        return error_set(err, ERROR_FORMAT,
                         "%.200s is a store of version %" PRIu64 "; this mallow has version %d: "
                         "make a new one, and load the recordings again",
                         c->base.where, version, VERSION);
    return 0;
}

struct fleet_store *clickhouse_open(const char *where, const struct fleet_access *access,
                                    struct error *err)
{
    struct clickhouse *c = connect_to(where, access, err);
    uint64_t version;
    if (c && (find_version(c, &version, err) || check_version(c, version, err))) {
        fleet_close(&c->base);
        return NULL;
    }
    return c ? &c->base : NULL;
}

static int make_table(struct clickhouse *c, enum table t, const char *cluster, struct error *err)
{
    struct buffer sql = {0};
    buffer_printf(&sql, "CREATE TABLE IF NOT EXISTS %s%s (%s) ENGINE = %s",
                  clickhouse_tables[t].name, cluster ? "_local" : "", clickhouse_tables[t].columns,
                  clickhouse_tables[t].engine);
    int status = buffer_failed(&sql) ? error_memory(err) : run_sql(c, buffer_text(&sql), err);
    if (cluster && !status) {
        buffer_clear(&sql);
        buffer_printf(&sql,
                      "CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = Distributed(%s, %s, %s_local, "
                      "%s)",
                      clickhouse_tables[t].name, clickhouse_tables[t].columns, cluster, c->database,
                      clickhouse_tables[t].name, clickhouse_tables[t].shard);
        status = buffer_failed(&sql) ? error_memory(err) : run_sql(c, buffer_text(&sql), err);
    }
    buffer_release(&sql);
    return status;
}

/* Tables that are there already stay. The row that says that all are there comes last. */
static int make_store(struct clickhouse *c, const char *cluster, struct error *err)
{
    struct buffer sql = {0};
    char *database = c->database;
    int status = 0;
    buffer_printf(&sql, "CREATE DATABASE IF NOT EXISTS %s", database);
    c->database = NULL;
    status = buffer_failed(&sql) ? error_memory(err) : run_sql(c, buffer_text(&sql), err);
    c->database = database;
    buffer_release(&sql);
    for (int t = 0; t < TABLES && !status; t++)
        status = make_table(c, (enum table)t, cluster, err);
    const char *const rest[] = {
        cluster ? "INSERT INTO stack_local VALUES (0, 0, 0, 0, 0)"
                : "INSERT INTO stack VALUES (0, 0, 0, 0, 0)",
        cluster ? "INSERT INTO site_local VALUES (0, 0, 0, 0, 0)"
                : "INSERT INTO site VALUES (0, 0, 0, 0, 0)",
        "CREATE TABLE IF NOT EXISTS mallow_store (version UInt64) ENGINE = MergeTree "
        "ORDER BY version",
        "INSERT INTO mallow_store VALUES (3)"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest && !status; i++)
        status = run_sql(c, rest[i], err);
    return status;
}

int clickhouse_create(const char *where, const struct fleet_access *access, bool *existed,
                      struct error *err)
{
    uint64_t version;
    *existed = false;
    if (access->cluster && !is_name(access->cluster))
        return error_set(err, ERROR_USAGE, "--cluster: '%.64s' has more than letters, digits and _",
                         access->cluster);
    struct clickhouse *c = connect_to(where, access, err);
    int status = c ? find_version(c, &version, err) : -1;
    if (!status && version) {
        *existed = true;
        status = check_version(c, version, err);
    } else if (!status) {
        status = make_store(c, access->cluster, err);
    }
    fleet_close(c ? &c->base : NULL);
    return status;
}

/* ---- rows ---- */

static void put_number(struct buffer *b, uint64_t v) { buffer_append(b, &v, sizeof v); }

static void put_text(struct buffer *b, const char *text)
{
    clickhouse_put_bytes(b, text ? text : "", text ? strlen(text) : 0);
}

static void put_figures(struct buffer *b, const struct store_figures *f)
{
    buffer_append(b, f, sizeof *f);
}

/* 1: the server does not have a row of this identity from us, so send it; 0: it has; -1: error. */
static int is_fresh(struct clickhouse *c, enum table t, uint64_t a, uint64_t b, struct error *err)
{
    const uint64_t id[2] = {a, b};
    bool fresh;
    if (c->sent[t].count >= SENT_MOST)
        strings_release(&c->sent[t]);
    return strings_id(&c->sent[t], id, sizeof id, &fresh) ? fresh : error_memory(err);
}

/* Until the commit everything can wait. */
static int do_begin(struct fleet_store *s, struct error *err)
{
    (void)err;
    forget_load(clickhouse_of(s));
    return 0;
}

static void do_rollback(struct fleet_store *s)
{
    forget_load(clickhouse_of(s));
    forget_sent(clickhouse_of(s)); /* it may have had less than was meant for it */
}

static int do_commit(struct fleet_store *s, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    int status = 0;
    for (int t = 0; t < T_PROCESS && !status; t++)
        status = clickhouse_flush(c, (enum table)t, err);
    for (size_t i = 0; i < c->pending_count && !status; i++) {
        struct clickhouse_pending *p = &c->pending[i];
        const struct {
            const struct buffer *items;
            uint64_t count;
        } arrays[] = {{&p->label_keys, p->labels},
                      {&p->label_values, p->labels},
                      {&p->module_ids, p->modules},
                      {&p->module_paths, p->modules}};
        for (size_t k = 0; k < 4; k++) {
            clickhouse_put_length(&p->row, arrays[k].count);
            buffer_append(&p->row, arrays[k].items->data, arrays[k].items->size_bytes);
            if (buffer_failed(arrays[k].items) || buffer_failed(&p->row))
                return error_memory(err);
        }
        buffer_append(&c->rows[T_PROCESS], p->row.data, p->row.size_bytes);
        status = clickhouse_added(c, T_PROCESS, err);
    }
    if (!status)
        status = clickhouse_flush(c, T_PROCESS, err);
    if (!status)
        status = clickhouse_send_watched(c, err);
    if (!status)
        status = clickhouse_flush(c, T_WATCHED, err);
    if (!status)
        forget_load(c);
    return status;
}

static int do_find(struct fleet_store *s, uint64_t key, struct store_found *found,
                   struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    char sql[256];
    struct binary b;
    *found = (struct store_found){0};
    snprintf(sql, sizeof sql,
             "SELECT version, content, events FROM process WHERE key = %" PRIu64
             " ORDER BY version DESC LIMIT 1",
             key);
    if (clickhouse_ask(c, sql, &b, err))
        return -1;
    c->found_key = key;
    c->found_version = 0;
    if (binary_more(&b)) {
        c->found_version = binary_number(&b);
        found->there = true;
        found->content = binary_number(&b);
        found->events = binary_number(&b);
    }
    const int status = binary_end(c, &b, err);
    binary_release(&b);
    return status;
}

/* Its figures count no more once the process has a row of a higher version. */
static int do_remove(struct fleet_store *s, uint64_t key, struct error *err)
{
    (void)s, (void)key, (void)err;
    return 0;
}

/* A version above the last; two loaders never take the same. */
static uint64_t next_version(const struct clickhouse *c, uint64_t key, uint64_t attempt)
{
    const uint64_t last = c->found_key == key ? c->found_version : 0;
    return ((last >> 32) + 1) << 32 | (attempt & UINT32_MAX);
}

static int do_process(struct fleet_store *s, const struct store_process *p, int64_t *id,
                      struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    struct clickhouse_pending *more = realloc(c->pending, (c->pending_count + 1) * sizeof *more);
    if (!more)
        return error_memory(err);
    c->pending = more;
    struct clickhouse_pending *now = &c->pending[c->pending_count];
    *now =
        (struct clickhouse_pending){.key = p->key, .host = hash_bytes(8, p->host, strlen(p->host))};
    if (getrandom(&now->attempt, sizeof now->attempt, 0) != sizeof now->attempt)
        return error_system(err, "getrandom");
    *id = (int64_t)c->pending_count++;
    struct buffer *b = &now->row;
    put_number(b, p->key);
    put_number(b, next_version(c, p->key, now->attempt));
    put_number(b, now->attempt);
    put_number(b, p->content);
    const char *const words[] = {p->host, p->service,   p->build_id,
                                 p->exe,  p->allocator, p->command};
    for (int i = 0; i < 6; i++)
        put_text(b, words[i]);
    const uint64_t numbers[] = {p->pid,          p->ppid,   p->start_ns,    p->end_ns,
                                p->complete,     p->events, p->lost_events, p->requested_bytes,
                                p->peak_time_ns, p->stacks};
    buffer_append(b, numbers, sizeof numbers);
    put_figures(b, &p->figures);
    const uint64_t rest[1 + STORE_LIMITS] = {p->slice_ns, p->limits.memory, p->limits.address,
                                             p->limits.data};
    buffer_append(b, rest, sizeof rest);
    return buffer_failed(b) ? error_memory(err) : 0;
}

static int do_label(struct fleet_store *s, int64_t process, const struct fleet_label *l,
                    struct error *err)
{
    struct clickhouse_pending *p = &clickhouse_of(s)->pending[process];
    (void)err;
    clickhouse_put_bytes(&p->label_keys, l->key, l->key_bytes);
    put_text(&p->label_values, l->value);
    p->labels++;
    return 0;
}

static int do_module(struct fleet_store *s, int64_t process, const char *build_id, const char *path,
                     struct error *err)
{
    struct clickhouse_pending *p = &clickhouse_of(s)->pending[process];
    (void)err;
    put_text(&p->module_ids, build_id);
    put_text(&p->module_paths, path);
    p->modules++;
    return 0;
}

static int do_location(struct fleet_store *s, const struct store_location *l, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    struct buffer *b = &c->rows[T_LOCATION];
    const int fresh = is_fresh(c, T_LOCATION, l->id, 0, err);
    if (fresh <= 0)
        return fresh;
    put_number(b, l->id);
    put_text(b, l->build_id);
    put_text(b, l->module);
    put_number(b, l->offset);
    put_number(b, l->flags);
    return clickhouse_added(c, T_LOCATION, err);
}

static int do_stack(struct fleet_store *s, const struct store_stack *k, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    const int fresh = is_fresh(c, T_STACK, k->id, hash_mix(k->site, k->named), err);
    if (fresh <= 0)
        return fresh;
    return clickhouse_numbers(
        c, T_STACK, (const uint64_t[]){k->id, k->parent, k->location, k->site, k->named}, err);
}

static int do_frame(struct fleet_store *s, const struct store_frame *f, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    const int fresh = is_fresh(c, T_FRAME, f->id, 0, err);
    if (fresh <= 0)
        return fresh;
    put_number(&c->rows[T_FRAME], f->id);
    put_text(&c->rows[T_FRAME], f->json);
    return clickhouse_added(c, T_FRAME, err);
}

static int do_site(struct fleet_store *s, const struct store_site *i, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    const int fresh = is_fresh(c, T_SITE, i->id, i->call_site >= 0, err);
    if (fresh <= 0)
        return fresh;
    const uint64_t v[] = {i->id, i->parent, i->frame, i->path, (uint64_t)(i->call_site + 1)};
    return clickhouse_numbers(c, T_SITE, v, err);
}

/* Rows of one stack are added up by whatever reads them. */
static int do_figures(struct fleet_store *s, int64_t process, uint64_t stack,
                      const struct store_figures *f, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    const struct clickhouse_pending *p = &c->pending[process];
    uint64_t v[4 + STORE_FIGURES] = {p->attempt, stack, p->key, p->host};
    store_figures_put(v + 4, f);
    return clickhouse_numbers(c, T_FIGURE, v, err);
}

static const struct store_engine engine = {
    .close = do_close,
    .begin = do_begin,
    .commit = do_commit,
    .rollback = do_rollback,
    .find = do_find,
    .remove = do_remove,
    .process = do_process,
    .label = do_label,
    .module = do_module,
    .location = do_location,
    .stack = do_stack,
    .frame = do_frame,
    .site = do_site,
    .figures = do_figures,
    .slice = clickhouse_slice,
    .block = clickhouse_block,
    .find_watched = clickhouse_find_watched,
    .watched = clickhouse_watched,
    .watched_label = clickhouse_watched_label,
    .watched_site = clickhouse_watched_site,
    .slices_sql = clickhouse_slices_sql,
    .span_sql = clickhouse_span_sql,
    .watched_sql = clickhouse_watched_sql,
    .totals = clickhouse_totals,
    .sites = clickhouse_sites,
    .sites_sql = clickhouse_sites_sql,
    .held = clickhouse_held,
    .held_sql = clickhouse_held_sql,
    .ask = clickhouse_ask_rows,
    .order = clickhouse_order,
    .leaks = clickhouse_leaks,
    .spread = clickhouse_spread,
    .leaks_sql = clickhouse_leaks_sql,
    .spread_sql = clickhouse_spread_sql,
    .parts_sql = clickhouse_parts_sql,
    .prepare_frames = clickhouse_prepare_frames,
    .frames = clickhouse_frames,
};
