/* watched.h - a line of `mallow watch --json`, read. Private to fleet/.
 *
 * The file may be another user's: every value has its type and its bounds, or the line is refused.
 * One thread. */
#ifndef MALLOW_FLEET_WATCHED_H
#define MALLOW_FLEET_WATCHED_H

#include "fleet/store.h"

struct watched_line {
    bool report; /* false: a memory error, or a line of another kind, which a store does not keep */
    struct store_watched head; /* texts live until watched_release */
    void *document;            /* private */
};

/* -1 with *err: not a report. */
int watched_parse(const char *text, size_t bytes, struct watched_line *line, struct error *err);
/* Its call sites, their frames and sites go to the store, in a transaction. */
int watched_put_sites(struct fleet_store *store, const struct watched_line *line,
                      const struct names_look *look, struct error *err);
void watched_release(struct watched_line *line);

#endif
