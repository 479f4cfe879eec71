/* json.c - the reports of `mallow watch` as JSON lines. See view.h. */
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "watch/view/columns.h"
#include "watch/view/impl.h"

static void write_frames(struct json *j, const char *key, const struct names *names,
                         const uint32_t *frames, size_t count)
{
    struct buffer b = {0};
    json_open_array(j, key);
    count = names_shown(names, frames, count);
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&b);
        names_frame_json(names_frame(names, frames[i]), &b);
        json_raw(j, NULL, buffer_text(&b), b.size_bytes);
    }
    json_close_array(j);
    buffer_release(&b);
}

static void write_stack(struct json *j, const char *key, struct names *names, uint32_t node)
{
    struct buffer frames = {0};
    size_t n = names_append(names, node, &frames);
    write_frames(j, key, names, (const uint32_t *)(const void *)frames.data, n);
    buffer_release(&frames);
}

static uint64_t since_start(const struct watch_process *p, uint64_t ns)
{
    return ns > p->start_ns ? ns - p->start_ns : 0;
}

/* Writes the beginning of every object. ns: CLOCK_MONOTONIC. */
static void begin(struct json *j, const struct watch_process *p, const char *kind, uint64_t ns)
{
    char host[HOST_NAME_MAX + 1] = "";
    json_begin(j);
    json_text(j, "kind", kind);
    json_number(j, "time_ns", since_start(p, ns));
    json_number(j, "realtime_ns", p->segment.head.start_realtime_ns + since_start(p, ns));
    json_number(j, "pid", (uint64_t)p->pid);
    if (p->elsewhere)
        json_bool(j, "other_pid_namespace", true);
    json_number(j, p->is_claim && !p->outside ? "claimed_ppid" : "ppid", (uint64_t)p->ppid);
    json_text(j, "host", gethostname(host, sizeof host) ? "" : host);
    json_text(j, "exe", p->stacks.image.exe);
    json_texts(j, "command", p->stacks.image.command, SIZE_MAX);
    struct buffer title = {0};
    const bool changed = p->title && !cmdline_is_same(p->title, p->stacks.image.command);
    cmdline_append(&title, p->stacks.image.exe, p->title, false);
    json_text(j, "name", watch_process_name(p));
    json_text(j, "title", changed ? buffer_text(&title) : NULL);
    json_text(j, "comm", *p->comm ? p->comm : NULL);
    buffer_release(&title);
    json_number(j, "period_bytes", watch_period(p, false));
    json_number(j, "period_now_bytes", watch_period(p, true));
    json_number(j, "dropped", watch_dropped(p));
    json_number(j, "dropped_bytes", p->counters.dropped_weight);
    json_number(j, "stacks_without_room", p->counters.crowded);
    if (p->outside) { /* the library's own word is not asked */
        json_null(j, "unguarded");
        return;
    }
    json_open_array(j, "unguarded");
    for (unsigned i = 0; i < SEGMENT_UNGUARDED; i++)
        if (p->segment.head.unguarded >> i & 1)
            json_text(j, NULL, segment_unguarded[i].name);
    json_close_array(j);
}

static int end(struct watch_view *v, struct json *j, struct error *err)
{
    json_close_object(j);
    json_end(j);
    if (fflush(v->o.out))
        return error_system(err, "cannot write the report");
    return 0;
}

static void write_totals(struct json *j, const struct watch_rows *rows)
{
    const struct watch_figures f = watch_figures(
        &(struct watch_site){.chosen = rows->total, .growth_bytes = rows->growth_bytes});
    table_fields(j, TABLE(watch_figure_columns), &f);
}

static void write_row(struct json *j, const struct watch_rows *rows, const struct watch_row *row)
{
    const struct table t = {.columns = watch_figure_columns, .with = WATCH_EVERY};
    const struct watch_figures f = watch_figures(&row->site);
    json_open_object(j, NULL);
    write_frames(j, "frames", rows->names, row->frames, row->count);
    json_number(j, "call_site", row->first);
    table_fields(j, &t, &f);
    json_close_object(j);
}

static void write_age(struct json *j, const struct watch_report *r)
{
    json_number(j, "older_than_ns", r->older_than_ns);
    json_text(j, "older_than_from",
              !r->automatic       ? "given"
              : r->choice.most_ns ? "lifetimes"
                                  : "default");
    json_number(j, "freed_lifetimes_seen", r->choice.lifetimes);
    if (r->choice.most_ns)
        json_number(j, "lifetime_p99_ns", r->choice.most_ns);
}

static void write_end(struct json *j, const struct watch_process *p)
{
    json_text(j, "process", watch_life_name(p));
    if (p->wait_status >= 0 && WIFSIGNALED(p->wait_status))
        json_number(j, "signal", (uint64_t)WTERMSIG(p->wait_status));
    else if (p->wait_status >= 0)
        json_number(j, "exit_status", (uint64_t)WEXITSTATUS(p->wait_status));
    if (p->out_of_memory)
        json_bool(j, "out_of_memory", true);
    if (p->wait_status < 0 &&
        p->life == WATCH_ENDED) /* how exactly is known of PROGRAM itself only */
        json_bool(j, "killed", !process_said_goodbye(p));
}

