/* split.h - when the kernel is asked for the split of the resident size of a process.
 *
 * Owns: which moments are worth the asking, what the asking may cost, and how many answers reach
 * the file. Asked at new peaks of the resident size, of the live bytes, and of the gap between
 * them, at marks, and now and then in between, so that the end is never far from an answer. All of
 * it together costs at most a hundredth of one processor; the file gets a number that grows with
 * the logarithm of time and sizes. One thread. */
#ifndef MALLOW_RECORD_SPLIT_H
#define MALLOW_RECORD_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "format/chunk.h"

struct recording;
struct image;

struct split_peak {
    uint64_t seen_bytes;     /* the most that was seen */
    uint64_t since_ns;       /* when it was first seen */
    uint64_t measured_bytes; /* the most at a split; 0: none */
};

enum split_figure { SPLIT_RSS, SPLIT_LIVE, SPLIT_GAP, SPLIT_FIGURES };

/* An image's state. All zero at first. Live bytes are usable ones, as the recorder counts them. */
struct split_state {
    struct split_peak peaks[SPLIT_FIGURES];
    uint64_t live_bytes;   /* at the latest sample */
    struct mlw_split held; /* the latest answer, when it is not in the file; clock 0: it is */
    uint64_t held_cost_ns; /* processor time that the latest query took */
    uint64_t asked_ns;     /* when, CLOCK_MONOTONIC; 0: never */
    uint64_t written_ns;   /* when the latest answer in the file was given */
    uint64_t asked_rss, asked_live; /* the sampled figures at asked_ns */
    uint64_t mark_ns;               /* since when a mark waits for an answer; 0: none does */
    uint64_t mark_written_ns;       /* when the latest one got it */
    uint32_t marks;                 /* marks that have been looked at */
    unsigned refused;               /* times that the kernel did not answer */
};

/* Asks for a split now and appends it as a chunk. Returns 0, or -1 with *err. */
int split_now(struct recording *r, struct image *m, struct error *err);

/* Call it after each sample of image m (m->last). It asks the kernel if the moment is worth it. */
void split_look(struct recording *r, struct image *m, uint64_t now_ns);

/* True if the program has made a mark that was not looked at yet. */
bool split_has_mark(const struct image *m);

/* Appends the latest answer, if the file does not have it, when the image has ended. */
void split_finish(struct recording *r, struct image *m);

#endif
