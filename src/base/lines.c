/* lines.c - Formats lines into a buffer and hands each full one to a thread that writes it. The
 * thread starts with the first full buffer, so short output needs none. The first failure of a
 * write is kept in an atomic and reported once. */
#include "lines.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "buffer.h"
#include "digits.h"
#include "drain.h"
#include "json.h"
#include "text.h"

static bool has_processors(void)
{
    cpu_set_t set;
    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1;
}

int lines_open(struct lines *l, FILE *out, unsigned threads)
{
    *l = (struct lines){.out = out, .beside = threads ? threads > 2 : has_processors()};
    l->text = l->parts[0] = malloc(LINES_BYTES);
    return l->text ? 0 : -1;
}

static void lines_write_part(struct lines *l, unsigned part)
{
    if (!atomic_load_explicit(&l->cause, memory_order_relaxed) &&
        fwrite_unlocked(l->parts[part], 1, l->part_bytes[part], l->out) != l->part_bytes[part])
        atomic_store_explicit(&l->cause, errno ? errno : EIO, memory_order_relaxed);
}

static void lines_take_part(void *arg, unsigned part) { lines_write_part(arg, part); }

/* The thread begins with the first buffer that is full: little text needs none. */
static bool begin_beside(struct lines *l)
{
    l->beside = false;
    for (unsigned i = 1; i < LINES_PARTS; i++)
        if (!l->parts[i] && !(l->parts[i] = malloc(LINES_BYTES)))
            return false;
    l->drain = drain_open(LINES_PARTS, lines_take_part, l);
    if (l->drain)
        l->part = drain_next(l->drain); /* the first, which `text` is */
    return l->drain;
}

void lines_flush(struct lines *l)
{
    if (!l->used)
        return;
    l->part_bytes[l->part] = l->used;
    l->used = 0;
    if (!l->drain && !(l->beside && begin_beside(l))) {
        lines_write_part(l, l->part);
        return;
    }
    l->part = drain_next(l->drain);
    l->text = l->parts[l->part];
}

bool lines_failed(const struct lines *l)
{
    const int cause = atomic_load_explicit(&l->cause, memory_order_relaxed);
    if (cause)
        errno = cause;
    return cause;
}

void lines_close(struct lines *l)
{
    if (!l->text)
        return;
    if (!l->drain)
        l->beside = false;
    lines_flush(l);
    if (l->drain) {
        l->part_bytes[l->part] = 0;
        drain_close(l->drain);
    }
    l->drain = NULL;
    for (unsigned i = 0; i < LINES_PARTS; i++)
        free(l->parts[i]);
    memset(l->parts, 0, sizeof l->parts);
    l->text = NULL;
}

void lines_bytes_slow(struct lines *l, const void *data, size_t n)
{
    const char *from = data;
    while (n) {
        const size_t room = LINES_BYTES - l->used, piece = n < room ? n : room;
        memcpy(l->text + l->used, from, piece);
        l->used += piece;
        from += piece;
        n -= piece;
        if (n)
            lines_flush(l);
    }
}

void lines_number(struct lines *l, uint64_t v, unsigned width)
{
    char *p = lines_room(l, DIGITS_ROOM + width), *end = digits_put(p, v);
    const size_t n = (size_t)(end - p), before = n < width ? width - n : 0;
    if (before) {
        memmove(p + before, p, n);
        memset(p, ' ', before);
    }
    lines_end(l, end + before);
}

void lines_hex(struct lines *l, uint64_t v)
{
    char *p = lines_room(l, DIGITS_ROOM);
    memcpy(p, "0x", 2);
    lines_end(l, digits_hex(p + 2, v));
}

void lines_digits(struct lines *l, uint64_t v)
{
    lines_end(l, digits_hex(lines_room(l, DIGITS_ROOM), v));
}

void lines_harmless(struct lines *l, const char *s)
{
    struct text_shown c;
    while (*s) {
        s += text_shown(s, &c);
        lines_bytes(l, c.text, c.bytes);
    }
}

void lines_quoted(struct lines *l, const char *s)
{
    struct buffer b = {0};
    json_quote(&b, s ? s : "");
    lines_bytes(l, buffer_text(&b), b.size_bytes);
    buffer_release(&b);
}
