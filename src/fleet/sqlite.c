/* sqlite.c - the embedded store: one file of SQLite.
 *
 * A recording is one transaction, so a loader that is killed leaves all of it or nothing. A file
 * that another user wrote is checked before it is believed: it must have exactly the tables that
 * this version makes, and no trigger; what SQL it holds besides may call nothing that has side
 * effects. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "fleet/sqlite.h"
#include "trust/place.h"

#define APPLICATION 0x4d4c464c /* "MLFL" */
#define VERSION     3
#define PATIENCE_MS 600000 /* how long to wait for another loader */

/* How the embedded store keeps the rows of a table. */
static const struct {
    const char *primary;  /* NULL: the first column is the key, or numbered */
    const char *is_there; /* the action of an insert then; NULL: it is an error */
    bool adds;            /* the counts to those that are there */
    bool numbered;        /* rows have a number, by which others refer to them */
} tables[STORE_TABLES] = {
    [STORE_LOCATION] = {.is_there = " ON CONFLICT DO NOTHING"},
    [STORE_FRAME] = {.is_there = " ON CONFLICT DO NOTHING"},
    [STORE_SITE] = {.is_there = " ON CONFLICT DO UPDATE SET call_site = excluded.call_site"
                                " WHERE call_site < 0 AND excluded.call_site >= 0"},
    [STORE_STACK] = {.is_there = " ON CONFLICT DO UPDATE SET site = excluded.site,"
                                 " named = excluded.named"
                                 " WHERE excluded.site != 0 AND (site = 0 OR"
                                 " excluded.named > named)"},
    [STORE_FIGURE] = {.primary = "process, stack", .adds = true},
    [STORE_SLICE] = {.primary = "process, start_ns"},
    [STORE_BLOCK] = {.primary = "process, number"},
    [STORE_WATCHED_SITE] = {.primary = "report, place"},
    [STORE_PROCESS] = {.numbered = true},
    [STORE_WATCHED] = {.numbered = true},
    [STORE_LABEL] = {"process, key", " ON CONFLICT DO UPDATE SET value = excluded.value"},
    [STORE_WATCHED_LABEL] = {"report, key", " ON CONFLICT DO UPDATE SET value = excluded.value"}};

/* Modules are in a table of their own, to which processes refer. */
static const char further_schema[] =
    "CREATE TABLE module(id INTEGER PRIMARY KEY, build_id TEXT NOT NULL, path TEXT NOT NULL,"
    " UNIQUE(build_id, path));"
    "CREATE TABLE process_module(process INTEGER NOT NULL, module INTEGER NOT NULL,"
    " PRIMARY KEY(process, module)) WITHOUT ROWID;"
    "CREATE INDEX process_by_start ON process(start_ns);"
    "CREATE INDEX watched_by_time ON watched(kind, time_ns);";

static void put_table(struct buffer *to, enum store_table t)
{
    const struct store_columns *c = &store_columns[t];
    buffer_printf(to, "CREATE TABLE %s(%s", c->name,
                  tables[t].numbered ? "id INTEGER PRIMARY KEY, " : "");
    for (size_t i = 0; i < c->count; i++)
        buffer_printf(to, "%s%s %s%s", i ? ", " : "", c->items[i].name,
                      store_is_text(&c->items[i]) ? "TEXT" : "INTEGER",
                      i || tables[t].primary ? " NOT NULL"
                      : tables[t].numbered   ? " NOT NULL UNIQUE"
                                             : " PRIMARY KEY");
    if (tables[t].primary)
        buffer_printf(to, ", PRIMARY KEY(%s)) WITHOUT ROWID;", tables[t].primary);
    else
        buffer_append_text(to, ");");
}

static void put_schema(struct buffer *to)
{
    for (int t = 0; t < STORE_TABLES; t++)
        if (t != STORE_MODULE && t != STORE_CALLED)
            put_table(to, (enum store_table)t);
    buffer_append_text(to, further_schema);
}

/* The statement that inserts so many rows. */
static void put_insert(struct buffer *to, enum store_table t, unsigned rows)
{
    const struct store_columns *c = &store_columns[t];
    buffer_printf(to, "INSERT INTO %s VALUES", c->name);
    for (unsigned row = 0; row < rows; row++) {
        buffer_printf(to, "%s(%s", row ? "," : "", tables[t].numbered ? "NULL," : "");
        for (size_t i = 0; i < c->count; i++)
            buffer_append_text(to, i ? ",?" : "?");
        buffer_append_char(to, ')');
    }
    if (tables[t].is_there)
        buffer_append_text(to, tables[t].is_there);
    bool first = true;
    for (size_t i = 0; tables[t].adds && i < c->count; i++) {
        const char *name = c->items[i].name;
        if (c->items[i].kind != STORE_COUNT)
            continue;
        buffer_printf(to, "%s %s = %s + excluded.%s", first ? " ON CONFLICT DO UPDATE SET" : ",",
                      name, name, name);
        first = false;
    }
}

