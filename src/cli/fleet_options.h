/* fleet_options.h - what `mallow fleet` was asked for, as the fleet library wants it. */
#ifndef MALLOW_CLI_FLEET_OPTIONS_H
#define MALLOW_CLI_FLEET_OPTIONS_H

#include "cli/command.h"
#include "cli/view.h"
#include "fleet/fleet.h"

#define FLEET_TOP_NOT_GIVEN UINT64_MAX

struct fleet_cli {
    const char *store, *key_file, *ca, *cluster, *since, *until, *old, *now, *baseline, *group_by,
        *watched, *html;
    struct fleet_selection facts; /* its facts alone */
    struct text_list labels;
    int by;
    uint64_t top, slice_ns;
    bool json, sql, call_sites, events, growth, leaks, distribution, timeline;
    struct view_options view; /* the view of names */
};

/* The store's key, to be freed, is *key; access refers to it. 0, or an exit status. */
int fleet_read_access(const struct command *self, const struct fleet_cli *cli, char **key,
                      struct fleet_access *access);
/* The labels given; to be freed. False: a usage error was said. */
bool fleet_read_labels(const struct command *self, const struct fleet_cli *cli,
                       struct fleet_label **labels);
/* The processes that the options select; texts are the options'. 0, or an exit status. */
int fleet_read_selection(const struct command *self, const struct fleet_cli *cli,
                         struct fleet_selection *of);
/* Those that --growth compares them with. 0, or an exit status. */
int fleet_read_baseline(const struct command *self, const struct fleet_cli *cli,
                        const struct fleet_selection *of, struct fleet_selection *old);
/* The value of -n, as a question has it. */
uint64_t fleet_read_top(const struct fleet_cli *cli);
/* The question that the options ask of a report or diff. 0, or an exit status. */
int fleet_read_question(const struct command *self, const struct fleet_cli *cli,
                        struct fleet_question *q);
/* The store that the options name. NULL: *status is the exit status, and the reason was said. */
struct fleet_store *fleet_open_store(const struct command *self, const struct fleet_cli *cli,
                                     int *status);

#endif
