/* clickhouse.c - a store on a server of ClickHouse: opening it, and a load. */
#include "fleet/clickhouse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "fleet/hash.h"

#define VERSION      4
#define ANSWER_MOST  ((size_t)256 << 20)
#define OUTWARD_MOST 80u      /* joins in each other */
#define SENT_MOST    2000000u /* identities remembered, of each kind */

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

int clickhouse_ask_binary(struct clickhouse *c, const char *sql, struct binary *answer,
                          struct error *err)
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
                              "the answer of %.300s is truncated, or does not match the query",
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

static void forget_pending(struct clickhouse_pendings *p)
{
    for (size_t i = 0; i < p->count; i++) {
        buffer_release(&p->items[i].row);
        for (size_t k = 0; k < 4; k++)
            buffer_release(&p->items[i].arrays[k]);
    }
    free(p->items);
    *p = (struct clickhouse_pendings){0};
}

static void forget_load(struct clickhouse *c)
{
    clickhouse_forget_rows(c);
    forget_pending(&c->processes);
    forget_pending(&c->reports);
}

static void forget_sent(struct clickhouse *c)
{
    for (int t = 0; t <= STORE_STACK; t++)
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
    struct binary b = {0};
    char *database = c->database;
    buffer_append_text(&sql, "SELECT count() FROM system.tables WHERE name = 'mallow_store' AND "
                             "database = ");
    clickhouse_quote(&sql, database, strlen(database));
    *version = 0;
    c->database = NULL; /* which need not exist */
    int status = buffer_failed(&sql) ? error_memory(err)
                                     : clickhouse_ask_binary(c, buffer_text(&sql), &b, err);
    c->database = database;
    buffer_release(&sql);
    if (status)
        return -1;
    const bool there = binary_number(&b) != 0;
    status = binary_end(c, &b, err);
    binary_release(&b);
    if (status || !there)
        return status;
    if (clickhouse_ask_binary(c, "SELECT max(version) FROM mallow_store", &b, err))
        return -1;
    *version = binary_number(&b);
    status = binary_end(c, &b, err);
    binary_release(&b);
    return status;
}

