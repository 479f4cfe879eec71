/* keep.h - a finished model in the index of its recording, so that the next reader of everything
 * need not read the events.
 *
 * Owns: the columns of the index's MODEL parts (docs/format.md). One thread. */
#ifndef MALLOW_MODEL_KEEP_H
#define MALLOW_MODEL_KEEP_H

#include "model/model.h"

/* Returns the finished model of the whole image from the index; NULL if the index has none, or
 * one that does not add up. The caller frees it (model_free). */
struct model *model_kept(struct trace *t, uint32_t image);
/* Keeps a finished model, which must have no filter and no observer, for the index. */
void model_keep(const struct model *m, struct trace *t, uint32_t image);

#endif
