/* watched.h - reports of sampled processes as rows of a store. Private to fleet/.
 *
 * Owns: one way from a report to its rows, whether it is a line of a file or was just made. One
 * thread. */
#ifndef MALLOW_FLEET_WATCHED_H
#define MALLOW_FLEET_WATCHED_H

#include "fleet/store.h"

struct watched_line {
    bool report; /* false: a memory error, or a line of another kind, which a store does not keep */
    struct fleet_report of; /* lives until watched_release */
    void *document;         /* private */
};

/* A line of `mallow watch --json`. The file may be another user's: every value has its type and its
 * bounds, or -1 with *err. */
int watched_parse(const char *text, size_t bytes, struct watched_line *line, struct error *err);
void watched_release(struct watched_line *line);

/* A command, a JSON array of texts, as a line has it: in one form, since it is a part of
 * identities. To be freed; NULL without memory. */
char *watched_command(const char *json);

/* The row of a report. Its key is a sum of all that is stored of it, so whatever printed it, and in
 * whatever form, it is the same. */
int watched_identify(const struct fleet_report *r, const struct fleet_load_options *o,
                     struct store_watched *head, struct error *err);
/* The key that mallow 0.1.0 gave a line: a sum of its bytes. */
uint64_t watched_line_key(const struct store_watched *head, const struct fleet_load_options *o,
                          const char *text, size_t bytes);
/* The rows of a report go to the store, in a transaction. */
int watched_put(struct fleet_store *store, const struct fleet_report *r,
                const struct store_watched *head, const struct fleet_load_options *options,
                struct error *err);

#endif
