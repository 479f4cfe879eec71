/* corpus.c - Finds the workloads that come with mallow, and combines the comparisons of all of
 * them into a mean and a document. */
#include "compare/corpus.h"
#include "show/json_document.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ending[] = ".mwl.zst";

static int compare_entry_names(const void *a, const void *b)
{
    return strcmp(((const struct corpus_entry *)a)->name, ((const struct corpus_entry *)b)->name);
}

static void list_workloads(struct corpus *c, const char *directory)
{
    DIR *d = opendir(directory);
    const struct dirent *e;
    while (d && c->count < CORPUS_MAX && (e = readdir(d))) {
        struct corpus_entry *k = &c->entry[c->count];
        size_t n = strlen(e->d_name), end = sizeof ending - 1;
        if (n <= end || n - end >= sizeof k->name || strcmp(e->d_name + n - end, ending) != 0)
            continue;
        memcpy(k->name, e->d_name, n - end);
        k->name[n - end] = 0;
        int length = snprintf(k->path, sizeof k->path, "%s/%s", directory, e->d_name);
        if (length > 0 && (size_t)length < sizeof k->path)
            c->count++;
    }
    if (d)
        closedir(d);
    qsort(c->entry, c->count, sizeof *c->entry, compare_entry_names);
}

int corpus_find(struct corpus *c, struct error *err)
{
    char own[PATH_MAX], directory[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n < 0)
        return error_system(err, "cannot read /proc/self/exe, is /proc mounted?");
    own[n] = 0;
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = 0;
    c->count = 0;
    snprintf(directory, sizeof directory, "%s/corpus", own);
    list_workloads(c, directory);
    if (!c->count) {
        snprintf(directory, sizeof directory, "%s/" MALLOW_DATA_RELATIVE "/corpus", own);
        list_workloads(c, directory);
    }
    if (!c->count)
        return error_set(err, ERROR_UNSUPPORTED,
                         "no corpus is found beside mallow in %s, nor in %s", own, directory);
    return 0;
}

struct stats_ratio corpus_mean(const struct corpus *c, const struct comparison *all,
                               size_t candidate, enum comparison_metric metric)
{
    static double x[COMPARISON_ROUNDS], y[COMPARISON_ROUNDS], v[COMPARISON_ROUNDS];
    size_t rounds = COMPARISON_ROUNDS;
    if (all[0].baseline || !candidate)
        return (struct stats_ratio){0};
    for (size_t w = 0; w < c->count; w++) {
        if (all[w].failed[0] || all[w].failed[candidate])
            return (struct stats_ratio){0}; /* a mean of others would be of another corpus */
        rounds = all[w].rounds < rounds ? all[w].rounds : rounds;
    }
    for (size_t i = 0; i < rounds; i++)
        x[i] = y[i] = 0;
    for (size_t w = 0; w < c->count; w++) {
        comparison_values(&all[w], candidate, metric, v);
        for (size_t i = 0; i < rounds; i++)
            x[i] += log(v[i]) / (double)c->count;
        comparison_values(&all[w], 0, metric, v);
        for (size_t i = 0; i < rounds; i++)
            y[i] += log(v[i]) / (double)c->count;
    }
    for (size_t i = 0; i < rounds; i++) {
        x[i] = exp(x[i]);
        y[i] = exp(y[i]);
    }
    return stats_paired(x, y, rounds);
}

json_object *corpus_json(const struct corpus *c, const struct comparison *all,
                         const struct comparison_plan *plan)
{
    json_object *out = document_new(), *workloads = json_object_new_array(),
                *means = json_object_new_array();
    for (size_t w = 0; w < c->count; w++) {
        json_object *one = comparison_json(&all[w], plan);
        json_object_object_del(one, "schema");
        json_object_object_del(one, "mallow");
        json_object_object_add(one, "workload", json_object_new_string(c->entry[w].name));
        json_object_array_add(workloads, one);
    }
    for (size_t k = 1; k < all[0].count && !all[0].baseline; k++) {
        json_object *one = json_object_new_object();
        json_object_object_add(one, "candidate",
                               json_object_new_string(all[0].candidates[k].label));
        for (unsigned m = 0; m < COMPARISON_METRICS; m++) {
            json_object *v = json_object_new_object();
            struct stats_ratio r = corpus_mean(c, all, k, m);
            comparison_ratio_json(v, &r);
            json_object_object_add(one, comparison_metrics[m].key, v);
        }
        json_object_array_add(means, one);
    }
    json_object_object_add(out, "corpus", workloads);
    json_object_object_add(out, "geometric_means", means);
    return out;
}
