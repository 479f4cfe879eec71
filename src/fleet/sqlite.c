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

/* peak_bytes of a process is its peak; of a figure what its stack held at that moment. */
#define NEW_FIGURE(member, of, key) " " #member " INTEGER NOT NULL,"
#define NEW_FIGURES                 STORE_FIGURES_OF(NEW_FIGURE)
#define AND_FIGURE(member, of, key) ", " #member
#define AND_FIGURES                 STORE_FIGURES_OF(AND_FIGURE)

static const char schema[] =
    "CREATE TABLE process(id INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE,"
    " content INTEGER NOT NULL, host TEXT NOT NULL, service TEXT NOT NULL, build_id TEXT NOT NULL,"
    " exe TEXT NOT NULL, allocator TEXT NOT NULL, command TEXT NOT NULL, pid INTEGER NOT NULL,"
    " ppid INTEGER NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
    " complete INTEGER NOT NULL, events INTEGER NOT NULL, lost_events INTEGER NOT NULL,"
    " requested_bytes INTEGER NOT NULL, peak_time_ns INTEGER NOT NULL, stacks INTEGER NOT "
    "NULL," NEW_FIGURES " slice_ns INTEGER NOT NULL,"
    " memory_limit_bytes INTEGER NOT NULL, address_space_limit_bytes INTEGER NOT NULL,"
    " data_limit_bytes INTEGER NOT NULL);"
    "CREATE INDEX process_by_start ON process(start_ns);"
    "CREATE TABLE label(process INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY(process, key)) WITHOUT ROWID;"
    "CREATE TABLE module(id INTEGER PRIMARY KEY, build_id TEXT NOT NULL, path TEXT NOT NULL,"
    " UNIQUE(build_id, path));"
    "CREATE TABLE process_module(process INTEGER NOT NULL, module INTEGER NOT NULL,"
    " PRIMARY KEY(process, module)) WITHOUT ROWID;"
    "CREATE TABLE location(id INTEGER PRIMARY KEY, build_id TEXT NOT NULL, module TEXT NOT NULL,"
    " offset INTEGER NOT NULL, flags INTEGER NOT NULL);"
    "CREATE TABLE stack(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, location INTEGER NOT NULL,"
    " site INTEGER NOT NULL, named INTEGER NOT NULL);"
    "CREATE TABLE frame(id INTEGER PRIMARY KEY, json TEXT NOT NULL);"
    "CREATE TABLE site(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, frame INTEGER NOT NULL,"
    " path INTEGER NOT NULL, call_site INTEGER NOT NULL);"
    "CREATE TABLE figure(process INTEGER NOT NULL, stack INTEGER NOT NULL," NEW_FIGURES
    " PRIMARY KEY(process, stack)) WITHOUT ROWID;"
    "CREATE TABLE slice(process INTEGER NOT NULL, start_ns INTEGER NOT NULL,"
    " width_ns INTEGER NOT NULL, last INTEGER NOT NULL, calls INTEGER NOT NULL,"
    " allocated_bytes INTEGER NOT NULL, live_bytes INTEGER NOT NULL, peak_bytes INTEGER NOT NULL,"
    " PRIMARY KEY(process, start_ns)) WITHOUT ROWID;"
    "CREATE TABLE block(process INTEGER NOT NULL, number INTEGER NOT NULL, stack INTEGER NOT NULL,"
    " size_bytes INTEGER NOT NULL, address INTEGER NOT NULL, thread INTEGER NOT NULL,"
    " freed_by INTEGER NOT NULL, allocated_ns INTEGER NOT NULL, freed_ns INTEGER NOT NULL,"
    " temporary INTEGER NOT NULL, PRIMARY KEY(process, number)) WITHOUT ROWID;"
    "CREATE TABLE watched(id INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE,"
    " process INTEGER NOT NULL, host TEXT NOT NULL, service TEXT NOT NULL, exe TEXT NOT NULL,"
    " command TEXT NOT NULL, kind TEXT NOT NULL, process_end TEXT NOT NULL, pid INTEGER NOT NULL,"
    " start_ns INTEGER NOT NULL, time_ns INTEGER NOT NULL, period INTEGER NOT NULL,"
    " dropped INTEGER NOT NULL, sites INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " low INTEGER NOT NULL, high INTEGER NOT NULL, blocks INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, sampled_bytes INTEGER NOT NULL);"
    "CREATE INDEX watched_by_time ON watched(kind, time_ns);"
    "CREATE TABLE watched_label(report INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY(report, key)) WITHOUT ROWID;"
    "CREATE TABLE watched_site(report INTEGER NOT NULL, place INTEGER NOT NULL,"
    " site INTEGER NOT NULL, bytes INTEGER NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL,"
    " blocks INTEGER NOT NULL, samples INTEGER NOT NULL, sampled_bytes INTEGER NOT NULL,"
    " oldest_ns INTEGER NOT NULL, allocated_bytes INTEGER NOT NULL, freed_bytes INTEGER NOT NULL,"
    " PRIMARY KEY(report, place)) WITHOUT ROWID;";

