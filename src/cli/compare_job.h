/* compare_job.h - a file, a corpus, or the shards of one: measured, shown, saved and judged.
 *
 * Owns: what it prints to standard output, and the exit status, which each function returns. */
#ifndef MALLOW_CLI_COMPARE_JOB_H
#define MALLOW_CLI_COMPARE_JOB_H

#include "cli/gate.h"
#include "cli/replaying.h"
#include "compare/comparison.h"
#include "compare/shards.h"

/* The options of `mallow compare`. */
struct compare_cli {
    struct replaying how;
    struct option_texts alloc;
    const char *save, *against, *fail_above, *precision, *html;
    struct gate_options gate;
    const char *shard;
    bool json, corpus, merge;
    uint64_t repeat, max_repeat, pid;
};

/* What stands ready to run. */
struct comparing {
    const struct command *self;
    const struct compare_cli *o;
    struct comparison_plan plan;
    struct shard shard;
    double fail_above; /* a share; negative for no gate */
    struct candidate candidates[COMPARISON_CANDIDATES];
    size_t count;
};

/* A workload, or a recording that is made one. `document`: the baseline, or NULL. */
int compare_file(const struct comparing *k, const char *path, json_object *document);

/* The workloads that come with mallow. */
int compare_corpus(const struct comparing *k, json_object *document);

/* The documents that all shards of a corpus printed, as one. */
int compare_merge(const struct comparing *k, char **files, int count);

#endif
