/* diff.c - Matches the call sites of two recordings in one forest of frames, and sorts them by
 * growth. Two frames are equal by function and module, or by offset where the builds of an
 * unnamed module are the same. */
#include "report/diff.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/sites.h"
#include "base/array.h"
#include "base/path.h"
#include "frames/pass.h"
#include "frames/same.h"

enum { OLD = 1, NEW = 2 };

int64_t diff_growth(const struct figures *old, const struct figures *now, enum metric by)
{
    return (int64_t)(figures_metric(now, by) - figures_metric(old, by));
}

/* --- what makes two frames the same --- */

/* Notes the builds of the modules of a recording: "SIDE NAME BUILD-ID". */
static int note_builds(struct diff *d, const struct trace_info *info, char side, struct error *err)
{
    bool fresh;
    for (uint32_t i = 0; i < info->image_count; i++)
        for (uint32_t k = 0; k < info->images[i].module_count; k++) {
            const struct trace_module *m = &info->images[i].modules[k];
            struct buffer b = {0};
            buffer_append_char(&b, side);
            buffer_append_text(&b, m->path ? path_base_name(m->path) : "");
            buffer_append_char(&b, 0);
            buffer_append(&b, m->build_id, m->build_id ? m->build_id_bytes : 0);
            bool bad = buffer_failed(&b) || !strings_id(&d->builds, b.data, b.size_bytes, &fresh);
            buffer_release(&b);
            if (bad)
                return error_memory(err);
        }
    return 0;
}

/* True if each build of a module in one recording is also in the other. */
static bool same_builds(const struct diff *d, const char *module)
{
    const size_t n = strlen(module) + 1; /* with its NUL */
    for (uint32_t i = 0; i < d->builds.count; i++) {
        const struct strings_entry *a = &d->builds.entries[i];
        const char *x = d->builds.bytes.data + a->offset;
        if (a->bytes < n + 1 || memcmp(x + 1, module, n) != 0)
            continue;
        bool found = false;
        for (uint32_t k = 0; k < d->builds.count && !found; k++) {
            const struct strings_entry *b = &d->builds.entries[k];
            const char *y = d->builds.bytes.data + b->offset;
            found = b->bytes == a->bytes && *x != *y && !memcmp(x + 1, y + 1, a->bytes - 1);
        }
        if (!found)
            return false;
    }
    return true;
}

static uint32_t key_of(struct diff *d, const struct name_frame *f)
{
    struct buffer b = {0};
    bool fresh;
    if (f->cut)
        buffer_append_text(&b, "cut");
    else if (f->known)
        buffer_append(&b, f->function, same_function(f->function));
    else if (f->module && same_builds(d, f->module))
        buffer_append_text(&b, f->function);
    else
        buffer_append_text(&b, "?");
    buffer_append_char(&b, 0);
    if (!f->own && f->module)
        buffer_append(&b, f->module, same_module(f->module));
    uint32_t key = buffer_failed(&b) ? 0 : strings_id(&d->keys, b.data, b.size_bytes, &fresh);
    buffer_release(&b);
    return key;
}

/* --- the forest of both --- */

static bool grow(struct diff *d)
{
    const size_t needed = d->room + 1;
    size_t parent = d->room, frame = parent, seen = parent, site_of = parent;
    if (!ARRAY_ROOM(d->parent, needed, parent) || !ARRAY_ROOM(d->frame, needed, frame) ||
        !ARRAY_ROOM(d->seen, needed, seen) || !ARRAY_ROOM(d->site_of, needed, site_of))
        return false;
    memset(d->site_of + d->room, 0, (site_of - d->room) * sizeof *d->site_of);
    d->room = site_of;
    return true;
}

/* How the frame is shown: as the newer recording has it; a line only when there is one. */
static bool show(struct diff *d, uint32_t node, const struct name_frame *f, uint8_t side)
{
    struct name_frame *to = &d->frame[node];
    if (!(d->seen[node] & side)) {
        *to = *f;
        to->function = intern_string(&d->texts, f->function);
        to->brief = f->brief ? intern_string(&d->texts, f->brief) : NULL;
        to->full = to->function;
        to->file = intern_string(&d->texts, f->file);
        to->place = intern_string(&d->texts, f->place);
        to->module = intern_string(&d->texts, f->module);
        if (!to->function || (f->file && (!to->file || !to->place)) || (f->module && !to->module))
            return false;
    } else if (to->line != f->line) {
        to->line = 0;
    }
    d->seen[node] |= side;
    return true;
}

/* The child of `parent` that is the frame; 0 when memory ran out. */
static uint32_t child(struct diff *d, uint32_t parent, uint32_t key, const struct name_frame *f,
                      uint8_t side)
{
    const uint32_t pair[2] = {parent, key};
    bool fresh;
    uint32_t node = key ? strings_id(&d->nodes, pair, sizeof pair, &fresh) : 0;
    if (!node || (node >= d->room && !grow(d)))
        return 0;
    if (fresh) {
        d->parent[node] = parent;
        d->seen[node] = 0;
        d->frame_count = node;
    }
    return show(d, node, f, side) ? node : 0;
}

static struct diff_site *site_at(struct diff *d, uint32_t tip)
{
    if (tip >= d->room && !grow(d))
        return NULL;
    if (!d->site_of[tip]) {
        if (!ARRAY_ROOM(d->items, d->count + 1, d->item_room))
            return NULL;
        d->items[d->count++] = (struct diff_site){.tip = tip};
        d->site_of[tip] = (uint32_t)d->count;
    }
    return &d->items[d->site_of[tip] - 1];
}

