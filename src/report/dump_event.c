/* dump_event.c - Formats a call as a line of text or JSON. Dumps have millions of lines, so
 * words and their lengths are prepared once, and a line reuses the digits of the time before. */
#include "report/dump_event.h"

#include "analyse/event_name.h"
#include "base/digits.h"

/* For a line without names: four numbers of 20 digits, two of 18, two words of 32 and 7 of 12. */
#define LINE_ROOM 512u

/* A word that is known here. */
#define PUT(p, word) ((char *)memcpy(p, word, sizeof(word) - 1) + sizeof(word) - 1)

/* --- words of the tables, with their length --- */

struct word {
    char text[32];
    uint8_t bytes;
};

static struct {
    struct word text[MLW_OP_COUNT];    /* "malloc(" */
    struct word call[MLW_OP_COUNT];    /* in JSON: "malloc\"" */
    struct word kind[TRACE_OTHER + 1]; /* "alloc\"" */
} words;

static struct word word_of(const char *text, char last)
{
    struct word w = {.bytes = (uint8_t)(strlen(text) + 1)};
    memcpy(w.text, text, w.bytes - 1u);
    w.text[w.bytes - 1] = last;
    return w;
}

/* JSON has one name for both halves of a call. */
static unsigned call_of(unsigned op)
{
    switch (mlw_op_class(op)) {
    case MLW_CLASS_RESIZE_OLD: return MLW_OP_REALLOC;
    case MLW_CLASS_REMAP_OLD: return MLW_OP_MREMAP;
    case MLW_CLASS_UNMAP_UNDO: return MLW_OP_MUNMAP;
    default: return op;
    }
}

__attribute__((constructor)) static void fill_words(void)
{
    for (unsigned op = 0; op < MLW_OP_COUNT; op++) {
        words.text[op] = word_of(event_name(op), '(');
        words.call[op] = word_of(mlw_op_name(call_of(op)), '"');
    }
    for (unsigned kind = 0; kind <= TRACE_OTHER; kind++)
        words.kind[kind] = word_of(event_kind_name(kind), '"');
}

static inline char *put_word(char *p, const struct word *w)
{
    memcpy(p, w->text, sizeof w->text);
    return p + w->bytes;
}

static char *put_text(char *p, const char *s)
{
    const size_t n = strlen(s);
    memcpy(p, s, n);
    return p + n;
}

/* --- parts of a line --- */

static inline char *put_hex(char *p, uint64_t v) { return digits_hex(PUT(p, "0x"), v); }

static inline char *put_seconds(char *p, uint64_t ns)
{
    p = digits_wide(p, ns / 1000000000u, 5);
    *p++ = '.';
    return digits_nine(p, (uint32_t)(ns % 1000000000u));
}

static __attribute__((noinline)) void set_time(struct dump_events *d, uint64_t ns)
{
    d->time_ns = ns - ns % DIGITS_EIGHT;
    d->time_bytes = (uint32_t)(put_seconds(d->time, ns) - d->time) - 8;
}

/* The same for a line of text of a process: most of it is that of the line before. */
static inline char *put_time(struct dump_events *d, char *p, uint64_t ns)
{
    if (__builtin_expect(ns - d->time_ns >= DIGITS_EIGHT, 0))
        set_time(d, ns);
    const uint64_t rest = ns - d->time_ns;
    memcpy(p, d->time, 24);
    return digits_all_eight(p + d->time_bytes, digits_eight((uint32_t)rest));
}

void dump_seconds(struct lines *l, uint64_t ns)
{
    lines_end(l, put_seconds(lines_room(l, 2 * DIGITS_ROOM), ns));
}

void dump_names(struct lines *l, struct names *names, uint32_t stack, bool json)
{
    const char *between = json ? "" : "  at ";
    for (struct names_walk w = {.node = stack}; names_next(names, &w);) {
        const struct name_frame *f = names_frame(names, w.id);
        lines_put(l, between);
        between = json ? "," : " < ";
        if (json)
            lines_quoted(l, f->function);
        else
            lines_harmless(l, f->function);
    }
}

/* --- text --- */

static inline char *put_address(char *p, uint64_t address)
{
    return address ? put_hex(p, address) : PUT(p, "NULL");
}

/* An alignment, or flags. */
static char *put_argument(char *p, unsigned op, uint64_t argument)
{
    return mlw_op_has(op, MLW_F_ALIGN) ? digits_put(PUT(p, ", alignment "), argument)
                                       : put_hex(PUT(p, ", flags "), argument);
}

/* The arguments of a call that ends a block or a mapping. */
static inline char *put_ended(char *p, unsigned op, uint64_t address, uint64_t size,
                              uint64_t argument)
{
    p = put_address(p, address);
    if (argument && mlw_op_has(op, MLW_F_ALIGN))
        p = put_argument(p, op, argument);
    if (mlw_op_has(op, MLW_F_SIZE))
        p = digits_put(PUT(p, ", "), size);
    if (argument && !mlw_op_has(op, MLW_F_ALIGN))
        p = put_argument(p, op, argument);
    return PUT(p, ")");
}

