/* resident.h - why more memory was resident than the program had asked for.
 *
 * The kernel's split of the resident size by kind of mapping, taken by the recorder at new peaks,
 * is set against what the model knows of the live blocks at that very moment. The parts add up to
 * the difference exactly. A part can be negative: blocks whose pages were never touched are live
 * but not resident. */
#ifndef MALLOW_ANALYSE_RESIDENT_H
#define MALLOW_ANALYSE_RESIDENT_H

#include "model/model.h"

enum resident_part {
    RESIDENT_ROUNDING,  /* usable less requested bytes of the blocks live at that moment */
    RESIDENT_HEAP_FREE, /* glibc: the break's heap and the arenas, less the blocks in them: free
                           chunks, headers, pages kept back */
    RESIDENT_MMAPPED, /* glibc: private mappings less the blocks that have their own: the program's
                         own mappings, what other libraries map, page rounding */
    RESIDENT_ALLOCATOR, /* other allocators: all private memory less the blocks: theirs, and the
                           program's own mappings */
    RESIDENT_STACKS,
    RESIDENT_FILES, /* code and data of the program and its libraries, mapped files */
    RESIDENT_SHARED,
    RESIDENT_OTHER,
    RESIDENT_PARTS
};

struct resident_view {
    bool known;              /* a split was taken while the process was watched */
    uint64_t time_ns;        /* when, since the start of the recording */
    uint64_t resident_bytes; /* the program's: the recorder's share is taken off */
    uint64_t recorder_bytes; /* that share */
    uint64_t swapped_bytes;
    uint64_t live_bytes, live_blocks; /* at that moment */
    bool glibc;                       /* places of blocks are known */
    int64_t parts[RESIDENT_PARTS];    /* their sum is resident_bytes - live_bytes */
    int64_t free_main_bytes;          /* the part of RESIDENT_HEAP_FREE in the break's heap */
    int64_t free_arenas_bytes;        /* and in the heaps of other arenas */
    /* The largest resident size of all samples, recorder included. */
    bool sampled;
    uint64_t largest_bytes, largest_time_ns;
    /* The sample nearest to the peak of live bytes. */
    uint64_t near_bytes, near_time_ns;
};

/* The split with this number, below the count of model_moments. Sampled fields are left unset. */
void resident_at(const struct model *m, size_t moment, struct resident_view *view);
/* The split at the peak of live bytes, as nearly as there is one in the range of time that the
 * model is about: in live bytes, then in time. */
void resident_at_peak(const struct model *m, struct resident_view *view);

#endif
