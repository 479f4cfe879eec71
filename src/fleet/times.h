/* times.h - what a process held over time: byte-seconds by stack, and slices. Private to fleet/.
 *
 * Owns: both, counted while a model replays the events of an image, by the rules of the model. A
 * block's share is its requested bytes times the nanoseconds from its beginning to its end, or to
 * that of the process. Memory grows with stacks only. One thread. */
#ifndef MALLOW_FLEET_TIMES_H
#define MALLOW_FLEET_TIMES_H

#include "fleet/store.h"
#include "model/model.h"

struct times {
    const struct trace_image *image;
    uint64_t start_realtime_ns, end_ns;
    unsigned __int128 *byte_ns; /* [image->stacks + 1] */
    struct store_slice *slices; /* [count] */
    size_t count, at;           /* at: the one that time has reached */
    uint64_t live_bytes;
    struct model_observer observer;
};

/* The narrowest width of slices of which a stretch of time has about `most` or fewer: 1, 10 or 100
 * ms, 1 or 10 s, 1 or 10 min, 1 or 6 h, 1 or 10 d, ... Each is a multiple of those below it. */
uint64_t times_width(uint64_t took_ns, uint64_t most);

/* To be observed: &t->observer, which refers to *t. start_realtime_ns: of the recording. */
int times_init(struct times *t, const struct trace_image *image, uint64_t start_realtime_ns,
               struct error *err);
/* After the replay: adds the shares of blocks that are live at the end. */
void times_finish(struct times *t, const struct model *m);
/* byte_ns as whole byte-seconds, in place: of each stack less than one from the truth, and of all
 * together the truth, rounded down. Returns that; UINT64_MAX when it is too large. */
uint64_t times_byte_seconds(struct times *t);
void times_release(struct times *t);

#endif
