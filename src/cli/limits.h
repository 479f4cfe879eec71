/* limits.h - limits of the figures of a recording, as --fail-above gives them. */
#ifndef MALLOW_CLI_LIMITS_H
#define MALLOW_CLI_LIMITS_H

#include "base/error.h"
#include "report/gate.h"

struct gate_limit {
    enum gate_figure figure;
    bool percent; /* share says it, not amount */
    double share; /* 0.05 is 5 % */
    uint64_t amount;
    char text[64]; /* as given: "peak=10M" */
};

struct gate_limits {
    struct gate_limit items[GATE_FIGURES];
    size_t count;
};

/* FIGURE=SIZE[,FIGURE=SIZE...]; each figure once. shares: P% may stand for a size, too.
 * `unnamed`: of a limit without a figure; GATE_FIGURES: there must be one. text NULL: no limit. */
int gate_parse(struct gate_limits *l, const char *text, bool shares, enum gate_figure unnamed,
               struct error *err);

#endif
