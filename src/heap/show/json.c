/* json.c - a heap as JSON; see show.h. */
#include <stdlib.h>

#include "heap/show/columns.h"
#include "heap/show/show.h"
#include "show/document_text.h"

void heap_show_facts(struct json *j, const struct heap *h)
{
    const struct heap_facts *f = heap_facts(h);
    const struct table facts = heap_columns(h, heap_fact_columns, HEAP_BY_TYPE, NULL);
    json_schema(j);
    table_fields(j, &facts, f);
    if (f->read == HEAP_READ_UNKNOWN)
        json_null(j, "read_whole");
    else
        json_bool(j, "read_whole", f->read == HEAP_READ_WHOLE);
}

struct json_tables {
    struct json *j;
    struct heap *h;
    const struct heap_show *s;
    uint64_t top;
    struct error *err;
};

/* A table whose rows the heap gave, NULL when there are none: then there is no such key. */
static int put_rows(const struct json_tables *t, const char *key, const struct column *columns,
                    enum heap_by by, const void *rows, size_t count, size_t bytes)
{
    const struct table table = heap_columns(t->h, columns, by, t->s->names);
    if (!rows)
        return t->err->kind == ERROR_NONE ? 0 : -1;
    table_json(t->j, key, &table, rows, count < t->top ? count : (size_t)t->top, bytes);
    return 0;
}

static int put_table(const struct json_tables *t, enum heap_by by, const char *key)
{
    static const struct heap_row none;
    const bool roots = by == HEAP_BY_ROOT;
    size_t count;
    const struct heap_row *rows = heap_table(t->h, by, &count, t->err);
    return put_rows(t, key, roots ? heap_root_columns : heap_row_columns, by,
                    rows || t->err->kind != ERROR_NONE ? rows : &none, count, sizeof *rows);
}

static int put_pins(const struct json_tables *t, enum heap_by by, const char *key)
{
    size_t count;
    const struct heap_pin *rows = heap_pins(t->h, by, &count, t->err);
    return put_rows(t, key, heap_pin_columns, by, rows, count, sizeof *rows);
}

static int put_cold_rows(const struct json_tables *t, enum heap_by by, const char *key)
{
    size_t count;
    const struct heap_cold *rows = heap_cold(t->h, by, &count, t->err);
    return put_rows(t, key, heap_cold_columns, by, rows, count, sizeof *rows);
}

static int put_sites(const struct json_tables *t)
{
    size_t count;
    const struct heap_site *sites = heap_sites(t->h, &count, t->err);
    const struct table sampled =
        heap_columns(t->h, heap_sampled_columns, HEAP_BY_SITE, t->s->names);
    if (!sites || !t->s->samples)
        return put_rows(t, "sites", heap_site_columns, HEAP_BY_SITE, sites, count, sizeof *sites);
    json_open_array(t->j, "sites");
    for (size_t i = 0; i < count && i < t->top; i++) {
        const struct heap_sampled_row row = heap_sampled_row(t->s->samples, &sites[i]);
        json_open_object(t->j, NULL);
        table_fields(t->j, &sampled, &row);
        json_close_object(t->j);
    }
    json_close_array(t->j);
    return 0;
}

static void put_leaks(const struct json_tables *t)
{
    const struct table table = heap_columns(t->h, heap_leak_columns, HEAP_BY_SITE, t->s->names);
    const size_t count = heap_leaks(t->h);
    json_open_array(t->j, "unreachable");
    for (size_t i = 0; i < count && i < t->top; i++) {
        struct heap_leak leak;
        heap_leak(t->h, i, &leak);
        json_open_object(t->j, NULL);
        table_fields(t->j, &table, &leak);
        json_close_object(t->j);
    }
    json_close_array(t->j);
}

static int put_cold(const struct json_tables *t)
{
    const struct heap_facts *f = heap_facts(t->h);
    const struct table facts = {.columns = heap_cold_facts_columns};
    if (!f->cold_source)
        return 0;
    json_open_object(t->j, "cold");
    table_fields(t->j, &facts, f);
    json_text(t->j, "sees", f->cold_reads ? "reads and writes" : "writes");
    const int status = put_cold_rows(t, HEAP_BY_TYPE, "types") ||
                               put_cold_rows(t, HEAP_BY_ROOT, "roots") ||
                               put_cold_rows(t, HEAP_BY_SITE, "sites")
                           ? -1
                           : 0;
    json_close_object(t->j);
    return status;
}

int heap_show_tables(struct json *j, struct heap *h, const struct heap_show *s, uint64_t top,
                     struct error *err)
{
    const struct json_tables t = {.j = j, .h = h, .s = s, .top = top, .err = err};
    const struct heap_facts *f = heap_facts(h);
    const struct table arenas = {.columns = heap_arena_columns};
    heap_show_facts(j, h);
    table_json(j, "arenas", &arenas, f->arenas, f->arena_count, sizeof *f->arenas);
    if (put_table(&t, HEAP_BY_TYPE, "types") || put_table(&t, HEAP_BY_ROOT, "roots") ||
        put_table(&t, HEAP_BY_SIZE, "sizes") || put_sites(&t) ||
        put_pins(&t, HEAP_BY_TYPE, "pinning") || put_pins(&t, HEAP_BY_ROOT, "pinning_roots") ||
        (s->names && put_pins(&t, HEAP_BY_SITE, "pinning_sites")) || put_cold(&t))
        return -1;
    if (f->verified)
        put_leaks(&t);
    return 0;
}

int heap_show_json(struct heap *h, const struct heap_show *s, struct error *err)
{
    struct document_text d;
    if (document_begin(&d, err))
        return -1;
    return document_end(
        &d, heap_show_tables(&d.json, h, s, s->top_given ? s->top : UINT64_MAX, err), err);
}

int heap_show_steps_json(const struct heap *h, const struct heap_step *steps, size_t count,
                         enum heap_found found, uint64_t address, bool why, struct error *err)
{
    static const char *const names[] = {[HEAP_FOUND] = "used",
                                        [HEAP_FREE] = "free",
                                        [HEAP_OUTSIDE] = "outside",
                                        [HEAP_UNREACHABLE] = "unreachable"};
    struct json json = {.out = stdout, .one_line = true}, *j = &json;
    (void)err;
    json_open_object(j, NULL);
    heap_show_facts(j, h);
    json_address(j, "address", address);
    json_text(j, "found", names[found]);
    json_open_array(j, why ? "path" : "referrers");
    for (size_t i = 0; i < count; i++) {
        const struct table table = {.columns = steps[i].is_root ? heap_step_root_columns
                                                                : heap_step_columns};
        json_open_object(j, NULL);
        table_fields(j, &table, &steps[i]);
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
    json_end(j);
    return 0;
}
