/* pressure.h - when memory gets short: what `--dump-when` compares.
 *
 * Owns: expressions such as "rss>90%", and that a threshold counts once until the value was clearly
 * below it again. Limits and pressure are those of groups.h. One thread. */
#ifndef MALLOW_LIMIT_PRESSURE_H
#define MALLOW_LIMIT_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "limit/groups.h"

#define PRESSURE_MAX 8u

enum pressure_kind { PRESSURE_RSS_BYTES, PRESSURE_RSS_SHARE, PRESSURE_STALL };

struct pressure_rule {
    enum pressure_kind kind;
    uint64_t bytes;   /* the bytes that PRESSURE_RSS_BYTES compares with */
    unsigned percent; /* which percentage the others are, 1 to 100 */
    bool above;
};

struct pressure {
    struct pressure_rule rules[PRESSURE_MAX];
    unsigned count;
    uint64_t once_bytes, once_ns; /* the last answer of pressure_sizes.once, and when */
};

struct pressure_sizes { /* sizes of the processes that are looked after */
    uint64_t now_ns;
    uint64_t rss_bytes; /* added up: pages that they share count more than once */
    unsigned processes;
    /* The same with pages that they share counted once. Asked when it could make a difference, at
     * most once a second. NULL: it is as rss_bytes. */
    uint64_t (*once)(void *arg);
    void *arg;
};

/* EXPR[,EXPR...], each rss>SIZE, rss>P% or psi>P%. 0, or -1 with *err, which says what would be
 * right. */
int pressure_parse(struct pressure *p, const char *text, struct error *err);

/* Compares. groups: the control groups that are asked, NULL: none. Returns the rule that is crossed
 * upwards now, with a line that says so, or NULL. */
const struct pressure_rule *pressure_crossed(struct pressure *p, const struct pressure_sizes *sizes,
                                             const struct limit_groups *groups, char *line,
                                             size_t room);

#endif
