/* list.c - Makes the rows of the live table: call sites of one or all processes, merged by name,
 * filtered and sorted. A bounded table keeps the earlier values of each row for its graph. */
#include "watch/live/list.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct list_part { /* one process's part */
    struct watch_report report;
    struct watch_rows rows;
};

/* ---- earlier moments ---- */

#define PASTS  4096u /* a power of two */
#define PROBED 8u

struct list_memory {
    uint64_t moment; /* from 1 */
    bool fresh;      /* the moment's figures are still to come */
    struct list_past past[PASTS];
};

struct list_memory *list_memory_new(void) { return calloc(1, sizeof(struct list_memory)); }
void list_memory_free(struct list_memory *m) { free(m); }

void list_memory_advance(struct list_memory *m)
{
    m->moment++;
    m->fresh = true;
}

double list_past_at(const struct list_past *past, uint32_t index)
{
    const uint64_t back = past->count - 1 - index;
    return past->bytes[(past->moment - back) % LIST_MOMENTS];
}

/* The entry of the key; the one of its neighbors that was seen least lately makes room. */
static struct list_past *past_of(struct list_memory *m, uint64_t key)
{
    struct list_past *oldest = NULL;
    for (unsigned i = 0; i < PROBED; i++) {
        struct list_past *p = &m->past[(key + i) & (PASTS - 1)];
        if (p->count && p->key == key)
            return p;
        if (!oldest || p->moment < oldest->moment)
            oldest = p;
    }
    *oldest = (struct list_past){.key = key};
    return oldest;
}

/* Moments at which it was not there were moments of nothing. */
static void remember_row(struct list_memory *m, struct list_row *row)
{
    struct list_past *p = past_of(m, row->key);
    row->past = p;
    if (!m->fresh || p->moment == m->moment)
        return;
    uint64_t missed = p->count ? m->moment - p->moment - 1 : 0;
    if (missed >= LIST_MOMENTS)
        missed = p->count = 0;
    for (; missed; missed--)
        p->bytes[(m->moment - missed) % LIST_MOMENTS] = 0;
    const uint64_t count = p->count ? p->count + (m->moment - p->moment) : 1;
    p->bytes[m->moment % LIST_MOMENTS] = (float)row->site.chosen.bytes;
    p->count = count < LIST_MOMENTS ? (uint32_t)count : LIST_MOMENTS;
    p->moment = m->moment;
}

/* ---- rows ---- */

static uint64_t hash_row_text(uint64_t h, const char *text)
{
    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (h ^ 0xff) * 0x100000001b3u;
}

/* The key of a call site: the same in each process. */
static uint64_t row_key(const struct names *names, const struct watch_row *row)
{
    uint64_t h = 0xcbf29ce484222325u;
    if (!row->count)
        return h;
    const struct name_frame *f = names_frame(names, row->frames[row->first]);
    h = hash_row_text(h, f->full);
    h = hash_row_text(h, f->file ? f->file : f->module);
    return (h ^ f->line) * 0x100000001b3u;
}

static bool contains(const char *text, const char *part) { return text && strcasestr(text, part); }

static bool passes(const struct list_row *row, const char *filter)
{
    bool passes = !*filter;
    for (size_t i = 0; i < row->count && !passes; i++) {
        const struct name_frame *f = names_frame(row->names, row->frames[i]);
        passes = contains(f->full, filter) || contains(f->function, filter) ||
                 contains(f->file, filter) || contains(f->module, filter);
    }
    return passes;
}

/* Rows of a call site come one process behind the other. */
static void merge_rows(struct list_row *to, const struct list_row *from)
{
    if (from->largest > to->largest) {
        to->largest = from->largest;
        to->names = from->names;
        to->frames = from->frames;
        to->count = from->count;
        to->first = from->first;
        to->site.stack = from->site.stack;
    }
    to->processes += from->process != to->process;
    to->process = from->process;
    to->stacks += from->stacks;
    to->passes |= from->passes;
    sites_merge(&to->site, &from->site);
}

