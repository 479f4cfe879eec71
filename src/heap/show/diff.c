/* diff.c - see diff.h. Rows of two tables are the same when they read the same. */
#include "heap/show/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "show/document.h"
#include "heap/show/show.h"
#include "show/json_document.h"

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

/* What a change is ranked by: types by their own bytes, roots by what they retain. */
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

static void put_signed(uint64_t old, uint64_t new)
{
    char text[HUMAN_TEXT_BYTES], both[HUMAN_TEXT_BYTES + 2];
    snprintf(both, sizeof both, "%s%s",
             new > old   ? "+"
             : new < old ? "-"
                         : "",
             human_size(text, new > old ? new - old : old - new));
    text_printf(stdout, "%11s", both);
}

static void show_line(uint64_t old, uint64_t new, const char *what)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    put_signed(old, new);
    text_printf(stdout, "  %s (%s -> %s)\n", what, human_size(a, old), human_size(b, new));
}

static int show_changes(struct heap *old, struct heap *new, enum heap_by by, uint64_t top,
                        struct error *err)
{
    size_t count, shown = 0, i = 0;
    char blocks[HUMAN_TEXT_BYTES];
    struct change *c = make_changes(old, new, by, &count, err);
    if (!c)
        return -1;
    text_printf(stdout, "\n%11s %11s %13s  %s\n", "retained",
                by == HEAP_BY_TYPE ? "own" : "reached", "blocks",
                by == HEAP_BY_TYPE ? "type" : "root");
    for (; i < count && shown < top; i++) {
        if (!growth(&c[i]))
            break;
        put_signed(c[i].old.retained_bytes, c[i].new.retained_bytes);
        text_printf(stdout, " ");
        put_signed(c[i].old.bytes, c[i].new.bytes);
        bool more = c[i].new.blocks > c[i].old.blocks;
        human_count(blocks,
                    more ? c[i].new.blocks - c[i].old.blocks : c[i].old.blocks - c[i].new.blocks);
        text_printf(stdout, " %s%*s  %s%s%s%s%s%s\n",
                    more                                ? "+"
                    : c[i].new.blocks < c[i].old.blocks ? "-"
                                                        : " ",
                    12, blocks, c[i].row->kind, *c[i].row->kind ? " " : "", c[i].row->name,
                    *c[i].row->module ? " (" : "", c[i].row->module, *c[i].row->module ? ")" : "");
        shown++;
    }
    if (!shown)
        text_printf(stdout, "%11s\n", "no change");
    size_t rest = 0;
    while (i < count && growth(&c[i]))
        rest += i++ < count;
    if (rest)
        text_printf(stdout, "  ... and %s more (-n)\n", human_count(blocks, rest));
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

static void put(json_object *to, const char *name, uint64_t n)
{
    json_object_object_add(to, name, json_object_new_uint64(n));
}

static int put_changes(json_object *to, const char *name, struct heap *old, struct heap *new,
                       enum heap_by by, uint64_t top, struct error *err)
{
    size_t count;
    struct change *c = make_changes(old, new, by, &count, err);
    if (!c)
        return -1;
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < count && i < top; i++) {
        json_object *o = json_object_new_object();
        bool root = by == HEAP_BY_ROOT;
        json_object_object_add(o, root ? "root" : "type", json_object_new_string(c[i].row->name));
        if (root) {
            json_object_object_add(o, "module", json_object_new_string(c[i].row->module));
            json_object_object_add(o, "kind", json_object_new_string(c[i].row->kind));
        }
        put(o, root ? "old_retained_blocks" : "old_blocks", c[i].old.blocks);
        put(o, root ? "new_retained_blocks" : "new_blocks", c[i].new.blocks);
        put(o, root ? "old_reached_bytes" : "old_bytes", c[i].old.bytes);
        put(o, root ? "new_reached_bytes" : "new_bytes", c[i].new.bytes);
        put(o, "old_retained_bytes", c[i].old.retained_bytes);
        put(o, "new_retained_bytes", c[i].new.retained_bytes);
        json_object_array_add(list, o);
    }
    json_object_object_add(to, name, list);
    free(c);
    return 0;
}

/* NULL with *err set when out of memory. */
static json_object *difference(struct heap *old, struct heap *new, uint64_t top, struct error *err)
{
    json_object *o = document_new();
    json_object_object_add(o, "old", heap_show_facts(heap_facts(old)));
    json_object_object_add(o, "new", heap_show_facts(heap_facts(new)));
    if (!put_changes(o, "types", old, new, HEAP_BY_TYPE, top, err) &&
        !put_changes(o, "roots", old, new, HEAP_BY_ROOT, top, err))
        return o;
    json_object_put(o);
    return NULL;
}

int heap_diff_json(struct heap *old, struct heap *new, uint64_t top, struct error *err)
{
    json_object *o = difference(old, new, top, err);
    if (!o)
        return -1;
    document_print(o);
    json_object_put(o);
    return 0;
}

int heap_diff_page(struct heap *old, struct heap *new, char *const names[2], uint64_t top,
                   const char *path, struct error *err)
{
    enum { ROWS_MAX = 1000 };
    json_object *o = difference(old, new, top < ROWS_MAX ? top : ROWS_MAX, err);
    if (!o)
        return -1;
    json_object_object_add(o, "old_name", json_object_new_string(names[0]));
    json_object_object_add(o, "new_name", json_object_new_string(names[1]));
    int status = document_page(path, "heap", "heap-difference", o, err);
    json_object_put(o);
    return status;
}
