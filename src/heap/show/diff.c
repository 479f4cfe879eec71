/* diff.c - see diff.h. Rows of two tables are the same when they read the same. */
#include "heap/show/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "heap/show/columns.h"
#include "heap/show/show.h"
#include "show/document_text.h"

struct change {
    const struct heap_row *row; /* its names */
    struct {
        uint64_t blocks, bytes, retained_bytes;
    } old, new;
};

static int by_names(const struct heap_row *x, const struct heap_row *y)
{
    int order = strcmp(x->name, y->name);
    if (!order)
        order = strcmp(x->module, y->module);
    return order ? order : strcmp(x->kind, y->kind);
}

static int by_row(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return by_names(x->row, y->row);
}

/* The rank of a change: types by their own bytes, roots by what they retain. */
static int64_t growth(const struct change *c)
{
    return *c->row->kind ? (int64_t)(c->new.retained_bytes - c->old.retained_bytes)
                         : (int64_t)(c->new.bytes - c->old.bytes);
}

static int by_growth(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    int64_t of_x = growth(x), of_y = growth(y);
    uint64_t much_x = (uint64_t)llabs(of_x), much_y = (uint64_t)llabs(of_y);
    if (much_x != much_y)
        return much_x > much_y ? -1 : 1;
    return by_names(x->row, y->row);
}

/* All rows of both, each name once, what changed most first; the caller frees. NULL with *err. */
static struct change *make_changes(struct heap *old, struct heap *new, enum heap_by by,
                                   size_t *count, struct error *err)
{
    size_t olds, news, kept = 0;
    const struct heap_row *before = heap_table(old, by, &olds, err);
    const struct heap_row *after = before ? heap_table(new, by, &news, err) : NULL;
    struct change *c = before && after ? calloc(olds + news + 1, sizeof *c) : NULL;
    if (!c) {
        error_memory(err);
        return NULL;
    }
    for (size_t i = 0; i < olds; i++) {
        c[i].row = &before[i];
        c[i].old.blocks = by == HEAP_BY_ROOT ? before[i].retained_blocks : before[i].blocks;
        c[i].old.bytes = before[i].bytes;
        c[i].old.retained_bytes = before[i].retained_bytes;
    }
    for (size_t i = 0; i < news; i++) {
        struct change *to = &c[olds + i];
        to->row = &after[i];
        to->new.blocks = by == HEAP_BY_ROOT ? after[i].retained_blocks : after[i].blocks;
        to->new.bytes = after[i].bytes;
        to->new.retained_bytes = after[i].retained_bytes;
    }
    qsort(c, olds + news, sizeof *c, by_row);
    for (size_t i = 0; i < olds + news; i++) {
        if (!kept || by_names(c[kept - 1].row, c[i].row) != 0) {
            c[kept++] = c[i];
            continue;
        }
        struct change *to = &c[kept - 1];
        to->old.blocks += c[i].old.blocks;
        to->old.bytes += c[i].old.bytes;
        to->old.retained_bytes += c[i].old.retained_bytes;
        to->new.blocks += c[i].new.blocks;
        to->new.bytes += c[i].new.bytes;
        to->new.retained_bytes += c[i].new.retained_bytes;
    }
    qsort(c, kept, sizeof *c, by_growth);
    *count = kept;
    return c;
}

/* "+1.5 KB" of a growth, "-" before what shrank. write: human_size or human_count. */
static const char *signed_text(char out[HUMAN_TEXT_BYTES + 1], uint64_t old, uint64_t new,
                               const char *(*write)(char *, uint64_t))
{
    out[0] = new > old ? '+' : '-';
    write(out + 1, new > old ? new - old : old - new);
    return new == old ? out + 1 : out;
}
#define CHANGED(old, new, write) signed_text((char[HUMAN_TEXT_BYTES + 1]){0}, old, new, write)

static void show_line(uint64_t old, uint64_t new, const char *what)
{
    text_printf(stdout, "%11s  %s (%s -> %s)\n", CHANGED(old, new, human_size), what, SIZE(old),
                SIZE(new));
}

static int show_changes(struct heap *old, struct heap *new, enum heap_by by, uint64_t top,
                        struct error *err)
{
    const bool types = by == HEAP_BY_TYPE;
    size_t count, changed = 0;
    struct change *c = make_changes(old, new, by, &count, err);
    if (!c)
        return -1;
    while (changed < count && growth(&c[changed]))
        changed++;
    text_printf(stdout, "\n%11s %11s %13s  %s\n", "retained", types ? "own" : "reached", "blocks",
                types ? "type" : "root");
    for (size_t i = 0; i < changed && i < top; i++) {
        /* The sign of blocks stands in front of the column. */
        const uint64_t was = c[i].old.blocks, is = c[i].new.blocks;
        text_printf(stdout, "%11s %11s %c%12s  " HEAP_NAME "\n",
                    CHANGED(c[i].old.retained_bytes, c[i].new.retained_bytes, human_size),
                    CHANGED(c[i].old.bytes, c[i].new.bytes, human_size),
                    is > was   ? '+'
                    : is < was ? '-'
                               : ' ',
                    COUNT(is > was ? is - was : was - is), HEAP_NAME_OF(c[i].row));
    }
    if (!changed)
        text_printf(stdout, "%11s\n", "no change");
    if (changed > top)
        text_printf(stdout, "  ... and %s more (-n)\n", COUNT(changed - top));
    free(c);
    return 0;
}