static int compare_row_keys(const void *a, const void *b)
{
    const struct list_row *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key ? 1 : -1) : (int)x->process - (int)y->process;
}

static enum watch_order sort_order;

static int by_order(const void *a, const void *b)
{
    const double v = sites_weight(&((const struct list_row *)a)->site, sort_order),
                 w = sites_weight(&((const struct list_row *)b)->site, sort_order);
    return v != w ? (v > w ? -1 : 1) : compare_row_keys(a, b);
}

static int add_process_rows(struct watch_list *list, const struct list_question *q,
                            struct watch_process *p, struct error *err)
{
    struct list_part *part = &list->parts[list->processes++];
    const enum watch_reported_kind reported =
        q->kind == WATCH_OLD ? REPORTED_SCREEN_OLD : REPORTED_SCREEN_ALL;
    if (watch_run_report(q->run, p, q->kind, reported, &part->report, err) ||
        watch_view_rows(q->view, &part->report, &part->rows, err))
        return -1;
    const struct watch_report *r = &part->report;
    if (r->older_than_ns > list->older_than_ns)
        list->older_than_ns = r->older_than_ns;
    list->automatic = r->automatic;
    list->chosen_by_lifetimes |= r->automatic && r->choice.most_ns;
    list->known_blocks += part->rows.known_blocks + r->sites.known_blocks;
    list->growth_bytes += part->rows.growth_bytes;
    estimate_merge(&list->total, &part->rows.total);
    struct list_row *rows =
        realloc(list->rows, (list->all + part->rows.count + 1) * sizeof *list->rows);
    if (!rows)
        return error_memory(err);
    list->rows = rows;
    for (size_t i = 0; i < part->rows.count; i++) {
        const struct watch_row *w = &part->rows.items[i];
        struct list_row *row = &rows[list->all++];
        *row = (struct list_row){.site = w->site,
                                 .key = row_key(part->rows.names, w),
                                 .names = part->rows.names,
                                 .frames = w->frames,
                                 .count = w->count,
                                 .first = w->first,
                                 .largest = w->site.chosen.bytes,
                                 .process = list->processes,
                                 .processes = 1,
                                 .stacks = 1};
        row->passes = passes(row, q->filter);
    }
    return 0;
}

static void put_together(struct watch_list *list, const struct list_question *q)
{
    size_t kept = 0;
    qsort(list->rows, list->all, sizeof *list->rows, compare_row_keys);
    for (size_t i = 0; i < list->all; i++) {
        if (kept && list->rows[kept - 1].key == list->rows[i].key)
            merge_rows(&list->rows[kept - 1], &list->rows[i]);
        else
            list->rows[kept++] = list->rows[i];
    }
    list->all = kept;
    for (size_t i = 0; i < list->all; i++)
        remember_row(q->memory, &list->rows[i]);
    for (size_t i = 0; i < list->all; i++)
        if (list->rows[i].passes)
            list->rows[list->count++] = list->rows[i];
    sort_order = q->order;
    qsort(list->rows, list->count, sizeof *list->rows, by_order);
    q->memory->fresh = false;
}

int watch_list_make(struct watch_list *list, const struct list_question *q, struct error *err)
{
    const uint32_t n = watch_run_count(q->run);
    *list = (struct watch_list){0};
    list->parts = calloc((size_t)n + 1, sizeof *list->parts);
    list->rows = calloc(1, sizeof *list->rows);
    if (!list->parts || !list->rows)
        return error_memory(err);
    if (q->process && add_process_rows(list, q, q->process, err))
        return -1;
    for (uint32_t i = 0; !q->process && i < n; i++)
        if (watch_run_process(q->run, i)->life == WATCH_RUNNING &&
            add_process_rows(list, q, watch_run_process(q->run, i), err))
            return -1;
    put_together(list, q);
    return 0;
}

void watch_list_free(struct watch_list *list)
{
    for (unsigned i = 0; i < list->processes; i++) {
        watch_rows_free(&list->parts[i].rows);
        watch_report_free(&list->parts[i].report);
    }
    free(list->parts);
    free(list->rows);
    *list = (struct watch_list){0};
}
