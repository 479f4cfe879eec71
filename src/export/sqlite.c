/* sqlite.c - a database for questions in SQL: a row for each block with its whole life, the calls
 * that made no block, stacks, frames, call sites with their sums, threads, resident sizes.
 *
 * A block is written when it is released (or at the end), so memory grows with live blocks only.
 * Rows of blocks are not bound one by one, which costs SQLite more than to store them: those of a
 * batch are a virtual table (`ended`) that one statement reads.
 * The file gets its name when it is complete. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/event_name.h"
#include "base/cmdline.h"
#include "export/job.h"
#include "frames/known.h"
#include "trust/place.h"

/* The tables, indexes and views of an exported database. */

/* SQL that makes the tables, of an empty database. */
static const char sqlite_tables[] =
    "CREATE TABLE recording(file TEXT, host TEXT, recorded_by TEXT, start_realtime_ns INTEGER);"
    "CREATE TABLE process(id INTEGER PRIMARY KEY, pid INTEGER, ppid INTEGER, exe TEXT, command "
    "TEXT,"
    " allocator TEXT, start_ns INTEGER, end_ns INTEGER, complete INTEGER, calls INTEGER,"
    " lost_calls INTEGER);"
    "CREATE TABLE thread(process INTEGER, id INTEGER, tid INTEGER, name TEXT, start_ns INTEGER,"
    " end_ns INTEGER, calls INTEGER, PRIMARY KEY(process, id)) WITHOUT ROWID;"
    "CREATE TABLE module(process INTEGER, id INTEGER, path TEXT, build_id TEXT, start INTEGER,"
    " end INTEGER, bias INTEGER, PRIMARY KEY(process, id)) WITHOUT ROWID;"
    "CREATE TABLE stack(process INTEGER, id INTEGER, parent INTEGER, pc INTEGER, module INTEGER,"
    " PRIMARY KEY(process, id)) WITHOUT ROWID;"
    "CREATE TABLE frame(process INTEGER, stack INTEGER, depth INTEGER, function TEXT, file TEXT,"
    " line INTEGER, module TEXT, inlined INTEGER, PRIMARY KEY(process, stack, depth)) WITHOUT "
    "ROWID;"
    "CREATE TABLE site(process INTEGER, stack INTEGER, calls INTEGER, allocated_bytes INTEGER,"
    " peak_bytes INTEGER, peak_blocks INTEGER, end_live_bytes INTEGER, end_live_blocks INTEGER,"
    " temporary INTEGER, call_site INTEGER, text TEXT,"
    " mean_bytes INTEGER AS (allocated_bytes / nullif(calls, 0)), PRIMARY KEY(process, stack)) "
    "WITHOUT ROWID;"
    /* where a person would look first in a stack */
    "CREATE TABLE call_site(process INTEGER, id INTEGER, function TEXT, file TEXT, line INTEGER,"
    " module TEXT, PRIMARY KEY(process, id)) WITHOUT ROWID;"
    /* classes that size and lifetime are counted by, as in a report */
    "CREATE TABLE size_class(min_bytes INTEGER PRIMARY KEY, max_bytes INTEGER);"
    "CREATE TABLE lifetime_class(min_ns INTEGER PRIMARY KEY, max_ns INTEGER);"
    "CREATE TABLE block(process INTEGER, call TEXT, thread INTEGER, size_bytes INTEGER,"
    " usable_bytes INTEGER, address INTEGER, stack INTEGER, allocated_ns INTEGER, freed_ns INTEGER,"
    " freed_by INTEGER, temporary INTEGER, route TEXT, freed_route TEXT);"
    "CREATE TABLE other_call(process INTEGER, time_ns INTEGER, thread INTEGER, call TEXT,"
    " kind TEXT, address INTEGER, size_bytes INTEGER, argument INTEGER, stack INTEGER, failed "
    "INTEGER);"
    "CREATE TABLE mark(process INTEGER, time_ns INTEGER, thread INTEGER, label TEXT);"
    "CREATE TABLE resident(process INTEGER, time_ns INTEGER, vmsize_bytes INTEGER, rss_bytes "
    "INTEGER,"
    " shared_bytes INTEGER);"
    /* the innermost frame of each stack, to join with */
    "CREATE VIEW place AS SELECT process, stack, function, file, line, module FROM frame WHERE "
    "depth = 0;";