#define AND_FIGURE(member, key) ", " #member

static const char *const texts[STATEMENTS] = {
    "SELECT content, events FROM process WHERE key = ?1",
    "SELECT 0, 0 FROM watched WHERE key = ?1",
    "INSERT OR IGNORE INTO module(build_id, path) VALUES(?1,?2)",
    "INSERT OR IGNORE INTO process_module SELECT ?3, id FROM module WHERE build_id = ?1 AND path = "
    "?2",
    "SELECT site.parent, site.call_site, frame.json FROM site JOIN frame ON frame.id = site.frame"
    " WHERE site.id = ?1",
    "SELECT 0, -1, json FROM frame WHERE id = ?1",
    "SELECT parent, call_site, frame FROM site WHERE id = ?1",
    "SELECT site FROM stack WHERE id = ?1",
    "SELECT mallow_visit(stack" STORE_FIGURE_LIST(AND_FIGURE) ") FROM figure WHERE process = ?1",
};

static const struct store_engine engine;

int sqlite_complain(struct fleet_store *s, const char *what, struct error *err)
{
    s->broken = true;
    const int code = sqlite3_errcode(sqlite_of(s)->db),
              number = sqlite3_system_errno(sqlite_of(s)->db);
    const bool system = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && number;
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return error_set(err, ERROR_FORMAT,
                         "%s is not a store of mallow fleet, or it is damaged: %s", s->where,
                         sqlite3_errmsg(sqlite_of(s)->db));
    return error_set(err, ERROR_FORMAT, "cannot %s the store %s: %s%s%s", what, s->where,
                     sqlite3_errmsg(sqlite_of(s)->db), system ? ": " : "",
                     system ? strerror(number) : "");
}

int sqlite_run(struct fleet_store *s, const char *sql, const char *what, struct error *err)
{
    return sqlite3_exec(sqlite_of(s)->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sqlite_complain(s, what, err);
}

sqlite3_stmt *sqlite_prepared(struct fleet_store *s, enum statement n, struct error *err)
{
    if (!sqlite_of(s)->statement[n] &&
        sqlite3_prepare_v3(sqlite_of(s)->db, texts[n], -1, SQLITE_PREPARE_PERSISTENT,
                           &sqlite_of(s)->statement[n], NULL) != SQLITE_OK)
        sqlite_complain(s, "use", err);
    return sqlite_of(s)->statement[n];
}

void sqlite_number(sqlite3_stmt *k, int column, uint64_t v)
{
    sqlite3_bind_int64(k, column, (sqlite3_int64)v);
}

int sqlite_done(struct fleet_store *s, sqlite3_stmt *k, struct error *err)
{
    const int status = sqlite3_step(k) == SQLITE_DONE ? 0 : sqlite_complain(s, "write to", err);
    sqlite3_reset(k);
    return status;
}

/* ---- opening ---- */

static void do_close(struct fleet_store *s)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(sqlite_of(s)->statement[i]);
    for (int t = 0; t < STORE_TABLES; t++)
        sqlite3_finalize(sqlite_of(s)->put[t]);
    for (int i = 0; i < BATCHES; i++)
        sqlite3_finalize(sqlite_of(s)->batch[i].all);
    sqlite3_close(sqlite_of(s)->db);
}

static int question(sqlite3 *db, const char *sql, int64_t *answer)
{
    sqlite3_stmt *k = NULL;
    int status = sqlite3_prepare_v2(db, sql, -1, &k, NULL);
    if (status == SQLITE_OK && sqlite3_step(k) == SQLITE_ROW)
        *answer = sqlite3_column_int64(k, 0);
    else
        status = status ? status : SQLITE_ERROR;
    return sqlite3_finalize(k) == SQLITE_OK && status == SQLITE_OK ? 0 : -1;
}

