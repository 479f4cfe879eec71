/* keep.h - what a report that is kept in the index of its recording depends on.
 *
 * Owns: which options make a report that can be kept, and the key of all options. One thread. */
#ifndef MALLOW_REPORT_KEEP_H
#define MALLOW_REPORT_KEEP_H

#include "report/report.h"

/* No filter is on, and no file but the recording is read. */
bool keep_is_plain(const struct report_options *o);
/* Differs when any option differs that a report can depend on. */
uint64_t keep_key(const struct report_options *o);
/* The sum h with a number more. */
uint64_t keep_mix(uint64_t h, uint64_t v);

#endif