/* SQL for when all rows are there: indexes cost least then. Views answer a question in a line. */
static const char sqlite_indexes[] =
    "CREATE INDEX block_by_stack ON block(process, stack);"
    "CREATE INDEX block_by_time ON block(process, allocated_ns);"
    "CREATE INDEX other_call_by_time ON other_call(process, time_ns);"
    "CREATE INDEX site_by_call_site ON site(process, call_site);"
    "CREATE INDEX frame_by_function ON frame(function);";

/* Call sites by one figure: NAME, the figure and its number of blocks or calls. */
#define BY_CALL_SITE(view, figure, as, count, counted)                                             \
    "CREATE VIEW " view " AS SELECT p.pid, sum(s." figure ") AS " as ", sum(s." count              \
    ") AS " counted ", c.function, c.file, c.line, c.module, count(*) AS stacks FROM site s "      \
    "JOIN process p ON p.id = s.process LEFT JOIN call_site c ON c.process = s.process AND c.id "  \
    "= s.call_site WHERE s." figure " > 0 GROUP BY s.process, s.call_site ORDER BY 2 DESC;"

/* Blocks that a process inherited were made by no call of it. */
#define MADE_HERE "b.allocated_ns > p.start_ns"

static const char sqlite_views[] =
    BY_CALL_SITE("leaks", "end_live_bytes", "bytes", "end_live_blocks",
                 "blocks") BY_CALL_SITE("at_peak", "peak_bytes", "bytes", "peak_blocks", "blocks")
        BY_CALL_SITE("allocators", "allocated_bytes", "bytes", "calls", "calls") BY_CALL_SITE(
            "temporaries", "temporary", "blocks", "calls",
            "calls") "CREATE VIEW leaking_stacks AS SELECT p.pid, s.end_live_bytes AS bytes, "
                     "s.end_live_blocks AS "
                     "blocks, s.text FROM site s JOIN process p ON p.id = s.process WHERE "
                     "s.end_live_blocks > 0 "
                     "ORDER BY 2 DESC;"
                     "CREATE VIEW sizes AS SELECT pid, c.min_bytes, c.max_bytes, calls, bytes FROM "
                     "(SELECT p.pid AS "
                     "pid, (SELECT max(min_bytes) FROM size_class WHERE min_bytes <= b.size_bytes) "
                     "AS class, "
                     "count(*) AS calls, sum(b.size_bytes) AS bytes FROM block b JOIN process p ON "
                     "p.id = b.process "
                     "WHERE " MADE_HERE
                     " GROUP BY p.id, class) JOIN size_class c ON c.min_bytes = class;"
                     "CREATE VIEW lifetimes AS SELECT pid, c.min_ns, c.max_ns, blocks, bytes FROM "
                     "(SELECT p.pid AS "
                     "pid, (SELECT max(min_ns) FROM lifetime_class WHERE min_ns <= b.freed_ns - "
                     "b.allocated_ns) AS "
                     "class, count(*) AS blocks, sum(b.size_bytes) AS bytes FROM block b JOIN "
                     "process p ON p.id = "
                     "b.process WHERE b.freed_ns IS NOT NULL AND " MADE_HERE
                     " GROUP BY p.id, class) JOIN "
                     "lifetime_class c ON c.min_ns = class;"
                     "CREATE VIEW threads AS SELECT p.pid, t.tid, t.name, count(*) AS allocations, "
                     "sum(b.size_bytes) AS bytes, sum(b.temporary) AS temporary, "
                     "ifnull(sum(b.freed_by <> "
                     "b.thread), 0) AS released_by_others FROM block b JOIN process p ON p.id = "
                     "b.process JOIN "
                     "thread t ON t.process = b.process AND t.id = b.thread WHERE " MADE_HERE
                     " GROUP BY p.id, t.id ORDER BY 5 DESC;"
                     "CREATE VIEW failures AS SELECT p.pid, o.call, count(*) AS calls, "
                     "max(o.size_bytes) AS "
                     "largest_bytes FROM other_call o JOIN process p ON p.id = o.process WHERE "
                     "o.failed GROUP BY "
                     "p.id, o.call ORDER BY 3 DESC;"
                     "CREATE VIEW live_at_marks AS SELECT p.pid, m.label, m.time_ns, "
                     "ifnull(sum(b.size_bytes), 0) "
                     "AS bytes, count(b.size_bytes) AS blocks FROM mark m JOIN process p ON p.id = "
                     "m.process LEFT "
                     "JOIN block b ON b.process = m.process AND b.allocated_ns <= m.time_ns AND "
                     "(b.freed_ns IS NULL "
                     "OR b.freed_ns > m.time_ns) GROUP BY m.rowid ORDER BY m.time_ns;";