/* Adds the sites of a process to the forest of both. */
static int add_sites(struct diff *d, struct names *names, const struct sites *sites, uint8_t side)
{
    struct figures *totals = side == OLD ? &d->old.totals : &d->now.totals;
    uint32_t *map = calloc((size_t)sites->frame_count + 1, sizeof *map);
    uint32_t *keys = calloc((size_t)names_count(names) + 1, sizeof *keys);
    bool fine = map && keys;
    for (uint32_t i = 1; i <= sites->frame_count && fine; i++) { /* parents come first */
        uint32_t id = sites->frame[i];
        const struct name_frame *f = names_frame(names, id);
        if (!keys[id])
            keys[id] = key_of(d, f);
        map[i] = child(d, map[sites->parent[i]], keys[id], f, side);
        fine = map[i];
    }
    for (size_t i = 0; i < sites->count && fine; i++) {
        const struct site *from = &sites->items[i];
        struct diff_site *to = site_at(d, map[from->tip]);
        fine = to;
        if (to)
            figures_join(side == OLD ? &to->old : &to->now, &from->figures);
        figures_join(totals, &from->figures);
    }
    free(map);
    free(keys);
    return fine ? 0 : -1;
}

static int add_recording(struct diff *d, struct diff_side *to, uint8_t side, struct trace *t,
                         struct symbols *symbols, const struct report_options *o, struct error *err)
{
    const struct trace_info *info = trace_info(t);
    struct selection selection;
    int status = 0;
    if (selection_open(&selection, &o->select, info, err))
        return -1;
    for (uint32_t i = 0; i < info->image_count && !status; i++) {
        struct pass pass;
        struct sites sites = {0};
        status = pass_begin(&pass, t, i, &selection, symbols, &o->look, err);
        if (!status) {
            const struct frame_source source = names_source(pass.names, true);
            status = sites_build(&sites, pass.model, &source, o->by, err);
        }
        if (!status && (add_sites(d, pass.names, &sites, side) || names_failed(pass.names)))
            status = error_memory_for(err, "the call sites of process %u", pass.image->pid);
        if (!status) {
            struct gate_values values;
            gate_values_of(pass.model, o, &values);
            gate_values_add(&to->gate, &values);
            to->processes++;
            to->events += model_totals(pass.model)->events;
            to->lost_events += pass.image->lost_calls;
        }
        sites_release(&sites);
        pass_end(&pass);
    }
    selection_close(&selection);
    return status;
}

/* --- order --- */

static int by_growth(const void *a, const void *b, void *arg)
{
    static const enum metric then[] = {BY_END, BY_PEAK, BY_ALLOCATED, BY_CALLS, BY_TEMPORARY};
    const struct diff_site *x = a, *y = b;
    int64_t u = diff_growth(&x->old, &x->now, *(const enum metric *)arg);
    int64_t v = diff_growth(&y->old, &y->now, *(const enum metric *)arg);
    for (size_t i = 0; u == v && i < sizeof then / sizeof *then; i++) {
        u = diff_growth(&x->old, &x->now, then[i]);
        v = diff_growth(&y->old, &y->now, then[i]);
    }
    if (u != v)
        return u < v ? 1 : -1;
    return x->tip < y->tip ? -1 : x->tip > y->tip;
}

uint32_t diff_call_site(const struct diff *d, uint32_t tip)
{
    struct names_search search = {.begun = false};
    uint64_t found;
    for (uint32_t at = tip; at; at = d->parent[at])
        if (names_search(&search, &d->frame[at], at, &found))
            return (uint32_t)found;
    return (uint32_t)names_search_end(&search);
}

const struct name_frame *diff_grown_most(const struct diff *d, enum metric by)
{
    int64_t most = 0;
    uint32_t tip = 0;
    for (size_t i = 0; i < d->count; i++) {
        const int64_t growth = diff_growth(&d->items[i].old, &d->items[i].now, by);
        if (growth > most) {
            most = growth;
            tip = d->items[i].tip;
        }
    }
    return tip ? &d->frame[diff_call_site(d, tip)] : NULL;
}

void diff_sort(struct diff *d, enum metric by)
{
    d->by = by;
    qsort_r(d->items, d->count, sizeof *d->items, by_growth, &by);
}

int diff_build(struct diff *d, const char *old_path, struct trace *old,
               const struct report_options *of_old, const char *new_path, struct trace *now,
               const struct report_options *o, struct symbols *symbols, struct error *err)
{
    memset(d, 0, sizeof *d);
    d->old.path = old_path;
    d->now.path = new_path;
    if (note_builds(d, trace_info(old), '0', err) || note_builds(d, trace_info(now), '1', err) ||
        add_recording(d, &d->old, OLD, old, symbols, of_old, err) ||
        add_recording(d, &d->now, NEW, now, symbols, o, err))
        return -1;
    size_t n = 0;
    for (size_t i = 0; i < d->count; i++)
        if (memcmp(&d->items[i].old, &d->items[i].now, sizeof d->items[i].old) != 0)
            d->items[n++] = d->items[i];
    d->count = n;
    diff_sort(d, o->by);
    return 0;
}

void diff_release(struct diff *d)
{
    free(d->items);
    free(d->parent);
    free(d->frame);
    free(d->seen);
    free(d->site_of);
    strings_release(&d->keys);
    strings_release(&d->nodes);
    strings_release(&d->builds);
    intern_free(&d->texts);
    memset(d, 0, sizeof *d);
}
