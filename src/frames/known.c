/* known.c - Compares frames and whole stacks with the user's suppressions. The result of a frame
 * is kept by its id, so each pattern meets a name once. */
#include "known.h"

#include <stdlib.h>
#include <string.h>

struct suppression *known_frame(struct known *k, uint32_t frame)
{
    if (!k->suppressions || !k->suppressions->count)
        return NULL;
    if (frame >= k->room) {
        size_t room = names_count(k->names) + 256;
        int32_t *more = realloc(k->by_frame, room * sizeof *more);
        if (!more)
            return NULL;
        memset(more + k->room, 0xff, (room - k->room) * sizeof *more);
        k->by_frame = more;
        k->room = room;
    }
    int32_t *found = &k->by_frame[frame];
    if (*found < 0) {
        const struct name_frame *f = names_frame(k->names, frame);
        *found = 0;
        for (size_t i = 0; i < k->suppressions->count && !*found; i++) {
            const char *pattern = k->suppressions->items[i].pattern;
            if (k->suppressions->items[i].whole_stack)
                continue;
            if (suppression_matches(pattern, f->full) ||
                suppression_matches(pattern, f->function) ||
                suppression_matches(pattern, f->file) || suppression_matches(pattern, f->module))
                *found = (int32_t)i + 1;
        }
    }
    return *found ? &k->suppressions->items[*found - 1] : NULL;
}

static void write_known_stack(const struct names *names, const uint32_t *frames, size_t count,
                              bool full, struct buffer *text)
{
    for (size_t i = 0; i < count; i++) {
        const struct name_frame *frame = names_frame(names, frames[i]);
        if (i)
            buffer_append_char(text, ';');
        for (const char *f = full ? frame->full : frame->function; *f; f++)
            buffer_append_char(text, (unsigned char)*f < 0x20 ? '?' : *f);
    }
}

void known_write_stack(const struct names *names, const uint32_t *frames, size_t count,
                       struct buffer *text)
{
    write_known_stack(names, frames, count, true, text);
}

/* True if this is what known_write_stack makes of the frames, or what a report shows of them. */
static bool reads(const struct known *k, const uint32_t *frames, size_t count, const char *text)
{
    struct buffer b = {0};
    known_write_stack(k->names, frames, count, &b);
    bool same = count && !buffer_failed(&b) && !strcmp(buffer_text(&b), text);
    if (!same) {
        buffer_clear(&b);
        write_known_stack(k->names, frames, names_shown(k->names, frames, count), false, &b);
        same = count && !buffer_failed(&b) && !strcmp(buffer_text(&b), text);
    }
    buffer_release(&b);
    return same;
}

struct suppression *known_frames(struct known *k, const uint32_t *frames, size_t count)
{
    if (!k->suppressions || !k->suppressions->count)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct suppression *s = known_frame(k, frames[i]);
        if (s)
            return s;
    }
    for (size_t i = 0; i < k->suppressions->count; i++) {
        struct suppression *s = &k->suppressions->items[i];
        if (s->whole_stack && reads(k, frames, count, s->pattern))
            return s;
    }
    return NULL;
}

struct suppression *known_stack(struct known *k, uint32_t stack)
{
    if (!k->suppressions || !k->suppressions->count)
        return NULL;
    buffer_clear(&k->stack);
    const size_t count = names_append(k->names, stack, &k->stack);
    if (buffer_failed(&k->stack))
        return NULL;
    return known_frames(k, (const uint32_t *)(const void *)k->stack.data, count);
}

void known_count(struct known *k, struct suppression *s, uint64_t blocks, uint64_t bytes)
{
    s->blocks += blocks;
    s->bytes += bytes;
    k->blocks += blocks;
    k->bytes += bytes;
}

void known_release(struct known *k)
{
    free(k->by_frame);
    buffer_release(&k->stack);
    k->by_frame = NULL;
    k->room = 0;
}