struct open_block { /* 40 bytes */
    uint64_t size, address, time_ns;
    uint32_t usable_extra, stack, thread;
    uint8_t op;
    uint8_t state; /* 1: is to be written */
    uint8_t route;
};

struct row { /* a row of the table of blocks */
    uint64_t size, usable, address, allocated_ns, freed_ns;
    uint32_t stack, thread, freed_by;
    uint8_t op, route, freed_route;
    bool freed, temporary;
};
#define ROWS 4096u

enum statement { ADD_BLOCKS, ADD_CALL, ADD_FRAME, ADD_STACK, STATEMENTS };

struct database {
    struct export_job *job;
    sqlite3 *db;
    sqlite3_stmt *add[STATEMENTS];
    const struct trace_image *image;
    uint32_t index;
    struct open_block *blocks;
    struct row *rows; /* [ROWS]; [row_count] wait to be written */
    size_t row_count;
    bool failed;
};

static int database_fail(struct database *d, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "cannot write the database %s: %s", d->job->output,
                     d->db ? sqlite3_errmsg(d->db) : "out of memory");
}

static int database_run_sql(struct database *d, const char *sql, struct error *err)
{
    return sqlite3_exec(d->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : database_fail(d, err);
}

/* --- rows --- */

static void bind_number(sqlite3_stmt *s, int column, uint64_t v)
{
    sqlite3_bind_int64(s, column, (sqlite3_int64)v);
}

static void bind_text(sqlite3_stmt *s, int column, const char *v)
{
    if (v)
        sqlite3_bind_text(s, column, v, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, column);
}

static void step_row(struct database *d, sqlite3_stmt *s)
{
    d->failed |= sqlite3_step(s) != SQLITE_DONE;
    sqlite3_reset(s);
}

/* One row of a small table: values in the order of its columns. */
static sqlite3_stmt *prepare_statement(struct database *d, const char *sql)
{
    sqlite3_stmt *s = NULL;
    d->failed |= sqlite3_prepare_v2(d->db, sql, -1, &s, NULL) != SQLITE_OK;
    return s;
}

/* --- the rows that wait, as a table that can only be read from its start to its end --- */

struct rows_table {
    sqlite3_vtab base; /* must be first */
    const struct database *d;
};

struct rows_cursor {
    sqlite3_vtab_cursor base; /* must be first */
    const struct database *d;
    size_t at;
};

static int rows_connect(sqlite3 *db, void *arg, int argc, const char *const *argv,
                        sqlite3_vtab **table, char **message)
{
    (void)argc, (void)argv, (void)message;
    struct rows_table *t = sqlite3_malloc(sizeof *t);
    if (!t)
        return SQLITE_NOMEM;
    *t = (struct rows_table){.d = arg};
    *table = &t->base;
    return sqlite3_declare_vtab(db,
                                "CREATE TABLE x(process, call, thread, size_bytes, usable_bytes,"
                                " address, stack, allocated_ns, freed_ns, freed_by, temporary,"
                                " route, freed_route)");
}

static int rows_disconnect(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

static int rows_plan(sqlite3_vtab *table, sqlite3_index_info *info)
{
    (void)table;
    info->estimatedCost = ROWS;
    return SQLITE_OK;
}

static int rows_open(sqlite3_vtab *table, sqlite3_vtab_cursor **cursor)
{
    struct rows_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct rows_cursor){.d = ((struct rows_table *)table)->d};
    *cursor = &c->base;
    return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int rows_filter(sqlite3_vtab_cursor *cursor, int plan, const char *name, int argc,
                       sqlite3_value **argv)
{
    (void)plan, (void)name, (void)argc, (void)argv;
    ((struct rows_cursor *)cursor)->at = 0;
    return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *cursor)
{
    ((struct rows_cursor *)cursor)->at++;
    return SQLITE_OK;
}

static int rows_eof(sqlite3_vtab_cursor *cursor)
{
    const struct rows_cursor *c = (const struct rows_cursor *)cursor;
    return c->at >= c->d->row_count;
}

static int rows_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *id)
{
    *id = (sqlite3_int64)((struct rows_cursor *)cursor)->at;
    return SQLITE_OK;
}

static void result(sqlite3_context *to, uint64_t v) { sqlite3_result_int64(to, (sqlite3_int64)v); }

static void result_route(sqlite3_context *to, unsigned route)
{
    if (route) /* else NULL */
        sqlite3_result_text(to, mlw_route_name(route), -1, SQLITE_STATIC);
}

static int rows_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int column)
{
    const struct rows_cursor *c = (const struct rows_cursor *)cursor;
    const struct row *r = &c->d->rows[c->at];
    switch (column) {
    case 0: result(to, c->d->index); break;
    case 1: sqlite3_result_text(to, mlw_op_name(r->op), -1, SQLITE_STATIC); break;
    case 2: result(to, r->thread); break;
    case 3: result(to, r->size); break;
    case 4: result(to, r->usable); break;
    case 5: result(to, r->address); break;
    case 6: result(to, r->stack); break;
    case 7: result(to, r->allocated_ns); break;
    case 8:
        if (r->freed)
            result(to, r->freed_ns);
        break; /* else NULL */
    case 9:
        if (r->freed)
            result(to, r->freed_by);
        break;
    case 10: result(to, r->temporary); break;
    default: result_route(to, column == 11 ? r->route : r->freed_route); break;
    }
    return SQLITE_OK;
}

