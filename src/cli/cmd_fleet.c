/* cmd_fleet.c - `mallow fleet`: recordings of many processes on many hosts in one store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/fleet_load.h"
#include "cli/fleet_options.h"
#include "fleet/fleet.h"

#define AT(field) offsetof(struct fleet_cli, field)

static const struct option_spec specs[] = {
    {0, "store", OPTION_TEXT, AT(store), "FILE|URL",
     "the store (required): a file of SQLite, or http(s)://[USER@]HOST:PORT/DATABASE, a ClickHouse",
     .completion = VALUE_FILE},
    {0, "key-file", OPTION_TEXT, AT(key_file), "FILE",
     "the user's password on the server is in FILE", .completion = VALUE_FILE},
    {0, "ca", OPTION_TEXT, AT(ca), "FILE", "trust the certificates in FILE (default: the system's)",
     .completion = VALUE_FILE},
    {0, "cluster", OPTION_TEXT, AT(cluster), "NAME",
     "init: distribute the store over this cluster of the server; run init on each of its nodes"},
    {0, "host", OPTION_TEXT, AT(facts.host), "HOST",
     "load: the name of the host (default: as recorded); report: only this host"},
    {0, "service", OPTION_TEXT, AT(facts.service), "SERVICE",
     "load: the name of the service (default: the program's name); report: only this service"},
    {0, "label", OPTION_TEXTS, AT(labels), "KEY=VALUE",
     "load: put this label on each process; report: only processes with it; may be repeated"},
    {0, "build-id", OPTION_TEXT, AT(facts.build_id), "ID",
     "report: only programs whose build-id begins with these hexadecimal digits"},
    {0, "allocator", OPTION_TEXT, AT(facts.allocator), "NAME",
     "report: only processes with this allocator, as in 'glibc 2.36'"},
    {0, "since", OPTION_TEXT, AT(since), "TIME",
     "report: only processes that started then or later: 2026-11-22, 2026-11-22T20:15 (UTC), "
     "@SECONDS since 1970, or a duration before now"},
    {0, "until", OPTION_TEXT, AT(until), "TIME", "report: only processes that started before"},
    {0, "by", OPTION_CHOICE, AT(by), "peak|end|allocated|temporary|calls|byte-seconds",
     "report: order call sites by this figure (default peak); byte-seconds: bytes times how long "
     "they lived"},
    {0, "events", OPTION_FLAG, AT(events), NULL,
     "load: every block's life as well, for questions in SQL; about 100 bytes a block"},
    {0, "watched", OPTION_TEXT, AT(watched), "old|all|high-water|frees|final",
     "report: what sampled processes hold, by the last report of this kind of each"},
    {0, "growth", OPTION_FLAG, AT(growth), NULL,
     "report: which call sites grew, in the processes since --since against those before, as the "
     "mean of a process"},
    {0, "baseline", OPTION_TEXT, AT(baseline), "FROM..TO",
     "--growth: against the processes that started between these times; one may be missing"},
    {0, "leaks", OPTION_FLAG, AT(leaks), NULL,
     "report: which call sites hold blocks at the end, in how many processes and on how many "
     "hosts of those that allocate there"},
    {0, "distribution", OPTION_FLAG, AT(distribution), NULL,
     "report: the least, quartiles, 90%, 99% and most of the figure in one process, of all and of "
     "each call site"},
    {0, "timeline", OPTION_FLAG, AT(timeline), NULL,
     "report: bytes live, allocated, and calls, in each slice of time"},
    {0, "slice", OPTION_DURATION, AT(slice_ns), "DURATION",
     "--timeline: how long a slice is (default: so that they are a hundred at most)", 1000000,
     UINT64_MAX >> 1},
    {0, "group-by", OPTION_TEXT, AT(group_by), FLEET_FACTS_WITH_BARS "label.KEY",
     "--distribution: of the processes of each host, service, build or value of a label; --html: "
     "by this label, too (default label.version)"},
    {'n', NULL, OPTION_COUNT, AT(top), "N",
     "report: show N call sites, 0: all (default 10; in JSON 1000)", 0, UINT32_MAX - 1},
    {0, "call-sites", OPTION_FLAG, AT(call_sites), NULL,
     "report --json, --sql: by call site, as in text; else each stack that leads to one is apart"},
    {0, "old", OPTION_TEXT, AT(old), "SELECTION",
     "diff: the processes before: all, or host=H, service=S, build-id=B, allocator=A, since=T, "
     "until=T, "
     "label.KEY=V "
     "with commas between them"},
    {0, "new", OPTION_TEXT, AT(now), "SELECTION", "diff: the processes after"},
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "report, report --growth, diff: write a page for a browser to OUT: one file that needs "
     "nothing else",
     .completion = VALUE_FILE, .not_with = "json|sql"},
    {0, "sql", OPTION_FLAG, AT(sql), NULL, "report: print the query instead of its answer"},
    VIEW_LOOK_SPECS(struct fleet_cli, view),
    VIEW_DEBUG_SPECS(struct fleet_cli, view),
    OPTION_END,
};

static int run_init(const struct command *self, const struct fleet_cli *cli, char **operands,
                    int count)
{
    struct fleet_access access;
    struct error err;
    bool existed;
    char *key;
    (void)operands, (void)count;
    int status = fleet_read_access(self, cli, &key, &access);
    if (!status && fleet_create(cli->store, &access, &existed, &err))
        status = command_fail(self, &err);
    free(key);
    if (status)
        return status;
    if (existed)
        command_warn(self, "%s is already a store; nothing was changed", cli->store);
    return EXIT_DONE;
}

static int run_load(const struct command *self, const struct fleet_cli *cli, char **paths,
                    int count)
{
    struct fleet_label *labels;
    int status = EXIT_USAGE;
    if (!count)
        return command_usage(
            self,
            "load needs recordings, reports of 'mallow watch --json', or directories of them");
    if (fleet_read_labels(self, cli, &labels)) {
        struct fleet_store *store = fleet_open_store(self, cli, &status);
        const struct fleet_load_cli how = {.view = &cli->view,
                                           .json = cli->json,
                                           .load = {.host = cli->facts.host,
                                                    .service = cli->facts.service,
                                                    .labels = labels,
                                                    .label_count = cli->labels.count,
                                                    .events = cli->events,
                                                    .look = view_look(&cli->view)}};
        if (store)
            status = fleet_load_paths(self, store, &how, paths, count);
        fleet_close(store);
    }
    free(labels);
    return status;
}

static int run_report(const struct command *self, const struct fleet_cli *cli, char **operands,
                      int count)
{
    struct error err;
    struct fleet_selection of;
    if (count)
        return command_usage(self, "report takes no file: '%s'; 'load' does", operands[0]);
    int status = fleet_read_selection(self, cli, &of);
    if (status)
        return status;
    struct fleet_question q;
    struct fleet_selection old = {0};
    status = fleet_read_question(self, cli, &q);
    if (!status && q.growth)
        status = fleet_read_baseline(self, cli, &of, &old);
    struct fleet_store *store = status ? NULL : fleet_open_store(self, cli, &status);
    if (!store)
        return status;
    q.old = &old;
    status = cli->html ? fleet_page(cli->html, store, &of, &q, &err)
                       : fleet_ask(stdout, store, &of, &q, &err);
    fleet_close(store);
    return status ? command_fail(self, &err) : command_finish(self);
}

static int run_diff(const struct command *self, const struct fleet_cli *cli, char **operands,
                    int count)
{
    struct error err;
    struct fleet_selection old, now;
    if (count)
        return command_usage(self, "diff takes no file: '%s'; 'load' does", operands[0]);
    if (!cli->old || !cli->now)
        return command_usage(self, "diff needs --old SELECTION and --new SELECTION");
    if (cli->growth || cli->leaks || cli->distribution || cli->watched || cli->timeline ||
        cli->group_by || cli->baseline || cli->call_sites)
        return command_usage(
            self, "--growth, --leaks, --distribution, --timeline and --call-sites go with "
                  "report");
    const struct fleet_question q = {.what = FLEET_DIFF,
                                     .old = &old,
                                     .where = cli->store,
                                     .sql = cli->sql,
                                     .by = (enum metric)cli->by,
                                     .top = fleet_read_top(cli),
                                     .json = cli->json};
    struct fleet_store *store = NULL;
    char *texts[2] = {strdup(cli->old), strdup(cli->now)};
    int status = 0;
    if (!texts[0] || !texts[1])
        error_memory(&err);
    else if (!fleet_parse_selection(texts[0], &old, &err) &&
             !fleet_parse_selection(texts[1], &now, &err)) {
        store = fleet_open_store(self, cli, &status);
        if (store) {
            const int failed = cli->html ? fleet_page(cli->html, store, &now, &q, &err)
                                         : fleet_ask(stdout, store, &now, &q, &err);
            status = failed ? command_fail(self, &err) : command_finish(self);
        }
        fleet_close(store);
        goto out;
    }
    status = command_fail(self, &err);
out:
    free(texts[0]);
    free(texts[1]);
    return status;
}

static const struct action {
    const char *name;
    int (*run)(const struct command *self, const struct fleet_cli *cli, char **operands, int count);
} actions[] = {{"init", run_init}, {"load", run_load}, {"report", run_report}, {"diff", run_diff}};

static int run_fleet(const struct command *self, const void *options, char **operands,
                     int operand_count)
{
    const struct fleet_cli *cli = options;
    if (!cli->store)
        return command_usage(self, "no store given; use --store FILE or --store URL");
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(operands[0], actions[i].name))
            return actions[i].run(self, cli, operands + 1, operand_count - 1);
    return command_usage(self, "unknown action '%s'; the actions are init, load, report and diff",
                         operands[0]);
}

static const struct fleet_cli defaults = {.view = VIEW_DEFAULTS, .top = FLEET_TOP_NOT_GIVEN};

const struct command command_fleet = {
    .name = "fleet",
    .summary = "keep recordings of many hosts in one store, and ask about all",
    .operands = "init|load|report|diff [FILE|DIRECTORY]...",
    .description =
        "Keeps what 'mallow report' says of each process in a store: a file of SQLite, or\n"
        "a database of ClickHouse.\n"
        "\n"
        "  init    makes the store\n"
        "  load    adds every process of recordings, and reports of\n"
        "          'mallow watch --json'; those already there stay\n"
        "  report  says which call sites hold most, over all processes or some\n"
        "  diff    says which hold more in some processes than in others\n"
        "\n"
        "Equal call paths are one, whatever the host and the load address. Names are\n"
        "looked up by 'load', so load where the programs and their debug information are.\n"
        "A load that was killed is repeated as it was: nothing is counted twice.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct fleet_cli),
    .min_operands = 1,
    .max_operands = -1,
    .flags = COMMAND_FILES,
    .run = run_fleet,
};
