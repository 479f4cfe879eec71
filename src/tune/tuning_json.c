/* tuning_json.c - a tuning as the document of --json. See tuning.h. */
#include <string.h>

#include "tune/tuning.h"
#include "show/json_document.h"

static const char *const winner_keys[TUNING_WINNERS] = {"peak", "average", "time", "all"};

static void add_setting_json(void *arg, const char *setting)
{
    const char *equals = strchr(setting, '=');
    struct buffer key = {0};
    buffer_append(&key, setting, (size_t)(equals - setting));
    json_object_object_add(arg, buffer_text(&key), json_object_new_string(equals + 1));
    buffer_release(&key);
}

static json_object *point_json(const struct tuning *t, const struct tune_point *p)
{
    json_object *out = document_new(), *settings = json_object_new_object();
    struct buffer line = {0};
    for (size_t i = 0; i < t->options.setting_count; i++)
        add_setting_json(settings, t->options.settings[i]);
    tune_settings_say(&t->settings, p->level, add_setting_json, settings);
    tuning_line(t, p, &line);
    json_object_object_add(out, "settings", settings);
    json_object_object_add(out, "environment", json_object_new_string(buffer_text(&line)));
    json_object_object_add(out, "runs",
                           json_object_new_int64(p == tune_search_usual(t->search)
                                                     ? (int64_t)t->usuals
                                                     : (int64_t)p->runs));
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++) {
        json_object *v = json_object_new_object();
        json_object_object_add(
            v, "median",
            json_object_new_double(stats_median(t->usual[o], t->usuals) * p->value[o]));
        json_object_object_add(v, "to_default", json_object_new_double(p->value[o]));
        json_object_object_add(out, comparison_metrics[t->metric[o]].key, v);
    }
    buffer_release(&line);
    return out;
}

static json_object *winner_json(const struct tuning *t, const struct tuning_winner *w)
{
    json_object *out = point_json(t, w->point), *fresh = json_object_new_object();
    json_object_object_add(out, "objective", json_object_new_string(winner_keys[w->claim]));
    json_object_object_add(out, "candidate",
                           json_object_new_string(t->candidates[w->candidate].label));
    json_object_object_add(out, "confirmed", json_object_new_boolean(tuning_confirmed(w)));
    comparison_ratio_json(out, &w->ratio);
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++) {
        json_object *v = json_object_new_object();
        const struct cell *cell = &t->confirmation.cells[w->candidate][t->metric[o]];
        json_object_object_add(v, "median", json_object_new_double(cell->median));
        comparison_ratio_json(v, &cell->ratio);
        json_object_object_add(fresh, comparison_metrics[t->metric[o]].key, v);
    }
    json_object_object_add(out, "fresh", fresh);
    return out;
}

json_object *tuning_json(struct tuning *t, const char *workload)
{
    json_object *out = json_object_new_object(), *front = json_object_new_array(),
                *winners = json_object_new_array(), *searched = json_object_new_array();
    const struct tune_point **points, *usual = tune_search_usual(t->search);
    size_t n = tune_search_front(t->search, TUNING_CLOSE, &points);
    bool there = false;
    for (size_t i = 0; i < n; i++) {
        json_object_array_add(front, point_json(t, points[i]));
        there |= points[i] == usual;
    }
    for (size_t i = 0; i < t->winner_count; i++)
        json_object_array_add(winners, winner_json(t, &t->winners[i]));
    for (size_t i = 0; i < tune_search_points(t->search); i++)
        if (!tune_search_point(t->search, i)->failed)
            json_object_array_add(searched, point_json(t, tune_search_point(t->search, i)));
    json_object_object_add(out, "workload", json_object_new_string(workload));
    json_object_object_add(out, "allocator", json_object_new_string(t->options.alloc));
    json_object_object_add(out, "seed", json_object_new_int64((int64_t)t->options.seed));
    json_object_object_add(out, "runs", json_object_new_int64((int64_t)t->runs));
    json_object_object_add(out, "failed_runs", json_object_new_int64((int64_t)t->failures));
    json_object_object_add(out, "points",
                           json_object_new_int64((int64_t)tune_search_points(t->search)));
    json_object_object_add(out, "confirmation_rounds",
                           json_object_new_int64((int64_t)t->confirmation.rounds));
    json_object_object_add(out, "default", point_json(t, usual));
    json_object_object_add(out, "default_on_front", json_object_new_boolean(there));
    json_object_object_add(out, "front", front);
    json_object_object_add(out, "winners", winners);
    json_object_object_add(out, "searched", searched);
    if (t->winner_count)
        json_object_object_add(out, "confirmation", comparison_json(&t->confirmation, &t->plan));
    return out;
}
