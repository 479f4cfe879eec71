/* frame.h - a frame as a store has it, read back; and the identity of its path. Private to fleet/.
 */
#ifndef MALLOW_FLEET_FRAME_H
#define MALLOW_FLEET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "frames/names.h"

struct frame {
    const char *function, *file, *module; /* never NULL; valid until frame_release */
    int64_t line;
    bool inlined, unnamed, cut;
    void *document; /* private */
};

/* A store may be another user's: -1 with *err for bytes that are no frame. */
int frame_parse(const char *text, struct frame *f, struct error *err);
void frame_release(struct frame *f);

/* The identity across builds of a frame and those outward of it, whose path is `outer` (0: none):
 * functions and modules, without lines. own: the frame is of the program itself. */
uint64_t frame_path(uint64_t outer, const struct name_frame *f, bool own);

#endif
