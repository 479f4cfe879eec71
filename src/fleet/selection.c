/* selection.c - which processes: times, labels and selections as people write them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "fleet/fleet.h"

#define SECOND_NS 1000000000ll
#define LATEST    (INT64_MAX / SECOND_NS)

#define FACT(member, plural, name, singular, bits)                                                 \
    {name, #member, singular, #plural, bits, offsetof(struct fleet_selection, member)},
const struct fleet_fact fleet_facts[FLEET_FACTS] = {FLEET_FACT_LIST(FACT)};

bool fleet_fact_is_good(const struct fleet_fact *f, const char *text)
{
    return !(f->bits & FLEET_FACT_DIGITS) || strspn(text, "0123456789abcdefABCDEF") == strlen(text);
}

static const struct fleet_fact *find_fact(const char *name)
{
    for (size_t i = 0; i < FLEET_FACTS; i++)
        if (!strcmp(fleet_facts[i].name, name))
            return &fleet_facts[i];
    return NULL;
}

static bool calendar(const char *text, int64_t *seconds)
{
    static const char *const shapes[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct tm tm = {0};
        const char *end = strptime(text, shapes[i], &tm);
        if (end && (!*end || !strcmp(end, "Z"))) {
            *seconds = timegm(&tm);
            return *seconds >= 0 && *seconds < LATEST;
        }
    }
    return false;
}

bool fleet_parse_time(const char *text, int64_t *realtime_ns)
{
    uint64_t count;
    int64_t seconds;
    if (*text == '@') {
        if (!human_parse_count(text + 1, &count) || count >= (uint64_t)LATEST)
            return false;
        *realtime_ns = (int64_t)count * SECOND_NS;
        return true;
    }
    if (calendar(text, &seconds)) {
        *realtime_ns = seconds * SECOND_NS;
        return true;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
    if (!human_parse_duration(text, &count) || count > now_ns)
        return false;
    *realtime_ns = (int64_t)(now_ns - count);
    return true;
}

bool fleet_parse_label(const char *text, struct fleet_label *label)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return false;
    *label = (struct fleet_label){text, equals + 1, (size_t)(equals - text)};
    return true;
}

bool fleet_parse_range(const char *text, int64_t *since_ns, int64_t *until_ns)
{
    const char *dots = strstr(text, "..");
    char *from = dots ? strndup(text, (size_t)(dots - text)) : NULL;
    const bool good = from && (*from || dots[2]) && (!*from || fleet_parse_time(from, since_ns)) &&
                      (!dots[2] || fleet_parse_time(dots + 2, until_ns));
    free(from);
    return good;
}

bool fleet_parse_group(const char *text, struct fleet_group *group)
{
    const struct fleet_fact *fact = find_fact(text);
    *group = (struct fleet_group){.column = fact ? fact->column : NULL};
    if (!strncmp(text, "label.", 6) && text[6])
        group->label = text + 6;
    return group->column || group->label;
}

#define EQUALS(member, plural, name, singular, bits) name "=, "
static int parse_term(char *term, struct fleet_selection *s, struct error *err)
{
    static const char label[] = "label.";
    char *equals = strchr(term, '=');
    int64_t *time = NULL;
    if (!strcmp(term, "all"))
        return 0;
    if (!strncmp(term, label, sizeof label - 1) && s->label_count < FLEET_LABELS &&
        fleet_parse_label(term + sizeof label - 1, &s->labels[s->label_count])) {
        s->label_count++;
        return 0;
    }
    if (equals) {
        *equals++ = 0;
        const struct fleet_fact *fact = find_fact(term);
        if (fact)
            *(const char **)(void *)((char *)s + fact->offset) = equals;
        else if (!strcmp(term, "since"))
            time = &s->since_ns;
        else if (!strcmp(term, "until"))
            time = &s->until_ns;
        else
            equals = NULL;
    }
    if (!equals)
        return error_set(err, ERROR_USAGE,
                         "'%s' is not part of a selection; " FLEET_FACT_LIST(
                             EQUALS) "since=, "
                                     "until=, label.KEY= and all are",
                         term);
    if (time && !fleet_parse_time(equals, time))
        return error_set(
            err, ERROR_USAGE,
            "'%s' is not a time such as 2026-11-22, 2026-11-22T20:15, @1795378500 or 24h", equals);
    return 0;
}

int fleet_parse_selection(char *text, struct fleet_selection *s, struct error *err)
{
    char *rest = text, *term;
    *s = (struct fleet_selection){0};
    while ((term = strsep(&rest, ",")))
        if (parse_term(term, s, err))
            return -1;
    return 0;
}
