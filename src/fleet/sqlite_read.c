/* sqlite_read.c - the questions to the embedded store. */
#include <stdlib.h>
#include <string.h>

#include "fleet/order.h"
#include "fleet/sqlite.h"
#include "fleet/sums.h"

/* A row that a statement finds by an identity; reset it after use. NULL with *err. */
static sqlite3_stmt *find_stored_row(struct fleet_store *s, enum statement n, uint64_t id,
                                     const char *what, struct error *err)
{
    sqlite3_stmt *k = sqlite_prepared(s, n, err);
    if (!k)
        return NULL;
    sqlite_number(k, 1, id);
    const int step = sqlite3_step(k);
    if (step == SQLITE_ROW)
        return k;
    if (step == SQLITE_DONE)
        error_set(err, ERROR_FORMAT, "%s is damaged: %s", s->where, what);
    else
        sqlite_complain(s, "read", err);
    sqlite3_reset(k);
    return NULL;
}

/* The frame of a site's call site: so many frames outward of the innermost one. */
static int find_called(struct fleet_store *s, uint64_t site, uint64_t *frame, struct error *err)
{
    int64_t left = 0;
    for (unsigned depth = 0;; depth++) {
        sqlite3_stmt *k = depth < STORE_DEEPEST
                              ? find_stored_row(s, GET_SITE, site, "a call site is missing", err)
                              : NULL;
        if (!k)
            return depth < STORE_DEEPEST ? -1
                                         : error_set(err, ERROR_FORMAT, "%s is damaged", s->where);
        site = sqlite_value(k, 0);
        left = depth ? left : sqlite3_column_int64(k, 1);
        *frame = sqlite_value(k, 2);
        sqlite3_reset(k);
        if (left-- <= 0)
            return 0;
    }
}

struct adding {
    struct fleet_store *store;
    bool call_sites;
    struct sums sums;
};

static int find_key_of_stack(void *arg, uint64_t stack, uint64_t *site, struct error *err)
{
    const struct adding *a = arg;
    sqlite3_stmt *k = find_stored_row(a->store, GET_STACK, stack, "a stack is missing", err);
    if (!k)
        return -1;
    *site = sqlite_value(k, 0);
    sqlite3_reset(k);
    return a->call_sites ? find_called(a->store, *site, site, err) : 0;
}

struct sqlite_figure { /* a figure of a stack in a process; numbers from 1 */
    uint64_t process, process_number, host_number, stack;
    const char *host; /* the same for all processes in a row that ran on it */
    struct store_figures figures;
};
typedef int sqlite_figure_fn(void *arg, const struct sqlite_figure *f, struct error *err);

struct sqlite_visit {
    struct sqlite_figure *f;
    sqlite_figure_fn *visit;
    void *arg;
    struct error *err;
    bool failed;
};

static void visit_row(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct sqlite_visit *v = sqlite_of(sqlite3_user_data(context))->visit;
    uint64_t n[1 + STORE_FIGURES] = {0};
    for (int i = 0; i < count; i++)
        n[i] = (uint64_t)sqlite3_value_int64(values[i]);
    if (!v || v->failed)
        return;
    v->f->stack = n[0];
    v->f->figures = store_figures_get(n + 1);
    v->failed = v->visit(v->arg, v->f, v->err) != 0;
    if (v->failed)
        sqlite3_result_error(context, "a figure was refused", -1);
}

static void end_visit(sqlite3_context *context) { sqlite3_result_null(context); }

int sqlite_add_visitor(struct fleet_store *s, struct error *err)
{
    return sqlite3_create_function(sqlite_of(s)->db, "mallow_visit", 1 + (int)STORE_FIGURES,
                                   SQLITE_UTF8 | SQLITE_DIRECTONLY, s, NULL, visit_row,
                                   end_visit) == SQLITE_OK
               ? 0
               : sqlite_complain(s, "use", err);
}

/* The figures of one process. */
static int visit_process(struct fleet_store *s, struct sqlite_figure *f, sqlite_figure_fn *visit,
                         void *arg, struct error *err)
{
    struct sqlite_visit v = {f, visit, arg, err, false};
    sqlite3_stmt *k = sqlite_prepared(s, GET_FIGURES, err);
    if (!k)
        return -1;
    sqlite3_bind_int64(k, 1, (int64_t)f->process);
    sqlite_of(s)->visit = &v;
    const int step = sqlite3_step(k);
    sqlite_of(s)->visit = NULL;
    const int status = v.failed ? -1 : step == SQLITE_ROW ? 0 : sqlite_complain(s, "read", err);
    sqlite3_reset(k);
    return status;
}