static int check_version(struct clickhouse *c, uint64_t version, struct error *err)
{
    c->earlier = version == VERSION - 1;
    if (!version)
        return error_set(err, ERROR_USAGE,
                         "there is no store %.200s; 'mallow fleet init --store URL' makes one",
                         c->base.where);
    if (version != VERSION && !c->earlier)
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

static int make_table(struct clickhouse *c, enum store_table t, const char *cluster,
                      struct error *err)
{
    const struct clickhouse_table *table = &clickhouse_tables[t];
    const char *name = store_columns[t].name;
    struct buffer sql = {0}, columns = {0};
    clickhouse_put_columns(&columns, t);
    buffer_printf(&sql, "CREATE TABLE IF NOT EXISTS %s%s (%s) ENGINE = %s", name,
                  cluster ? "_local" : "", buffer_text(&columns), table->engine);
    int status = buffer_failed(&sql) || buffer_failed(&columns)
                     ? error_memory(err)
                     : run_sql(c, buffer_text(&sql), err);
    if (cluster && !status) {
        buffer_clear(&sql);
        buffer_printf(&sql,
                      "CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = Distributed(%s, %s, %s_local, "
                      "%s)",
                      name, buffer_text(&columns), cluster, c->database, name, table->shard);
        status = buffer_failed(&sql) ? error_memory(err) : run_sql(c, buffer_text(&sql), err);
    }
    buffer_release(&columns);
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
    for (int t = 0; t < SERVER_TABLES && !status; t++)
        status = make_table(c, (enum store_table)t, cluster, err);
    static const char versions[] = "CREATE TABLE IF NOT EXISTS mallow_store (version UInt64)"
                                   " ENGINE = MergeTree ORDER BY version";
    const char *const rest[] = {cluster ? "INSERT INTO stack_local VALUES (0, 0, 0, 0, 0)"
                                        : "INSERT INTO stack VALUES (0, 0, 0, 0, 0)",
                                cluster ? "INSERT INTO site_local VALUES (0, 0, 0, 0, 0)"
                                        : "INSERT INTO site VALUES (0, 0, 0, 0, 0)",
                                cluster ? "INSERT INTO called_local VALUES (0, 0)"
                                        : "INSERT INTO called VALUES (0, 0)",
                                versions, "INSERT INTO mallow_store VALUES (4)"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest && !status; i++)
        status = run_sql(c, rest[i], err);
    return status;
}

/* The answer to a question whose row is one number. */
static int ask_number(struct clickhouse *c, const char *sql, uint64_t *number, struct error *err)
{
    struct binary b = {0};
    if (clickhouse_ask_binary(c, sql, &b, err))
        return -1;
    *number = binary_number(&b);
    const int status = binary_end(c, &b, err);
    binary_release(&b);
    return status;
}

/* Asks for the sites whose call site is so many frames outward, and for its frame: a join for each
 * frame on the way. */
static int fill_called(struct clickhouse *c, const char *local, uint64_t outward, struct error *err)
{
    struct buffer from = {0}, sql = {0};
    buffer_printf(&from,
                  "SELECT id AS site, id AS at0, max(called) AS most FROM site%s GROUP BY id"
                  " HAVING most = %" PRIu64,
                  local, outward + 1);
    for (uint64_t k = 1; k <= outward; k++) {
        buffer_clear(&sql);
        buffer_printf(&sql,
                      "SELECT site, at%" PRIu64 " FROM (%s) AS below GLOBAL ALL INNER JOIN"
                      " (SELECT id AS at%" PRIu64 ", any(parent) AS at%" PRIu64
                      " FROM site GROUP BY id) AS above USING at%" PRIu64,
                      k, buffer_text(&from), k - 1, k, k - 1);
        struct buffer other = from;
        from = sql;
        sql = other;
    }
    buffer_clear(&sql);
    buffer_printf(&sql,
                  "INSERT INTO called%s SELECT site, frame FROM (%s) AS ends GLOBAL ALL INNER JOIN"
                  " (SELECT id AS at%" PRIu64 ", any(frame) AS frame FROM site GROUP BY id) AS"
                  " frames USING at%" PRIu64,
                  local, buffer_text(&from), outward, outward);
    const int status = buffer_failed(&from) || buffer_failed(&sql)
                           ? error_memory(err)
                           : run_sql(c, buffer_text(&sql), err);
    buffer_release(&from);
    buffer_release(&sql);
    return status;
}

/* A store of the version before gets the table of call sites, made of the sites that this node has.
 * The row that says so comes last, and steps before it may be repeated. */
static int upgrade_store(struct clickhouse *c, const char *cluster, struct error *err)
{
    const char *local = cluster ? "_local" : "";
    char rest[64];
    uint64_t spread = 0, farthest = 0;
    int status = ask_number(c,
                            "SELECT count() FROM system.tables WHERE name = 'site_local' AND"
                            " database = currentDatabase()",
                            &spread, err);
    if (!status && (spread != 0) != (cluster != NULL))
        return error_set(err, ERROR_USAGE,
                         spread ? "%.200s is spread over a cluster: say --cluster NAME as when it "
                                  "was made"
                                : "%.200s was made without --cluster",
                         c->base.where);
    if (!status)
        status = make_table(c, STORE_CALLED, cluster, err);
    if (!status)
        status = ask_number(c, "SELECT max(called) FROM site", &farthest, err);
    if (!status && farthest > OUTWARD_MOST)
        status = error_set(err, ERROR_UNSUPPORTED,
                           "%.200s has call sites %" PRIu64 " frames outward; make a new store, "
                           "and load the recordings again",
                           c->base.where, farthest);
    for (uint64_t n = 0; n < farthest && !status; n++)
        status = fill_called(c, local, n, err);
    snprintf(rest, sizeof rest, "INSERT INTO called%s VALUES (0, 0)", local);
    if (!status)
        status = run_sql(c, rest, err);
    return status ? status : run_sql(c, "INSERT INTO mallow_store VALUES (4)", err);
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
        status = check_version(c, version, err);
        *existed = !c->earlier;
        if (!status && c->earlier)
            status = upgrade_store(c, access->cluster, err);
    } else if (!status) {
        status = make_store(c, access->cluster, err);
    }
    fleet_close(c ? &c->base : NULL);
    return status;
}

/* ---- rows ---- */

/* 1: the server does not have a row of this identity from us, so send it; 0: it has; -1: error. */
static int is_fresh(struct clickhouse *c, enum store_table t, uint64_t a, uint64_t b,
                    struct error *err)
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

/* The rows that say that all others are there. */
static int send_pending(struct clickhouse *c, enum store_table t, struct clickhouse_pendings *p,
                        size_t arrays, struct error *err)
{
    struct buffer *b = &c->rows[t];
    int status = 0;
    for (size_t i = 0; i < p->count && !status; i++) {
        const struct clickhouse_pending *now = &p->items[i];
        bool failed = buffer_failed(&now->row);
        buffer_append(b, now->row.data, now->row.size_bytes);
        for (size_t k = 0; k < arrays; k++) {
            clickhouse_put_length(b, now->counts[k]);
            buffer_append(b, now->arrays[k].data, now->arrays[k].size_bytes);
            failed |= buffer_failed(&now->arrays[k]);
        }
        status = failed ? error_memory(err) : clickhouse_added(c, t, err);
    }
    return status ? status : clickhouse_flush(c, t, err);
}