static const sqlite3_module rows_module = {.xConnect = rows_connect,
                                           .xDisconnect = rows_disconnect,
                                           .xBestIndex = rows_plan,
                                           .xOpen = rows_open,
                                           .xClose = rows_close,
                                           .xFilter = rows_filter,
                                           .xNext = rows_next,
                                           .xEof = rows_eof,
                                           .xColumn = rows_column,
                                           .xRowid = rows_rowid};

static void database_write_rows(struct database *d)
{
    if (d->row_count)
        step_row(d, d->add[ADD_BLOCKS]);
    d->row_count = 0;
}

static inline void database_put_block(struct database *d, const struct open_block *k,
                                      uint64_t freed_ns, uint32_t freed_by, bool freed,
                                      bool temporary, unsigned freed_route)
{
    if (d->row_count == ROWS)
        database_write_rows(d);
    d->rows[d->row_count++] = (struct row){.size = k->size,
                                           .usable = k->size + k->usable_extra,
                                           .address = k->address,
                                           .allocated_ns = k->time_ns,
                                           .freed_ns = freed_ns,
                                           .stack = k->stack,
                                           .thread = k->thread,
                                           .freed_by = freed_by,
                                           .op = k->op,
                                           .route = k->route,
                                           .freed_route = (uint8_t)freed_route,
                                           .freed = freed,
                                           .temporary = temporary};
    d->job->result->samples++;
}

static void database_put_call(struct database *d, const struct trace_batch *b, size_t i)
{
    sqlite3_stmt *s = d->add[ADD_CALL];
    sqlite3_bind_int(s, 1, (int)d->index);
    bind_number(s, 2, b->time_ns[i]);
    bind_number(s, 3, b->thread[i]);
    bind_text(s, 4, b->op[i] ? event_name(b->op[i]) : NULL);
    bind_text(s, 5, event_kind_name(b->kind[i]));
    bind_number(s, 6, b->address[i]);
    bind_number(s, 7, b->size[i]);
    bind_number(s, 8, b->argument[i]);
    bind_number(s, 9, b->stack[i]);
    sqlite3_bind_int(s, 10, b->path[i] & MLW_PATH_FAILED);
    step_row(d, s);
    d->job->result->samples++;
}

