/* watched.c - a report of a sampled process becomes rows of a store, wherever it comes from. */
#include "fleet/watched.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/path.h"
#include "fleet/frame.h"
#include "fleet/hash.h"

char *fleet_command(const char *const *command)
{
    struct buffer text = {0};
    buffer_append_char(&text, '[');
    for (const char *const *arg = command; arg && *arg; arg++) {
        buffer_append_text(&text, arg == command ? "" : ",");
        json_quote(&text, *arg);
    }
    buffer_append_char(&text, ']');
    char *written = buffer_failed(&text) ? NULL : watched_command(buffer_text(&text));
    buffer_release(&text);
    return written;
}

static uint64_t hash_string(uint64_t h, const char *text)
{
    return hash_bytes(h, text, strlen(text));
}

/* ---- call sites ---- */

/* The frame with what follows from its texts: a recording's frames of the same texts have it. */
static struct name_frame as_stored(const struct name_frame *given)
{
    struct name_frame f = {.function = given->function,
                           .file = given->file ? given->file : "",
                           .module = given->module && *given->module ? given->module : NULL,
                           .line = given->line,
                           .inlined = given->inlined,
                           .known = given->known && !given->cut,
                           .cut = given->cut};
    f.role = f.cut ? ROLE_LIBRARY
                   : role_of(f.known ? f.function : NULL, f.module, *f.file ? f.file : NULL);
    f.wrapper = !f.cut && f.role != ROLE_CODE;
    return f;
}

/* As the watch says, if it does. */
static int64_t find_watched_call_site(const struct fleet_report_site *s)
{
    struct names_search search = {.begun = false};
    uint64_t found;
    if (s->call_site < s->count)
        return (int64_t)s->call_site;
    for (size_t i = 0; i < s->count; i++) {
        const struct name_frame f = as_stored(&s->frames[i]);
        if (names_search(&search, &f, i, &found))
            return (int64_t)found;
    }
    return (int64_t)names_search_end(&search);
}

/* Frames come innermost first; sites begin outermost. store NULL: only *site is wanted. */
static int put_watched_frames(struct fleet_store *store, const struct fleet_report_site *of,
                              const char *own, const struct names_look *look, uint64_t *site,
                              struct error *err)
{
    const int64_t call_site = find_watched_call_site(of);
    struct buffer json = {0};
    uint64_t path = 0, called = 0;
    int status = 0;
    *site = 0;
    for (size_t i = of->count; i-- > 0 && !status;) {
        const struct name_frame f = as_stored(&of->frames[i]);
        if (f.role == ROLE_START && !look->start_frames)
            continue;
        buffer_clear(&json);
        names_frame_json(&f, &json);
        const uint64_t frame = hash_end(hash_bytes(3, json.data, json.size_bytes));
        path = frame_path(path, &f, f.module && !strcmp(f.module, own));
        const struct store_site s = {.id = hash_end(hash_mix(hash_mix(4, *site), frame)),
                                     .parent = *site,
                                     .frame = frame,
                                     .path = path,
                                     .call_site = i ? -1 : call_site};
        status = buffer_failed(&json) ? error_memory(err) : 0;
        if (!called || (int64_t)i >= call_site)
            called = frame;
        *site = s.id;
        if (!status && store)
            status = store->engine->put(store, STORE_FRAME,
                                        &(struct store_frame){frame, buffer_text(&json)}, err);
        if (!status && store)
            status = store->engine->put(store, STORE_SITE, &s, err);
        if (!status && store && !i)
            status =
                store->engine->put(store, STORE_CALLED, &(struct store_called){s.id, called}, err);
    }
    buffer_release(&json);
    return status;
}

/* ---- the report ---- */

static uint64_t hash_estimate(uint64_t h, const struct fleet_estimate *e)
{
    h = hash_mix(hash_mix(hash_mix(h, e->bytes), e->low), e->high);
    return hash_mix(hash_mix(hash_mix(h, e->blocks), e->samples), e->sampled_bytes);
}

