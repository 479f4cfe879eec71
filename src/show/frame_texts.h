/* frame_texts.h - the JSON of frames, made once for each. Private to report/. */
#ifndef MALLOW_SHOW_FRAME_TEXTS_H
#define MALLOW_SHOW_FRAME_TEXTS_H

#include "base/buffer.h"
#include "base/json.h"
#include "frames/names.h"

struct frame_texts { /* all zero at first, but for `table` */
    struct buffer text;
    size_t *start; /* [id], SIZE_MAX: not made yet; [room] */
    size_t *bytes;
    size_t room;
    /* With a table of frames: a frame stands in it once, in the order of first use. */
    bool table;
    struct buffer order; /* the ids in the table, uint32_t each */
    uint32_t *place;     /* [id], in the table; set where start[id] is; [room] */
};

/* An element of frames[]: the frame, or its place in the table. False without memory. */
bool frame_texts_frame(struct json *j, struct frame_texts *f, const struct names *names,
                       uint32_t id);
/* A field `frames`: those of a stack, innermost first. False without memory. */
bool frame_texts_stack(struct json *j, uint32_t stack, struct frame_texts *texts,
                       struct names *names);
/* A field `frame_table`, in the order of the places. */
void frame_texts_table(struct json *j, const struct frame_texts *f);
void frame_texts_release(struct frame_texts *f);

#endif
