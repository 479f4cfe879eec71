/* faults.c - Sums up page faults by stack, place, kind and slice of time, and finds the largest
 * resident size that the kernel reported. */
#include "analyse/faults.h"

#include <stdlib.h>
#include <string.h>

static void count_one_fault(struct fault_count *c, bool major)
{
    c->minor += !major;
    c->major += major;
}

int fault_sums_of(struct fault_sums *s, const struct trace_image *image, uint64_t from_ns,
                  uint64_t to_ns, struct error *err)
{
    memset(s, 0, sizeof *s);
    s->block = calloc((size_t)image->stacks + 1, sizeof *s->block);
    s->mapping = calloc((size_t)image->stacks + 1, sizeof *s->mapping);
    if (!s->block || !s->mapping)
        return error_memory_for(err, "the faults of process %u", image->pid);
    for (uint32_t i = 0; i < image->fault_count; i++) {
        const struct trace_fault *f = &image->faults[i];
        const bool major = f->what & MLW_FAULT_MAJOR;
        const unsigned access = f->what & ~MLW_FAULT_MAJOR;
        if (f->time_ns < from_ns || (to_ns && f->time_ns >= to_ns))
            continue;
        count_one_fault(&s->all, major);
        count_one_fault(&s->place[f->place < MLW_PLACES ? f->place : MLW_PLACE_UNKNOWN], major);
        count_one_fault(&s->access[access < MLW_ACCESSES ? access : MLW_ACCESS_KERNEL], major);
        if (f->stack <= image->stacks && f->place == MLW_PLACE_BLOCK)
            count_one_fault(&s->block[f->stack], major);
        else if (f->stack <= image->stacks && f->place == MLW_PLACE_MAPPED)
            count_one_fault(&s->mapping[f->stack], major);
    }
    return 0;
}

void fault_sums_release(struct fault_sums *s)
{
    free(s->block);
    free(s->mapping);
    memset(s, 0, sizeof *s);
}

static struct fault_slice *slice_of(struct fault_slice *series, const struct fault_slices *slices,
                                    uint64_t time_ns)
{
    const uint64_t since = time_ns > slices->start_ns ? time_ns - slices->start_ns : 0;
    const uint64_t i = slices->width_ns ? since / slices->width_ns : 0;
    return &series[i < slices->bins ? i : slices->bins - 1];
}

void fault_series(struct fault_slice *series, const struct fault_slices *slices,
                  const struct trace_image *image, uint64_t from_ns, uint64_t to_ns)
{
    memset(series, 0, slices->bins * sizeof *series);
    for (uint32_t i = 0; i < image->fault_count; i++) {
        const struct trace_fault *f = &image->faults[i];
        if (f->time_ns >= from_ns && (!to_ns || f->time_ns < to_ns))
            count_one_fault(&slice_of(series, slices, f->time_ns)->faults,
                            f->what & MLW_FAULT_MAJOR);
    }
    for (uint32_t i = 0; i < image->moment_count; i++) {
        const struct trace_moment *m = &image->moments[i];
        if (m->kind == MLW_KERNEL_SWAP && m->what == MLW_PAGES_IN && m->time_ns >= from_ns &&
            (!to_ns || m->time_ns < to_ns))
            slice_of(series, slices, m->time_ns)->swapped_in_pages += (uint64_t)m->value[0];
    }
}

uint64_t level_resident(const struct trace_level *l) { return l->file + l->anonymous + l->shared; }

const struct trace_level *level_largest(const struct trace_image *image, uint32_t first,
                                        uint32_t count)
{
    const struct trace_level *best = &image->levels[first];
    for (uint32_t i = first; i < image->level_count && i - first < count; i++)
        if (level_resident(&image->levels[i]) > level_resident(best))
            best = &image->levels[i];
    return best;
}

const struct trace_level *level_peak(const struct trace_image *image)
{
    return image->level_count ? level_largest(image, 0, image->level_count) : NULL;
}
