/* known.h - suppressions applied to the stacks of an image; a name is compared once. */
#ifndef MALLOW_FRAMES_KNOWN_H
#define MALLOW_FRAMES_KNOWN_H

#include "analyse/suppress.h"
#include "base/buffer.h"
#include "model/model.h"
#include "names.h"

struct known {
    struct suppressions *suppressions; /* NULL or empty: nothing is known */
    struct names *names;
    int32_t *by_frame; /* index of the suppression + 1; 0: none; -1: not looked at yet */
    size_t room;
    struct buffer stack;    /* frames of the stack that is looked at */
    uint64_t blocks, bytes; /* suppressed so far, by known_count */
};

/* The suppression that matches a frame, or NULL. */
struct suppression *known_frame(struct known *k, uint32_t frame);
/* The one that matches one of the frames, innermost first, or the stack that they are as a whole.
 */
struct suppression *known_frames(struct known *k, const uint32_t *frames, size_t count);
/* The same of a stack of the image. */
struct suppression *known_stack(struct known *k, uint32_t stack);
/* Appends the stack as a line `stack:` of a suppression file has it: functions, innermost first,
 * joined by semicolons, with '?' for control characters. */
void known_write_stack(const struct names *names, const uint32_t *frames, size_t count,
                       struct buffer *text);
/* Notes that `s` hid these. */
void known_count(struct known *k, struct suppression *s, uint64_t blocks, uint64_t bytes);
void known_release(struct known *k);

#endif