/* Calls `visit` for each figure of the processes selected, process by process, in the order of
 * their hosts' names. */
static int visit_figures(struct fleet_store *s, const struct store_query *q,
                         sqlite_figure_fn *visit, void *arg, struct error *err)
{
    char *sql = sqlite_sql_of_processes(q), *last = NULL;
    struct sqlite_figure f = {0};
    sqlite3_stmt *k = NULL;
    int status = 0, step = SQLITE_DONE;
    if (!sql)
        return error_memory(err);
    if (sqlite3_prepare_v2(sqlite_of(s)->db, sql, -1, &k, NULL) != SQLITE_OK)
        status = sqlite_complain(s, "read", err);
    /* while this statement is at work, all others see the store as it is now */
    while (!status && (step = sqlite3_step(k)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(k, 1);
        if (!last || !name || strcmp(last, name)) {
            f.host_number++;
            free(last);
            f.host = last = strdup(name ? name : "");
            status = last ? 0 : error_memory(err);
        }
        f.process = sqlite_value(k, 0);
        f.process_number++;
        if (!status)
            status = visit_process(s, &f, visit, arg, err);
    }
    if (!status && step != SQLITE_DONE)
        status = sqlite_complain(s, "read", err);
    sqlite3_finalize(k);
    free(last);
    free(sql);
    return status;
}

static int add_figure(void *arg, const struct sqlite_figure *f, struct error *err)
{
    struct adding *a = arg;
    return sums_add(&a->sums, f->process_number, f->host_number, f->stack, &f->figures,
                    find_key_of_stack, a, err);
}

/* The rows of a statement. sql: freed. */
static int ask_sqlite(struct fleet_store *s, char *sql, unsigned numbers, store_answer_fn *answer,
                      void *arg, struct error *err)
{
    uint64_t values[STORE_NUMBERS];
    sqlite3_stmt *k = NULL;
    int status = 0, step = SQLITE_DONE;
    if (!sql)
        status = error_memory(err);
    else if (sqlite3_prepare_v2(sqlite_of(s)->db, sql, -1, &k, NULL) != SQLITE_OK)
        status = sqlite_complain(s, "read", err);
    while (!status && (step = sqlite3_step(k)) == SQLITE_ROW) {
        for (unsigned i = 0; i < numbers; i++)
            values[i] = sqlite3_column_type(k, (int)i) == SQLITE_TEXT
                            ? strtoull((const char *)sqlite3_column_text(k, (int)i), NULL, 10)
                            : sqlite_value(k, (int)i);
        const char *text = (int)numbers < sqlite3_column_count(k)
                               ? (const char *)sqlite3_column_text(k, (int)numbers)
                               : NULL;
        status = answer(arg, values, text ? text : "", err);
    }
    if (!status && step != SQLITE_DONE)
        status = sqlite_complain(s, "read", err);
    sqlite3_finalize(k);
    free(sql);
    return status;
}

/* ---- what SQL would sort all figures for ---- */

/* The figures of call sites, added up in a table: a tenth of the time of GROUP BY. */
static int add_figures_up(struct adding *a, const struct store_query *q, struct error *err)
{
    return visit_figures(a->store, q, add_figure, a, err);
}

/* The table of the stacks whose processes are looked at: see sqlite_word_shown in sqlite_ask.c. */
static int fill_shown(struct fleet_store *s, const struct sums *sums, struct order *o,
                      struct error *err)
{
    struct numbers wanted = {0};
    sqlite3_stmt *k = NULL;
    int status = sqlite_run(s,
                            "BEGIN; CREATE TEMP TABLE IF NOT EXISTS shown(stack INTEGER PRIMARY"
                            " KEY, site INTEGER); DELETE FROM temp.shown",
                            "read", err);
    if (!status && sqlite3_prepare_v2(sqlite_of(s)->db, "INSERT INTO temp.shown VALUES(?1, ?2)", -1,
                                      &k, NULL) != SQLITE_OK)
        status = sqlite_complain(s, "read", err);
    for (size_t i = 0; i < o->count && !status; i++) {
        uint64_t *number = numbers_at(&wanted, o->items[i].site, err);
        status = number ? 0 : -1;
        if (number)
            *number = 1;
    }
    for (size_t i = 0; i < sums->order_count && !status; i++) {
        const struct sums_stack *stack = &sums->order[i];
        const uint64_t site = sums->sites[stack->site - 1].row.site;
        const uint64_t *number = numbers_find(&wanted, site);
        if (!number)
            continue;
        sqlite_number(k, 1, stack->stack);
        sqlite_number(k, 2, site);
        status = sqlite_done(s, k, err);
    }
    sqlite3_finalize(k);
    numbers_release(&wanted);
    if (!sqlite3_get_autocommit(sqlite_of(s)->db) && sqlite_run(s, "COMMIT", "read", err))
        status = -1;
    return status;
}

/* Rows of some call sites: those with most, which are found first. */
static int ask_shown_stacks(struct adding *a, struct store_query *q, unsigned numbers,
                            store_answer_fn *answer, void *arg, struct error *err)
{
    struct order o = {.leaks = q->what == ASK_LEAKS};
    int status = add_figures_up(a, q, err);
    for (size_t i = 0; i < a->sums.site_count && !status; i++) {
        const struct store_row *r = &a->sums.sites[i].row;
        status = order_add(
            &o,
            (struct order_item){r->site, store_metric(&r->figures, q->by), r->figures.end_blocks},
            err);
    }
    if (!status) {
        order_pick(&o, q);
        status = fill_shown(a->store, &a->sums, &o, err);
    }
    order_release(&o);
    return status ? status
                  : ask_sqlite(a->store, sqlite_sql_of_shown(q), numbers, answer, arg, err);
}

struct holding {
    store_answer_fn *answer;
    void *arg;
};

/* The value of one process at a path, as a sum of one. */
static int hand_value_held(void *arg, const uint64_t *numbers, const char *text, struct error *err)
{
    const struct holding *h = arg;
    const unsigned __int128 squares = (unsigned __int128)numbers[3] * numbers[3];
    const uint64_t held[HELD_NUMBERS] = {[HELD_PATH] = numbers[0],
                                         [HELD_SITE] = numbers[1],
                                         [HELD_NEWER] = numbers[2],
                                         [HELD_PROCESSES] = 1,
                                         [HELD_SUM] = numbers[3],
                                         [HELD_SQUARES] = (uint64_t)squares,
                                         [HELD_SQUARES_HIGH] = (uint64_t)(squares >> 64)};
    return h->answer(h->arg, held, text, err);
}

int sqlite_ask(struct fleet_store *s, struct store_query *q, unsigned numbers,
               store_answer_fn *answer, void *arg, struct error *err)
{
    struct adding a = {.store = s, .call_sites = q->call_sites, .sums.by = q->by};
    int status;
    switch (q->what) {
    case ASK_SITES:
        status = add_figures_up(&a, q, err);
        status = status ? status : sums_rows(&a.sums, answer, arg, err);
        break;
    case ASK_LEAKS:
    case ASK_SPREAD: status = ask_shown_stacks(&a, q, numbers, answer, arg, err); break;
    case ASK_HELD:
        status = ask_sqlite(s, sqlite_sql(s, q), 4, hand_value_held, &(struct holding){answer, arg},
                            err);
        break;
    default: status = ask_sqlite(s, sqlite_sql(s, q), numbers, answer, arg, err);
    }
    sums_release(&a.sums);
    return status;
}

int sqlite_frames(struct fleet_store *s, uint64_t site, bool call_sites, uint64_t *call_site,
                  store_frame_fn *frame, void *arg, struct error *err)
{
    static const char missing[] = "the frames of a call site are missing";
    int status = 0;
    *call_site = 0;
    for (unsigned depth = 0; site && !status; depth++) {
        sqlite3_stmt *k =
            find_stored_row(s, call_sites ? GET_FRAME : GET_SITE_FRAME, site, missing, err);
        const char *json = k ? (const char *)sqlite3_column_text(k, 2) : NULL;
        if (!k)
            return -1;
        if (depth == STORE_DEEPEST || !json) {
            status = error_set(err, ERROR_FORMAT, "%s is damaged: %s", s->where, missing);
        } else {
            if (!depth && sqlite3_column_int64(k, 1) > 0)
                *call_site = sqlite_value(k, 1);
            site = sqlite_value(k, 0);
            status = frame(arg, json, err);
        }
        sqlite3_reset(k);
    }
    return status;
}