#define AHEAD 16u /* events whose blocks are asked of memory before they are needed */

static int database_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                              struct error *err)
{
    struct database *d = arg;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        if (i + AHEAD < b->n && b->slot[i + AHEAD] != TRACE_NO_SLOT)
            __builtin_prefetch(&d->blocks[b->slot[i + AHEAD]], 1);
        const bool after = f->f.to_ns && b->time_ns[i] >= f->f.to_ns;
        if (after)
            continue;
        if (slot == TRACE_NO_SLOT) {
            if (job_event_passes(f, b, i))
                database_put_call(d, b, i);
        } else if (b->kind[i] == TRACE_ALLOC) {
            uint64_t extra = b->usable[i] > b->size[i] ? b->usable[i] - b->size[i] : 0;
            d->blocks[slot] = (struct open_block){
                .size = b->size[i],
                .address = b->address[i],
                .time_ns = b->time_ns[i],
                .usable_extra = extra < UINT32_MAX ? (uint32_t)extra : UINT32_MAX,
                .stack = b->stack[i],
                .thread = b->thread[i],
                .op = b->op[i],
                .route = b->route[i],
                .state = job_call_passes(f, b, i)};
        } else if (d->blocks[slot].state) {
            if (b->time_ns[i] >= f->f.from_ns)
                database_put_block(d, &d->blocks[slot], b->time_ns[i], b->thread[i], true,
                                   b->kind[i] == TRACE_FREE_TEMP, b->route[i]);
            d->blocks[slot].state = 0;
        }
    }
    return d->failed ? database_fail(d, err) : 0;
}

/* --- tables of a process --- */

static void database_put_classes(struct database *d)
{
    sqlite3_stmt *s = prepare_statement(d, "INSERT INTO size_class VALUES(?,?)");
    for (unsigned bits = 0; bits < 64; bits++) {
        bind_number(s, 1, bits ? (uint64_t)1 << (bits - 1) : 0);
        bind_number(s, 2, ((uint64_t)1 << bits) - 1);
        step_row(d, s);
    }
    sqlite3_finalize(s);
    s = prepare_statement(d, "INSERT INTO lifetime_class VALUES(?,?)");
    for (unsigned i = 0; i < MODEL_LIFETIMES; i++) {
        bind_number(s, 1, model_lifetime_min_ns(i));
        if (i + 1 < MODEL_LIFETIMES)
            bind_number(s, 2, model_lifetime_min_ns(i + 1) - 1);
        else
            sqlite3_bind_null(s, 2);
        step_row(d, s);
    }
    sqlite3_finalize(s);
}

