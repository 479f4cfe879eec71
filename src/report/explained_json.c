/* explained_json.c - see explained.h: the array `explained` of a process. */
#include <stdlib.h>

#include "report/columns.h"
#include "report/explained.h"
#include "show/frame_texts.h"
#include "report/heap.h"

#define PINNING_SHOWN 100u /* without a limit */

static void time_or_null(struct json *j, const char *key, const struct trace_image *image,
                         bool known, uint64_t time_ns)
{
    if (known)
        json_signed(j, key, (int64_t)(time_ns - image->start_ns));
    else
        json_null(j, key);
}

static void write_head(struct json *j, const struct trace_image *image, const struct explained *e)
{
    const struct explain_moment *o = &e->moment;
    const bool measured = o->split != EXPLAIN_NONE;
    json_text(j, "at", o->at >= EXPLAIN_FOUR ? o->label : explain_at_name(o->at));
    json_open_array(j, "also");
    for (enum explain_at i = 0; i < EXPLAIN_FOUR; i++)
        if (o->also & 1u << i)
            json_text(j, NULL, explain_at_name(i));
    json_close_array(j);
    time_or_null(j, "time_ns", image, true, o->time_ns);
    time_or_null(j, "measured_ns", image, measured, e->measured_ns);
    if (measured) {
        json_number(j, "rss_bytes", e->resident_bytes);
        json_number(j, "swapped_bytes", e->swapped_bytes);
        json_number(j, "huge_bytes", e->huge_bytes);
        json_number(j, "hugetlb_bytes", e->hugetlb_bytes);
        if (e->proportional_bytes) {
            json_number(j, "forked_bytes", e->forked_bytes);
            json_number(j, "proportional_bytes", e->proportional_bytes);
        } else {
            json_null(j, "forked_bytes");
            json_null(j, "proportional_bytes");
        }
    } else {
        const bool near = o->nearest != EXPLAIN_NONE;
        json_null(j, "rss_bytes");
        time_or_null(j, "nearest_measured_ns", image, near,
                     near ? image->splits[o->nearest].clock : 0);
    }
    json_number(j, "live_bytes", e->live_bytes);
    json_number(j, "live_blocks", e->live_blocks);
}

/* Parts that are 0 are left out, except the live bytes. */
static void write_parts(struct json *j, const struct explained *e)
{
    json_open_array(j, "parts");
    for (enum explain_part i = 0; i < EXPLAIN_PARTS; i++) {
        if (!e->parts[i] && i != EXPLAIN_LIVE)
            continue;
        json_open_object(j, NULL);
        json_text(j, "name", explain_part_name(i));
        json_signed(j, "bytes", e->parts[i]);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_arenas(struct json *j, const struct trace_image *image, const struct pinned *p)
{
    json_open_array(j, "arenas");
    for (size_t i = 0; i < p->arena_count; i++) {
        const struct pinned_arena *a = &p->arenas[i];
        json_open_object(j, NULL);
        table_fields(j, TABLE(report_arena_columns), a);
        json_bool(j, "main", i == 0);
        json_number(j, "free_below_bytes", a->between_bytes + a->before_bytes);
        json_number(j, "extent_bytes", i ? a->extent_bytes : a->span_bytes);
        json_open_array(j, "threads");
        for (uint32_t k = 0; k < image->thread_count; k++)
            if (p->arena_of[k] == i)
                json_number(j, NULL, image->threads[k].tid);
        json_close_array(j);
        json_close_object(j);
    }
    json_close_array(j);
}

static bool write_pinning(struct json *j, const struct explained *e, struct frame_texts *texts,
                          struct names *names, uint64_t limit)
{
    size_t n;
    uint32_t *keepers = heap_keepers(&e->pinned, &n);
    bool done = keepers != NULL;
    json_open_array(j, "pinning");
    for (size_t i = 0; done && i < n && i < (limit ? limit : PINNING_SHOWN); i++) {
        const struct pinned_stack *s = &e->pinned.stacks.of[keepers[i]];
        json_open_object(j, NULL);
        done = frame_texts_stack(j, s->stack, texts, names);
        table_fields(j, TABLE(report_pinning_columns), s);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "pinning_total", n);
    free(keepers);
    return done;
}

static bool write_advice(struct json *j, const struct model *m, const struct explained *e,
                         struct frame_texts *texts, struct names *names)
{
    struct advice list[ADVICE_MOST];
    const size_t n = explained_advice(m, e, names, list);
    bool done = true;
    json_open_array(j, "advice");
    for (size_t i = 0; i < n && done; i++) {
        json_open_object(j, NULL);
        json_text(j, "text", advice_text(list[i].kind));
        json_text(j, "setting", advice_setting(list[i].kind));
        if (list[i].saves_bytes)
            json_number(j, "saves_bytes", list[i].saves_bytes);
        else
            json_null(j, "saves_bytes");
        if (list[i].most_bytes)
            json_number(j, "saves_at_most_bytes", list[i].most_bytes);
        else
            json_null(j, "saves_at_most_bytes");
        json_bool(j, "measured", false);
        json_text(j, "command", advice_environment(list[i].kind));
        if (list[i].saves_address_bytes)
            json_number(j, "saves_address_bytes", list[i].saves_address_bytes);
        if (advice_has_site(list[i].kind)) {
            json_number(j, "blocks", list[i].blocks);
            done = frame_texts_stack(j, list[i].stack, texts, names);
        }
        json_close_object(j);
    }
    json_close_array(j);
    return done;
}

int json_explained(struct json *j, const struct model *m, const struct explained_list *list,
                   struct frame_texts *texts, struct names *names, uint64_t limit,
                   struct error *err)
{
    const struct trace_image *image = model_image(m);
    bool done = true;
    json_open_array(j, "explained");
    for (size_t i = 0; i < list->count && done; i++) {
        const struct explained *e = &list->items[i];
        json_open_object(j, NULL);
        write_head(j, image, e);
        write_parts(j, e);
        if (e->pinned.unknown_version)
            json_bool(j, "unknown_version", true);
        if (e->glibc)
            write_arenas(j, image, &e->pinned);
        done = write_pinning(j, e, texts, names, limit) && write_advice(j, m, e, texts, names);
        json_close_object(j);
    }
    json_close_array(j);
    return done ? 0 : error_memory_for(err, "the names of call sites");
}
