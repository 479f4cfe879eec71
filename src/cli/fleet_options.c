/* fleet_options.c - Turns the options of `mallow fleet` into a selection, a question and access
 * to a store. Each function prints its own usage error. */
#include "cli/fleet_options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trust/file.h"

#define KEY_BYTES 4096u

int fleet_read_access(const struct command *self, const struct fleet_cli *cli, char **key,
                      struct fleet_access *access)
{
    static const struct trust_rule rule = {
        .what = "the file of the key", .owners = TRUST_CALLER | TRUST_ROOT, .follow = true};
    struct error err;
    size_t bytes = 0;
    *key = NULL;
    *access = (struct fleet_access){.authorities = cli->ca, .cluster = cli->cluster};
    if (!cli->key_file)
        return 0;
    const int fd = trust_open(AT_FDCWD, cli->key_file, TRUST_READ, &rule, &err);
    if (fd < 0)
        return command_fail(self, &err);
    *key = trust_read_whole(fd, KEY_BYTES, &bytes, &err);
    close(fd);
    if (!*key)
        return command_fail(self, &err);
    (*key)[strcspn(*key, "\r\n")] = 0;
    access->key = *key;
    return 0;
}

bool fleet_read_labels(const struct command *self, const struct fleet_cli *cli,
                       struct fleet_label **labels)
{
    *labels = calloc(cli->labels.count + 1, sizeof **labels);
    for (size_t i = 0; *labels && i < cli->labels.count; i++)
        if (!fleet_parse_label(cli->labels.items[i], &(*labels)[i])) {
            command_usage(self, "--label: '%s' is not KEY=VALUE", cli->labels.items[i]);
            return false;
        }
    if (!*labels)
        command_no_memory(self);
    return *labels != NULL;
}

static int read_time(const struct command *self, const char *option, const char *text,
                     int64_t *time_ns)
{
    if (!text || fleet_parse_time(text, time_ns))
        return 0;
    return command_usage(
        self, "%s: '%s' is not a time such as 2026-11-22, 2026-11-22T20:15, @1795378500 or 24h",
        option, text);
}

int fleet_read_selection(const struct command *self, const struct fleet_cli *cli,
                         struct fleet_selection *of)
{
    *of = cli->facts;
    for (const struct fleet_fact *f = fleet_facts; f < fleet_facts + FLEET_FACTS; f++)
        if (fleet_fact_of(of, f) && !fleet_fact_is_good(f, fleet_fact_of(of, f)))
            return command_usage(self, "--%s: '%s' is not hexadecimal", f->name,
                                 fleet_fact_of(of, f));
    if (cli->labels.count > FLEET_LABELS)
        return command_usage(self, "more than %u labels", FLEET_LABELS);
    for (; of->label_count < cli->labels.count; of->label_count++)
        if (!fleet_parse_label(cli->labels.items[of->label_count], &of->labels[of->label_count]))
            return command_usage(self, "--label: '%s' is not KEY=VALUE",
                                 cli->labels.items[of->label_count]);
    const int status = read_time(self, "--since", cli->since, &of->since_ns);
    return status ? status : read_time(self, "--until", cli->until, &of->until_ns);
}

int fleet_read_baseline(const struct command *self, const struct fleet_cli *cli,
                        const struct fleet_selection *of, struct fleet_selection *old)
{
    *old = *of;
    old->since_ns = 0;
    old->until_ns = of->since_ns;
    if (cli->baseline) {
        old->until_ns = 0;
        if (!fleet_parse_range(cli->baseline, &old->since_ns, &old->until_ns))
            return command_usage(self,
                                 "--baseline: '%s' is not FROM..TO, two times of which one may be "
                                 "missing, as in 14d..7d",
                                 cli->baseline);
    } else if (!of->since_ns) {
        return command_usage(self, "--growth needs --since TIME, or --baseline FROM..TO");
    }
    return 0;
}

