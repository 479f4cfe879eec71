/* list.h - the call sites of one watched process, or of all as one, as rows of a table.
 *
 * Owns: the rows of one moment, put together over stacks and processes by its name; the bytes of
 * each row at earlier moments. One thread. */
#ifndef MALLOW_WATCH_LIVE_LIST_H
#define MALLOW_WATCH_LIVE_LIST_H

#include "watch/view/view.h"

#define LIST_MOMENTS 120u /* that are remembered: a minute */

struct list_past { /* figures of the latest moments */
    uint64_t key;
    uint64_t moment;           /* the moment of the latest one */
    uint32_t count;            /* how many there are, latest at count - 1 of list_past_at */
    float bytes[LIST_MOMENTS]; /* a ring */
};

struct list_row {
    struct watch_site site;    /* its sums over all stacks, in all processes */
    uint64_t key;              /* a hash of its name, the same at each moment */
    const struct names *names; /* names and frames are those of the stack that holds most */
    const uint32_t *frames;    /* as struct watch_row */
    size_t count, first;
    double largest;               /* bytes of that stack */
    unsigned process;             /* the last that was added */
    unsigned processes, stacks;   /* that have it */
    bool passes;                  /* one of its stacks passes the filter */
    const struct list_past *past; /* NULL: none */
};

struct watch_list {
    struct list_row *rows; /* the rows that pass the filter, in order */
    size_t count, all;     /* all: also those that do not pass */
    struct estimate total; /* the total of all */
    double growth_bytes;
    uint64_t older_than_ns, known_blocks;
    bool automatic, chosen_by_lifetimes;
    unsigned processes;      /* that were asked */
    struct list_part *parts; /* private */
};

struct list_memory; /* memory of earlier moments */

struct list_memory *list_memory_new(void); /* NULL: no memory */
void list_memory_free(struct list_memory *m);
/* Makes the next watch_list_make a new moment. */
void list_memory_advance(struct list_memory *m);
double list_past_at(const struct list_past *past, uint32_t index);

struct list_question {
    struct watch_view *view;
    struct watch_run *run;
    struct watch_process *process; /* NULL: all that run */
    enum watch_kind kind;          /* OLD or ALL */
    enum watch_order order;
    const char *filter; /* a part of a function's, file's or module's name, case ignored; "": all */
    struct list_memory *memory;
};

/* Fills a list. Returns 0, or -1 with *err; the caller frees the list in both cases. Its names
 * are valid until the processes are looked at again. */
int watch_list_make(struct watch_list *list, const struct list_question *q, struct error *err);
void watch_list_free(struct watch_list *list);

#endif