/* Writes a call that is neither an allocation nor a release of a block. */
static __attribute__((noinline)) char *put_other(char *p, const struct trace_batch *b, size_t i)
{
    const unsigned op = b->op[i];
    const uint64_t size = b->size[i], argument = b->argument[i], address = b->address[i];
    if (mlw_op_is(op, MLW_CLASS_OTHER) && !mlw_op_has(op, MLW_F_STACK)) { /* asks for a size */
        p = put_hex(p, address);
        return digits_put(PUT(argument ? put_argument(p, op, argument) : p, ") = "), size);
    }
    switch (op) {
    case MLW_OP_BRK: return PUT(put_hex(p, address), ")");
    case MLW_OP_SBRK:
        if ((int64_t)size < 0)
            *p++ = '-';
        p = digits_put(p, (int64_t)size < 0 ? -size : size);
        return put_hex(PUT(p, ") = "), address);
    default:
        p = digits_put(p, size);
        if (mlw_op_is(op, MLW_CLASS_MAP)) {
            p = digits_put(PUT(p, ", prot "), argument & 0xff);
            p = put_hex(PUT(p, ", flags "), argument << 1 >> 9);
            if (argument >> 63)
                p = PUT(p, ", file");
        } else if ((argument && !mlw_heap_says(op, b->path[i], argument)) ||
                   mlw_op_is(op, MLW_CLASS_REMAP_NEW)) {
            p = put_argument(p, op, argument);
        }
        p = PUT(p, ") = ");
        if (b->path[i] & MLW_PATH_FAILED && mlw_op_is(op, MLW_CLASS_MAP | MLW_CLASS_REMAP_NEW))
            return PUT(p, "MAP_FAILED");
        return put_address(p, address);
    }
}

/* The call, its arguments and its result: more than a size are alignments, protections, a sized
 * free's size. */
static inline char *put_call(char *p, const struct trace_batch *b, size_t i)
{
    const unsigned op = b->op[i];
    if (b->kind[i] == TRACE_FREE_INFERRED)
        return PUT(put_hex(PUT(p, "(unseen free of "), b->address[i]), ")");
    p = put_word(p, &words.text[op & (MLW_OP_COUNT - 1)]);
    if (mlw_op_is(op,
                  MLW_CLASS_ENDS | MLW_CLASS_UNMAP | MLW_CLASS_REMAP_OLD | MLW_CLASS_UNMAP_UNDO))
        return put_ended(p, op, b->address[i], b->size[i], b->argument[i]);
    if (mlw_op_is(op, MLW_CLASS_MAKES) && !b->argument[i])
        p = put_address(PUT(digits_put(p, b->size[i]), ") = "), b->address[i]);
    else
        p = put_other(p, b, i);
    if (b->path[i] & MLW_PATH_FAILED && !mlw_op_is(op, MLW_CLASS_MAP | MLW_CLASS_REMAP_NEW))
        p = PUT(p, " failed");
    return p;
}

static __attribute__((noinline)) char *put_path(char *p, const struct trace_batch *b, size_t i)
{
    const unsigned path = b->path[i];
    for (unsigned bit = 1; bit < 8; bit++)
        if (path & 1u << bit)
            p = put_text(PUT(p, "  "), event_path_name(bit));
    if (!mlw_heap_says(b->op[i], path, b->argument[i]))
        return p;
    return path & MLW_PATH_NON_MAIN ? put_hex(PUT(p, "  arena "), MLW_HEAP_ARENA(b->argument[i]))
                                    : put_hex(PUT(p, "  up to "), b->argument[i]);
}

static __attribute__((noinline)) char *put_route(char *p, unsigned route)
{
    p = put_text(PUT(p, "  path "), mlw_route_name(route));
    return route & MLW_ROUTE_CONSOLIDATED ? PUT(p, " (consolidated)") : p;
}

static void event_text(struct dump_events *d, const struct trace_batch *b, size_t i)
{
    const unsigned kind = b->kind[i];
    const uint32_t stack = b->stack[i];
    char *p = put_time(d, lines_room(d->lines, LINE_ROOM), b->time_ns[i]);
    memcpy(p, d->who, 32);
    p = put_call(p + d->who_bytes, b, i);
    if (kind == TRACE_ALLOC && b->usable[i] > b->size[i])
        p = digits_put(PUT(p, "  usable "), b->usable[i]);
    if (kind == TRACE_FREE_TEMP)
        p = PUT(p, "  temporary");
    if (kind == TRACE_FREE_UNKNOWN)
        p = PUT(p, "  unknown");
    if (b->path[i] & ~(unsigned)MLW_PATH_FAILED)
        p = put_path(p, b, i);
    if (b->route[i])
        p = put_route(p, b->route[i]);
    if (stack && !d->names)
        p = digits_put(PUT(p, "  stack "), stack);
    else if (stack) {
        lines_end(d->lines, p);
        dump_names(d->lines, d->names, stack, false);
        p = lines_room(d->lines, 1);
    }
    *p++ = '\n';
    lines_end(d->lines, p);
}

