/* answers.h - rows of an answer, kept and shown. Private to fleet/.
 *
 * Owns: the rows that will be shown, and how many there are besides. One thread. */
#ifndef MALLOW_FLEET_ANSWERS_H
#define MALLOW_FLEET_ANSWERS_H

#include "base/json.h"
#include "fleet/store.h"
#include "show/table.h"

struct answer {
    uint64_t numbers[STORE_NUMBERS];
    char *text;
};

struct answers { /* all zero: empty */
    struct answer *items;
    size_t count, room;
    uint64_t total;               /* so many there are */
    uint64_t rest[STORE_NUMBERS]; /* sums over those that are not kept */
};

/* A column of rows that is a number. */
#define ANSWER_NUMBER(number, kind, key, title, wide)                                              \
    {                                                                                              \
        key, title, offsetof(struct answer, numbers) + (number) * sizeof(uint64_t), 0,             \
            COLUMN_##kind, sizeof(uint64_t), wide                                                  \
    }

extern const struct column spread_columns[]; /* for ASK_SPREAD and ASK_PARTS; distribution.c */

/* Asks q, and keeps its first q->top rows (0: all). sites: the first number of a row is a site,
 * whose frames are prepared. */
int answers_ask(struct answers *a, struct fleet_store *store, struct store_query *q, bool sites,
                struct error *err);
/* The same of one row; *number: [STORE_NUMBERS], 0 where there is none. */
int answers_one(uint64_t *numbers, struct fleet_store *store, struct store_query *q,
                struct error *err);
void answers_release(struct answers *a);

/* "sites": their frames and columns. -1 with *err, and the list is open. */
int answers_json(struct json *j, struct fleet_store *store, const struct store_query *q,
                 const struct answers *a, const struct column *columns, struct error *err);
/* Their rows in text: print writes the numbers and two spaces; then comes
 * the call site. */
typedef void answers_print_fn(FILE *out, const struct answer *row, const void *arg);
int answers_text(FILE *out, struct fleet_store *store, const struct store_query *q,
                 const struct answers *a, answers_print_fn *print, const void *arg,
                 struct error *err);

#endif
