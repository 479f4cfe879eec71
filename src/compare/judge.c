/* judge.c - Judges whether a candidate is worse than a limit, not worse, or whether the interval
 * is too wide to know. A verdict of worse is repeated with fresh runs before it counts. */
#include "compare/judge.h"

enum comparison_verdict comparison_judge(const struct comparison *c, size_t candidate,
                                         enum comparison_metric metric, double limit)
{
    const struct stats_ratio *q = &c->cells[candidate][metric].ratio;
    const double least = limit > STATS_MATTERS ? limit : STATS_MATTERS;
    if (q->method == STATS_NONE)
        return COMPARISON_NOT_KNOWN;
    if (q->differs && q->ratio > 1 + limit)
        return COMPARISON_WORSE;
    const double reach =
        q->high - q->ratio > q->ratio - q->low ? q->high - q->ratio : q->ratio - q->low;
    return q->high > 1 + limit && reach > least ? COMPARISON_NOT_KNOWN : COMPARISON_NOT_WORSE;
}

size_t comparison_first_judged(const struct comparison *c) { return c->baseline ? 0 : 1; }

static bool is_worse(const struct comparison *c, double limit)
{
    for (size_t i = comparison_first_judged(c); i < c->count; i++)
        for (unsigned m = 0; m < COMPARISON_METRICS; m++)
            if (comparison_metrics[m].gate && comparison_judge(c, i, m, limit) == COMPARISON_WORSE)
                return true;
    return false;
}

int comparison_run_surely(struct comparison *c, const struct comparison_plan *plan, double limit,
                          struct error *err)
{
    int failed = comparison_run(c, plan, err);
    if (!failed && limit >= 0 && is_worse(c, limit))
        failed = comparison_run(c, plan, err);
    return failed;
}
