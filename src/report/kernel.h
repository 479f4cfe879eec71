/* kernel.h - events of the kernel about a process (`mallow record --with`), in reports and in the
 * dump. */
#ifndef MALLOW_REPORT_KERNEL_H
#define MALLOW_REPORT_KERNEL_H

#include "analyse/faults.h"
#include "base/json.h"
#include "show/layout.h"
#include "model/model.h"
#include "report/report.h"

/* "faults", ...: of an enum mlw_kernel_kind. */
const char *kernel_kind_name(unsigned kind);

/* True if the user's filters leave faults and events in: only times do. */
bool kernel_shown(const struct report_options *o);

/* Text: faults by place and by call site, the exact resident size, events of the allocator and of
 * pages. kinds: of trace_info. */
int section_kernel(const struct page *p, const struct trace_image *image, uint32_t kinds,
                   struct names *names, const struct report_options *o, struct error *err);

/* Fields of an open object: page_faults, resident_exact, kernel_events; those that were recorded.
 * sums: of faults. */
void json_kernel(struct json *j, const struct trace_image *image, uint32_t kinds,
                 const struct fault_sums *sums, const struct report_options *o);
/* A field of an open object: page_timeline, faults and pages from swap in the slices of the model's
 * timeline; nothing when neither was recorded. */
int json_page_timeline(struct json *j, const struct model *m, uint32_t kinds,
                       const struct report_options *o, struct error *err);
/* A field `kernel` of the whole recording, when anything was asked for. */
void json_kernel_kinds(struct json *j, const struct trace_info *info);

/* A line of the dump, without time and process: its kind ("minor-fault", ...) and words. The stack
 * that goes with it, or 0. */
enum kernel_side { KERNEL_FAULT, KERNEL_LEVEL, KERNEL_MOMENT };
const char *kernel_words(const struct trace_image *image, enum kernel_side side, uint32_t index,
                         struct buffer *text, uint32_t *tid, uint32_t *stack);
/* The same as fields of a JSON object, from ",\"" on. */
void kernel_fields(const struct trace_image *image, enum kernel_side side, uint32_t index,
                   struct buffer *text);

#endif