/* True if every table and index of `model` is in db, word by word, and db has no trigger. */
static bool same_schema(sqlite3 *db, sqlite3 *model)
{
    sqlite3_stmt *want = NULL, *have = NULL;
    int64_t triggers = 1;
    bool same =
        !question(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'", &triggers) &&
        !triggers;
    same = same &&
           sqlite3_prepare_v2(model, "SELECT type, name, ifnull(sql, '') FROM sqlite_schema", -1,
                              &want, NULL) == SQLITE_OK &&
           sqlite3_prepare_v2(db,
                              "SELECT 1 FROM sqlite_schema WHERE type = ?1 AND name = ?2 AND"
                              " ifnull(sql, '') = ?3",
                              -1, &have, NULL) == SQLITE_OK;
    int step = SQLITE_DONE;
    while (same && (step = sqlite3_step(want)) == SQLITE_ROW) {
        for (int i = 0; i < 3; i++)
            sqlite3_bind_value(have, i + 1, sqlite3_column_value(want, i));
        same = sqlite3_step(have) == SQLITE_ROW;
        sqlite3_reset(have);
    }
    sqlite3_finalize(want);
    sqlite3_finalize(have);
    return same && step == SQLITE_DONE;
}

static int check_schema(struct fleet_store *s, struct error *err)
{
    sqlite3 *model = NULL;
    struct buffer schema = {0};
    int status = 0;
    put_schema(&schema);
    if (buffer_failed(&schema) || sqlite3_open(":memory:", &model) != SQLITE_OK ||
        sqlite3_exec(model, buffer_text(&schema), NULL, NULL, NULL) != SQLITE_OK)
        status = error_memory(err);
    else if (!same_schema(sqlite_of(s)->db, model))
        status = error_set(err, ERROR_FORMAT,
                           "%s is damaged, or not what 'mallow fleet init' made: its tables are "
                           "not those of a store",
                           s->where);
    sqlite3_close(model);
    buffer_release(&schema);
    return status;
}

static int check_store(struct fleet_store *s, struct error *err)
{
    int64_t application = 0, version = 0;
    if (question(sqlite_of(s)->db, "PRAGMA application_id", &application) ||
        question(sqlite_of(s)->db, "PRAGMA user_version", &version))
        return sqlite_complain(s, "read", err);
    if (application != APPLICATION)
        return error_set(
            err, ERROR_FORMAT,
            "%s is not a store of mallow fleet; 'mallow fleet init --store FILE' makes one",
            s->where);
    if (version != VERSION)
        return error_set(err, ERROR_FORMAT,
                         "%s is a store of version %" PRId64 "; this mallow has version %d: make a "
                         "new one, and load the recordings again",
                         s->where, version, VERSION);
    return check_schema(s, err);
}

/* The file is a regular one by now. */
static struct fleet_store *open_file(const char *where, struct error *err)
{
    struct sqlite_store *store = calloc(1, sizeof *store);
    struct fleet_store *s = &store->base;
    if (!store || !(s->where = strdup(where))) {
        error_memory(err);
        free(store);
        return NULL;
    }
    s->engine = &engine;
    if (sqlite3_open_v2(where, &sqlite_of(s)->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK) {
        if (sqlite_of(s)->db)
            sqlite_complain(s, "open", err);
        else
            error_memory(err);
        fleet_close(s);
        return NULL;
    }
    sqlite3_db_config(sqlite_of(s)->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(sqlite_of(s)->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(sqlite_of(s)->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_busy_timeout(sqlite_of(s)->db, PATIENCE_MS);
    if (sqlite_add_visitor(s, err) ||
        sqlite_run(s, "PRAGMA cell_size_check = ON; PRAGMA cache_size = -65536;", "read", err)) {
        fleet_close(s);
        return NULL;
    }
    return s;
}

/* A path that SQLite takes for nothing but a path; to be freed. */
static char *plain_path(const char *where)
{
    char *path = NULL;
    return asprintf(&path, "%s%s", *where == '/' ? "" : "./", where) < 0 ? NULL : path;
}

static const struct trust_rule rule = {
    .what = "the store", .owners = TRUST_ANYBODY, .follow = true};

struct fleet_store *sqlite_open(const char *where, struct error *err)
{
    const int fd = trust_open(AT_FDCWD, where, TRUST_READ, &rule, err);
    if (fd < 0) {
        if (err->kind == ERROR_SYSTEM && err->number == ENOENT)
            error_set(err, ERROR_USAGE,
                      "there is no store %s; 'mallow fleet init --store FILE' makes one", where);
        return NULL;
    }
    close(fd);
    char *path = plain_path(where);
    struct fleet_store *s = path ? open_file(path, err) : NULL;
    if (!path)
        error_memory(err);
    free(path);
    if (s && check_store(s, err)) {
        fleet_close(s);
        s = NULL;
    }
    return s;
}

/* An empty file becomes a store, in one transaction. */
static int fill(struct fleet_store *s, struct error *err)
{
    struct buffer sql = {0};
    buffer_printf(&sql,
                  "PRAGMA page_size = 8192; BEGIN EXCLUSIVE; PRAGMA application_id = %d;"
                  " PRAGMA user_version = %d; ",
                  APPLICATION, VERSION);
    put_schema(&sql);
    buffer_append_text(&sql, " INSERT INTO stack VALUES(0,0,0,0,0);"
                             " INSERT INTO site VALUES(0,0,0,0,-1); COMMIT;");
    const int status =
        buffer_failed(&sql) ? error_memory(err) : sqlite_run(s, buffer_text(&sql), "make", err);
    buffer_release(&sql);
    return status;
}

int sqlite_create(const char *where, bool *existed, struct error *err)
{
    struct trust_place place;
    struct stat st;
    if (trust_place_open(&place, where, err))
        return -1;
    int fd = trust_create(&place, 0666, err);
    const bool there = fd < 0 && err->kind == ERROR_SYSTEM && err->number == EEXIST;
    trust_place_close(&place);
    if (there)
        fd = trust_open(AT_FDCWD, where, TRUST_READ, &rule, err);
    if (fd < 0)
        return -1;
    const bool empty = !fstat(fd, &st) && !st.st_size; /* an earlier init was killed */
    close(fd);
    *existed = !empty;
    struct fleet_store *s = NULL;
    int status = -1;
    if (!empty) {
        s = sqlite_open(where, err);
        status = s ? 0 : -1;
    } else {
        char *path = plain_path(where);
        s = path ? open_file(path, err) : NULL;
        if (!path)
            error_memory(err);
        free(path);
        status = s ? fill(s, err) : -1;
    }
    fleet_close(s);
    return status;
}

/* ---- writing ---- */

static const enum store_table batched[BATCHES] = {STORE_STACK, STORE_SITE};

static void forget_batches(struct fleet_store *s)
{
    for (int i = 0; i < BATCHES; i++)
        sqlite_of(s)->batch[i].rows = 0;
}

/* *k: the statement for so many rows, prepared once. */
static sqlite3_stmt *prepare_insert(struct fleet_store *s, sqlite3_stmt **k, enum store_table t,
                                    unsigned rows, struct error *err)
{
    struct buffer sql = {0};
    if (*k)
        return *k;
    put_insert(&sql, t, rows);
    if (buffer_failed(&sql))
        error_memory(err);
    else if (sqlite3_prepare_v3(sqlite_of(s)->db, buffer_text(&sql), -1, SQLITE_PREPARE_PERSISTENT,
                                k, NULL) != SQLITE_OK)
        sqlite_complain(s, "use", err);
    buffer_release(&sql);
    return *k;
}

/* A batch as one statement, the rows of less than one each for itself. */
static int flush_batch(struct fleet_store *s, int which, struct error *err)
{
    struct sqlite_batch *b = &sqlite_of(s)->batch[which];
    const enum store_table t = batched[which];
    const unsigned step = b->rows == BATCH_ROWS ? BATCH_ROWS : 1;
    sqlite3_stmt *k = prepare_insert(s, step == 1 ? &sqlite_of(s)->put[t] : &b->all, t, step, err);
    int status = k ? 0 : -1;
    for (unsigned at = 0; at < b->rows && !status; at += step) {
        for (unsigned i = 0; i < step * BATCH_COLUMNS; i++)
            sqlite_number(k, (int)i + 1, b->values[at + i / BATCH_COLUMNS][i % BATCH_COLUMNS]);
        status = sqlite_done(s, k, err);
    }
    b->rows = 0;
    return status;
}

static int add_to_batch(struct fleet_store *s, int which, const void *row, struct error *err)
{
    struct sqlite_batch *b = &sqlite_of(s)->batch[which];
    for (unsigned i = 0; i < BATCH_COLUMNS; i++)
        b->values[b->rows][i] = store_number(&store_columns[batched[which]].items[i], row);
    return ++b->rows < BATCH_ROWS ? 0 : flush_batch(s, which, err);
}

/* The largest number that the file can hold is INT64_MAX; identities use all bits. */
static int bind_row(sqlite3_stmt *k, enum store_table t, const void *row, struct error *err)
{
    for (size_t i = 0; i < store_columns[t].count; i++) {
        const struct store_column *c = &store_columns[t].items[i];
        size_t bytes;
        if (store_is_text(c)) {
            const char *text = store_text(c, row, &bytes);
            sqlite3_bind_text(k, (int)i + 1, text, (int)bytes, SQLITE_STATIC);
            continue;
        }
        const uint64_t v = store_number(c, row);
        if (c->kind == STORE_COUNT && v >> 63)
            return error_set(err, ERROR_UNSUPPORTED,
                             "a figure is larger than a store can hold (2^63)");
        sqlite_number(k, (int)i + 1, v);
    }
    return 0;
}

static int put_row(struct fleet_store *s, sqlite3_stmt *k, enum store_table t, const void *row,
                   struct error *err)
{
    return !k || bind_row(k, t, row, err) ? -1 : sqlite_done(s, k, err);
}

/* The module, unless it is there, and that the process has it. */
static int put_module(struct fleet_store *s, const struct store_module *m, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_MODULE, err);
    if (!k)
        return -1;
    sqlite3_bind_text(k, 1, m->build_id, -1, SQLITE_STATIC);
    sqlite3_bind_text(k, 2, m->path ? m->path : "", -1, SQLITE_STATIC);
    return sqlite_done(s, k, err)
               ? -1
               : put_row(s, sqlite_prepared(s, PUT_PROCESS_MODULE, err), STORE_MODULE, m, err);
}

static int do_put(struct fleet_store *s, enum store_table t, const void *row, struct error *err)
{
    for (int i = 0; i < BATCHES; i++)
        if (batched[i] == t)
            return add_to_batch(s, i, row, err);
    if (t == STORE_CALLED)
        return 0;
    if (t == STORE_MODULE)
        return put_module(s, row, err);
    if (put_row(s, prepare_insert(s, &sqlite_of(s)->put[t], t, 1, err), t, row, err))
        return -1;
    if (tables[t].numbered)
        s->last = (uint64_t)sqlite3_last_insert_rowid(sqlite_of(s)->db);
    return 0;
}

static int do_begin(struct fleet_store *s, struct error *err)
{
    forget_batches(s);
    return sqlite_run(s, "BEGIN IMMEDIATE", "write to", err);
}

static int do_commit(struct fleet_store *s, struct error *err)
{
    for (int i = 0; i < BATCHES; i++)
        if (flush_batch(s, i, err))
            return -1;
    return sqlite_run(s, "COMMIT", "write to", err);
}

static void do_rollback(struct fleet_store *s)
{
    forget_batches(s);
    if (!sqlite3_get_autocommit(sqlite_of(s)->db))
        sqlite3_exec(sqlite_of(s)->db, "ROLLBACK", NULL, NULL, NULL);
}

static int do_find(struct fleet_store *s, enum store_table table, uint64_t key,
                   struct store_found *found, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, table == STORE_PROCESS ? FIND : FIND_WATCHED, err);
    *found = (struct store_found){0};
    if (!k)
        return -1;
    sqlite_number(k, 1, key);
    const int step = sqlite3_step(k);
    if (step == SQLITE_ROW)
        *found = (struct store_found){true, sqlite_value(k, 0), sqlite_value(k, 1)};
    const int status =
        step == SQLITE_ROW || step == SQLITE_DONE ? 0 : sqlite_complain(s, "read", err);
    sqlite3_reset(k);
    return status;
}

static int do_remove(struct fleet_store *s, uint64_t key, struct error *err)
{
    char *sql = sqlite3_mprintf(
        "DELETE FROM figure WHERE process = (SELECT id FROM process WHERE key = %lld);"
        "DELETE FROM slice WHERE process = (SELECT id FROM process WHERE key = %lld);"
        "DELETE FROM block WHERE process = (SELECT id FROM process WHERE key = %lld);"
        "DELETE FROM label WHERE process = (SELECT id FROM process WHERE key = %lld);"
        "DELETE FROM process_module WHERE process = (SELECT id FROM process WHERE key = %lld);"
        "DELETE FROM process WHERE key = %lld;",
        (long long)key, (long long)key, (long long)key, (long long)key, (long long)key,
        (long long)key);
    const int status = sql ? sqlite_run(s, sql, "write to", err) : error_memory(err);
    sqlite3_free(sql);
    return status;
}

static const struct store_engine engine = {
    .close = do_close,
    .begin = do_begin,
    .commit = do_commit,
    .rollback = do_rollback,
    .find = do_find,
    .remove = do_remove,
    .put = do_put,
    .sql = sqlite_sql,
    .ask = sqlite_ask,
    .frames = sqlite_frames,
};
