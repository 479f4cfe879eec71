/* pressure.c - Parses the thresholds of `--dump-when` and compares them with the current sizes
 * and stalls. A threshold fires once, and again only after the value fell clearly below it.
 * Counting shared pages once is expensive, so that value is kept for a second. */
#include "limit/pressure.h"

#include <stdio.h>
#include <string.h>

#include "base/human.h"

static int parse_pressure_rule(struct pressure_rule *rule, const char *text, struct error *err)
{
    char number[64];
    const bool rss = !strncmp(text, "rss>", 4), stall = !strncmp(text, "psi>", 4);
    const size_t n = rss || stall ? strlen(text + 4) : 0;
    *rule = (struct pressure_rule){.kind = stall ? PRESSURE_STALL : PRESSURE_RSS_BYTES};
    if (n && n < sizeof number) {
        uint64_t percent;
        memcpy(number, text + 4, n + 1);
        if (number[n - 1] != '%') {
            if (rss && human_parse_size(number, &rule->bytes) && rule->bytes)
                return 0;
        } else {
            number[n - 1] = 0;
            rule->kind = stall ? PRESSURE_STALL : PRESSURE_RSS_SHARE;
            if (human_parse_count(number, &percent) && percent >= 1 && percent <= 100) {
                rule->percent = (unsigned)percent;
                return 0;
            }
        }
    }
    return error_set(err, ERROR_USAGE,
                     "'%s' is not a threshold; use rss>SIZE (rss>2G), rss>P%% (of the limit of the "
                     "control group, rss>90%%) or psi>P%% (of the time, psi>20%%)",
                     text);
}

int pressure_parse(struct pressure *p, const char *text, struct error *err)
{
    char one[128];
    for (const char *at = text;;) {
        const size_t n = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : (int)sizeof one - 1, at);
        if (p->count == PRESSURE_MAX)
            return error_set(err, ERROR_USAGE, "more than %u thresholds", PRESSURE_MAX);
        if (parse_pressure_rule(&p->rules[p->count], one, err))
            return -1;
        p->count++;
        if (!at[n])
            return 0;
        at += n + 1;
    }
}

/* True if the value is above, and, for a rule that has counted, clearly below again. */
static bool crossed(struct pressure_rule *rule, uint64_t value, uint64_t threshold,
                    uint64_t clearly_below)
{
    if (value <= clearly_below)
        rule->above = false;
    if (rule->above || value <= threshold)
        return false;
    return rule->above = true;
}

#define ONCE_NS 1000000000ull

/* The resident size to compare; *once: shared pages are counted once in it. */
static uint64_t size_above(struct pressure *p, const struct pressure_sizes *s, uint64_t threshold,
                           bool *once)
{
    *once = s->rss_bytes > threshold && s->processes > 1 && s->once;
    if (!*once)
        return s->rss_bytes;
    if (!p->once_ns || s->now_ns - p->once_ns >= ONCE_NS) {
        p->once_bytes = s->once(s->arg);
        p->once_ns = s->now_ns;
    }
    return p->once_bytes < s->rss_bytes ? p->once_bytes : s->rss_bytes;
}

const struct pressure_rule *pressure_crossed(struct pressure *p, const struct pressure_sizes *sizes,
                                             const struct limit_groups *groups, char *line,
                                             size_t room)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    for (unsigned i = 0; i < p->count; i++) {
        struct pressure_rule *r = &p->rules[i];
        unsigned stall;
        bool once;
        uint64_t threshold = r->bytes, limit, value;
        switch (r->kind) {
        case PRESSURE_STALL:
            if (!groups || !limit_stall(groups, &stall) ||
                !crossed(r, stall, r->percent * 100ull, r->percent * 80ull))
                break;
            snprintf(line, room, "tasks waited for memory %u.%02u%% of the last 10 s (psi>%u%%)",
                     stall / 100, stall % 100, r->percent);
            return r;
        case PRESSURE_RSS_SHARE:
            if (!groups || !limit_use(groups, &value, &limit))
                break;
            threshold = limit / 100 * r->percent;
            if (!crossed(r, value, threshold, threshold - threshold / 20))
                break;
            snprintf(line, room, "its control group uses %s (rss>%u%%, which is %s)",
                     human_size(a, value), r->percent, human_size(b, threshold));
            return r;
        case PRESSURE_RSS_BYTES:
            value = size_above(p, sizes, threshold, &once);
            if (!crossed(r, value, threshold, threshold - threshold / 20))
                break;
            snprintf(line, room, "the resident size is %s%s (rss>%s)", human_size(a, value),
                     once ? ", shared pages counted once" : "", human_size(b, threshold));
            return r;
        }
    }
    return NULL;
}
