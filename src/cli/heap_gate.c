/* heap_gate.c - see heap_gate.h. */
#include "cli/heap_gate.h"

#include <string.h>

#include "base/human.h"
#include "base/plural.h"

bool heap_gate_limit(const char *text, uint64_t *limit)
{
    static const char figure[] = "unreachable=";
    return !strncmp(text, figure, sizeof figure - 1) &&
           human_parse_size(text + sizeof figure - 1, limit);
}

int heap_gate_judge(const struct command *self, const struct gate_options *options,
                    const char *text, const struct heap_facts *f, uint64_t limit,
                    const char *target)
{
    char is[HUMAN_TEXT_BYTES], may[HUMAN_TEXT_BYTES], count[HUMAN_TEXT_BYTES];
    struct gate g = {.self = self, .options = options};
    const bool above = f->unreachable_bytes > limit;
    human_size(may, limit);
    if (!f->verified)
        gate_judge(&g, GATE_UNKNOWN, text, NULL, 0,
                   "unreachable: not known whether it is more than %s: %s", may, f->reason);
    else
        gate_judge(&g, above ? GATE_ABOVE : GATE_BELOW, text, NULL, 0,
                   "unreachable: %s in %s %s, %s than %s", human_size(is, f->unreachable_bytes),
                   human_count(count, f->unreachable_blocks),
                   plural(f->unreachable_blocks, "block", "blocks"), above ? "more" : "not more",
                   may);
    return gate_finish(&g, target);
}
