/* pressure.h - when memory gets short: what `--dump-when` compares.
 *
 * Owns: expressions such as "rss>90%", the limit of a process's control group (both versions, with
 * the groups above), the pressure stall information, and that a threshold counts once until the
 * value was clearly below it again. One thread. */
#ifndef MALLOW_RECORD_PRESSURE_H
#define MALLOW_RECORD_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define PRESSURE_MAX 8u

enum pressure_kind { PRESSURE_RSS_BYTES, PRESSURE_RSS_SHARE, PRESSURE_STALL };

struct pressure_rule {
    enum pressure_kind kind;
    uint64_t bytes;   /* of PRESSURE_RSS_BYTES */
    unsigned percent; /* of the others, 1 to 100 */
    bool above;
};

struct pressure {
    struct pressure_rule rules[PRESSURE_MAX];
    unsigned count;
};

/* EXPR[,EXPR...], each rss>SIZE, rss>P% or psi>P%. 0, or -1 with *err, which says what would be
 * right. */
int pressure_parse(struct pressure *p, const char *text, struct error *err);

/* Compares. rss_bytes: of the recorded processes; pid: whose control group is asked, 0: none.
 * Returns the rule that is crossed upwards now, with a line that says so, or NULL. */
const struct pressure_rule *pressure_crossed(struct pressure *p, uint64_t rss_bytes, pid_t pid,
                                             char *line, size_t room);

#endif