static void write_freed(struct json *j, struct names *names, const struct watch_process *p,
                        const struct watch_freed *f)
{
    const struct mlw_watch_free *c = &f->call;
    json_open_object(j, NULL);
    json_text(j, "call", c->kind == MLW_WATCH_REALLOC ? "realloc" : "free");
    json_address(j, "address", c->address);
    json_number(j, "size_bytes", c->size);
    if (c->kind == MLW_WATCH_REALLOC)
        json_number(j, "new_size_bytes", c->new_size);
    json_number(j, "time_ns", since_start(p, c->freed_ns));
    json_number(j, "age_ns", c->freed_ns > c->allocated_ns ? c->freed_ns - c->allocated_ns : 0);
    json_number(j, "allocated_tid", c->allocated_tid);
    json_number(j, "freed_tid", c->freed_tid);
    write_stack(j, "release", names, f->release);
    write_stack(j, "allocation", names, f->allocation);
    json_close_object(j);
}

int watch_json_report(struct watch_view *v, const struct watch_report *r,
                      const struct watch_rows *rows, struct error *err)
{
    struct json json = {.out = v->o.out, .one_line = true}, *j = &json;
    const struct watch_process *p = r->process;
    begin(j, p, watch_kind_name(r->kind), p->time_ns);
    if (r->kind == WATCH_OLD)
        write_age(j, r);
    if (r->kind == WATCH_FINAL) {
        write_end(j, p);
        table_fields(j, TABLE(watch_counter_columns), &p->counters);
        json_number(j, "high_water_bytes", estimate_whole(p->high_water_bytes));
    }
    write_totals(j, rows);
    if (r->kind == WATCH_OLD) {
        json_number(j, "marked_blocks", r->sites.known_blocks);
        json_number(j, "known_blocks", rows->known_blocks);
        json_number(j, "known_bytes", estimate_whole(rows->known.bytes));
    }
    json_number(j, "sites_total", rows->count);
    json_open_array(j, "sites");
    for (size_t i = 0; i < rows->count && (!v->o.top || i < v->o.top); i++)
        write_row(j, rows, &rows->items[i]);
    json_close_array(j);
    if (r->kind == WATCH_FREES) {
        struct watch_named *n = watch_named_of(v, p, err);
        if (!n)
            return -1;
        json_open_array(j, "frees");
        for (uint32_t i = 0; i < r->freed_count; i++)
            write_freed(j, n->names, p, &r->freed[i]);
        json_close_array(j);
    }
    return end(v, j, err);
}

int watch_json_caught(struct watch_view *v, const struct watch_caught *c, struct error *err)
{
    struct json json = {.out = v->o.out, .one_line = true}, *j = &json;
    const struct mlw_watch_error *e = &c->error;
    struct watch_named *n = watch_named_of(v, c->process, err);
    if (!n)
        return -1;
    begin(j, c->process, "error", e->time_ns);
    json_text(j, "error", watch_error_name(e->kind));
    const bool later = e->flags & (MLW_WATCH_ERROR_AT_FREE | MLW_WATCH_ERROR_AT_END);
    json_text(j, "found",
              e->flags & MLW_WATCH_ERROR_AT_FREE  ? "free"
              : e->flags & MLW_WATCH_ERROR_AT_END ? "end"
                                                  : "access");
    if (e->kind <= MLW_WATCH_USE_AFTER_FREE && !later)
        json_text(j, "access_kind", e->flags & MLW_WATCH_ERROR_WRITE ? "write" : "read");
    json_address(j, "access_address", e->access_address);
    json_number(j, "tid", e->tid);
    if (e->flags & MLW_WATCH_ERROR_BLOCK) {
        json_address(j, "address", e->address);
        json_number(j, "size_bytes", e->size);
        json_signed(j, "offset_bytes", e->offset);
        json_number(j, "allocated_tid", e->allocated_tid);
        json_number(j, "age_ns", e->time_ns > e->allocated_ns ? e->time_ns - e->allocated_ns : 0);
    } else {
        json_address(j, "address", e->access_address);
        json_null(j, "size_bytes");
        json_null(j, "offset_bytes");
    }
    if (e->flags & MLW_WATCH_ERROR_FREED) {
        json_number(j, "freed_tid", e->freed_tid);
        json_number(j, "freed_ago_ns", e->time_ns > e->freed_ns ? e->time_ns - e->freed_ns : 0);
    }
    write_stack(j, "access", n->names, c->access);
    write_stack(j, "allocation", n->names, c->allocation);
    write_stack(j, "release", n->names, c->release);
    json_open_array(j, "sites");
    json_close_array(j);
    return end(v, j, err);
}
