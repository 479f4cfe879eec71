/* corpus_show.c - comparisons over the whole corpus as tables; see show.h. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "compare/show.h"

static void print_metric(const struct corpus *c, const struct comparison *all,
                         enum comparison_metric metric, bool color)
{
    const struct comparison *first = &all[0];
    char text[COMPARISON_TEXT_BYTES];
    size_t from = first->baseline ? 0 : 1; /* the first to have ratios */
    struct buffer line = {0};
    buffer_printf(&line, "%-15s", comparison_metrics[metric].title);
    for (size_t k = 0; k < first->count; k++)
        text_append_printf(&line, "  %9s %*s", first->candidates[k].label, k < from ? 0 : 14, "");
    comparison_print_line(&line);
    for (size_t w = 0; w < c->count; w++) {
        text_append_printf(&line, "%-15s", c->entry[w].name);
        for (size_t k = 0; k < first->count; k++)
            if (all[w].failed[k])
                buffer_printf(&line, "  %9s %*s", "failed", k >= from ? 14 : 0, "");
            else
                comparison_cell(&line, &all[w].cells[k][metric], metric, 1, k >= from, color);
        comparison_print_line(&line);
    }
    buffer_release(&line);
    if (first->count < 2 || first->baseline)
        return;
    text_printf(stdout, "%-15s  %10s", "geometric mean", "");
    for (size_t k = 1; k < first->count; k++) {
        struct stats_ratio r = corpus_mean(c, all, k, metric);
        comparison_ratio_text(text, &r);
        text_printf(stdout, "  %*s%s", 24 - comparison_columns(text), "", text);
    }
    text_printf(stdout, "\n");
}

void corpus_print(const struct corpus *c, const struct comparison *all, bool color)
{
    print_metric(c, all, COMPARISON_CPU, color);
    text_printf(stdout, "\n");
    print_metric(c, all, COMPARISON_PEAK, color);
    size_t least = all[0].rounds, most = all[0].rounds;
    double reach = 0;
    for (size_t w = 0; w < c->count; w++) {
        least = all[w].rounds < least ? all[w].rounds : least;
        most = all[w].rounds > most ? all[w].rounds : most;
        reach = fmax(reach, all[w].reach);
    }
    text_printf(stdout, "Medians of %zu", least);
    if (most != least)
        text_printf(stdout, " to %zu", most);
    text_printf(stdout, " interleaved round%s", most == 1 ? "" : "s");
    if (all[0].count < 2 && !all[0].baseline) {
        text_printf(stdout, ".\n");
        return;
    }
    if (reach < 1)
        text_printf(stdout, "; the least known figure to ±%.1f%%", 100 * reach);
    text_printf(
        stdout,
        ".\nBehind each: how it differs from %s, with a 99%% interval;\n=: no sure difference of "
        "more than 1%%.\n",
        all[0].baseline ? "the baseline's" : "the first's");
}
