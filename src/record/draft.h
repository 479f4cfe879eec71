/* draft.h - a recording is sealed while the program still runs.
 *
 * Owns: the thread that does so, at the lowest priority, and when there is one at all: once the
 * recording is large, while memory and disk have room for it. The raw file stays as it is until the
 * sealed one is whole. Refuses: to be in the way: draft_look, for the loop, takes no longer than
 * looking at the buffers of one process. All functions are for the loop's thread. */
#ifndef MALLOW_RECORD_DRAFT_H
#define MALLOW_RECORD_DRAFT_H

#include "image.h"
#include "trace/trace.h"
#include "trust/place.h"

struct draft;

/* Begins a draft of the recording that r->sink writes. NULL without memory: the recording is sealed
 * at its end. */
struct draft *draft_open(struct recording *r, const struct trust_place *place);
/* Lets the draft look at the recording; call it in rounds of the loop. Returns true if the
 * caller is to append a pair of clocks, from which times can be computed. */
bool draft_look(struct draft *d, uint64_t now_ns, struct image *const *images, uint32_t count);
/* Notes that the image of this id has ended and is completely written. NULL is fine. */
void draft_image_over(struct draft *d, uint64_t image);
/* Ends the thread and seals the rest with all processors, after everything is written. Returns
 * 0, or -1 if the recording must be sealed from the beginning. NULL is fine. */
int draft_finish(struct draft *d, struct trace_seal_result *result,
                 void (*progress)(void *, uint64_t done, uint64_t total), void *progress_arg,
                 struct error *err);
void draft_close(struct draft *d); /* NULL is fine */

#endif
