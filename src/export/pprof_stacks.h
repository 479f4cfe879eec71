/* pprof_stacks.h - the call stacks of one process as locations of a profile, each address once.
 *
 * Owns: which mappings and locations were written already. One process at a time; not thread-safe.
 */
#ifndef MALLOW_EXPORT_PPROF_STACKS_H
#define MALLOW_EXPORT_PPROF_STACKS_H

#include "base/strings.h"
#include "export/pprof_write.h"
#include "frames/names.h"

/* Where mappings and locations are written; each returns an id, from 1, as pprof_mapping and
 * pprof_location do. */
struct pprof_sink {
    void *arg;
    uint64_t (*mapping)(void *arg, const struct pprof_mapping *m);
    uint64_t (*location)(void *arg, uint64_t mapping, uint64_t address,
                         const struct pprof_line *lines, size_t line_count);
    /* NULL, or each is called once a function: it stands inward of a call site, or not. */
    void (*inward)(void *arg, const char *function);
    void (*outward)(void *arg, const char *function);
};

struct pprof_stacks {
    struct pprof_sink sink;
    uint64_t *mappings;    /* by module; 0: not written yet */
    struct strings places; /* elements are struct job_place */
    uint64_t *locations;   /* by place - 1 */
    size_t location_room;
    uint64_t *stack;
    size_t stack_room;
    uint8_t *sides; /* by frame: where it was met */
    size_t side_room;
    uint8_t *outward; /* by node: so were this one and its callers */
    uint64_t nowhere; /* the location of stacks that are not known; 0: not written yet */
};

/* Begins with the image's program, which readers expect to be the first mapping. */
int pprof_stacks_begin(struct pprof_stacks *p, struct pprof *out, const struct trace_image *image,
                       struct error *err);
int pprof_stacks_begin_into(struct pprof_stacks *p, const struct pprof_sink *sink,
                            const struct trace_image *image, struct error *err);
/* The locations of a stack, innermost first, valid until the next call; always at least one. Frames
 * of an interpreter that stand between those of its scripts are left out. */
int pprof_stacks_of(struct pprof_stacks *p, struct names *names, uint32_t stack,
                    const uint64_t **locations, size_t *count, struct error *err);
void pprof_stacks_end(struct pprof_stacks *p);

#endif
