/* json.c - a heap as JSON; see show.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/document.h"
#include "heap/show/show.h"
#include "show/json_document.h"

static void put_text(json_object *to, const char *name, const char *text)
{
    json_object_object_add(to, name, json_object_new_string(text));
}

static void put_number(json_object *to, const char *name, uint64_t n)
{
    json_object_object_add(to, name, json_object_new_uint64(n));
}

static void put_bool(json_object *to, const char *name, bool value)
{
    json_object_object_add(to, name, json_object_new_boolean(value));
}

static void put_address(json_object *to, const char *name, uint64_t address)
{
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    put_text(to, name, text);
}

json_object *heap_show_facts(const struct heap_facts *f)
{
    json_object *o = document_new();
    put_number(o, "pid", f->pid);
    put_text(o, "source", f->source);
    put_number(o, "stopped_ns", f->stopped_ns);
    put_bool(o, "verified", f->verified);
    if (!f->verified)
        put_text(o, "reason", f->reason);
    if (f->read == HEAP_READ_UNKNOWN)
        json_object_object_add(o, "read_whole", NULL);
    else
        put_bool(o, "read_whole", f->read == HEAP_READ_WHOLE);
    if (*f->note)
        put_text(o, "note", f->note);
    if (f->moment_ns)
        put_number(o, "time_ns", f->moment_ns);
    put_text(o, "allocator", f->allocator);
    put_number(o, "threads", f->threads);
    put_number(o, "blocks", f->blocks);
    put_number(o, "used_bytes", f->used_bytes);
    put_number(o, "free_bytes", f->free_bytes);
    put_number(o, "trimmable_bytes", f->trimmable_bytes);
    put_number(o, "pinned_free_bytes", f->pinned_bytes);
    put_number(o, "kept_free_bytes", f->kept_bytes);
    put_bool(o, "resident_known", f->resident_known);
    put_number(o, "cached_bytes", f->cached_bytes);
    put_number(o, "overhead_bytes", f->own_bytes);
    put_number(o, "mapped_blocks", f->mapped_blocks);
    put_number(o, "mapped_bytes", f->mapped_bytes);
    if (f->pool_bytes) {
        put_number(o, "python_pool_blocks", f->pool_blocks);
        put_number(o, "python_pool_used_bytes", f->pool_used_bytes);
        put_number(o, "python_pool_bytes", f->pool_bytes);
    }
    if (f->recorded) {
        json_object_object_add(o, "sampled", json_object_new_boolean(f->sampled));
        put_number(o, "recorded_blocks", f->known_blocks);
        put_number(o, "recorded_bytes", f->known_bytes);
    }
    put_number(o, "references", f->references);
    if (f->file_bytes)
        put_number(o, "temporary_file_bytes", f->file_bytes);
    if (f->verified) {
        put_number(o, "unreachable_bytes", f->unreachable_bytes);
        put_number(o, "unreachable_blocks", f->unreachable_blocks);
        put_number(o, "garbage_bytes", f->garbage_bytes);
        put_number(o, "garbage_blocks", f->garbage_blocks);
    }
    return o;
}

static json_object *arenas(const struct heap_facts *f)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < f->arena_count; i++) {
        const struct heap_arena *a = &f->arenas[i];
        json_object *o = json_object_new_object();
        put_address(o, "address", a->address);
        put_bool(o, "main", a->main);
        put_number(o, "threads", a->attached_threads);
        put_number(o, "heaps", a->heaps);
        put_number(o, "system_bytes", a->system_bytes);
        put_number(o, "blocks", a->used_blocks);
        put_number(o, "used_bytes", a->used_bytes);
        put_number(o, "free_blocks", a->free_blocks);
        put_number(o, "free_bytes", a->free_bytes);
        put_number(o, "top_bytes", a->top_bytes);
        put_number(o, "cached_blocks", a->cached_blocks);
        put_number(o, "cached_bytes", a->cached_bytes);
        put_number(o, "overhead_bytes", a->own_bytes);
        json_object_array_add(list, o);
    }
    return list;
}

/* The names are those of `watch --json`. */
static void put_ages(json_object *o, const struct heap_ages *a)
{
    if (!a->known_blocks)
        return;
    put_number(o, "recorded_blocks", a->known_blocks);
    put_number(o, "oldest_age_ns", a->oldest_ns);
    put_number(o, "youngest_age_ns", a->youngest_ns);
    put_number(o, "mean_age_ns", a->mean_ns);
}

static json_object *table_row(const struct heap_row *r, enum heap_by by)
{
    json_object *o = json_object_new_object();
    put_text(o, by == HEAP_BY_TYPE ? "type" : by == HEAP_BY_ROOT ? "root" : "size", r->name);
    if (by == HEAP_BY_ROOT) {
        put_text(o, "module", r->module);
        put_text(o, "kind", r->kind);
        if (*r->file) {
            put_text(o, "file", r->file);
            put_number(o, "line", r->line);
        }
        if (*r->declared)
            put_text(o, "declared_type", r->declared);
        put_number(o, "reached_blocks", r->blocks);
        put_number(o, "reached_bytes", r->bytes);
    } else {
        put_number(o, "blocks", r->blocks);
        put_number(o, "bytes", r->bytes);
    }
    if (by == HEAP_BY_SIZE) {
        put_number(o, "min_bytes", r->size_min);
        put_number(o, "max_bytes", r->size_max);
    }
    put_number(o, "retained_bytes", r->retained_bytes);
    put_number(o, "retained_blocks", r->retained_blocks);
    put_ages(o, &r->ages);
    return o;
}