#define STACK_IS_THERE                                                                             \
    " ON CONFLICT DO UPDATE SET site = excluded.site, named = excluded.named"                      \
    " WHERE excluded.site != 0 AND (site = 0 OR excluded.named > named)"
#define SITE_IS_THERE                                                                              \
    " ON CONFLICT DO UPDATE SET call_site = excluded.call_site"                                    \
    " WHERE call_site < 0 AND excluded.call_site >= 0"

static const char *const texts[STATEMENTS] = {
    "SELECT content, events FROM process WHERE key = ?1",
    "INSERT INTO process "
    "VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,"
    "?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29,?30)",
    "INSERT INTO label VALUES(?1,?2,?3) ON CONFLICT DO UPDATE SET value = excluded.value",
    "INSERT OR IGNORE INTO module(build_id, path) VALUES(?1,?2)",
    "INSERT OR IGNORE INTO process_module SELECT ?3, id FROM module WHERE build_id = ?1 AND path = "
    "?2",
    "INSERT OR IGNORE INTO location VALUES(?1,?2,?3,?4,?5)",
    "INSERT INTO stack VALUES(?1,?2,?3,?4,?5)" STACK_IS_THERE,
    "INSERT OR IGNORE INTO frame VALUES(?1,?2)",
    "INSERT INTO site VALUES(?1,?2,?3,?4,?5)" SITE_IS_THERE,
    "INSERT INTO figure VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10) ON CONFLICT DO UPDATE SET"
    " calls = calls + excluded.calls, allocated_bytes = allocated_bytes + excluded.allocated_bytes,"
    " peak_bytes = peak_bytes + excluded.peak_bytes,"
    " peak_blocks = peak_blocks + excluded.peak_blocks,"
    " end_bytes = end_bytes + excluded.end_bytes, end_blocks = end_blocks + excluded.end_blocks,"
    " temporary = temporary + excluded.temporary,"
    " byte_seconds = byte_seconds + excluded.byte_seconds",
    "INSERT INTO slice VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
    "SELECT site.parent, site.call_site, frame.json FROM site JOIN frame ON frame.id = site.frame"
    " WHERE site.id = ?1",
    "SELECT site FROM stack WHERE id = ?1",
    "SELECT mallow_visit(stack" AND_FIGURES ") FROM figure WHERE process = ?1",
    "INSERT INTO block VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
    "SELECT 1 FROM watched WHERE key = ?1",
    "INSERT INTO watched VALUES(NULL,?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,"
    "?18,?19,?20)",
    "INSERT INTO watched_label VALUES(?1,?2,?3) ON CONFLICT DO UPDATE SET value = excluded.value",
    "INSERT INTO watched_site VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)",
};

static const struct store_engine engine;

