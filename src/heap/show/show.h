/* show.h - a heap as text and as JSON. */
#ifndef MALLOW_HEAP_SHOW_SHOW_H
#define MALLOW_HEAP_SHOW_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
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
    bool free;           /* which types keep free memory from being returned */
    bool cold;           /* the blocks that were not written */
    struct names *names; /* of the recording's call stacks, or of the samples'; NULL: none */
    const struct heap_samples *samples; /* NULL: not of samples */
    bool leaks;                         /* the list of unreachable groups */
};

/* As a page for a browser. target: the name of the process or file. */
int heap_show_page(struct heap *h, const struct heap_show *s, const char *target, const char *path,
                   struct error *err);

/* The frames of a call stack of the recording, innermost first: ids of names. Returns how many; at
 * most max. names may be NULL, stack 0: none. */
size_t heap_show_frames(struct names *names, uint32_t stack, uint32_t *ids, size_t max);

/* On standard output. -1 with *err set when out of memory. */
int heap_show_text(struct heap *h, const struct heap_show *s, struct error *err);
int heap_show_json(struct heap *h, const struct heap_show *s, struct error *err);

/* The figures and tables of a heap as one object. The caller owns it; NULL with *err set. */
struct json_object *heap_show_tables(struct heap *h, const struct heap_show *s, uint64_t top,
                                     struct error *err);

/* The figures of a heap as one object, without its tables. The caller owns it. */
struct json_object *heap_show_facts(const struct heap_facts *f);

/* A way (--why) or the referrers (--who) of an address. */
void heap_show_steps(const struct heap_step *steps, size_t count, enum heap_found found,
                     uint64_t address, bool why, uint64_t top);
int heap_show_steps_json(const struct heap *h, const struct heap_step *steps, size_t count,
                         enum heap_found found, uint64_t address, bool why, struct error *err);

#endif
