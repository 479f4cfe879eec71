/* keep.h - a finished model in the index of its recording, so that the next reader of everything
 * need not read the events.
 *
 * Owns: the columns of the index's MODEL parts (docs/format.md). One thread. */
#ifndef MALLOW_MODEL_KEEP_H
#define MALLOW_MODEL_KEEP_H

#include "model/model.h"

/* The model of everything in the image, finished; NULL: the index has none that makes sense. */
struct model *model_kept(struct trace *t, uint32_t image);
/* For a finished model without a filter and an observer: keeps it for others. */
void model_keep(const struct model *m, struct trace *t, uint32_t image);

#endif