uint64_t fleet_read_top(const struct fleet_cli *cli)
{
    return cli->top == FLEET_TOP_NOT_GIVEN ? 0 : cli->top ? cli->top : FLEET_ALL;
}

int fleet_read_question(const struct command *self, const struct fleet_cli *cli,
                        struct fleet_question *q)
{
    *q = (struct fleet_question){.what = cli->growth         ? FLEET_DIFF
                                         : cli->watched      ? FLEET_WATCHED
                                         : cli->leaks        ? FLEET_LEAKS
                                         : cli->timeline     ? FLEET_TIMELINE
                                         : cli->distribution ? FLEET_DISTRIBUTION
                                                             : FLEET_REPORT,
                                 .sql = cli->sql,
                                 .where = cli->store,
                                 .by = (enum metric)cli->by,
                                 .top = fleet_read_top(cli),
                                 .json = cli->json,
                                 .call_sites = cli->call_sites,
                                 .growth = cli->growth,
                                 .slice_ns = cli->slice_ns};
    static const char *const kinds[] = {"old", "all", "high-water", "frees", "final"};
    if (cli->growth + cli->leaks + cli->distribution + cli->timeline + (cli->watched != NULL) > 1)
        return command_usage(
            self, "--growth, --leaks, --distribution, --timeline and --watched exclude each other");
    for (size_t i = 0; cli->watched && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(cli->watched, kinds[i]))
            q->kind = kinds[i];
    if (cli->watched && !q->kind)
        return command_usage(self, "--watched: '%s' is not old, all, high-water, frees or final",
                             cli->watched);
    if (cli->watched && cli->by)
        return command_usage(self, "--watched orders by estimated bytes; use it without --by");
    for (const struct fleet_fact *f = fleet_facts; f < fleet_facts + FLEET_FACTS; f++)
        if (cli->watched && !(f->bits & FLEET_FACT_WATCHED) && fleet_fact_of(&cli->facts, f))
            return command_usage(
                self, "use --watched without --%s, which watch reports do not have", f->name);
    if (cli->call_sites && ((!cli->json && !cli->sql) || cli->growth || cli->timeline))
        return command_usage(
            self,
            "--call-sites needs --json or --sql, and report, --leaks, --distribution or --watched");
    if (cli->baseline && !cli->growth)
        return command_usage(self, "--baseline needs --growth");
    if (cli->group_by && !cli->distribution && !cli->html)
        return command_usage(self, "--group-by needs --distribution or --html");
    if (cli->html && (cli->json || cli->sql))
        return command_usage(self, "--html, --json and --sql exclude each other");
    if (cli->html && (cli->leaks || cli->distribution || cli->watched || cli->timeline))
        return command_usage(self, "--html works with report, report --growth and diff; use --json "
                                   "with --leaks, --distribution, --timeline and --watched");
    if (cli->html && cli->by == FLEET_BYTE_SECONDS)
        return command_usage(self, "--html does not show byte-seconds; use --json");
    if (cli->slice_ns && !cli->timeline)
        return command_usage(self, "--slice needs --timeline");
    if (cli->timeline && cli->by)
        return command_usage(self, "--timeline and --by exclude each other");
    if (cli->leaks && cli->by && cli->by != BY_END)
        return command_usage(self,
                             "--leaks orders by the bytes live at the end; use it without --by");
    if (cli->group_by && !fleet_parse_group(cli->group_by, &q->group))
        return command_usage(
            self, "--group-by: '%s' is not " FLEET_FACTS_WITH_COMMAS "or label.KEY", cli->group_by);
    return 0;
}

struct fleet_store *fleet_open_store(const struct command *self, const struct fleet_cli *cli,
                                     int *status)
{
    struct fleet_access access;
    struct fleet_store *store = NULL;
    struct error err;
    char *key;
    *status = fleet_read_access(self, cli, &key, &access);
    if (!*status && !(store = fleet_open(cli->store, &access, &err)))
        *status = command_fail(self, &err);
    free(key);
    return store;
}
