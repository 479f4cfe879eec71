/* show.h - a tuning as text: the Pareto front, and the best with their confirmation. */
#ifndef MALLOW_TUNE_SHOW_H
#define MALLOW_TUNE_SHOW_H

#include "tune/tuning.h"

/* On standard output; `workload` as the user named it. */
void tune_print(struct tuning *t, const char *workload);

#endif
