/* kernel.h - records of the kernel about all processes, on their way from chunks to images.
 *
 * Owns: reading the records of KERNEL chunks, and which image each belongs to. Memory: 32 bytes a
 * fault, 48 to 56 bytes for others. One thread. */
#ifndef MALLOW_TRACE_RAW_KERNEL_H
#define MALLOW_TRACE_RAW_KERNEL_H

#include "format/chunk.h"
#include "trace/bytes.h"

struct kernel_fault {
    uint64_t clock, address;
    uint32_t image; /* index, or UINT32_MAX; before kernel_assign the process id */
    uint32_t tid;
    uint8_t what, place;
};

struct kernel_level {
    uint64_t clock, file, anonymous, swapped, shared;
    uint32_t image; /* as above */
};

struct kernel_moment {
    uint64_t clock;
    uint32_t image; /* as above */
    uint32_t tid;
    uint8_t kind, what, values;
    int64_t value[MLW_KERNEL_VALUES];
};

struct kernel_events {
    uint32_t kinds;              /* kinds that were recorded */
    uint64_t lost;               /* reported by the recorder */
    uint64_t left_out;           /* left out above the bound */
    struct kernel_fault *faults; /* after kernel_assign by image, then clock */
    size_t fault_count, fault_cap;
    struct kernel_level *levels;
    size_t level_count, level_cap;
    struct kernel_moment *moments;
    size_t moment_count, moment_cap;
};

/* The run of an image in each of the arrays; all 0 when it has none. */
struct kernel_run {
    const struct kernel_fault *faults;
    const struct kernel_level *levels;
    const struct kernel_moment *moments;
    size_t fault_count, level_count, moment_count;
};

/* The range of clocks of an image; `end` is UINT64_MAX unless it ended by an exec. */
struct kernel_image {
    uint32_t pid, index;
    uint64_t start, end;
};

/* Reads the payload of a KERNEL chunk, and skips records that make no sense. Returns false
 * without memory. */
bool kernel_read(struct kernel_events *k, struct span s);
/* Assigns each event to the image of its process at that time, and drops events of processes
 * without an image. It sorts `images`. */
void kernel_assign(struct kernel_events *k, struct kernel_image *images, size_t n);

struct kernel_run kernel_run_of(const struct kernel_events *k, uint32_t image);
void kernel_free(struct kernel_events *k);

#endif
