/* show.h - call sites of a store as people and programs read them. Private to fleet/. */
#ifndef MALLOW_FLEET_SHOW_H
#define MALLOW_FLEET_SHOW_H

#include "base/human.h"
#include "base/json.h"
#include "fleet/store.h"

/* "peak", "end", ... */
const char *show_metric(enum metric by);
/* As a size or a count. */
const char *show_figure(char room[HUMAN_TEXT_BYTES], uint64_t value, enum metric by);
enum { SHOW_SITES = 10, SHOW_SITES_MOST = 1000 };
/* How many rows are shown, 0: all: as asked for, or by default `in_text`, and SHOW_SITES_MOST in
 * JSON. */
uint64_t show_top(const struct fleet_question *q, uint64_t in_text);
/* "N more THINGS", unless there are none. Returns 0. */
int show_more(FILE *out, uint64_t count, const char *things);
/* frames[] and call_site; of a deep stack its two ends, with omitted_frames. -1 with *err, and the
 * document is open inside. */
int show_frames(struct json *j, struct fleet_store *store, uint64_t site, bool call_sites,
                struct error *err);

/* Closes sites[], and what a failure left open in it; why: NULL, or why it is not whole; then
 * sites_total and sites_left_out. */
void show_sites_end(struct json *j, uint64_t total, uint64_t shown, const struct error *why);

/* Appends "function  file:line" of the call site. */
int show_call_site(struct fleet_store *store, uint64_t site, bool call_sites, struct buffer *line,
                   struct error *err);

#endif
