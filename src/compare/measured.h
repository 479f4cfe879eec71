/* measured.h - one replay's result as a JSON object, and the meaning of its fields. One thread. */
#ifndef MALLOW_COMPARE_MEASURED_H
#define MALLOW_COMPARE_MEASURED_H

#include <json-c/json.h>

#include "replay/run.h"

/* Runs once. The object has every field of `replay --json` but schema. NULL with *err. */
json_object *replaying_run(const struct replay_request *request, struct error *err);

/* The same of a replay that has been started by replay_start. */
json_object *replaying_finish(const struct replay_request *request, struct replay_started *started,
                              struct error *err);

/* A number in the object, by path "calls/malloc/count"; `otherwise` when it is not there. */
double measured_number(json_object *run, const char *path, double otherwise);

/* The mean resident size over the run's time, from its timeline; 0 when it has none. */
double measured_average_rss(json_object *run);

#endif
