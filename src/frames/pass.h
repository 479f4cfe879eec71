/* pass.h - one pass over a process of a recording: its names, and the model of what passes.
 *
 * Owns: in which order these are made, and freed. One thread. */
#ifndef MALLOW_FRAMES_PASS_H
#define MALLOW_FRAMES_PASS_H

#include "frames/names.h"
#include "frames/select.h"
#include "model/replay.h"

struct pass {
    const struct trace_image *image;
    struct names *names;        /* NULL: there was no memory */
    struct model *model;        /* NULL: it was not made */
    struct image_filter filter; /* the filter; held until the end */
};

/* symbols NULL: addresses only; look NULL: names as they are. To be ended in either case. */
int pass_begin(struct pass *p, struct trace *t, uint32_t image, const struct selection *selection,
               struct symbols *symbols, const struct names_look *look, struct error *err);
/* Names and model may have been taken, and NULL put in their place. */
void pass_end(struct pass *p);

#endif
