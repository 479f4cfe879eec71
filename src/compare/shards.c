/* shards.c - Selects the workloads of a shard, and merges the documents of all shards into one
 * comparison. The documents come from other machines, so each field is checked before it is
 * used. */
#include "compare/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int shard_parse(const char *text, struct shard *s, struct error *err)
{
    char *end, *last = NULL;
    unsigned long number = strtoul(text, &end, 10), count = 0;
    if (*end == '/')
        count = strtoul(end + 1, &last, 10);
    if (*text < '1' || *text > '9' || !last || last == end + 1 || *last || end[1] == '-' ||
        number > count || count > SHARDS_MAX)
        return error_set(err, ERROR_USAGE, "'%s' is not a shard such as 2/8 (at most /%d)", text,
                         SHARDS_MAX);
    *s = (struct shard){(unsigned)number, (unsigned)count};
    return 0;
}

int shard_select(const struct shard *s, struct corpus *c, struct error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (i % s->count == s->number - 1)
            c->entry[kept++] = c->entry[i];
    if (!kept)
        return error_set(err, ERROR_USAGE,
                         "shard %u of %u has no workload: the corpus has %zu of them", s->number,
                         s->count, c->count);
    c->count = kept;
    return 0;
}

/* ---- merging ---- */

static json_object *array_of(json_object *from, const char *key)
{
    json_object *found;
    return json_object_object_get_ex(from, key, &found) &&
                   json_object_is_type(found, json_type_array)
               ? found
               : NULL;
}

/* A text of the object, "" when it has none. */
static const char *shard_text(json_object *from, const char *key)
{
    json_object *found;
    return json_object_object_get_ex(from, key, &found) &&
                   json_object_is_type(found, json_type_string)
               ? json_object_get_string(found)
               : "";
}

/* The candidates of the first comparison become the merged ones; those of others must be equal. */
static int take_candidates(struct shards_merged *m, json_object *list, struct error *err)
{
    const size_t n = list ? json_object_array_length(list) : 0;
    const bool first = !m->count;
    if (!n || n > COMPARISON_CANDIDATES)
        return error_set(err, ERROR_USAGE, "a comparison without candidates");
    for (size_t i = 0; i < n; i++) {
        const char *label = shard_text(json_object_array_get_idx(list, i), "candidate");
        if (first) {
            if (!*label || !(m->candidates[i].label = strdup(label)))
                return error_set(err, ERROR_USAGE, "a candidate without a name");
            m->count = i + 1;
        } else if (n != m->count || strcmp(label, m->candidates[i].label) != 0)
            return error_set(err, ERROR_USAGE, "the shards compare different allocators");
    }
    return 0;
}

/* Those that failed have no runs. Returns how many have. */
static size_t take_failed_runs(struct shards_merged *m, json_object *list, struct comparison *c,
                               struct error *err)
{
    size_t left = 0;
    for (size_t i = 0; i < m->count; i++) {
        const char *why = shard_text(json_object_array_get_idx(list, i), "failed");
        if (*why && !(c->failed[i] = strdup(why))) {
            error_memory(err);
            return 0;
        }
        left += !*why;
    }
    if (!left)
        error_set(err, ERROR_USAGE, "all of its candidates failed");
    return left;
}

static int take_runs(struct shards_merged *m, json_object *one, struct comparison *c,
                     struct error *err)
{
    json_object *runs = array_of(one, "runs"), *side;
    const size_t n = runs ? json_object_array_length(runs) : 0;
    const size_t left = take_failed_runs(m, array_of(one, "candidates"), c, err);
    if (!left)
        return -1;
    if (!n || n % left || n / left > COMPARISON_ROUNDS)
        return error_set(err, ERROR_USAGE, "its rounds are incomplete");
    c->candidates = m->candidates;
    c->count = m->count;
    c->runs = calloc(n / left * m->count, sizeof(json_object *));
    if (!c->runs)
        return error_memory(err);
    c->rounds = n / left;
    for (size_t i = 0, at = 0; i < n; i++, at++) {
        json_object *run = json_object_array_get_idx(runs, i);
        while (c->failed[at % m->count])
            at++;
        if (strcmp(shard_text(run, "candidate"), m->candidates[at % m->count].label) != 0)
            return error_set(err, ERROR_USAGE, "its runs are not in the order of its candidates");
        c->runs[at] = json_object_get(run);
    }
    c->side_by_side =
        json_object_object_get_ex(one, "side_by_side", &side) && json_object_get_boolean(side);
    comparison_evaluate(c);
    return 0;
}