int sqlite_complain(struct fleet_store *s, const char *what, struct error *err)
{
    s->broken = true;
    const int code = sqlite3_errcode(sqlite_of(s)->db),
              number = sqlite3_system_errno(sqlite_of(s)->db);
    const bool system = (code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && number;
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        return error_set(err, ERROR_FORMAT, "%s is no store of mallow fleet, or it is damaged: %s",
                         s->where, sqlite3_errmsg(sqlite_of(s)->db));
    return error_set(err, ERROR_FORMAT, "cannot %s the store %s: %s%s%s", what, s->where,
                     sqlite3_errmsg(sqlite_of(s)->db), system ? ": " : "",
                     system ? strerror(number) : "");
}

static int run_sql(struct fleet_store *s, const char *sql, const char *what, struct error *err)
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

void sqlite_text(sqlite3_stmt *k, int column, const char *v)
{
    sqlite3_bind_text(k, column, v ? v : "", -1, SQLITE_STATIC);
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

/* Whether every table and index of `model` is in db, word by word, and db has no trigger. */
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
    int status = 0;
    if (sqlite3_open(":memory:", &model) != SQLITE_OK ||
        sqlite3_exec(model, schema, NULL, NULL, NULL) != SQLITE_OK)
        status = error_memory(err);
    else if (!same_schema(sqlite_of(s)->db, model))
        status = error_set(err, ERROR_FORMAT,
                           "%s is damaged, or not what 'mallow fleet init' made: its tables are "
                           "not those of a store",
                           s->where);
    sqlite3_close(model);
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
            "%s is no store of mallow fleet; 'mallow fleet init --store FILE' makes one", s->where);
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
        run_sql(s, "PRAGMA cell_size_check = ON; PRAGMA cache_size = -65536;", "read", err)) {
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
    buffer_printf(
        &sql,
        "PRAGMA page_size = 8192; BEGIN EXCLUSIVE; PRAGMA application_id = %d;"
        " PRAGMA user_version = %d; %s"
        " INSERT INTO stack VALUES(0,0,0,0,0); INSERT INTO site VALUES(0,0,0,0,-1); COMMIT;",
        APPLICATION, VERSION, schema);
    const int status =
        buffer_failed(&sql) ? error_memory(err) : run_sql(s, buffer_text(&sql), "make", err);
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

static const struct {
    enum statement one; /* for one row */
    const char *insert, *is_there;
} batches[BATCHES] = {[BATCH_STACKS] = {PUT_STACK, "INSERT INTO stack VALUES", STACK_IS_THERE},
                      [BATCH_SITES] = {PUT_SITE, "INSERT INTO site VALUES", SITE_IS_THERE}};

static void forget_batches(struct fleet_store *s)
{
    for (int i = 0; i < BATCHES; i++)
        sqlite_of(s)->batch[i].rows = 0;
}

/* The statement for a whole batch. */
static sqlite3_stmt *prepare_batch(struct fleet_store *s, int which, struct error *err)
{
    struct sqlite_batch *b = &sqlite_of(s)->batch[which];
    if (b->all)
        return b->all;
    sqlite3_str *sql = sqlite3_str_new(sqlite_of(s)->db);
    sqlite3_str_appendall(sql, batches[which].insert);
    for (int i = 0; i < BATCH_ROWS; i++)
        sqlite3_str_appendall(sql, i ? ",(?,?,?,?,?)" : "(?,?,?,?,?)");
    sqlite3_str_appendall(sql, batches[which].is_there);
    char *text = sqlite3_str_finish(sql);
    if (!text)
        error_memory(err);
    else if (sqlite3_prepare_v3(sqlite_of(s)->db, text, -1, SQLITE_PREPARE_PERSISTENT, &b->all,
                                NULL) != SQLITE_OK)
        sqlite_complain(s, "use", err);
    sqlite3_free(text);
    return b->all;
}

static void bind_rows(sqlite3_stmt *k, const uint64_t (*rows)[BATCH_COLUMNS], unsigned count)
{
    for (unsigned i = 0; i < count * BATCH_COLUMNS; i++)
        sqlite_number(k, (int)i + 1, rows[i / BATCH_COLUMNS][i % BATCH_COLUMNS]);
}

/* A batch as one statement, the rows of less than one each for itself. */
static int flush_batch(struct fleet_store *s, int which, struct error *err)
{
    struct sqlite_batch *b = &sqlite_of(s)->batch[which];
    const bool whole = b->rows == BATCH_ROWS;
    sqlite3_stmt *k =
        whole ? prepare_batch(s, which, err) : sqlite_prepared(s, batches[which].one, err);
    int status = k ? 0 : -1;
    for (unsigned at = 0; at < b->rows && !status; at += whole ? BATCH_ROWS : 1) {
        bind_rows(k, (const uint64_t(*)[BATCH_COLUMNS])b->values + at, whole ? BATCH_ROWS : 1);
        status = sqlite_done(s, k, err);
    }
    b->rows = 0;
    return status;
}

static int add_to_batch(struct fleet_store *s, int which, const uint64_t row[BATCH_COLUMNS],
                        struct error *err)
{
    struct sqlite_batch *b = &sqlite_of(s)->batch[which];
    memcpy(b->values[b->rows++], row, sizeof *b->values);
    return b->rows < BATCH_ROWS ? 0 : flush_batch(s, which, err);
}

static int do_begin(struct fleet_store *s, struct error *err)
{
    forget_batches(s);
    return run_sql(s, "BEGIN IMMEDIATE", "write to", err);
}

static int do_commit(struct fleet_store *s, struct error *err)
{
    for (int i = 0; i < BATCHES; i++)
        if (flush_batch(s, i, err))
            return -1;
    return run_sql(s, "COMMIT", "write to", err);
}

static void do_rollback(struct fleet_store *s)
{
    forget_batches(s);
    if (!sqlite3_get_autocommit(sqlite_of(s)->db))
        sqlite3_exec(sqlite_of(s)->db, "ROLLBACK", NULL, NULL, NULL);
}

static int do_find(struct fleet_store *s, uint64_t key, struct store_found *found,
                   struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, FIND, err);
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
    const int status = sql ? run_sql(s, sql, "write to", err) : error_memory(err);
    sqlite3_free(sql);
    return status;
}

