/* fleet_page.h - an answer about a store as a page for a browser. */
#ifndef MALLOW_CLI_FLEET_PAGE_H
#define MALLOW_CLI_FLEET_PAGE_H

#include "fleet/fleet.h"

/* Into a file that is whole when it has its name. old: what `of` is compared with; NULL: a report
 * of `of`. A page that would be too large has fewer call sites, and says so. */
int fleet_page(const char *path, struct fleet_store *store, const struct fleet_selection *old,
               const struct fleet_selection *of, const struct fleet_question *q, struct error *err);

#endif
