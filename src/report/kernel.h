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

/* True if faults and events are shown: no filter but a range of time is set. */
bool kernel_shown(const struct report_options *o);

/* Prints faults by place and by call site, the exact resident size, and events of the allocator
 * and of pages. kinds: trace_info.kernel_kinds. */
int section_kernel(const struct page *p, const struct trace_image *image, uint32_t kinds,
                   struct names *names, const struct report_options *o, struct error *err);

/* Writes the fields page_faults, resident_exact and kernel_events, as far as they were recorded,
 * into an open object. sums: of the image's faults. */
void json_kernel(struct json *j, const struct trace_image *image, uint32_t kinds,
                 const struct fault_sums *sums, const struct report_options *o);
/* Writes the field page_timeline into an open object: faults and pages from swap in the slices
 * of the model's timeline. The field is absent if neither was recorded. */
int json_page_timeline(struct json *j, const struct model *m, uint32_t kinds,
                       const struct report_options *o, struct error *err);
/* Writes the field `kernel` of the whole recording, if it was recorded with events of the
 * kernel. */
void json_kernel_kinds(struct json *j, const struct trace_info *info);

/* Writes the words of a line of the dump, without time and process. Returns its kind
 * ("minor-fault", ...). *stack: the stack of the event, or 0. */
enum kernel_side { KERNEL_FAULT, KERNEL_LEVEL, KERNEL_MOMENT };
const char *kernel_words(const struct trace_image *image, enum kernel_side side, uint32_t index,
                         struct buffer *text, uint32_t *tid, uint32_t *stack);
/* The same as fields of a JSON object, from ",\"" on. */
void kernel_fields(const struct trace_image *image, enum kernel_side side, uint32_t index,
                   struct buffer *text);

#endif