/* The largest number that an engine can hold is INT64_MAX. */
static bool fits(const struct store_figures *f)
{
#define FIGURE(member, of, key) | f->member
    return !((0 STORE_FIGURES_OF(FIGURE)) >> 63);
#undef FIGURE
}

static void bind_figures(sqlite3_stmt *k, int column, const struct store_figures *f)
{
    uint64_t v[STORE_FIGURES];
    store_figures_put(v, f);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        sqlite_number(k, column + (int)i, v[i]);
}

static int too_large(struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED, "a figure is larger than a store can hold (2^63)");
}

static int do_process(struct fleet_store *s, const struct store_process *p, int64_t *id,
                      struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_PROCESS, err);
    if (!k)
        return -1;
    if (!fits(&p->figures) || p->requested_bytes >> 63)
        return too_large(err);
    const char *const words[] = {p->host, p->service,   p->build_id,
                                 p->exe,  p->allocator, p->command};
    const uint64_t numbers[] = {p->pid,          p->ppid,   p->start_ns,    p->end_ns,
                                p->complete,     p->events, p->lost_events, p->requested_bytes,
                                p->peak_time_ns, p->stacks};
    sqlite_number(k, 1, p->key);
    sqlite_number(k, 2, p->content);
    for (int i = 0; i < 6; i++)
        sqlite_text(k, 3 + i, words[i]);
    for (int i = 0; i < 10; i++)
        sqlite_number(k, 9 + i, numbers[i]);
    bind_figures(k, 19, &p->figures);
    const uint64_t rest[] = {p->slice_ns, p->limits.memory, p->limits.address, p->limits.data};
    for (int i = 0; i < 1 + (int)STORE_LIMITS; i++)
        sqlite_number(k, 19 + (int)STORE_FIGURES + i, rest[i]);
    if (sqlite_done(s, k, err))
        return -1;
    *id = sqlite3_last_insert_rowid(sqlite_of(s)->db);
    return 0;
}