static void database_put_process(struct database *d)
{
    const struct trace_image *m = d->image;
    struct buffer command = {0};
    cmdline_append(&command, m->exe, m->command, false);
    sqlite3_stmt *s = prepare_statement(d, "INSERT INTO process VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    sqlite3_bind_int(s, 1, (int)d->index);
    bind_number(s, 2, m->pid);
    bind_number(s, 3, m->ppid);
    bind_text(s, 4, m->exe);
    bind_text(s, 5, buffer_text(&command));
    bind_text(s, 6, m->allocator);
    bind_number(s, 7, m->start_ns);
    bind_number(s, 8, m->end_ns);
    bind_number(s, 9, m->complete);
    bind_number(s, 10, m->calls);
    bind_number(s, 11, m->lost_calls);
    step_row(d, s);
    sqlite3_finalize(s);
    buffer_release(&command);
    s = prepare_statement(d, "INSERT INTO thread VALUES(?,?,?,?,?,?,?)");
    for (uint32_t i = 0; i < m->thread_count; i++) {
        sqlite3_bind_int(s, 1, (int)d->index);
        bind_number(s, 2, i);
        bind_number(s, 3, m->threads[i].tid);
        bind_text(s, 4, m->threads[i].name);
        bind_number(s, 5, m->threads[i].start_ns);
        bind_number(s, 6, m->threads[i].end_ns);
        bind_number(s, 7, m->threads[i].calls);
        step_row(d, s);
    }
    sqlite3_finalize(s);
    s = prepare_statement(d, "INSERT INTO resident VALUES(?,?,?,?,?)");
    for (uint32_t i = 0; i < m->resident_count; i++) {
        sqlite3_bind_int(s, 1, (int)d->index);
        bind_number(s, 2, m->resident[i].clock);
        bind_number(s, 3, m->resident[i].vmsize);
        bind_number(s, 4, m->resident[i].rss);
        bind_number(s, 5, m->resident[i].rss_shared);
        step_row(d, s);
    }
    sqlite3_finalize(s);
    s = prepare_statement(d, "INSERT INTO mark VALUES(?,?,?,?)");
    for (uint32_t i = 0; i < m->note_count; i++) {
        if (m->event_notes[i].control)
            continue;
        sqlite3_bind_int(s, 1, (int)d->index);
        bind_number(s, 2, m->event_notes[i].time_ns);
        if (m->event_notes[i].thread < m->thread_count)
            bind_number(s, 3, m->event_notes[i].thread);
        else
            sqlite3_bind_null(s, 3);
        bind_text(s, 4, m->event_notes[i].label);
        step_row(d, s);
    }
    sqlite3_finalize(s);
}

static void database_put_modules(struct database *d)
{
    sqlite3_stmt *s = prepare_statement(d, "INSERT INTO module VALUES(?,?,?,?,?,?,?)");
    for (uint32_t i = 0; i < d->image->module_count; i++) {
        const struct trace_module *m = &d->image->modules[i];
        struct buffer id = {0};
        for (size_t k = 0; k < m->build_id_bytes; k++)
            buffer_printf(&id, "%02x", m->build_id[k]);
        sqlite3_bind_int(s, 1, (int)d->index);
        bind_number(s, 2, (uint64_t)i + 1);
        bind_text(s, 3, m->path);
        bind_text(s, 4, id.size_bytes ? buffer_text(&id) : NULL);
        bind_number(s, 5, m->start);
        bind_number(s, 6, m->end);
        bind_number(s, 7, m->bias);
        step_row(d, s);
        buffer_release(&id);
    }
    sqlite3_finalize(s);
}

/* A stack with more frames has the innermost and outermost half of as many in its text. */
#define TEXT_FRAMES 1024u

struct site_names {
    sqlite3_stmt *call_site;
    struct buffer frames, text; /* used again for each stack */
};

/* The functions of a stack, innermost first, as a line `stack:` of suppressions has them. */
static const char *stack_text(struct site_names *s, uint32_t stack, struct names *names)
{
    buffer_clear(&s->frames);
    buffer_clear(&s->text);
    const size_t n = names_append(names, stack, &s->frames), half = TEXT_FRAMES / 2;
    const uint32_t *frames = (const uint32_t *)(const void *)s->frames.data;
    if (n <= TEXT_FRAMES) {
        known_write_stack(names, frames, n, &s->text);
    } else {
        known_write_stack(names, frames, half, &s->text);
        buffer_printf(&s->text, ";[%zu frames left out];", n - 2 * half);
        known_write_stack(names, frames + n - half, half, &s->text);
    }
    return buffer_text(&s->text);
}

/* The last two columns of a row of `site`: its call site, which is made, and its text. */
static void bind_names(struct database *d, sqlite3_stmt *site, struct site_names *s, uint32_t stack,
                       struct names *names)
{
    uint32_t node, position;
    const uint32_t id = stack ? names_site(names, stack, &node, &position) : NO_NAME;
    sqlite3_bind_null(site, 10);
    sqlite3_bind_null(site, 11);
    if (id == NO_NAME)
        return;
    const struct name_frame *f = names_frame(names, id);
    sqlite3_bind_int(s->call_site, 1, (int)d->index);
    bind_number(s->call_site, 2, id);
    bind_text(s->call_site, 3, f->function);
    bind_text(s->call_site, 4, f->file);
    bind_number(s->call_site, 5, f->line);
    bind_text(s->call_site, 6, f->module);
    step_row(d, s->call_site);
    bind_number(site, 10, id);
    bind_text(site, 11, stack_text(s, stack, names));
}

/* Stacks with their frames, and what each allocated. */
static int database_put_stacks(void *arg, const struct model *m, struct names *names,
                               struct error *err)
{
    struct database *d = arg;
    const struct trace_image *image = d->image;
    const struct model_stacks stacks = model_stacks(m);
    sqlite3_stmt *site = prepare_statement(d, "INSERT INTO site VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    struct site_names more = {.call_site = prepare_statement(d, "INSERT OR IGNORE INTO call_site "
                                                                "VALUES(?,?,?,?,?,?)")};
    for (uint32_t i = 0; i <= image->stacks && !d->failed; i++) {
        const struct model_stack *s = model_stack_of(stacks, i);
        if (i) {
            const uint32_t *ids;
            size_t n = names_of(names, i, &ids);
            sqlite3_stmt *q = d->add[ADD_STACK];
            sqlite3_bind_int(q, 1, (int)d->index);
            bind_number(q, 2, i);
            bind_number(q, 3, trace_caller(image, i));
            bind_number(q, 4, trace_node(image, i)->pc);
            bind_number(q, 5, trace_node(image, i)->module);
            step_row(d, q);
            q = d->add[ADD_FRAME];
            for (size_t k = 0; k < n; k++) {
                const struct name_frame *f = names_frame(names, ids[k]);
                sqlite3_bind_int(q, 1, (int)d->index);
                bind_number(q, 2, i);
                bind_number(q, 3, k);
                bind_text(q, 4, f->function);
                bind_text(q, 5, f->file);
                bind_number(q, 6, f->line);
                bind_text(q, 7, f->module);
                sqlite3_bind_int(q, 8, f->inlined);
                step_row(d, q);
            }
        }
        if (!s->calls && !s->live_blocks && !s->peak_blocks)
            continue;
        const uint64_t values[] = {i,
                                   s->calls,
                                   s->allocated_bytes,
                                   s->peak_bytes,
                                   s->peak_blocks,
                                   s->live_bytes,
                                   s->live_blocks,
                                   s->temporary};
        sqlite3_bind_int(site, 1, (int)d->index);
        for (int k = 0; k < 8; k++)
            bind_number(site, k + 2, values[k]);
        bind_names(d, site, &more, i, names);
        step_row(d, site);
    }
    sqlite3_finalize(site);
    sqlite3_finalize(more.call_site);
    buffer_release(&more.frames);
    buffer_release(&more.text);
    d->failed |= names_failed(names);
    return d->failed ? database_fail(d, err) : 0;
}

