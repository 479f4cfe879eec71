/* json_process.h - what a report says of one process, apart from its call sites: the part that the
 * JSON report and the page have in common. */
#ifndef MALLOW_REPORT_JSON_PROCESS_H
#define MALLOW_REPORT_JSON_PROCESS_H

#include "base/json.h"
#include "frames/select.h"
#include "model/model.h"
#include "report/heap.h"
#include "report/warnings.h"

/* Writes fields into an open object, as docs/man/mallow-report.1 lists them. m: finished. */
void json_process(struct json *j, const struct model *m);
/* Writes the field `mapped`: the program's own anonymous mappings, of the `limit` stacks that
 * had most at once. A filtered model does not know them, and the field is absent. */
int json_mapped(struct json *j, const struct model *m, struct names *names, uint64_t limit,
                struct error *err);
/* Writes the field `heap_at_peak`, with at most `limit` heaps and stacks; null if it is not
 * known. */
int json_heap(struct json *j, const struct heap_view *h, struct names *names, uint64_t limit,
              struct error *err);
/* Fields `marks`, the first MARKS_SHOWN, and `marks_total`. */
#define MARKS_SHOWN 500u
void json_marks(struct json *j, const struct trace_image *image);
/* The name of a control, such as "pause". */
const char *mark_control(const struct trace_event_note *n);
/* A field `warnings`: an array of texts. */
void json_warnings(struct json *j, const struct warnings *w);

/* A field `symbol_problems`: at most so many texts; symbols NULL: none. */
void json_problems(struct json *j, struct symbols *symbols, size_t most);

/* A field `filter`, when anything is filtered. */
void json_filter(struct json *j, const struct selection *s);

#endif
