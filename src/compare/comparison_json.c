/* comparison_json.c - a comparison as the document of --json. See comparison.h. */
#include <math.h>

#include "compare/comparison.h"
#include "show/json_document.h"

static json_object *json_of_number(double v)
{
    return isfinite(v) ? json_object_new_double(v) : NULL;
}

void comparison_ratio_json(json_object *into, const struct stats_ratio *r)
{
    if (r->method == STATS_NONE)
        return;
    json_object_object_add(into, "ratio", json_of_number(r->ratio));
    json_object_object_add(into, "ratio_low", json_of_number(r->low));
    json_object_object_add(into, "ratio_high", json_of_number(r->high));
    json_object_object_add(into, "method",
                           json_object_new_string(r->method == STATS_RANKS ? "ranks" : "student"));
    json_object_object_add(into, "differs", json_object_new_boolean(r->differs));
}

static json_object *candidate_json(const struct comparison *c, size_t i)
{
    json_object *k = json_object_new_object();
    json_object_object_add(k, "candidate", json_object_new_string(c->candidates[i].label));
    if (c->failed[i])
        json_object_object_add(k, "failed", json_object_new_string(c->failed[i]));
    for (unsigned m = 0; m < COMPARISON_METRICS && !c->failed[i]; m++) {
        const struct cell *cell = &c->cells[i][m];
        json_object *v = json_object_new_object();
        json_object_object_add(v, "median", json_of_number(cell->median));
        json_object_object_add(v, "least", json_of_number(cell->low));
        json_object_object_add(v, "most", json_of_number(cell->high));
        comparison_ratio_json(v, &cell->ratio);
        json_object_object_add(v, "best", json_object_new_boolean(cell->best));
        json_object_object_add(v, "worst", json_object_new_boolean(cell->worst));
        json_object_object_add(k, comparison_metrics[m].key, v);
    }
    return k;
}

json_object *comparison_json(const struct comparison *c, const struct comparison_plan *plan)
{
    json_object *out = document_new(), *runs = json_object_new_array(),
                *candidates = json_object_new_array();
    json_object_object_add(out, "rounds", json_object_new_int64((int64_t)c->rounds));
    json_object_object_add(out, "ratio_to",
                           json_object_new_string(c->baseline ? "baseline" : "first"));
    json_object_object_add(out, "side_by_side", json_object_new_boolean(c->side_by_side));
    json_object_object_add(out, "precise", json_object_new_boolean(c->reach <= plan->precision));
    json_object_object_add(out, "reach", json_of_number(c->reach));
    for (size_t i = 0; i < c->count; i++)
        json_object_array_add(candidates, candidate_json(c, i));
    for (size_t i = 0; i < c->rounds * c->count; i++) {
        if (!c->runs[i])
            continue;
        json_object *run = json_object_get(c->runs[i]);
        json_object_object_add(run, "candidate",
                               json_object_new_string(c->candidates[i % c->count].label));
        json_object_object_add(run, "round", json_object_new_int64((int64_t)(i / c->count)));
        json_object_array_add(runs, run);
    }
    json_object_object_add(out, "candidates", candidates);
    json_object_object_add(out, "runs", runs);
    return out;
}