static uint64_t hash_labels(uint64_t h, const struct fleet_load_options *o)
{
    for (size_t i = 0; i < o->label_count; i++) {
        h = hash_bytes(h, o->labels[i].key, o->labels[i].key_bytes);
        h = hash_string(h, o->labels[i].value);
    }
    return h;
}

int watched_identify(const struct fleet_report *r, const struct fleet_load_options *o,
                     struct store_watched *head, struct error *err)
{
    *head = (struct store_watched){.host = o->host ? o->host : r->host,
                                   .service = o->service ? o->service : path_base_name(r->exe),
                                   .exe = r->exe,
                                   .command = r->command,
                                   .kind = r->kind,
                                   .process_end = r->process_end,
                                   .pid = r->pid,
                                   .start_ns = r->start_ns,
                                   .time_ns = r->time_ns,
                                   .period = r->period,
                                   .dropped = r->dropped,
                                   .sites = r->sites_total,
                                   .total = r->total};
    uint64_t h = hash_mix(hash_mix(hash_string(11, head->host), head->start_ns), head->pid);
    head->process = hash_end(hash_string(h, head->command));
    h = hash_string(hash_string(hash_mix(14, head->process), r->kind), r->process_end);
    h = hash_mix(hash_mix(hash_mix(h, r->time_ns), r->period), r->dropped);
    h = hash_estimate(hash_mix(h, r->sites_total), &r->total);
    for (size_t i = 0; i < r->site_count; i++) {
        const struct fleet_report_site *s = &r->sites[i];
        uint64_t site;
        if (put_watched_frames(NULL, s, path_base_name(r->exe), &o->look, &site, err))
            return -1;
        h = hash_estimate(hash_mix(hash_mix(h, site), s->oldest_ns), &s->estimate);
        h = hash_mix(hash_mix(h, s->allocated_bytes), s->freed_bytes);
    }
    head->key = hash_end(hash_labels(hash_string(h, head->service), o));
    return 0;
}

uint64_t watched_line_key(const struct store_watched *head, const struct fleet_load_options *o,
                          const char *text, size_t bytes)
{
    const uint64_t h = hash_bytes(hash_mix(12, head->process), text, bytes);
    return hash_end(hash_labels(hash_string(h, head->service), o));
}

int watched_put(struct fleet_store *store, const struct fleet_report *r,
                const struct store_watched *head, const struct fleet_load_options *options,
                struct error *err)
{
    int status = store->engine->put(store, STORE_WATCHED, head, err);
    const uint64_t report = store->last;
    for (size_t i = 0; i < options->label_count && !status; i++)
        status = store->engine->put(store, STORE_WATCHED_LABEL,
                                    &(struct store_label){report, options->labels[i]}, err);
    for (size_t i = 0; i < r->site_count && !status; i++) {
        const struct fleet_report_site *s = &r->sites[i];
        struct store_watched_site row = {.report = head->key,
                                         .place = i,
                                         .estimate = s->estimate,
                                         .oldest_ns = s->oldest_ns,
                                         .allocated_bytes = s->allocated_bytes,
                                         .freed_bytes = s->freed_bytes};
        status =
            put_watched_frames(store, s, path_base_name(r->exe), &options->look, &row.site, err);
        if (!status)
            status = store->engine->put(store, STORE_WATCHED_SITE, &row, err);
    }
    return status;
}

int fleet_report_rows(const struct fleet_report *report, const char *database,
                      const struct fleet_load_options *options, fleet_rows_fn *rows, void *arg,
                      struct error *err)
{
    struct store_watched head;
    struct fleet_store *store = clickhouse_apart(database, rows, arg, err);
    if (!store)
        return -1;
    const int status =
        watched_identify(report, options, &head, err) || store->engine->begin(store, err) ||
                watched_put(store, report, &head, options, err) || store->engine->commit(store, err)
            ? -1
            : 0;
    fleet_close(store);
    return status;
}
