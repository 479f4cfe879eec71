/* measure.c - Compares the resident size at the end of a replay under each remedy with that
 * under the default, and sorts the remedies by the bytes they save. */
#include "advise/measure.h"

#include <stdlib.h>
#include <string.h>

#include "compare/comparison.h"

static double end_rss(const struct comparison *c, size_t round, size_t candidate)
{
    return measured_number(c->runs[round * c->count + candidate], "end_rss_bytes", 0);
}

static double heap_of(const struct comparison *c)
{
    double values[COMPARISON_ROUNDS];
    for (size_t i = 0; i < c->rounds; i++)
        values[i] = end_rss(c, i, 0) - measured_number(c->runs[i * c->count], "start_rss_bytes", 0);
    return stats_median(values, c->rounds);
}

static void evaluate_remedies(const struct comparison *c, struct remedy *list)
{
    static double with[COMPARISON_ROUNDS], without[COMPARISON_ROUNDS];
    for (size_t i = 0; i < c->rounds; i++)
        without[i] = end_rss(c, i, 0);
    const double base = stats_median(without, c->rounds);
    for (size_t k = 1; k < c->count; k++) {
        struct remedy *r = &list[k - 1];
        for (size_t i = 0; i < c->rounds; i++)
            with[i] = end_rss(c, i, k);
        const struct stats_ratio rss = stats_paired(with, without, c->rounds);
        r->saves = base * (1 - rss.ratio);
        r->low = base * (1 - rss.high);
        r->high = base * (1 - rss.low);
        r->cpu = c->cells[k][COMPARISON_CPU].ratio;
    }
}

static int compare_savings(const void *x, const void *y)
{
    const double a = ((const struct remedy *)x)->saves, b = ((const struct remedy *)y)->saves;
    return a < b ? 1 : a > b ? -1 : 0;
}

int remedies_measure(const struct remedy_trial *t, struct remedy *list, size_t count,
                     double *heap_bytes, struct error *err)
{
    static const char plain[] = "glibc";
    static struct candidate candidates[REMEDIES + 1];
    static struct comparison comparison;
    struct comparison *c = &comparison;
    const struct comparison_plan plan = {.least = t->rounds, .most = t->rounds, .precision = 0.01};
    memset(candidates, 0, sizeof candidates);
    *c = (struct comparison){.request = {.workload = t->workload,
                                         .order = "dependent",
                                         .touch = "pages",
                                         .timing = "none"},
                             .candidates = candidates,
                             .count = count + 1,
                             .random = 0x9e3779b97f4a7c15u,
                             .progress = t->progress,
                             .progress_arg = t->progress_arg};
    int status = candidate_init(&candidates[0], plain, sizeof plain - 1, NULL, 0, err);
    for (size_t i = 0; i < count && !status; i++) {
        status =
            candidate_init(&candidates[i + 1], list[i].spec, strlen(list[i].spec), NULL, 0, err);
        candidates[i + 1].pooled = list[i].pooled;
        candidates[i + 1].left_out = list[i].left_out;
    }
    if (!status)
        status = comparison_run(c, &plan, err);
    if (!status) {
        evaluate_remedies(c, list);
        *heap_bytes = heap_of(c);
        qsort(list, count, sizeof *list, compare_savings);
        for (size_t i = 0; i < count; i++) /* they have moved, and point into themselves */
            if (!list[i].pooled && !list[i].left_out)
                list[i].setting =
                    strncmp(list[i].spec, "glibc+", 6) ? list[i].spec : list[i].spec + 6;
    }
    comparison_release(c);
    for (size_t i = 0; i <= count; i++)
        candidate_release(&candidates[i]);
    return status;
}
