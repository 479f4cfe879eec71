/* limits.c - Parses the list of figures and limits that --fail-above takes. A figure may occur
 * once. */
#include "cli/limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/human.h"

static bool parse_amount(struct gate_limit *l, const char *text, bool shares)
{
    const size_t n = strlen(text);
    if (!n || text[n - 1] != '%')
        return human_parse_size(text, &l->amount);
    char *end;
    l->percent = true;
    l->share = strtod(text, &end) / 100;
    return shares && end != text && !strcmp(end, "%") && l->share >= 0 && l->share < 1e6;
}

static bool parse_one(struct gate_limits *all, const char *text, size_t n, bool shares,
                      enum gate_figure unnamed)
{
    struct gate_limit l = {.figure = unnamed};
    if (n >= sizeof l.text)
        return false;
    memcpy(l.text, text, n);
    const char *equals = strchr(l.text, '=');
    if (equals)
        l.figure = gate_find(l.text, (size_t)(equals - l.text));
    if (l.figure == GATE_FIGURES || !parse_amount(&l, equals ? equals + 1 : l.text, shares))
        return false;
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].figure == l.figure)
            return false;
    all->items[all->count++] = l;
    return true;
}

int gate_parse(struct gate_limits *l, const char *text, bool shares, enum gate_figure unnamed,
               struct error *err)
{
    l->count = 0;
    for (const char *p = text; p; p = strchr(p, ',')) {
        p += p != text; /* the comma */
        const size_t n = strcspn(p, ",");
        if (!parse_one(l, p, n, shares, unnamed))
            return error_set(err, ERROR_USAGE,
                             "--fail-above: '%.*s' is not a limit such as peak=10M%s; the figures "
                             "are %s, each at most once",
                             (int)n, p, shares ? " or end=5%" : "", GATE_NAMES);
    }
    return 0;
}