static int put_table(json_object *to, struct heap *h, enum heap_by by, const char *name,
                     uint64_t top, struct error *err)
{
    size_t count;
    const struct heap_row *rows = heap_table(h, by, &count, err);
    if (!rows && err->kind != ERROR_NONE)
        return -1;
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < count && i < top; i++)
        json_object_array_add(list, table_row(&rows[i], by));
    json_object_object_add(to, name, list);
    return 0;
}

/* The frames of a call stack, innermost first, and which of them is the call site. */
static void put_frames(json_object *to, struct names *names, uint32_t stack)
{
    enum { FRAMES_MAX = 512 };
    uint32_t ids[FRAMES_MAX];
    size_t count = heap_show_frames(names, stack, ids, FRAMES_MAX);
    struct buffer text = {0};
    buffer_append_char(&text, '[');
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(&text, i ? "," : "");
        names_frame_json(names_frame(names, ids[i]), &text);
    }
    buffer_append_char(&text, ']');
    json_object *list = json_object_new_array();
    char *written = buffer_failed(&text) ? NULL : strdup(buffer_text(&text));
    if (written)
        json_object_set_serializer(list, json_object_userdata_to_json_string, written,
                                   json_object_free_userdata);
    buffer_release(&text);
    json_object_object_add(to, "frames", list);
    if (count)
        put_number(to, "call_site", names_first(names, ids, count));
}

/* What the samples of a call stack stand for; the names are those of `watch --json`. */
static void put_estimate(json_object *o, const struct heap_sampled_site *s)
{
    if (!s)
        return;
    const struct estimate_interval e = estimate_bytes_interval(&s->live);
    put_number(o, "sampled_blocks", s->live.samples);
    put_number(o, "sampled_bytes", s->live.sampled_bytes);
    put_number(o, "estimated_blocks", estimate_whole(s->live.blocks));
    put_number(o, "estimated_bytes", estimate_whole(s->live.bytes));
    put_number(o, "estimated_bytes_low", estimate_whole(e.low));
    put_number(o, "estimated_bytes_high", estimate_whole(e.high));
    put_number(o, "oldest_age_ns", s->oldest_ns);
    put_number(o, "youngest_age_ns", s->youngest_ns);
}

static int put_sites(json_object *to, struct heap *h, const struct heap_show *s, uint64_t top,
                     struct error *err)
{
    size_t count;
    const struct heap_site *sites = heap_sites(h, &count, err);
    if (!sites)
        return err->kind == ERROR_NONE ? 0 : -1;
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < count && i < top; i++) {
        json_object *o = json_object_new_object();
        put_frames(o, s->names, sites[i].stack);
        put_number(o, "blocks", sites[i].blocks);
        put_number(o, "bytes", sites[i].bytes);
        put_number(o, "retained_bytes", sites[i].retained_bytes);
        put_number(o, "retained_blocks", sites[i].retained_blocks);
        if (s->samples)
            put_estimate(o, heap_samples_of(s->samples, sites[i].stack));
        else
            put_ages(o, &sites[i].ages);
        if (heap_facts(h)->verified) {
            put_number(o, "unreachable_bytes", sites[i].unreachable_bytes);
            put_number(o, "unreachable_blocks", sites[i].unreachable_blocks);
        }
        json_object_array_add(list, o);
    }
    json_object_object_add(to, "sites", list);
    return 0;
}

static json_object *leaks(struct heap *h, struct names *names, uint64_t top)
{
    json_object *list = json_object_new_array();
    size_t count = heap_leaks(h);
    for (size_t i = 0; i < count && i < top; i++) {
        struct heap_leak leak;
        json_object *o = json_object_new_object();
        heap_leak(h, i, &leak);
        put_number(o, "bytes", leak.bytes);
        put_number(o, "blocks", leak.blocks);
        put_text(o, "type", leak.type);
        put_address(o, "address", leak.address);
        if (names)
            put_frames(o, names, leak.stack);
        json_object_array_add(list, o);
    }
    return list;
}

/* What a group is: of a root its module and kind, too. */
static void put_group(json_object *o, const struct heap_group *g, enum heap_by by,
                      struct names *names)
{
    if (by == HEAP_BY_SITE)
        put_frames(o, names, g->stack);
    else
        put_text(o, by == HEAP_BY_TYPE ? "type" : "root", g->name);
    if (by == HEAP_BY_ROOT) {
        put_text(o, "module", g->module);
        put_text(o, "kind", g->kind);
    }
}