/* --- JSON --- */

static __attribute__((noinline)) char *put_path_json(char *p, unsigned path)
{
    const char *between = ",\"path\":[\"";
    for (unsigned bit = 0; bit < 8; bit++)
        if (path & 1u << bit) {
            p = put_text(put_text(p, between), event_path_name(bit));
            between = "\",\"";
        }
    return PUT(p, "\"]");
}

static __attribute__((noinline)) char *put_route_json(char *p, unsigned route)
{
    p = PUT(put_text(PUT(p, ",\"route\":\""), mlw_route_name(route)), "\"");
    return route & MLW_ROUTE_CONSOLIDATED ? PUT(p, ",\"consolidated\":true") : p;
}

/* Writes a call that is a half of one, or takes one back. */
static __attribute__((noinline)) char *put_half(char *p, enum mlw_class class)
{
    return class == MLW_CLASS_UNMAP_UNDO ? PUT(p, ",\"undone\":true") : PUT(p, ",\"half\":\"old\"");
}

static void event_json(struct dump_events *d, const struct trace_batch *b, size_t i)
{
    const unsigned op = b->op[i] & (MLW_OP_COUNT - 1), kind = b->kind[i];
    const uint32_t stack = b->stack[i];
    char *p = lines_room(d->lines, LINE_ROOM + sizeof d->who);
    p = digits_put_near(PUT(p, "{\"time_ns\":"), &d->near, b->time_ns[i]);
    memcpy(p, d->who, sizeof d->who);
    p = put_word(p + d->who_bytes, &words.kind[kind]);
    if (op)
        p = put_word(PUT(p, ",\"call\":\""), &words.call[op]);
    if (mlw_op_is(op, MLW_CLASS_RESIZE_OLD | MLW_CLASS_REMAP_OLD | MLW_CLASS_UNMAP_UNDO))
        p = put_half(p, mlw_op_class(op));
    p = PUT(put_hex(PUT(p, ",\"address\":\""), b->address[i]), "\"");
    if (mlw_op_has(op, MLW_F_SIZE))
        p = digits_put(PUT(p, ",\"size_bytes\":"), b->size[i]);
    if (kind == TRACE_ALLOC)
        p = digits_put(PUT(p, ",\"usable_bytes\":"), b->usable[i]);
    if (b->slot[i] != TRACE_NO_SLOT)
        p = digits_put(PUT(p, ",\"slot\":"), b->slot[i]);
    if (b->argument[i])
        p = PUT(put_hex(PUT(p, ",\"argument\":\""), b->argument[i]), "\"");
    if (b->path[i])
        p = put_path_json(p, b->path[i]);
    if (b->route[i])
        p = put_route_json(p, b->route[i]);
    if (stack)
        p = digits_put(PUT(p, ",\"stack\":"), stack);
    if (stack && d->names) {
        lines_end(d->lines, PUT(p, ",\"frames\":["));
        dump_names(d->lines, d->names, stack, true);
        p = PUT(lines_room(d->lines, 3), "]");
    }
    lines_end(d->lines, PUT(p, "}\n"));
}

/* --- both --- */

static __attribute__((noinline)) void set_thread(struct dump_events *d, uint32_t thread)
{
    const uint32_t pid = d->image->pid, tid = d->image->threads[thread].tid;
    char *p = d->who;
    if (d->json) {
        p = digits_put(PUT(p, ",\"pid\":"), pid);
        p = digits_put(PUT(p, ",\"tid\":"), tid);
        p = digits_put(PUT(p, ",\"image\":"), d->index);
        p = PUT(p, ",\"kind\":\"");
    } else {
        p = PUT(digits_wide(digits_wide(p, pid, 8), tid, 8), "  ");
    }
    d->who_bytes = (uint32_t)(p - d->who);
    d->thread = thread;
}

void dump_events_begin(struct dump_events *d, struct lines *lines, const struct trace_image *image,
                       uint32_t index, struct names *names, bool json)
{
    *d = (struct dump_events){.lines = lines,
                              .image = image,
                              .index = index,
                              .names = names,
                              .json = json,
                              .thread = UINT32_MAX};
    set_time(d, image->start_ns);
}

void dump_event(struct dump_events *d, const struct trace_batch *b, size_t i)
{
    if (__builtin_expect(b->thread[i] != d->thread, 0))
        set_thread(d, b->thread[i]);
    if (d->json)
        event_json(d, b, i);
    else
        event_text(d, b, i);
}
