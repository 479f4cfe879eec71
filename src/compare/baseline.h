/* baseline.h - the result of a comparison, kept under a name for the next release to be held
 * against. */
#ifndef MALLOW_COMPARE_BASELINE_H
#define MALLOW_COMPARE_BASELINE_H

#include <json-c/json.h>

#include "base/error.h"

/* Writes the document as the baseline NAME: a path when it has a slash, else in
 * $XDG_DATA_HOME/mallow/baselines. -1 with *err. */
int baseline_save(const char *name, json_object *document, struct error *err);

/* The document of a baseline; the caller owns it. NULL with *err. */
json_object *baseline_load(const char *name, struct error *err);

/* The runs in a document: its own, or with a workload's name those of that workload of a corpus.
 * Borrowed; NULL when there are none. */
json_object *baseline_runs(json_object *document, const char *workload);

/* True if the baseline's runs are of the same workload as `run` and were made in the same way. -1
 * with *err that names the first thing that differs. */
int baseline_matches(json_object *runs, json_object *run, struct error *err);

#endif
