/* judge.h - whether a candidate is worse than its measure by more than a limit.
 *
 * Pure functions of the figures of a comparison, but for comparison_run_surely. */
#ifndef MALLOW_COMPARE_JUDGE_H
#define MALLOW_COMPARE_JUDGE_H

#include "compare/comparison.h"

enum comparison_verdict { COMPARISON_NOT_WORSE, COMPARISON_WORSE, COMPARISON_NOT_KNOWN };

/* True if a figure is worse by more than the limit, a share. It is not known when the limit lies
 * within the interval and the interval reaches further than the limit allows. */
enum comparison_verdict comparison_judge(const struct comparison *c, size_t candidate,
                                         enum comparison_metric metric, double limit);

/* 0 with a baseline; else 1, since candidate 0 is the measure for the others. */
size_t comparison_first_judged(const struct comparison *c);

/* As comparison_run; a figure worse by more than the limit must be so again in fresh rounds, which
 * then count alone. A negative limit: nothing is judged. */
int comparison_run_surely(struct comparison *c, const struct comparison_plan *plan, double limit,
                          struct error *err);

#endif