static int database_write_image(struct database *d, uint32_t index, struct error *err)
{
    d->image = &trace_info(d->job->trace)->images[index];
    d->index = index;
    database_put_process(d);
    database_put_modules(d);
    if (d->failed)
        return database_fail(d, err);
    if (job_model(d->job, index, database_put_stacks, d, err))
        return -1;
    d->blocks = calloc((size_t)d->image->max_slots + 1, sizeof *d->blocks);
    struct names *names = names_new(d->job->symbols, d->image, err);
    int status = -1;
    if (!d->blocks)
        error_memory_for(err, "live blocks");
    else if (names)
        status = job_events(d->job, index, names, database_add_batch, d, err);
    for (uint32_t i = 0; i < d->image->max_slots && !status && !d->failed; i++)
        if (d->blocks[i].state)
            database_put_block(d, &d->blocks[i], 0, 0, false, false, 0);
    database_write_rows(d);
    names_free(names);
    free(d->blocks);
    return status ? status : d->failed ? database_fail(d, err) : 0;
}

static int database_fill(struct database *d, struct error *err)
{
    static const char *const inserts[STATEMENTS] = {
        "INSERT INTO block SELECT * FROM ended",
        "INSERT INTO other_call VALUES(?,?,?,?,?,?,?,?,?,?)",
        "INSERT INTO frame VALUES(?,?,?,?,?,?,?,?)", "INSERT INTO stack VALUES(?,?,?,?,?)"};
    const struct trace_info *info = trace_info(d->job->trace);
    /* no other process reads it before it is whole, and a partial one is discarded */
    if (database_run_sql(
            d,
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; "
            "PRAGMA page_size=16384; "
            "PRAGMA cache_size=-1024; BEGIN;",
            err) ||
        database_run_sql(d, sqlite_tables, err))
        return -1;
    d->rows = malloc(ROWS * sizeof *d->rows);
    if (!d->rows)
        return error_memory(err);
    if (sqlite3_create_module(d->db, "ended", &rows_module, d) != SQLITE_OK)
        return database_fail(d, err);
    for (int i = 0; i < STATEMENTS; i++)
        d->add[i] = prepare_statement(d, inserts[i]);
    sqlite3_stmt *s = prepare_statement(d, "INSERT INTO recording VALUES(?,?,?,?)");
    bind_text(s, 1, d->job->recording);
    bind_text(s, 2, info->host);
    bind_text(s, 3, info->tool);
    bind_number(s, 4, info->start_realtime_ns);
    step_row(d, s);
    sqlite3_finalize(s);
    database_put_classes(d);
    int status = d->failed ? database_fail(d, err) : 0;
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (job_has(d->job, &info->images[i]))
            status = database_write_image(d, i, err);
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(d->add[i]);
    if (!status)
        status = database_run_sql(d, sqlite_indexes, err);
    if (!status)
        status = database_run_sql(d, sqlite_views, err);
    return status ? status : database_run_sql(d, "COMMIT", err);
}

