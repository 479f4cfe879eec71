/* sections.h - the parts of the text report that are about one process and need no tree. */
#ifndef MALLOW_REPORT_SECTIONS_H
#define MALLOW_REPORT_SECTIONS_H

#include "show/layout.h"
#include "model/model.h"
#include "report/report.h"

/* Live bytes over time, as a line of bars. */
void section_timeline(const struct page *p, const struct model *m);
/* Marks and controls within the range of time, at most o->top of them (0: 12). */
void section_marks(const struct page *p, const struct trace_image *image,
                   const struct report_options *o);
/* The largest resident size; section_explained says why it was above the live bytes. */
void section_resident(const struct page *p, const struct model *m);
/* Anonymous memory that the program mapped by itself, and where. */
void section_mapped(const struct page *p, const struct model *m, struct names *names);
/* Calls, sizes, lifetimes, threads, realloc chains, failed calls. */
void section_rest(const struct page *p, const struct model *m, struct names *names);
/* The id of the innermost frame that is not machinery of allocation; NO_FRAME for no stack. */
uint32_t section_site(struct names *names, uint32_t stack);
void section_print_site(const struct page *p, struct buffer *b, const struct names *names,
                        uint32_t frame);
/* Why names are missing. */
void section_problems(const struct page *p, struct symbols *symbols);

#endif
