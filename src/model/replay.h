/* replay.h - the core pass: all events of one image from the file through a model.
 *
 * Owns: the loop over the batches of a cursor. One thread. */
#ifndef MALLOW_MODEL_REPLAY_H
#define MALLOW_MODEL_REPLAY_H

#include "base/error.h"
#include "model/series.h"
#include "trace/trace.h"

/* Reads all events of an image (its index in trace_info) into a model. filter NULL: everything
 * counts; such a model may come from the index of the recording, or is kept there (keep.h).
 * Returns 0 with *m, which the caller frees (model_free), or -1 with *err and *m NULL. */
int model_replay(struct trace *t, uint32_t image, const struct model_filter *filter,
                 struct model **m, struct error *err);
/* The same, with an observer of every block's life; NULL: none. */
int model_replay_observed(struct trace *t, uint32_t image, const struct model_filter *filter,
                          const struct model_observer *observer, struct model **m,
                          struct error *err);
/* Feeds all events of an image to a series. The caller calls series_finish. */
int model_replay_series(struct trace *t, uint32_t image, const struct model_filter *filter,
                        struct series *s, struct error *err);

#endif