/* --- where the library finds the file --- */

typedef int open_call(const char *path, int flags, int mode);

/* The library opens no link, and the draft has no other path. */
static struct {
    const char *path;
    int fd;
    open_call *own;
} draft;

static int open_draft(const char *path, int flags, int mode)
{
    if (draft.path && !strcmp(path, draft.path))
        return fcntl(draft.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return draft.own(path, flags, mode);
}

/* The library's own puts the directory's name in the place of its descriptor. */
static int take_path(sqlite3_vfs *vfs, const char *path, int bytes, char *full)
{
    (void)vfs;
    size_t n = strlen(path) + 1;
    if (n > (size_t)bytes)
        return SQLITE_CANTOPEN;
    memcpy(full, path, n);
    return SQLITE_OK;
}

/* The file system as the library knows it, except that it opens the path that it is given, and
 * without locks: no other process can open the file before it is whole. */
static const char *plain_files(void)
{
    static sqlite3_vfs plain;
    sqlite3_vfs *own = sqlite3_vfs_find("unix-none");
    if (!own || own->iVersion < 3)
        return NULL;
    if (!plain.zName) {
        const sqlite3_syscall_ptr was = own->xGetSystemCall(own, "open");
        open_call *const mine = open_draft;
        sqlite3_syscall_ptr to;
        memcpy(&draft.own, &was, sizeof was);
        memcpy(&to, &mine, sizeof to);
        if (!was || own->xSetSystemCall(own, "open", to) != SQLITE_OK)
            return NULL;
        plain = *own;
        plain.pNext = NULL;
        plain.zName = "mallow-plain";
        plain.xFullPathname = take_path;
    }
    return sqlite3_vfs_register(&plain, 0) == SQLITE_OK ? plain.zName : NULL;
}

int export_sqlite(struct export_job *job, struct error *err)
{
    struct database d = {.job = job};
    struct trust_whole whole;
    char path[TRUST_WHOLE_PATH_BYTES];
    int status;
    if (trust_whole_open(&whole, job->output, err))
        return trust_unreachable(err, "cannot write", job->output);
    trust_whole_path(&whole, path);
    /* one thread, memory statistics unused; refused when the library is in use already, which only
     * costs time */
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    const char *files = plain_files();
    draft.path = path;
    draft.fd = whole.draft.fd;
    if (!files)
        status =
            error_set(err, ERROR_FORMAT, "SQLite's library does not open files as is needed here");
    else if (sqlite3_open_v2(path, &d.db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             files) != SQLITE_OK)
        status = database_fail(&d, err);
    else
        status = database_fill(&d, err);
    if (sqlite3_close(d.db) != SQLITE_OK && !status)
        status = error_set(err, ERROR_FORMAT, "cannot close the database %s", job->output);
    draft.path = NULL;
    if (trust_whole_close(&whole, status == 0, err))
        status = -1;
    free(d.rows);
    return status;
}