static int do_label(struct fleet_store *s, int64_t process, const struct fleet_label *l,
                    struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_LABEL, err);
    if (!k)
        return -1;
    sqlite3_bind_int64(k, 1, process);
    sqlite3_bind_text(k, 2, l->key, (int)l->key_bytes, SQLITE_STATIC);
    sqlite_text(k, 3, l->value);
    return sqlite_done(s, k, err);
}

static int do_module(struct fleet_store *s, int64_t process, const char *build_id, const char *path,
                     struct error *err)
{
    for (int n = PUT_MODULE; n <= PUT_PROCESS_MODULE; n++) {
        sqlite3_stmt *k = sqlite_prepared(s, (enum statement)n, err);
        if (!k)
            return -1;
        sqlite_text(k, 1, build_id);
        sqlite_text(k, 2, path);
        if (n == PUT_PROCESS_MODULE)
            sqlite3_bind_int64(k, 3, process);
        if (sqlite_done(s, k, err))
            return -1;
    }
    return 0;
}

static int do_location(struct fleet_store *s, const struct store_location *l, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_LOCATION, err);
    if (!k)
        return -1;
    sqlite_number(k, 1, l->id);
    sqlite_text(k, 2, l->build_id);
    sqlite_text(k, 3, l->module);
    sqlite_number(k, 4, l->offset);
    sqlite_number(k, 5, l->flags);
    return sqlite_done(s, k, err);
}

static int do_stack(struct fleet_store *s, const struct store_stack *k, struct error *err)
{
    const uint64_t row[] = {k->id, k->parent, k->location, k->site, k->named};
    return add_to_batch(s, BATCH_STACKS, row, err);
}

static int do_frame(struct fleet_store *s, const struct store_frame *f, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_FRAME, err);
    if (!k)
        return -1;
    sqlite_number(k, 1, f->id);
    sqlite_text(k, 2, f->json);
    return sqlite_done(s, k, err);
}

static int do_site(struct fleet_store *s, const struct store_site *i, struct error *err)
{
    const uint64_t row[] = {i->id, i->parent, i->frame, i->path, (uint64_t)i->call_site};
    return add_to_batch(s, BATCH_SITES, row, err);
}

static int do_figures(struct fleet_store *s, int64_t process, uint64_t stack,
                      const struct store_figures *f, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, PUT_FIGURES, err);
    if (!k)
        return -1;
    if (!fits(f))
        return too_large(err);
    sqlite3_bind_int64(k, 1, process);
    sqlite_number(k, 2, stack);
    bind_figures(k, 3, f);
    return sqlite_done(s, k, err);
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
    .slice = sqlite_slice,
    .block = sqlite_block,
    .find_watched = sqlite_find_watched,
    .watched = sqlite_watched,
    .watched_label = sqlite_watched_label,
    .watched_site = sqlite_watched_site,
    .slices_sql = sqlite_slices_sql,
    .span_sql = sqlite_span_sql,
    .watched_sql = sqlite_watched_sql,
    .totals = sqlite_totals,
    .sites = sqlite_sites,
    .sites_sql = sqlite_sites_sql,
    .held = sqlite_held,
    .held_sql = sqlite_held_sql,
    .ask = sqlite_ask,
    .order = sqlite_order,
    .leaks = sqlite_leaks,
    .spread = sqlite_spread,
    .leaks_sql = sqlite_leaks_sql,
    .spread_sql = sqlite_spread_sql,
    .parts_sql = sqlite_parts_sql,
    .frames = sqlite_frames,
};
