/* advise_show.c - see advise_show.h. */
#include "cli/advise_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/view.h"
#include "report/frame_texts.h"
#include "report/sections.h"

static const char *setting_of(const struct remedy *r)
{
    return strcmp(r->setting, "malloc_trim=end") ? r->setting : "malloc_trim";
}

static void signed_size(struct buffer *b, double bytes)
{
    char n[HUMAN_TEXT_BYTES];
    buffer_printf(b, "%s%s", bytes < 0 ? "-" : "", human_size(n, (uint64_t)fabs(bytes)));
}

static void print_remedy(const struct page *p, const struct remedy *r)
{
    struct buffer b = {0}, saves = {0};
    signed_size(&saves, r->saves);
    page_right(&b, buffer_text(&saves), 11);
    buffer_append_text(&b, "  (");
    signed_size(&b, r->low);
    buffer_append_text(&b, " .. ");
    signed_size(&b, r->high);
    buffer_append_char(&b, ')');
    if (r->cpu.method != STATS_NONE)
        buffer_printf(&b, ", CPU time %+.1f %% (%+.1f .. %+.1f)", 100 * (r->cpu.ratio - 1),
                      100 * (r->cpu.low - 1), 100 * (r->cpu.high - 1));
    buffer_printf(&b, ": %s", r->environment[0] ? r->environment : setting_of(r));
    page_wrap(p, &b, 13);
    if (r->text) {
        buffer_clear(&b);
        buffer_printf(&b, "             %s", r->text);
        page_wrap(p, &b, 13);
    }
    buffer_release(&b);
    buffer_release(&saves);
}

static void print_unmeasured(const struct advising *a, const struct page *p)
{
    char n[HUMAN_TEXT_BYTES];
    for (size_t i = 0; i < a->advice_count; i++) {
        struct buffer b = {0};
        if (a->advice[i].kind != ADVICE_POOL)
            continue;
        page_heading(p, "Not measured, at most by the addresses");
        page_right(&b, human_size(n, a->advice[i].saves_bytes), 11);
        buffer_printf(&b, "  %s: ", advice_text(ADVICE_POOL));
        section_print_site(p, &b, a->names, section_site(a->names, a->advice[i].stack));
        page_wrap(p, &b, 13);
        buffer_release(&b);
    }
}

void advise_print_text(const struct advising *a)
{
    struct report_options looks = {0};
    const struct explained *e = &a->list.items[0];
    const uint64_t program = e->resident_bytes - (uint64_t)e->parts[EXPLAIN_RECORDER];
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    view_looks(&looks);
    const struct page page = {
        .out = stdout, .columns = looks.columns, .unicode = looks.unicode, .bold = looks.bold};
    buffer_printf(&b, "process %u, ", a->of->pid);
    buffer_printf(&b, "%s after the start: ", human_duration(n, e->measured_ns - a->of->start_ns));
    buffer_printf(&b, "%s resident", human_size(n, program));
    buffer_printf(&b, ", %s live", human_size(n, e->live_bytes));
    page_wrap(&page, &b, 2);
    buffer_clear(&b);
    if (!a->count) {
        buffer_append_text(&b, "No setting that mallow knows would save a twentieth of it.");
        page_wrap(&page, &b, 2);
        buffer_release(&b);
        print_unmeasured(a, &page);
        return;
    }
    buffer_printf(&b, "replayed up to there, %zu times for each setting: ", a->o->rounds);
    signed_size(&b, a->replayed);
    buffer_append_text(&b, " of the heap were resident; in the program ");
    signed_size(&b, a->recorded);
    buffer_append_text(&b, " of heap and anonymous memory");
    page_wrap(&page, &b, 2);
    buffer_release(&b);
    page_heading(&page, "Saves      (99 %% interval of the replays)");
    for (size_t i = 0; i < a->count; i++)
        print_remedy(&page, &a->remedies[i]);
    print_unmeasured(a, &page);
}

static void json_share(struct json *j, const char *key, double value)
{
    char text[64];
    json_raw(j, key, text, (size_t)snprintf(text, sizeof text, "%.4f", value));
}

static void json_remedy(struct json *j, const struct remedy *r)
{
    json_open_object(j, NULL);
    json_text(j, "text", r->text ? r->text : r->setting);
    json_text(j, "setting", setting_of(r));
    json_bool(j, "measured", true);
    json_signed(j, "saves_bytes", llround(r->saves));
    json_signed(j, "saves_low_bytes", llround(r->low));
    json_signed(j, "saves_high_bytes", llround(r->high));
    if (r->cpu.method != STATS_NONE) {
        json_share(j, "cpu_ratio", r->cpu.ratio);
        json_share(j, "cpu_ratio_low", r->cpu.low);
        json_share(j, "cpu_ratio_high", r->cpu.high);
    } else {
        json_null(j, "cpu_ratio");
    }
    json_text(j, "command", r->environment[0] ? r->environment : NULL);
    json_close_object(j);
}

void advise_print_json(const struct advising *a, const char *path)
{
    struct json j = {.out = stdout};
    struct frame_texts texts = {0};
    const struct explained *e = &a->list.items[0];
    json_open_object(&j, NULL);
    json_number(&j, "schema", 1);
    json_text(&j, "file", path);
    json_number(&j, "pid", a->of->pid);
    json_text(&j, "at", a->o->at);
    json_signed(&j, "measured_ns", (int64_t)(e->measured_ns - a->of->start_ns));
    json_number(&j, "rss_bytes", e->resident_bytes);
    json_number(&j, "live_bytes", e->live_bytes);
    json_number(&j, "rounds", a->o->rounds);
    if (a->count) {
        json_number(&j, "recorded_heap_bytes", (uint64_t)a->recorded);
        json_signed(&j, "replayed_heap_bytes", llround(a->replayed));
    }
    json_open_array(&j, "advice");
    for (size_t i = 0; i < a->count; i++)
        json_remedy(&j, &a->remedies[i]);
    for (size_t i = 0; i < a->advice_count; i++) {
        if (a->advice[i].kind != ADVICE_POOL)
            continue;
        json_open_object(&j, NULL);
        json_text(&j, "text", advice_text(ADVICE_POOL));
        json_text(&j, "setting", advice_setting(ADVICE_POOL));
        json_bool(&j, "measured", false);
        json_number(&j, "saves_bytes", a->advice[i].saves_bytes);
        json_null(&j, "command");
        (void)frame_texts_stack(&j, a->advice[i].stack, &texts, a->names);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_close_object(&j);
    json_end(&j);
    frame_texts_release(&texts);
}
