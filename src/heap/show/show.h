/* show.h - a heap as text and as JSON. */
#ifndef MALLOW_HEAP_SHOW_SHOW_H
#define MALLOW_HEAP_SHOW_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "heap/show/sampled.h"
#include "frames/names.h"
#include "heap/heap.h"

enum heap_view {
    HEAP_VIEW_ALL,
    HEAP_VIEW_TYPE,
    HEAP_VIEW_ROOT,
    HEAP_VIEW_SITE,
    HEAP_VIEW_SIZE,
    HEAP_VIEW_ARENA
};

struct heap_show {
    enum heap_view view;
    uint64_t top; /* rows of a table */
    bool top_given;
    bool free; /* which types keep free memory from being returned */
    bool cold; /* the blocks that were not written */
    struct names
        *names; /* the names of the recording's call stacks, or of the samples'; NULL: none */
    const struct heap_samples *samples; /* NULL: not of samples */
    bool leaks;                         /* the list of unreachable groups */
};

/* Writes the heap as a page. target: the process or file, as the user named it. */
int heap_show_page(struct heap *h, const struct heap_show *s, const char *target, const char *path,
                   struct error *err);

/* Prints the heap on standard output. Returns 0, or -1 with *err without memory. */
int heap_show_text(struct heap *h, const struct heap_show *s, struct error *err);
int heap_show_json(struct heap *h, const struct heap_show *s, struct error *err);

/* Writes the keys of the figures and tables of a heap into the open object. Returns 0, or -1
 * with *err. */
int heap_show_tables(struct json *j, struct heap *h, const struct heap_show *s, uint64_t top,
                     struct error *err);
/* Writes the keys of the figures only. */
void heap_show_facts(struct json *j, const struct heap *h);

/* Prints a way (--why) or the referrers (--who) of an address. */
void heap_show_steps(const struct heap_step *steps, size_t count, enum heap_found found,
                     uint64_t address, bool why, uint64_t top);
int heap_show_steps_json(const struct heap *h, const struct heap_step *steps, size_t count,
                         enum heap_found found, uint64_t address, bool why, struct error *err);

#endif
