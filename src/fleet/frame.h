/* frame.h - a frame as a store has it, read back. Private to fleet/. */
#ifndef MALLOW_FLEET_FRAME_H
#define MALLOW_FLEET_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct frame {
    const char *function, *file, *module; /* never NULL; valid until frame_release */
    int64_t line;
    bool inlined, unnamed, cut;
    void *document; /* private */
};

/* A store may be another user's: -1 with *err for bytes that are no frame. */
int frame_parse(const char *text, struct frame *f, struct error *err);
void frame_release(struct frame *f);

#endif
