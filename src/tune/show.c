/* show.c - a tuning as text. See show.h. */
#include "tune/show.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/text.h"
#include "compare/show.h"

static const char *const winner_names[TUNING_WINNERS] = {
    "smallest peak RSS", "smallest average RSS", "least time", "best of all three"};

static void print_point(const struct tuning *t, const struct tune_point *p)
{
    struct buffer line = {0};
    char value[COMPARISON_TEXT_BYTES];
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++) {
        double usual = stats_median(t->usual[o], t->usuals);
        comparison_value_text(value, t->metric[o], usual * p->value[o]);
        text_printf(stdout, "  %9s", value);
        if (p == tune_search_usual(t->search))
            text_printf(stdout, "         ");
        else
            text_printf(stdout, "  %+6.1f%%", 100 * (p->value[o] - 1));
    }
    tuning_line(t, p, &line);
    if (p == tune_search_usual(t->search))
        text_printf(stdout, "  the default%s%s", line.size_bytes ? ": " : "", buffer_text(&line));
    else
        text_printf(stdout, "  %s", buffer_text(&line));
    text_printf(stdout, "\n");
    buffer_release(&line);
}

static size_t beaten_by(const struct tune_point *p, const struct tune_point *const *front, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool better = true;
        for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
            better &= front[i]->value[o] <= p->value[o];
        count += better && front[i] != p;
    }
    return count;
}

static void print_front(struct tuning *t)
{
    const struct tune_point **front, *usual = tune_search_usual(t->search);
    size_t n = tune_search_front(t->search, TUNING_CLOSE, &front);
    bool there = false;
    text_printf(
        stdout,
        "The Pareto front: what no other setting beats in all three, against the default's.\n");
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
        text_printf(stdout, "  %9s         ", comparison_metrics[t->metric[o]].title);
    text_printf(stdout, "\n");
    for (size_t i = 0; i < n; i++) {
        print_point(t, front[i]);
        there |= front[i] == usual;
    }
    if (!there) {
        print_point(t, usual);
        const size_t beaten = beaten_by(usual, front, n);
        if (beaten)
            text_printf(
                stdout,
                "The default is not on the front: %zu of these %zu are as good or better in all "
                "three.\n",
                beaten, n);
        else
            text_printf(
                stdout,
                "The default is not on the front: one of these is better in something, and as "
                "good within one percent in the rest.\n");
    } else {
        text_printf(stdout, "The default is on the front%s.\n", n == 1 ? ", alone" : "");
    }
}

static void print_winners(const struct tuning *t)
{
    if (!t->winner_count) {
        text_printf(stdout,
                    "Nothing to confirm: no setting was found that is better than the default.\n");
        return;
    }
    text_printf(stdout,
                "\nThe best, in %zu fresh rounds against the default (99%% intervals; =: no sure "
                "difference):\n",
                t->confirmation.rounds);
    for (size_t i = 0; i < t->winner_count; i++) {
        const struct tuning_winner *w = &t->winners[i];
        struct buffer line = {0};
        char text[COMPARISON_TEXT_BYTES];
        text_printf(stdout, "%s: %s", winner_names[w->claim],
                    tuning_confirmed(w) ? "confirmed" : "NOT confirmed");
        for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
            text_printf(stdout, "%s%s %s", o ? ", " : "; ", comparison_metrics[t->metric[o]].title,
                        comparison_ratio_text(
                            text, &t->confirmation.cells[w->candidate][t->metric[o]].ratio));
        tuning_line(t, w->point, &line);
        text_printf(stdout, "\n    %s PROGRAM\n", buffer_text(&line));
        buffer_release(&line);
    }
}

void tune_print(struct tuning *t, const char *workload)
{
    text_printf(stdout, "%s on %s: %zu runs of %zu settings in %s, seed %llu", t->options.alloc,
                workload, t->runs, tune_search_points(t->search),
                TIME(clock_monotonic_ns() - t->start_ns), (unsigned long long)t->options.seed);
    if (t->failures)
        text_printf(stdout, "; %zu run%s failed", t->failures, t->failures == 1 ? "" : "s");
    text_printf(stdout, "\n");
    print_front(t);
    print_winners(t);
}
