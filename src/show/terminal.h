/* terminal.h - what the terminal can do, and the progress bar on it. One thread. */
#ifndef MALLOW_SHOW_TERMINAL_H
#define MALLOW_SHOW_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* A terminal that can do more than print letters: TERM is not dumb. */
bool terminal_draws(int fd);

/* Color on this descriptor: it draws, and NO_COLOR is unset or empty. */
bool terminal_color(int fd);

/* Columns of the terminal behind fd, or `otherwise` when it is not one. */
unsigned terminal_columns(int fd, unsigned otherwise);

/* A progress bar on stderr, only on a terminal, drawn at most ten times a second. */
struct progress {
    const char *label; /* the current action: "sealing" */
    uint64_t next_ns;  /* private */
    bool shown;        /* private */
};
void progress_begin(struct progress *p, const char *label);

/* Has the shape that trace_open and trace_seal want; arg is the struct progress. */
void progress_update(void *arg, uint64_t done, uint64_t total);

/* Takes the bar away. */
void progress_end(struct progress *p);

#endif
