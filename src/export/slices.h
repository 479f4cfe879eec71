/* slices.h - a process over time in slices of equal length: live bytes, chunks by size, and the
 * resident size that the kernel measured.
 *
 * Owns: the figures of the slice that is open, for one image. Single-threaded. */
#ifndef MALLOW_EXPORT_SLICES_H
#define MALLOW_EXPORT_SLICES_H

#include "export/job.h"

/* Chunks by the bytes that the allocator gave (usable ones): class 0 up to 32 bytes, each other one
 * up to twice as many as the one before, the last without a bound. */
#define SLICE_CLASSES 24u

/* The largest chunk of a class, in bytes; UINT64_MAX for the last. */
uint64_t slice_class_bytes(unsigned class);

struct slice {
    uint64_t start_ns, end_ns;           /* since the start of the recording */
    uint64_t live_bytes, live_blocks;    /* at its end: requested */
    uint64_t most_bytes;                 /* the most that was live within it */
    uint64_t calls;                      /* within it; both halves of a realloc count */
    uint64_t chunks[SLICE_CLASSES];      /* at its end */
    uint64_t chunk_bytes[SLICE_CLASSES]; /* their usable bytes */
    uint64_t rss_bytes, vmsize_bytes;    /* the last measurement before its end */
    bool measured;                       /* there was one */
    bool still;                          /* nothing happened in it, nor in the one before */
};

struct slices {
    /* Set by the caller. */
    void *arg;
    void (*close)(void *arg, const struct slice *s); /* each slice, in order, also still ones */
    uint64_t count;                                  /* the count of slices, at least 1 */
    /* To be read after slices_end. */
    uint64_t peak_bytes, peak_ns; /* the peak of live bytes; 0: nothing was live */
    struct slice now;             /* after slices_end: the end */
    /* Private. */
    const struct trace_image *image;
    const struct export_options *options;
    uint64_t width_ns, to_ns;
    uint64_t *size, *usable; /* by slot */
    uint8_t *counts;         /* by slot: 1 when it is part of the figures */
    uint64_t quiet, closed;
    uint32_t resident; /* the next measurement */
};

/* Begins with an image; -1 when memory runs out. The range of time is that of the options. */
int slices_begin(struct slices *s, const struct trace_image *image,
                 const struct export_options *options, struct error *err);
/* For each batch of job_events. */
void slices_add(struct slices *s, const struct job_filter *f, const struct trace_batch *b);
/* Closes all slices that are left. */
void slices_end(struct slices *s);
/* Gives the memory back; also after a failed slices_begin. */
void slices_release(struct slices *s);

#endif
