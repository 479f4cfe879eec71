/* fleet_load.h - `mallow fleet load`: from files and directories into a store. */
#ifndef MALLOW_CLI_FLEET_LOAD_H
#define MALLOW_CLI_FLEET_LOAD_H

#include "cli/view.h"
#include "fleet/fleet.h"

struct fleet_load_cli {
    const struct view_options *view; /* the looks of names */
    struct fleet_load_options load;
    bool json;
};

/* Loads each file, and the recordings (*.mlw) and reports (*.json, *.jsonl) below each directory in
 * the order of their names. What cannot be read is said, and the rest is loaded; a store that
 * cannot be written ends it. Returns the exit status; all lines about failures were printed. */
int fleet_load_paths(const struct command *self, struct fleet_store *store,
                     const struct fleet_load_cli *how, char **paths, int count);

#endif