int heap_diff_text(struct heap *old, struct heap *new, uint64_t top, struct error *err)
{
    const struct heap_facts *a = heap_facts(old), *b = heap_facts(new);
    if (!a->verified)
        text_printf(stdout, "NOT VERIFIED: of the old heap, %s\n", a->reason);
    if (!b->verified)
        text_printf(stdout, "NOT VERIFIED: of the new heap, %s\n", b->reason);
    show_line(a->used_bytes, b->used_bytes, "in blocks of the program");
    show_line(a->free_bytes, b->free_bytes, "free in the arenas");
    show_line(a->trimmable_bytes, b->trimmable_bytes, "of these, malloc_trim(0) would return");
    if (a->verified && b->verified)
        show_line(a->unreachable_bytes, b->unreachable_bytes, "unreachable");
    return show_changes(old, new, HEAP_BY_ROOT, top, err) ||
                   show_changes(old, new, HEAP_BY_TYPE, top, err)
               ? -1
               : 0;
}

/* clang-format off */
#define CHANGE(of, member, key) COLUMN(struct change, member, of, key, NULL, 0)
const struct column heap_change_columns[] = {
    COLUMN_KEY(TEXT, "type", 0),
    CHANGE(COUNT, old.blocks, "old_blocks"),
    CHANGE(COUNT, new.blocks, "new_blocks"),
    CHANGE(BYTES, old.bytes, "old_bytes"),
    CHANGE(BYTES, new.bytes, "new_bytes"),
    CHANGE(BYTES, old.retained_bytes, "old_retained_bytes"),
    CHANGE(BYTES, new.retained_bytes, "new_retained_bytes"),
    COLUMN_END};
const struct column heap_root_change_columns[] = {
    COLUMN_KEY(TEXT, "root", 0),
    COLUMN_KEY(TEXT, "module", 0),
    COLUMN_KEY(TEXT, "kind", 0),
    CHANGE(COUNT, old.blocks, "old_retained_blocks"),
    CHANGE(COUNT, new.blocks, "new_retained_blocks"),
    CHANGE(BYTES, old.bytes, "old_reached_bytes"),
    CHANGE(BYTES, new.bytes, "new_reached_bytes"),
    CHANGE(BYTES, old.retained_bytes, "old_retained_bytes"),
    CHANGE(BYTES, new.retained_bytes, "new_retained_bytes"),
    COLUMN_END};
/* clang-format on */

static int put_changes(struct json *j, const char *key, struct heap *old, struct heap *new,
                       enum heap_by by, uint64_t top, struct error *err)
{
    const bool root = by == HEAP_BY_ROOT;
    const struct table table = {.columns = root ? heap_root_change_columns : heap_change_columns};
    size_t count;
    struct change *c = make_changes(old, new, by, &count, err);
    if (!c)
        return -1;
    json_open_array(j, key);
    for (size_t i = 0; i < count && i < top; i++) {
        json_open_object(j, NULL);
        json_text(j, root ? "root" : "type", c[i].row->name);
        if (root) {
            json_text(j, "module", c[i].row->module);
            json_text(j, "kind", c[i].row->kind);
        }
        table_fields(j, &table, &c[i]);
        json_close_object(j);
    }
    json_close_array(j);
    free(c);
    return 0;
}

static int put_difference(struct json *j, struct heap *old, struct heap *new, uint64_t top,
                          struct error *err)
{
    json_schema(j);
    json_open_object(j, "old");
    heap_show_facts(j, old);
    json_close_object(j);
    json_open_object(j, "new");
    heap_show_facts(j, new);
    json_close_object(j);
    return put_changes(j, "types", old, new, HEAP_BY_TYPE, top, err) ||
                   put_changes(j, "roots", old, new, HEAP_BY_ROOT, top, err)
               ? -1
               : 0;
}

int heap_diff_json(struct heap *old, struct heap *new, uint64_t top, struct error *err)
{
    struct document_text d;
    if (document_begin(&d, err))
        return -1;
    return document_end(&d, put_difference(&d.json, old, new, top, err), err);
}

int heap_diff_page(struct heap *old, struct heap *new, char *const names[2], uint64_t top,
                   const char *path, struct error *err)
{
    enum { ROWS_MAX = 1000 };
    struct document_text d;
    if (document_begin(&d, err))
        return -1;
    const int status = put_difference(&d.json, old, new, top < ROWS_MAX ? top : ROWS_MAX, err);
    json_text(&d.json, "old_name", names[0]);
    json_text(&d.json, "new_name", names[1]);
    return document_end_page(&d, status, path, "heap", "heap-difference", err);
}
