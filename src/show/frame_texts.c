/* frame_texts.c - Formats each frame as JSON once and keeps the text by the frame's id. A
 * document writes either the text in place, or the number of the frame in a table at the end. */
#include "show/frame_texts.h"

#include <stdlib.h>

static bool frame_text(struct frame_texts *f, const struct names *names, uint32_t id)
{
    if (id >= f->room) {
        size_t room = names_count(names) + 64;
        size_t *start = realloc(f->start, room * sizeof *start);
        if (start)
            f->start = start;
        size_t *bytes = realloc(f->bytes, room * sizeof *bytes);
        if (bytes)
            f->bytes = bytes;
        uint32_t *place = realloc(f->place, room * sizeof *place);
        if (place)
            f->place = place;
        if (!start || !bytes || !place)
            return false;
        for (size_t i = f->room; i < room; i++)
            start[i] = SIZE_MAX;
        f->room = room;
    }
    if (f->start[id] != SIZE_MAX)
        return true;
    struct buffer *b = &f->text;
    f->start[id] = b->size_bytes;
    names_frame_json(names_frame(names, id), b);
    f->bytes[id] = b->size_bytes - f->start[id];
    f->place[id] = (uint32_t)(f->order.size_bytes / sizeof id);
    buffer_append(&f->order, &id, sizeof id);
    return !buffer_failed(b) && !buffer_failed(&f->order);
}

bool frame_texts_frame(struct json *j, struct frame_texts *f, const struct names *names,
                       uint32_t id)
{
    if (!frame_text(f, names, id))
        return false;
    if (f->table)
        json_number(j, NULL, f->place[id]);
    else
        json_raw(j, NULL, f->text.data + f->start[id], f->bytes[id]);
    return true;
}

void frame_texts_table(struct json *j, const struct frame_texts *f)
{
    const uint32_t *ids = (const uint32_t *)(const void *)f->order.data;
    json_open_array(j, "frame_table");
    for (size_t i = 0; i < f->order.size_bytes / sizeof *ids; i++)
        json_raw(j, NULL, f->text.data + f->start[ids[i]], f->bytes[ids[i]]);
    json_close_array(j);
}

void frame_texts_release(struct frame_texts *f)
{
    buffer_release(&f->text);
    buffer_release(&f->order);
    free(f->start);
    free(f->bytes);
    free(f->place);
    *f = (struct frame_texts){0};
}

bool frame_texts_stack(struct json *j, uint32_t stack, struct frame_texts *texts,
                       struct names *names)
{
    json_open_array(j, "frames");
    for (struct names_walk w = {.node = stack}; names_next(names, &w);)
        if (!frame_texts_frame(j, texts, names, w.id))
            return false;
    json_close_array(j);
    return !names_failed(names);
}
