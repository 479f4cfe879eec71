/* rows.h - the rows of a probe in groups, and what their columns mean. Private to report/. */
#ifndef MALLOW_PROBE_SHOW_ROWS_H
#define MALLOW_PROBE_SHOW_ROWS_H

#include "base/buffer.h"
#include "probe/show/show.h"

const struct probe_layout *probe_layout(const struct probe_result *r);

/* The unit of the histogram of each row: as probe_layout.unit; 0: they have none. */
char probe_histogram_unit(const struct probe_result *r);
/* The value that a histogram counts, and the one whose sum stands beside it; their numbers. */
int probe_histogram_counted(const struct probe_result *r);
int probe_histogram_of(const struct probe_result *r);

uint64_t probe_value(const struct probe_value *v, int which);

/* Rows that differ in size only. */
struct probe_group {
    struct probe_row sum; /* size_class 0 */
    size_t first, count;  /* a range of the sorted rows */
};
struct probe_groups {
    struct probe_row *rows;    /* by group, then size */
    struct probe_group *group; /* largest first */
    size_t count;
    struct probe_value total;
};
/* Rows that read the same are one: of two places in one function, for instance. */
int probe_groups_make(struct probe_groups *g, const struct probe_result *r,
                      const struct probe_report *how, struct error *err);
void probe_groups_release(struct probe_groups *g);

/* The name in a key: of a cache, of a mapping. */
const char *probe_key_name(const struct probe_key *k, char text[PROBE_NAME_BYTES + 1]);

/* Why it is not known whether they are live. */
const char *probe_not_known_why(const struct probe_not_known *n);

/* First and last size of a class. */
uint64_t probe_class_min(uint32_t size_class);
uint64_t probe_class_max(uint32_t size_class);

/* The functions of a stack through symbol/, innermost first, inlined ones included. */
enum { PROBE_FRAMES_MAX = 256 };
size_t probe_functions(const struct probe_result *r, const struct probe_report *how, uint64_t stack,
                       struct symbol_frame *frames, size_t max);

/* "malloc (mem.c:3)", "libx.so+0x1234". */
void probe_function_text(struct buffer *b, const struct symbol_frame *f);

#endif