/* Adds one comparison of a document, in the order of names. */
static int take_workload(struct shards_merged *m, json_object *one, struct error *err)
{
    const char *name = shard_text(one, "workload");
    struct corpus *corpus = &m->corpus;
    size_t at = 0;
    if (!*name || strlen(name) >= sizeof corpus->entry->name)
        return error_set(err, ERROR_USAGE, "a comparison without a workload's name");
    if (!strcmp(shard_text(one, "ratio_to"), "baseline"))
        return error_set(err, ERROR_USAGE, "comparisons with a baseline cannot be merged");
    if (corpus->count == CORPUS_MAX)
        return error_set(err, ERROR_USAGE, "more than %d workloads", CORPUS_MAX);
    while (at < corpus->count && strcmp(corpus->entry[at].name, name) < 0)
        at++;
    if (at < corpus->count && !strcmp(corpus->entry[at].name, name))
        return error_set(err, ERROR_USAGE, "workload '%s' occurs twice", name);
    if (take_candidates(m, array_of(one, "candidates"), err))
        return -1;
    memmove(&corpus->entry[at + 1], &corpus->entry[at],
            (corpus->count - at) * sizeof *corpus->entry);
    memmove(&m->all[at + 1], &m->all[at], (corpus->count - at) * sizeof *m->all);
    corpus->entry[at] = (struct corpus_entry){.path = ""};
    snprintf(corpus->entry[at].name, sizeof corpus->entry[at].name, "%s", name);
    m->all[at] = (struct comparison){.count = 0};
    corpus->count++;
    if (take_runs(m, one, &m->all[at], err))
        return error_prefix(err, "%s", name);
    return 0;
}

/* Each shard once. *of: into how many, as the first says. */
static int take_shard(json_object *document, bool *seen, unsigned *of, struct error *err)
{
    struct shard s;
    const char *text = shard_text(document, "shard");
    if (!*text || shard_parse(text, &s, err))
        return error_set(err, ERROR_USAGE,
                         "it is not a result of 'compare --corpus --shard --json'");
    if (*of && s.count != *of)
        return error_set(err, ERROR_USAGE, "it is one of %u shards, the others are of %u", s.count,
                         *of);
    *of = s.count;
    if (seen[s.number])
        return error_set(err, ERROR_USAGE, "shard %u of %u occurs twice", s.number, s.count);
    seen[s.number] = true;
    return 0;
}

static int take_document(struct shards_merged *m, json_object *document, bool *seen, unsigned *of,
                         struct error *err)
{
    json_object *corpus = array_of(document, "corpus");
    if (take_shard(document, seen, of, err))
        return -1;
    for (size_t i = 0; corpus && i < json_object_array_length(corpus); i++)
        if (take_workload(m, json_object_array_get_idx(corpus, i), err))
            return -1;
    return 0;
}

int shards_merge(json_object *const *documents, char *const *names, size_t n,
                 struct shards_merged *m, struct error *err)
{
    static bool seen[SHARDS_MAX + 1];
    unsigned of = 0;
    memset(seen, 0, sizeof seen);
    *m = (struct shards_merged){.count = 0};
    if (!(m->all = calloc(CORPUS_MAX + 1, sizeof *m->all)))
        return error_memory(err);
    for (size_t d = 0; d < n; d++)
        if (take_document(m, documents[d], seen, &of, err))
            return error_prefix(err, "%s", names[d]);
    for (unsigned i = 1; i <= of; i++)
        if (!seen[i])
            return error_set(err, ERROR_USAGE, "shard %u of %u is missing", i, of);
    return m->corpus.count ? 0 : error_set(err, ERROR_USAGE, "there is nothing to merge");
}

void shards_release(struct shards_merged *m)
{
    for (size_t i = 0; m->all && i < m->corpus.count; i++)
        comparison_release(&m->all[i]);
    free(m->all);
    for (size_t i = 0; i < m->count; i++)
        candidate_release(&m->candidates[i]);
    *m = (struct shards_merged){.count = 0};
}
