/* show.c - a comparison as a table and as JSON; see comparison.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "compare/show.h"

int comparison_columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

const char *comparison_ratio_text(char out[COMPARISON_TEXT_BYTES], const struct stats_ratio *r)
{
    *out = 0;
    if (r->method == STATS_NONE)
        return out;
    double reach = 100 * fmax(r->high - r->ratio, r->ratio - r->low);
    if (r->differs)
        snprintf(out, COMPARISON_TEXT_BYTES, "%+.1f ±%.1f%%", 100 * (r->ratio - 1), reach);
    else if (reach < 100)
        snprintf(out, COMPARISON_TEXT_BYTES, "= ±%.1f%%", reach);
    else
        snprintf(out, COMPARISON_TEXT_BYTES, "not known");
    return out;
}

const char *comparison_value_text(char out[COMPARISON_TEXT_BYTES], enum comparison_metric metric,
                                  double value)
{
    if (metric == COMPARISON_FRAGMENTATION)
        snprintf(out, COMPARISON_TEXT_BYTES, "%.2f", value);
    else if (metric == COMPARISON_PEAK || metric == COMPARISON_AVERAGE)
        snprintf(out, COMPARISON_TEXT_BYTES, "%s", SIZE((uint64_t)value));
    else
        snprintf(out, COMPARISON_TEXT_BYTES, "%s", TIME((uint64_t)value));
    return out;
}

void comparison_cell(struct buffer *line, const struct cell *k, enum comparison_metric metric,
                     double unit, bool ratio, bool color)
{
    char value[COMPARISON_TEXT_BYTES], change[COMPARISON_TEXT_BYTES];
    const char *mark = k->best ? "*" : k->worst ? "!" : " ";
    const char *paint = !color ? "" : k->best ? "\033[32m" : k->worst ? "\033[31m" : "";
    comparison_value_text(value, metric, k->median / unit);
    buffer_printf(line, "  %s%9s%s%s", paint, value, mark, *paint ? "\033[0m" : "");
    if (!ratio)
        return;
    comparison_ratio_text(change, &k->ratio);
    buffer_printf(line, "%*s%s", 14 - comparison_columns(change), "", change);
}

void comparison_print_line(struct buffer *line)
{
    size_t n = line->size_bytes;
    while (n && line->data[n - 1] == ' ')
        n--;
    fwrite(buffer_text(line), 1, n, stdout);
    putchar('\n');
    buffer_clear(line);
}

/* In one thread the time in calls says more than the wall's; with several the other way round. */
static enum comparison_metric second_time(const struct comparison *c)
{
    json_object *run = comparison_some_run(c);
    return measured_number(run, "threads", 1) > 1 ||
                   !(measured_number(run, "allocator_cycles", 0) > 0)
               ? COMPARISON_WALL
               : COMPARISON_CALLS;
}

static void print_rounds(const struct comparison *c, const struct comparison_plan *plan)
{
    text_printf(stdout, "Medians of %zu interleaved round%s%s.\n", c->rounds,
                c->rounds == 1 ? "" : "s",
                c->side_by_side ? ", all candidates side by side on one processor" : "");
    if (c->reach > plan->precision)
        text_printf(stdout, "Still, %s of %s is known to ±%.1f%% only;\n%s.\n",
                    comparison_metrics[c->reach_metric].title,
                    c->candidates[c->reach_candidate].label, 100 * c->reach,
                    plan->least < plan->most
                        ? "--max-repeat allows more rounds"
                        : "without --repeat there are as many rounds as it takes");
}

void comparison_print(const struct comparison *c, const struct comparison_plan *plan, bool color,
                      unsigned columns)
{
    const enum comparison_metric wide[] = {COMPARISON_CPU, second_time(c), COMPARISON_PEAK,
                                           COMPARISON_AVERAGE, COMPARISON_FRAGMENTATION};
    const enum comparison_metric narrow[] = {COMPARISON_CPU, COMPARISON_PEAK,
                                             COMPARISON_FRAGMENTATION};
    const enum comparison_metric *shown = columns < 120 ? narrow : wide;
    const size_t n = columns < 120 ? sizeof narrow / sizeof *narrow : sizeof wide / sizeof *wide;
    const bool first_failed = !c->baseline && c->failed[0];
    bool ratios = (c->count > 1 && !first_failed) || c->baseline, marks = false;
    struct buffer line = {0};
    int width = 8;
    for (size_t i = 0; i < c->count; i++)
        if ((int)strlen(c->candidates[i].label) > width)
            width = (int)strlen(c->candidates[i].label);
    buffer_printf(&line, "%-*s", width, "");
    for (size_t m = 0; m < n; m++)
        buffer_printf(&line, "  %9s %*s", comparison_metrics[shown[m]].title,
                      ratios && m + 1 < n ? 14 : 0, "");
    comparison_print_line(&line);
    double cycles = measured_number(comparison_some_run(c), "cycles_per_ns", 1);
    for (size_t i = 0; i < c->count; i++) {
        text_append_printf(&line, "%-*s", width, c->candidates[i].label);
        if (c->failed[i])
            buffer_append_text(&line, "     failed");
        for (size_t m = 0; m < n && !c->failed[i]; m++) {
            const struct cell *k = &c->cells[i][shown[m]];
            comparison_cell(&line, k, shown[m], shown[m] == COMPARISON_CALLS ? cycles : 1,
                            ratios && m + 1 < n, color);
            marks |= k->best;
        }
        comparison_print_line(&line);
    }
    buffer_release(&line);
    print_rounds(c, plan);
    if (ratios)
        text_printf(stdout,
                    "Behind each figure: how it differs from %s, with a 99%% interval;\n=: no sure "
                    "difference of more than 1%%.",
                    c->baseline ? "the baseline's" : "the first's");
    if (first_failed)
        text_printf(stdout, "No differences: %s, which the others would differ from, failed.",
                    c->candidates[0].label);
    if (marks)
        text_printf(stdout, " *: best, !: worst, where these surely differ.");
    if (ratios || marks || first_failed)
        text_printf(stdout, "\n");
    text_printf(stdout,
                "RSS/ideal: growth of the resident size over the most bytes that were live.\n");
}
