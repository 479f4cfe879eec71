/* shards.h - a corpus that is compared on several machines, a part on each, and put together again.
 *
 * Owns: which workloads a shard runs, and the merging of documents of `compare --corpus --json`.
 * The documents were written elsewhere: every field is checked. One thread. */
#ifndef MALLOW_COMPARE_SHARDS_H
#define MALLOW_COMPARE_SHARDS_H

#include "compare/corpus.h"

enum { SHARDS_MAX = 4096 };

struct shard {
    unsigned number, count; /* number: from 1; count 0: not sharded */
};

/* "K/N". -1 with *err. */
int shard_parse(const char *text, struct shard *s, struct error *err);

/* Keeps the workloads of this shard: by name, each N-th. -1 with *err when it has none. */
int shard_select(const struct shard *s, struct corpus *c, struct error *err);

struct shards_merged {
    struct corpus corpus;   /* names alone, sorted */
    struct comparison *all; /* [corpus.count] */
    struct candidate candidates[COMPARISON_CANDIDATES];
    size_t count;
};

/* Puts the documents of all shards together; they stay the caller's and must outlive *m. names:
 * of their files, for messages. -1 with *err: a file is none, shards are missing or there twice, or
 * their candidates differ. shards_release in any case. */
int shards_merge(json_object *const *documents, char *const *names, size_t n,
                 struct shards_merged *m, struct error *err);
void shards_release(struct shards_merged *m);

#endif
