/* slices.c - Sums up the events of one process by slices of equal length, with live chunks in
 * classes of powers of two. It keeps the size of every live block, so that a release subtracts
 * what its allocation added. */
#include "export/slices.h"

#include <stdlib.h>

#define FIRST_BITS 5u /* class 0 holds chunks up to 1 << 5 bytes */

uint64_t slice_class_bytes(unsigned class)
{
    return class + 1 < SLICE_CLASSES ? UINT64_C(1) << (FIRST_BITS + class) : UINT64_MAX;
}

static unsigned size_class_of(uint64_t bytes)
{
    if (bytes <= UINT64_C(1) << FIRST_BITS)
        return 0;
    const unsigned class = 64u - FIRST_BITS - (unsigned)__builtin_clzll(bytes - 1);
    return class < SLICE_CLASSES ? class : SLICE_CLASSES - 1;
}

int slices_begin(struct slices *s, const struct trace_image *image,
                 const struct export_options *options, struct error *err)
{
    const uint64_t from_ns =
        options->select.from_ns > image->start_ns ? options->select.from_ns : image->start_ns;
    s->to_ns = options->select.to_ns && options->select.to_ns < image->end_ns
                   ? options->select.to_ns
                   : image->end_ns;
    s->image = image;
    s->options = options;
    s->width_ns = s->to_ns > from_ns ? (s->to_ns - from_ns) / s->count + 1 : 1;
    s->now = (struct slice){.start_ns = from_ns, .end_ns = from_ns + s->width_ns};
    s->peak_bytes = s->peak_ns = s->quiet = s->closed = 0;
    s->resident = 0;
    s->size = calloc((size_t)image->max_slots + 1, sizeof *s->size);
    s->usable = calloc((size_t)image->max_slots + 1, sizeof *s->usable);
    s->counts = calloc((size_t)image->max_slots + 1, 1);
    return s->size && s->usable && s->counts ? 0 : error_memory_for(err, "live blocks");
}

static void slices_close_slice(struct slices *s)
{
    struct slice *now = &s->now;
    for (; s->resident < s->image->resident_count; s->resident++) {
        const struct mlw_resident *r = &s->image->resident[s->resident];
        const uint64_t to_ns = s->options->select.to_ns;
        if ((r->clock < s->to_ns ? r->clock : s->to_ns) >= now->end_ns)
            break; /* one behind the end of the process belongs to its end */
        if (r->clock < s->options->select.from_ns || (to_ns && r->clock >= to_ns))
            continue;
        now->rss_bytes = r->rss;
        now->vmsize_bytes = r->vmsize;
        now->measured = true;
    }
    now->still = s->quiet > 1;
    s->close(s->arg, now);
    s->quiet++;
    s->closed++;
    now->start_ns = now->end_ns;
    now->end_ns += s->width_ns;
    now->most_bytes = now->live_bytes;
    now->calls = 0;
}

/* Events behind the end belong to the last slice. */
static void slices_advance(struct slices *s, uint64_t ns)
{
    while (ns >= s->now.end_ns && s->closed + 1 < s->count)
        slices_close_slice(s);
    s->quiet = 0;
}

static void slices_begin_block(struct slices *s, const struct trace_batch *b, size_t i, bool inside)
{
    const uint32_t slot = b->slot[i];
    const unsigned class = size_class_of(b->usable[i]);
    s->size[slot] = b->size[i];
    s->usable[slot] = b->usable[i];
    s->now.live_blocks++;
    s->now.live_bytes += b->size[i];
    s->now.chunks[class]++;
    s->now.chunk_bytes[class] += b->usable[i];
    if (s->now.live_bytes > s->now.most_bytes)
        s->now.most_bytes = s->now.live_bytes;
    if (inside && s->now.live_bytes > s->peak_bytes) {
        s->peak_bytes = s->now.live_bytes;
        s->peak_ns = b->time_ns[i];
    }
}

static void slices_end_block(struct slices *s, uint32_t slot)
{
    const unsigned class = size_class_of(s->usable[slot]);
    s->now.live_blocks--;
    s->now.live_bytes -= s->size[slot];
    s->now.chunks[class]--;
    s->now.chunk_bytes[class] -= s->usable[slot];
}

void slices_add(struct slices *s, const struct job_filter *f, const struct trace_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        if (f->f.to_ns && b->time_ns[i] >= f->f.to_ns)
            continue;
        const bool inside = b->time_ns[i] >= f->f.from_ns;
        if (inside)
            slices_advance(s, b->time_ns[i]);
        s->now.calls += inside && job_call_passes(f, b, i);
        if (slot == TRACE_NO_SLOT)
            continue;
        const bool made = b->kind[i] == TRACE_ALLOC;
        if (s->counts[slot])
            slices_end_block(s, slot);
        s->counts[slot] = made && job_call_passes(f, b, i);
        if (s->counts[slot])
            slices_begin_block(s, b, i, inside);
    }
}

void slices_end(struct slices *s)
{
    while (s->closed < s->count && (!s->closed || s->now.start_ns <= s->to_ns))
        slices_close_slice(s);
}

void slices_release(struct slices *s)
{
    free(s->size);
    free(s->usable);
    free(s->counts);
    s->size = s->usable = NULL;
    s->counts = NULL;
}
