/* view.c - Prints reports of a watch as text or JSON, and appends stacks to the known list. It
 * keeps the names of each process as long as the process is watched. */
#include "watch/view/view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch/view/impl.h"

struct watch_view *watch_view_new(const struct watch_view_options *o, struct error *err)
{
    struct watch_view *v = calloc(1, sizeof *v);
    if (!v) {
        error_memory(err);
        return NULL;
    }
    v->o = *o;
    if (o->known && !access(o->known, F_OK) && suppressions_read(&v->suppressions, o->known, err)) {
        free(v);
        return NULL;
    }
    return v;
}

void watch_view_free(struct watch_view *v)
{
    if (!v)
        return;
    watch_named_forget(v, NULL);
    free(v->named);
    suppressions_release(&v->suppressions);
    free(v);
}

void watch_view_retarget(struct watch_view *v, FILE *out, unsigned columns)
{
    v->o.out = out;
    v->o.columns = columns;
}

void watch_view_order(struct watch_view *v, struct watch_run *run, enum watch_order order)
{
    v->o.order = order;
    watch_run_order(run, order);
}

/* Appends the stacks of the rows to the known list. */
static int write_known(struct watch_view *v, const struct watch_rows *rows,
                       const struct watch_process *p, struct error *err)
{
    int status = 0;
    for (size_t i = 0; i < rows->count && !status; i++) {
        const struct watch_row *row = &rows->items[i];
        struct buffer stack = {0}, comment = {0};
        known_write_stack(rows->names, row->frames, row->count, &stack);
        buffer_printf(&comment, "%s, about %s in %s blocks when it was marked",
                      watch_process_name(p), SIZE(estimate_whole(row->site.chosen.bytes)),
                      COUNT(estimate_whole(row->site.chosen.blocks)));
        if (row->site.chosen.samples && row->count)
            status =
                suppressions_append(v->o.known, buffer_text(&comment), buffer_text(&stack), err);
        buffer_release(&stack);
        buffer_release(&comment);
    }
    return status;
}

int watch_view_report(struct watch_view *v, const struct watch_report *r, bool marking,
                      struct error *err)
{
    struct watch_rows rows = {0};
    int status = 0;
    if (watch_view_rows(v, r, &rows, err))
        return -1;
    if (marking && v->o.known)
        status = write_known(v, &rows, r->process, err);
    if (!status && v->o.json)
        status = watch_json_report(v, r, &rows, err);
    else if (!status)
        status = watch_rows_by_site(&rows, v->o.order)
                     ? watch_text_report(v, r, &rows, marking, err)
                     : error_memory(err);
    watch_rows_free(&rows);
    if (r->kind == WATCH_FINAL)
        watch_named_forget(v, r->process);
    return status;
}

void watch_view_forget(struct watch_view *v, const struct watch_process *p)
{
    watch_named_forget(v, p);
}

int watch_view_json(struct watch_view *v, FILE *out, const struct watch_report *r,
                    struct error *err)
{
    struct watch_rows rows = {0};
    FILE *before = v->o.out;
    if (watch_view_rows(v, r, &rows, err))
        return -1;
    v->o.out = out;
    int status = watch_json_report(v, r, &rows, err);
    v->o.out = before;
    watch_rows_free(&rows);
    return status;
}

int watch_view_caught(struct watch_view *v, const struct watch_caught *c, struct error *err)
{
    return v->o.json ? watch_json_caught(v, c, err) : watch_text_caught(v, c, err);
}
