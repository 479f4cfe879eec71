/* times.c - Sums byte-seconds by stack and fills slices of time while a model replays an image.
 * It observes the model, so it counts by the same rules. */
#include "fleet/times.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS   1000000000ull
#define SLICES_MOST 100u /* and one more, since slices begin at whole times */

uint64_t times_width(uint64_t took_ns, uint64_t most)
{
    static const uint64_t widths[] = {
        SECOND_NS / 1000, SECOND_NS / 100, SECOND_NS / 10,   SECOND_NS,         10 * SECOND_NS,
        60 * SECOND_NS,   600 * SECOND_NS, 3600 * SECOND_NS, 21600 * SECOND_NS, 86400 * SECOND_NS};
    const size_t count = sizeof widths / sizeof *widths;
    uint64_t width = widths[0];
    for (size_t i = 0; took_ns / width >= most && width < UINT64_MAX / 20; i++)
        width = i + 1 < count ? widths[i + 1] : width * 10;
    return width;
}

/* Brings the slices to a moment of the recording. */
static void reach(struct times *t, uint64_t time_ns)
{
    const uint64_t now = t->start_realtime_ns + time_ns;
    if (time_ns > t->end_ns)
        t->end_ns = time_ns;
    while (t->at + 1 < t->count && now >= t->slices[t->at + 1].start_ns) {
        t->slices[t->at].live_bytes = t->live_bytes;
        t->slices[++t->at].peak_bytes = t->live_bytes;
    }
}

static void began(void *arg, const struct model_life *life, uint64_t time_ns, bool carried)
{
    struct times *t = arg;
    reach(t, time_ns);
    struct store_slice *now = &t->slices[t->at];
    t->byte_ns[life->stack] -= (unsigned __int128)life->size_bytes * time_ns;
    t->live_bytes += life->size_bytes;
    if (t->live_bytes > now->peak_bytes)
        now->peak_bytes = t->live_bytes;
    if (!carried) {
        now->calls++;
        now->allocated_bytes += life->size_bytes;
    }
}

static void ended(void *arg, const struct model_life *life, uint64_t time_ns, uint32_t thread,
                  bool call, bool temporary)
{
    struct times *t = arg;
    (void)thread, (void)call, (void)temporary;
    reach(t, time_ns);
    t->byte_ns[life->stack] += (unsigned __int128)life->size_bytes * time_ns;
    t->live_bytes -= life->size_bytes;
}

/* Forgets the events before. */
static void reset(void *arg, uint64_t time_ns)
{
    struct times *t = arg;
    reach(t, time_ns);
    memset(t->byte_ns, 0, ((size_t)t->image->stacks + 1) * sizeof *t->byte_ns);
    t->live_bytes = 0;
    for (size_t i = 0; i <= t->at; i++)
        t->slices[i].calls = t->slices[i].allocated_bytes = t->slices[i].live_bytes =
            t->slices[i].peak_bytes = 0;
}

int times_init(struct times *t, const struct trace_image *image, uint64_t start_realtime_ns,
               struct error *err)
{
    uint64_t took = image->end_ns > image->start_ns ? image->end_ns - image->start_ns : 0;
    took = took < INT64_MAX ? took : INT64_MAX;
    const uint64_t width = times_width(took, SLICES_MOST);
    const uint64_t begin = start_realtime_ns + image->start_ns, first = begin - begin % width;
    *t = (struct times){.image = image,
                        .start_realtime_ns = start_realtime_ns,
                        .end_ns = image->end_ns,
                        .count = (begin + took - first) / width + 1,
                        .observer = {.began = began, .ended = ended, .reset = reset}};
    t->observer.arg = t;
    t->byte_ns = calloc((size_t)image->stacks + 1, sizeof *t->byte_ns);
    t->slices = calloc(t->count, sizeof *t->slices);
    if (!t->byte_ns || !t->slices)
        return error_memory(err);
    for (size_t i = 0; i < t->count; i++)
        t->slices[i] = (struct store_slice){
            .start_ns = first + i * width, .width_ns = width, .last = i + 1 == t->count};
    return 0;
}

void times_finish(struct times *t, const struct model *m)
{
    const struct model_stacks stacks = model_stacks(m);
    reach(t, t->end_ns);
    t->slices[t->at].live_bytes = t->live_bytes;
    for (uint32_t i = 0; i <= t->image->stacks; i++)
        t->byte_ns[i] += (unsigned __int128)model_stack_of(stacks, i)->live_bytes * t->end_ns;
}

uint64_t times_byte_seconds(struct times *t)
{
    unsigned __int128 sum = 0, whole = 0;
    for (size_t i = 0; i <= t->image->stacks; i++) {
        sum += t->byte_ns[i];
        t->byte_ns[i] = sum / SECOND_NS - whole;
        whole = sum / SECOND_NS;
    }
    return whole < UINT64_MAX ? (uint64_t)whole : UINT64_MAX;
}

void times_release(struct times *t)
{
    free(t->byte_ns);
    free(t->slices);
}