static int do_commit(struct fleet_store *s, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    int status = 0;
    for (int t = 0; t < STORE_PROCESS && !status; t++)
        status = clickhouse_flush(c, (enum store_table)t, err);
    if (!status)
        status = send_pending(c, STORE_PROCESS, &c->processes, 4, err);
    if (!status)
        status = send_pending(c, STORE_WATCHED, &c->reports, 2, err);
    if (!status)
        forget_load(c);
    return status;
}

static int do_find(struct fleet_store *s, enum store_table table, uint64_t key,
                   struct store_found *found, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    char sql[256];
    struct binary b = {0};
    *found = (struct store_found){0};
    snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE key = %" PRIu64 "%s LIMIT 1",
             table == STORE_PROCESS ? "version, content, events" : "key, key, key",
             store_columns[table].name, key,
             table == STORE_PROCESS ? " ORDER BY version DESC" : "");
    if (clickhouse_ask_binary(c, sql, &b, err))
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

/* The row of a process or report waits for those that belong to it. */
static int begin_pending(struct clickhouse *c, enum store_table t, const void *row,
                         struct error *err)
{
    struct clickhouse_pendings *p = t == STORE_PROCESS ? &c->processes : &c->reports;
    struct clickhouse_pending *now = ARRAY_ADD(p->items, p->count, p->room);
    if (!now)
        return error_memory(err);
    *now = (struct clickhouse_pending){0};
    if (t == STORE_PROCESS) {
        const struct store_process *process = row;
        now->key = process->key;
        now->host = hash_bytes(8, process->host, strlen(process->host));
        if (getrandom(&now->attempt, sizeof now->attempt, 0) != sizeof now->attempt)
            return error_system(err, "getrandom");
        now->version = next_version(c, now->key, now->attempt);
    }
    c->base.last = p->count - 1;
    clickhouse_append_row(&now->row, t, row, now);
    return buffer_failed(&now->row) ? error_memory(err) : 0;
}

/* A pair of texts, the last columns of a label or the first of a module, into two arrays. */
static int add_pair(struct clickhouse_pending *p, size_t array, const struct store_column *columns,
                    const void *row)
{
    for (size_t i = 0; i < 2; i++) {
        size_t bytes;
        const char *text = store_text(&columns[i], row, &bytes);
        clickhouse_put_bytes(&p->arrays[array + i], text, bytes);
        p->counts[array + i]++;
    }
    return 0;
}

/* 1: the server needs this row; 0: it has it, or the like; -1: error. */
static int is_needed(struct clickhouse *c, enum store_table t, const void *row, struct error *err)
{
    const struct store_stack *k = row;
    const struct store_site *i = row;
    switch (t) {
    case STORE_LOCATION: return is_fresh(c, t, ((const struct store_location *)row)->id, 0, err);
    case STORE_FRAME: return is_fresh(c, t, ((const struct store_frame *)row)->id, 0, err);
    case STORE_STACK: return is_fresh(c, t, k->id, hash_mix(k->site, k->named), err);
    case STORE_SITE: return is_fresh(c, t, i->id, i->call_site >= 0, err);
    case STORE_CALLED:
        return c->earlier ? 0 : is_fresh(c, t, ((const struct store_called *)row)->site, 0, err);
    default: return 1;
    }
}

static const struct clickhouse_pending *process_of(const struct clickhouse *c, enum store_table t,
                                                   const void *row)
{
    return clickhouse_tables[t].attempt
               ? &c->processes.items[store_number(&store_columns[t].items[0], row)]
               : NULL;
}

/* Rows of figures of one stack are added up by whatever reads them. */
static int do_put(struct fleet_store *s, enum store_table t, const void *row, struct error *err)
{
    struct clickhouse *c = clickhouse_of(s);
    const struct store_column *columns = store_columns[t].items;
    const struct store_label *label = row;
    const struct store_module *module = row;
    switch (t) {
    case STORE_PROCESS:
    case STORE_WATCHED: return begin_pending(c, t, row, err);
    case STORE_LABEL: return add_pair(&c->processes.items[label->owner], 0, columns + 1, row);
    case STORE_WATCHED_LABEL: return add_pair(&c->reports.items[label->owner], 0, columns + 1, row);
    case STORE_MODULE: return add_pair(&c->processes.items[module->process], 2, columns, row);
    default: break;
    }
    const int needed = is_needed(c, t, row, err);
    return needed <= 0 ? needed : clickhouse_put_row(c, t, row, process_of(c, t, row), err);
}

static const struct store_engine engine = {
    .close = do_close,
    .begin = do_begin,
    .commit = do_commit,
    .rollback = do_rollback,
    .find = do_find,
    .remove = do_remove,
    .put = do_put,
    .sql = clickhouse_sql,
    .ask = clickhouse_ask,
    .prepare_frames = clickhouse_prepare_frames,
    .frames = clickhouse_frames,
};