static int put_pins(json_object *to, struct heap *h, enum heap_by by, const char *name,
                    struct names *names, uint64_t top, struct error *err)
{
    size_t count;
    const struct heap_pin *pins = heap_pins(h, by, &count, err);
    if (!pins)
        return err->kind == ERROR_NONE ? 0 : -1;
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < count && i < top; i++) {
        json_object *o = json_object_new_object();
        put_group(o, &pins[i].group, by, names);
        put_number(o, "blocks", pins[i].blocks);
        put_number(o, "free_bytes", pins[i].free_bytes);
        json_object_array_add(list, o);
    }
    json_object_object_add(to, name, list);
    return 0;
}

static int put_cold_rows(json_object *to, struct heap *h, enum heap_by by, const char *name,
                         struct names *names, uint64_t top, struct error *err)
{
    size_t count;
    const struct heap_cold *rows = heap_cold(h, by, &count, err);
    if (!rows)
        return err->kind == ERROR_NONE ? 0 : -1;
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < count && i < top; i++) {
        json_object *o = json_object_new_object();
        put_group(o, &rows[i].group, by, names);
        put_number(o, "cold_bytes", rows[i].cold_bytes);
        put_number(o, "cold_blocks", rows[i].cold_blocks);
        put_number(o, "bytes", rows[i].bytes);
        put_number(o, "blocks", rows[i].blocks);
        json_object_array_add(list, o);
    }
    json_object_object_add(to, name, list);
    return 0;
}

static int put_cold(json_object *to, struct heap *h, const struct heap_show *s, uint64_t top,
                    struct error *err)
{
    const struct heap_facts *f = heap_facts(h);
    if (!f->cold_source)
        return 0;
    json_object *o = json_object_new_object();
    json_object_object_add(to, "cold", o);
    put_text(o, "source", f->cold_source);
    put_text(o, "sees", f->cold_reads ? "reads and writes" : "writes");
    put_number(o, "waited_ns", f->cold_ns);
    put_number(o, "bytes", f->cold_bytes);
    put_number(o, "blocks", f->cold_blocks);
    put_number(o, "swapped_bytes", f->cold_swapped_bytes);
    int status = put_cold_rows(o, h, HEAP_BY_TYPE, "types", s->names, top, err);
    if (!status)
        status = put_cold_rows(o, h, HEAP_BY_ROOT, "roots", s->names, top, err);
    if (!status)
        status = put_cold_rows(o, h, HEAP_BY_SITE, "sites", s->names, top, err);
    return status;
}

struct json_object *heap_show_tables(struct heap *h, const struct heap_show *s, uint64_t top,
                                     struct error *err)
{
    json_object *o = heap_show_facts(heap_facts(h));
    json_object_object_add(o, "arenas", arenas(heap_facts(h)));
    int status = put_table(o, h, HEAP_BY_TYPE, "types", top, err);
    if (!status)
        status = put_table(o, h, HEAP_BY_ROOT, "roots", top, err);
    if (!status)
        status = put_table(o, h, HEAP_BY_SIZE, "sizes", top, err);
    if (!status)
        status = put_sites(o, h, s, top, err);
    if (!status)
        status = put_pins(o, h, HEAP_BY_TYPE, "pinning", s->names, top, err);
    if (!status)
        status = put_pins(o, h, HEAP_BY_ROOT, "pinning_roots", s->names, top, err);
    if (!status && s->names)
        status = put_pins(o, h, HEAP_BY_SITE, "pinning_sites", s->names, top, err);
    if (!status)
        status = put_cold(o, h, s, top, err);
    if (!status && heap_facts(h)->verified)
        json_object_object_add(o, "unreachable", leaks(h, s->names, top));
    if (!status)
        return o;
    json_object_put(o);
    return NULL;
}

int heap_show_json(struct heap *h, const struct heap_show *s, struct error *err)
{
    json_object *o = heap_show_tables(h, s, s->top_given ? s->top : UINT64_MAX, err);
    if (o)
        document_print(o);
    json_object_put(o);
    return o ? 0 : -1;
}

int heap_show_steps_json(const struct heap *h, const struct heap_step *steps, size_t count,
                         enum heap_found found, uint64_t address, bool why, struct error *err)
{
    static const char *const names[] = {[HEAP_FOUND] = "used",
                                        [HEAP_FREE] = "free",
                                        [HEAP_OUTSIDE] = "outside",
                                        [HEAP_UNREACHABLE] = "unreachable"};
    json_object *o = heap_show_facts(heap_facts(h)), *list = json_object_new_array();
    (void)err;
    put_address(o, "address", address);
    put_text(o, "found", names[found]);
    for (size_t i = 0; i < count; i++) {
        json_object *step = json_object_new_object();
        if (steps[i].is_root) {
            put_text(step, "root", steps[i].name);
            put_text(step, "module", steps[i].module);
            put_text(step, "kind", steps[i].type);
        } else {
            put_text(step, "type", steps[i].type);
            put_number(step, "bytes", steps[i].bytes);
        }
        put_address(step, "address", steps[i].address);
        put_number(step, "retained_bytes", steps[i].retained_bytes);
        json_object_array_add(list, step);
    }
    json_object_object_add(o, why ? "path" : "referrers", list);
    document_print(o);
    json_object_put(o);
    return 0;
}
