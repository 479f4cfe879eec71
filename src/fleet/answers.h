/* answers.h - rows of an answer to store_ask, kept. Private to fleet/.
 *
 * Owns: the rows that will be shown, and how many there are besides. One thread. */
#ifndef MALLOW_FLEET_ANSWERS_H
#define MALLOW_FLEET_ANSWERS_H

#include "fleet/store.h"

struct answer {
    uint64_t numbers[STORE_NUMBERS];
    char *text;
};

struct answers { /* all zero but top: empty */
    struct answer *items;
    size_t count, room;
    uint64_t top;   /* so many are kept */
    uint64_t total; /* and there are so many */
};

/* Asks `sql`, which it frees; NULL is an error of memory. Rows whose first number is a site have
 * their frames prepared. */
int answers_ask(struct answers *a, struct fleet_store *store, char *sql, unsigned numbers,
                bool sites, struct error *err);
/* The rows of leaks or spread (store.h) of the sites with most, in the order of their queries;
 * frames are prepared. processes: how many are selected. */
int answers_sites(struct answers *a, struct fleet_store *store, const struct fleet_selection *of,
                  enum metric by, bool leaks, uint64_t processes, struct error *err);
void answers_release(struct answers *a);

#endif
