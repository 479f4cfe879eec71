/* rows.c - from stacks of addresses to sites with names. See view.h. */
#include "watch/view/impl.h"

#include <stdlib.h>
#include <string.h>

struct watch_named *watch_named_of(struct watch_view *v, const struct watch_process *p,
                                   struct error *err)
{
    for (size_t i = 0; i < v->named_count; i++)
        if (v->named[i]->process == p)
            return v->named[i];
    struct watch_named **more =
        realloc(v->named, (v->named_count + 1) * sizeof(struct watch_named *));
    struct watch_named *n = calloc(1, sizeof *n);
    if (more)
        v->named = more;
    if (!more || !n) {
        free(n);
        error_memory(err);
        return NULL;
    }
    n->process = p;
    n->names = names_new(v->o.symbols, &p->stacks.image, err);
    if (!n->names) {
        free(n);
        return NULL;
    }
    names_set_look(n->names, &v->o.look);
    n->known = (struct known){.suppressions = &v->suppressions, .names = n->names};
    return v->named[v->named_count++] = n;
}

void watch_named_forget(struct watch_view *v, const struct watch_process *p)
{
    for (size_t i = 0; i < v->named_count; i++) {
        struct watch_named *n = v->named[i];
        if (p && n->process != p)
            continue;
        known_release(&n->known);
        names_free(n->names);
        free(n);
        v->named[i--] = v->named[--v->named_count];
    }
}

static uint64_t hash_frames(const uint32_t *frames, size_t count)
{
    uint64_t h = count;
    for (size_t i = 0; i < count; i++)
        h = (h ^ frames[i]) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* Rows are in the order of the largest of their stacks; after merging another may be first. */
static enum watch_order sort_order;

static int compare(const void *a, const void *b)
{
    double v = sites_weight(&((const struct watch_row *)a)->site, sort_order),
           w = sites_weight(&((const struct watch_row *)b)->site, sort_order);
    if (v != w)
        return v > w ? -1 : 1;
    uint32_t x = ((const struct watch_row *)a)->site.stack,
             y = ((const struct watch_row *)b)->site.stack;
    return x < y ? -1 : x > y;
}

/* True if a site is shown: it has blocks of those asked for, or figures of its whole life are. */
static bool shown(const struct watch_view *v, const struct watch_site *s)
{
    return s->chosen.samples ||
           (v->o.order > WATCH_BY_AGE && sites_weight(s, v->o.order) > 0 && s->sums.samples);
}

struct build {
    size_t *offset; /* the offset of a row's frames, in words */
    size_t *table;  /* hash of rows: index + 1 */
    size_t room;
    struct buffer frames;
};

static void add_row(struct watch_rows *rows, struct build *b, const struct watch_site *s,
                    size_t offset, size_t count)
{
    const uint32_t *all = (const uint32_t *)(const void *)b->frames.data;
    size_t k = hash_frames(all + offset, count) & (b->room - 1);
    for (; b->table[k]; k = (k + 1) & (b->room - 1)) {
        size_t i = b->table[k] - 1;
        if (rows->items[i].count == count &&
            (!count || !memcmp(all + b->offset[i], all + offset, count * sizeof *all))) {
            sites_merge(&rows->items[i].site, s);
            b->frames.size_bytes = offset * sizeof *all; /* the same frames are there already */
            return;
        }
    }
    b->offset[rows->count] = offset;
    rows->items[rows->count] = (struct watch_row){.site = *s, .count = count};
    b->table[k] = ++rows->count;
}

int watch_view_rows(struct watch_view *v, const struct watch_report *r, struct watch_rows *rows,
                    struct error *err)
{
    *rows = (struct watch_rows){0};
    struct watch_named *n = watch_named_of(v, r->process, err);
    if (!n)
        return -1;
    names_renew(n->names);
    struct build b = {.room = 64};
    while (b.room < 2 * (size_t)r->sites.count + 2)
        b.room *= 2;
    rows->names = n->names;
    rows->items = calloc((size_t)r->sites.count + 1, sizeof *rows->items);
    b.offset = calloc((size_t)r->sites.count + 1, sizeof *b.offset);
    b.table = calloc(b.room, sizeof *b.table);
    bool failed = !rows->items || !b.offset || !b.table;
    for (uint32_t i = 0; i < r->sites.count && !failed; i++) {
        const struct watch_site *s = &r->sites.items[i];
        if (!shown(v, s))
            continue;
        size_t offset = b.frames.size_bytes / sizeof(uint32_t);
        size_t count = names_append(n->names, s->stack, &b.frames);
        failed = buffer_failed(&b.frames) || names_failed(n->names);
        if (failed)
            break;
        const uint32_t *frames = (const uint32_t *)(const void *)b.frames.data;
        struct suppression *hides =
            r->kind == WATCH_OLD ? known_frames(&n->known, frames + offset, count) : NULL;
        if (hides) {
            hides->blocks += s->chosen.samples;
            rows->known_blocks += s->chosen.samples;
            estimate_merge(&rows->known, &s->chosen);
            b.frames.size_bytes = offset * sizeof(uint32_t);
            continue;
        }
        estimate_merge(&rows->total, &s->chosen);
        rows->growth_bytes += s->growth_bytes;
        add_row(rows, &b, s, offset, count);
    }
    rows->frames = (uint32_t *)(void *)b.frames.data;
    for (size_t i = 0; i < rows->count && !failed; i++) {
        struct watch_row *row = &rows->items[i];
        row->frames = rows->frames + b.offset[i];
        row->first = names_first(n->names, row->frames, row->count);
    }
    sort_order = v->o.order;
    if (!failed)
        qsort(rows->items, rows->count, sizeof *rows->items, compare);
    free(b.offset);
    free(b.table);
    if (!failed)
        return 0;
    watch_rows_free(rows);
    return error_memory(err);
}

bool watch_rows_by_site(struct watch_rows *rows, enum watch_order order)
{
    uint32_t *row_of = calloc((size_t)names_count(rows->names) + 1, sizeof *row_of); /* and 1 */
    size_t kept = 0;
    if (!row_of)
        return false;
    for (size_t i = 0; i < rows->count; i++) {
        const struct watch_row *row = &rows->items[i];
        uint32_t *seen = row->count ? &row_of[row->frames[row->first]] : NULL;
        if (seen && *seen) {
            struct watch_row *sum = &rows->items[*seen - 1];
            estimate_merge(&sum->others, &row->site.chosen);
            sites_merge(&sum->site, &row->site);
            sum->stacks++;
            continue;
        }
        rows->items[kept++] = *row;
        if (seen)
            *seen = (uint32_t)kept;
    }
    rows->count = kept;
    free(row_of);
    sort_order = order;
    qsort(rows->items, rows->count, sizeof *rows->items, compare);
    return true;
}

void watch_rows_free(struct watch_rows *rows)
{
    free(rows->items);
    free(rows->frames);
    *rows = (struct watch_rows){0};
}
