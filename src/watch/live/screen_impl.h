/* screen_impl.h - what the files of the live view share. Not for others. */
#ifndef MALLOW_WATCH_LIVE_SCREEN_IMPL_H
#define MALLOW_WATCH_LIVE_SCREEN_IMPL_H

#include "watch/live/list.h"
#include "watch/live/screen.h"

enum screen_view { SCREEN_TABLE, SCREEN_SITE, SCREEN_PROCESSES, SCREEN_FREES, SCREEN_HELP };

#define SCREEN_MOMENTS 240u

struct watch_screen {
    struct watch_view *view;
    struct watch_run *run;
    struct list_memory *memory;
    enum screen_view shown;
    enum watch_kind kind; /* OLD or ALL */
    enum watch_order order;
    bool apart;       /* one process; else all together */
    uint32_t process; /* its index */
    uint64_t key;     /* the key of the chosen row; 0: the first */
    uint64_t drawn;   /* the key of the row that was drawn as chosen; 0: none */
    size_t at, top;   /* its number in the list, the number of the first row shown */
    size_t scroll;    /* the first line shown of a text that is longer than the screen */
    long move;        /* rows to go down (up when negative), at the next drawing */
    bool typing;      /* a filter */
    bool paused;
    char filter[64], said[160];
    uint64_t live[SCREEN_MOMENTS], rss[SCREEN_MOMENTS]; /* sums over the processes shown; rings */
    uint64_t moments;                                   /* how many there ever were */
    /* Bytes that the sum of the processes' RSS counts more than once, as of the last look at it. */
    uint64_t shared_bytes, shared_ns, shared_took_ns;
    unsigned lines, columns;
    char *text; /* the text drawn */
    size_t text_bytes;
    FILE *out;
};

/* The process that is chosen, or NULL when there is none. */
struct watch_process *screen_process(struct watch_screen *s);

/* Draws the state to s->out. */
void screen_content(struct watch_screen *s);

#endif
