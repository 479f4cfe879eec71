/* sections.h - the parts of the text report that are about one process and need no tree. */
#ifndef MALLOW_REPORT_SECTIONS_H
#define MALLOW_REPORT_SECTIONS_H

#include "show/layout.h"
#include "model/model.h"
#include "report/report.h"

/* Prints live bytes over time as a line of bars, or as a plot. */
void section_timeline(const struct page *p, const struct model *m);
/* Prints marks and controls within the range of time, at most o->top of them (0: 12). */
void section_marks(const struct page *p, const struct trace_image *image,
                   const struct report_options *o);
/* Prints the largest resident size. section_explained prints why it was above the live bytes. */
void section_resident(const struct page *p, const struct model *m);
/* Prints the anonymous memory that the program mapped itself, by call site. */
void section_mapped(const struct page *p, const struct model *m, struct names *names);
/* Prints calls, sizes, lifetimes, threads, realloc chains and failed calls. */
void section_rest(const struct page *p, const struct model *m, struct names *names);
/* Returns the id of the stack's call site; NO_FRAME without a stack. */
uint32_t section_site(struct names *names, uint32_t stack);
void section_print_site(const struct page *p, struct buffer *b, const struct names *names,
                        uint32_t frame);
/* Prints why names are missing. */
void section_problems(const struct page *p, struct symbols *symbols);

#endif
