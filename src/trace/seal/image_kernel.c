/* image_kernel.c - the kernel's records of an image as its facts. */
#include "image_impl.h"

bool image_kernel_facts(const struct kernel_run *r, const struct faulted *f,
                        const struct timebase *t, uint64_t from_clock, struct trace_image *m)
{
    struct trace_fault *faults = malloc((r->fault_count + 1) * sizeof *faults);
    struct trace_level *levels = malloc((r->level_count + 1) * sizeof *levels);
    struct trace_moment *moments = malloc((r->moment_count + 1) * sizeof *moments);
    m->faults = faults;
    m->levels = levels;
    m->moments = moments;
    if (!faults || !levels || !moments)
        return false;
    for (size_t i = 0; i < r->fault_count; i++) {
        const struct kernel_fault *k = &r->faults[i];
        struct trace_fault *to = &faults[m->fault_count];
        if (k->clock < from_clock)
            continue;
        *to = (struct trace_fault){timebase_ns(t, k->clock), k->address, k->tid, 0, k->what, 0};
        if (f)
            faulted_result(f, i, &to->stack, &to->place);
        m->fault_count++;
    }
    for (size_t i = 0; i < r->level_count; i++) {
        const struct kernel_level *k = &r->levels[i];
        if (k->clock >= from_clock)
            levels[m->level_count++] = (struct trace_level){timebase_ns(t, k->clock), k->file,
                                                            k->anonymous, k->swapped, k->shared};
    }
    for (size_t i = 0; i < r->moment_count; i++) {
        const struct kernel_moment *k = &r->moments[i];
        struct trace_moment *to = &moments[m->moment_count];
        if (k->clock < from_clock)
            continue;
        *to = (struct trace_moment){.time_ns = timebase_ns(t, k->clock),
                                    .tid = k->tid,
                                    .kind = k->kind,
                                    .what = k->what,
                                    .values = k->values};
        memcpy(to->value, k->value, sizeof to->value);
        m->moment_count++;
    }
    return true;
}

void image_kernel_facts_free(const struct trace_image *m)
{
    free((void *)(uintptr_t)m->faults);
    free((void *)(uintptr_t)m->levels);
    free((void *)(uintptr_t)m->moments);
}
