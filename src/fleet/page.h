/* page.h - what the page of a report or diff shows beside its JSON. Private to fleet/. */
#ifndef MALLOW_FLEET_PAGE_H
#define MALLOW_FLEET_PAGE_H

#include "base/json.h"
#include "fleet/store.h"

/* "selection": which processes were asked for; empty for all. */
void page_selection(struct json *j, const struct fleet_selection *of);
/* Both, and the totals that a page has. */
void page_head(struct json *j, const struct fleet_selection *of, const struct store_totals *t);
/* "parts": each figure by host, service, build, and the value of a label: the one that was asked
 * for, or "version". -1 with *err, and the document is open inside. */
int page_parts(struct json *j, struct fleet_store *store, const struct fleet_selection *of,
               const struct fleet_question *q, struct error *err);

#endif
