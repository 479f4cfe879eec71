/* pprof_write.c - see pprof_write.h.
 *
 * A protobuf message is a sequence of fields in any order, so nothing has to wait: a string is
 * written when it is first used, and the ids are numbers that were counted here. */
#include "export/pprof_write.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buffer.h"
#include "base/strings.h"
#include "base/text.h"
#include "export/protobuf.h"

enum { /* fields of Profile */
       P_SAMPLE_TYPE = 1,
       P_SAMPLE = 2,
       P_MAPPING = 3,
       P_LOCATION = 4,
       P_FUNCTION = 5,
       P_STRING = 6,
       P_DROP_FRAMES = 7,
       P_TIME = 9,
       P_DURATION = 10,
       P_PERIOD_TYPE = 11,
       P_PERIOD = 12,
       P_COMMENT = 13,
       P_DEFAULT_TYPE = 14,
       P_DOC_URL = 15
};

struct function {
    uint64_t name, system_name, file;
};

struct pprof {
    FILE *out;
    z_stream zip;
    bool zipping;
    struct error error; /* kind ERROR_NONE: none so far */
    struct strings strings;
    struct strings functions; /* elements are struct function */
    uint64_t mappings, locations;
    struct strings dropped;          /* functions */
    struct strings kept, kept_plain; /* without arguments, and without those of templates, too */
    struct buffer message, inner, packed, clean, stripped;
    unsigned char zipped[1 << 16];
};

static void pprof_fail(struct pprof *p, enum error_kind kind, const char *what)
{
    if (p->error.kind == ERROR_NONE)
        error_set(&p->error, kind, "cannot write the profile: %s", what);
}

static void pprof_no_memory(struct pprof *p) { pprof_fail(p, ERROR_MEMORY, "out of memory"); }

static bool pprof_has_failed(const struct pprof *p) { return p->error.kind != ERROR_NONE; }

/* --- the compressed file --- */

static void squeeze(struct pprof *p, const void *data, size_t n, int flush)
{
    if (pprof_has_failed(p))
        return;
    const unsigned char *at = data;
    do {
        uInt part = n > (1u << 30) ? 1u << 30 : (uInt)n;
        p->zip.next_in = at;
        p->zip.avail_in = part;
        do {
            p->zip.next_out = p->zipped;
            p->zip.avail_out = sizeof p->zipped;
            if (deflate(&p->zip, n > part ? Z_NO_FLUSH : flush) == Z_STREAM_ERROR) {
                pprof_fail(p, ERROR_FORMAT, "the compressor refused");
                return;
            }
            size_t made = sizeof p->zipped - p->zip.avail_out;
            if (made && fwrite(p->zipped, 1, made, p->out) != made) {
                if (p->error.kind == ERROR_NONE)
                    error_system(&p->error, "cannot write the profile");
                return;
            }
        } while (p->zip.avail_out == 0);
        at += part;
        n -= part;
    } while (n);
}

/* --- protobuf --- */

/* A field of Profile. */
static void pprof_put_field(struct pprof *p, unsigned field, const void *data, size_t n)
{
    char head[2 * PROTOBUF_VARINT_BYTES];
    size_t head_bytes = protobuf_encode(head, (uint64_t)field << 3 | 2);
    head_bytes += protobuf_encode(head + head_bytes, n);
    squeeze(p, head, head_bytes, Z_NO_FLUSH);
    squeeze(p, data, n, Z_NO_FLUSH);
}

static void emit_message(struct pprof *p, unsigned field)
{
    if (buffer_failed(&p->message) || buffer_failed(&p->inner) || buffer_failed(&p->packed))
        pprof_no_memory(p);
    else
        pprof_put_field(p, field, p->message.data, p->message.size_bytes);
}

static void emit_number(struct pprof *p, unsigned field, uint64_t v)
{
    char bytes[2 * PROTOBUF_VARINT_BYTES];
    size_t n = protobuf_encode(bytes, (uint64_t)field << 3);
    if (v)
        squeeze(p, bytes, n + protobuf_encode(bytes + n, v), Z_NO_FLUSH);
}

/* --- tables --- */

/* The index of text in the string table, in which the empty one is the first. */
static uint64_t pprof_string(struct pprof *p, const char *text)
{
    bool fresh;
    if (!text || !*text || pprof_has_failed(p))
        return 0;
    text = text_utf8_only(&p->clean, text);
    size_t n = strlen(text);
    uint32_t id = strings_id(&p->strings, text, n, &fresh);
    if (!id)
        pprof_no_memory(p);
    else if (fresh)
        pprof_put_field(p, P_STRING, text, n);
    return id;
}

/* Readers compare a function without its arguments, and some of them without those of templates.
 * How much of a name at `at` is that. */
enum part { PART_NAME, PART_ARGUMENTS, PART_TEMPLATE, PART_RESERVED };
static size_t name_part_at(const char *name, size_t at, enum part *part)
{
    static const char anonymous[] = "(anonymous namespace)", calls[] = "()";
    const bool is_operator = at >= 8 && !memcmp(name + at - 8, "operator", 8);
    size_t n = at, deep = 0;
    *part = PART_RESERVED;
    if (!strncmp(name + at, anonymous, sizeof anonymous - 1))
        return sizeof anonymous - 1;
    if (is_operator && !strncmp(name + at, calls, 2))
        return 2;
    *part = PART_ARGUMENTS;
    if (name[at] == '(')
        return strlen(name + at);
    *part = PART_TEMPLATE;
    for (; name[at] == '<' && !is_operator && name[n]; n++) {
        deep += name[n] == '<';
        if (name[n] == '>' && !--deep)
            return n + 1 - at;
    }
    *part = PART_NAME;
    return 1;
}

static void append_literal(struct buffer *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr("\\.+*?()|[]{}^$", text[i]))
            buffer_append_text(b, "\\");
        buffer_append(b, &text[i], 1);
    }
}

/* The alternative of drop_frames (RE2's) that means the function. plain: also where a reader took
 * off what belongs to templates. */
static void append_pattern(struct buffer *b, const char *name, bool plain)
{
    enum part part;
    for (size_t i = 0, n; name[i]; i += n) {
        n = name_part_at(name, i, &part);
        const bool may = plain && part != PART_NAME;
        if (part == PART_ARGUMENTS) {
            buffer_append_text(b, "(?:\\(.*)?");
            continue;
        }
        buffer_append_text(b, may ? "(?:" : "");
        append_literal(b, name + i, n);
        buffer_append_text(b, may ? ")?" : "");
    }
}

/* The name as such a reader has it. */
static void strip(struct buffer *b, const char *name, bool plain)
{
    enum part part;
    buffer_clear(b);
    for (size_t i = 0, n; name[i]; i += n) {
        n = name_part_at(name, i, &part);
        if (part == PART_NAME || (!plain && part != PART_ARGUMENTS))
            buffer_append(b, name + i, n);
    }
}

static void pprof_add_name(struct pprof *p, struct strings *to, const char *name, bool plain,
                           bool *fresh)
{
    struct buffer *const b = &p->stripped;
    *fresh = true;
    strip(b, name, plain);
    if (buffer_failed(b) || (b->size_bytes && !strings_id(to, b->data, b->size_bytes, fresh)))
        pprof_no_memory(p);
}

/* As both kinds of readers have the name, and whether none was kept so before. */
static void pprof_keep_name(struct pprof *p, const char *name, bool *fresh, bool *fresh_plain)
{
    pprof_add_name(p, &p->kept, name, false, fresh);
    pprof_add_name(p, &p->kept_plain, name, true, fresh_plain);
}

void pprof_drop(struct pprof *p, const char *function)
{
    bool fresh;
    const char *name = text_utf8_only(&p->clean, function);
    if (*name && !strings_id(&p->dropped, name, strlen(name) + 1, &fresh))
        pprof_no_memory(p);
}

void pprof_keep(struct pprof *p, const char *function)
{
    bool fresh, plain;
    pprof_keep_name(p, text_utf8_only(&p->clean, function), &fresh, &plain);
}

static uint64_t pprof_function(struct pprof *p, const struct pprof_line *l)
{
    bool fresh;
    const struct function f = {pprof_string(p, l->function),
                               pprof_string(p, l->system_name ? l->system_name : l->function),
                               pprof_string(p, l->file)};
    uint32_t id = strings_id(&p->functions, &f, sizeof f, &fresh);
    if (!id) {
        pprof_no_memory(p);
    } else if (fresh) {
        struct buffer b = {0};
        protobuf_number(&b, 1, id);
        protobuf_number(&b, 2, f.name);
        protobuf_number(&b, 3, f.system_name);
        protobuf_number(&b, 4, f.file);
        if (buffer_failed(&b))
            pprof_no_memory(p);
        else
            pprof_put_field(p, P_FUNCTION, b.data, b.size_bytes);
        buffer_release(&b);
    }
    return id;
}

/* --- the profile --- */

struct pprof *pprof_new(FILE *out, struct error *err)
{
    struct pprof *p = calloc(1, sizeof *p);
    /* 16 more than the window's bits: with gzip's head and tail */
    if (!p || deflateInit2(&p->zip, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(p);
        error_memory_for(err, "a profile");
        return NULL;
    }
    p->zipping = true;
    p->out = out;
    pprof_put_field(p, P_STRING, "", 0); /* string 0 */
    return p;
}

/* A ValueType. */
static void pprof_put_value_type(struct pprof *p, unsigned field, const char *type,
                                 const char *unit)
{
    uint64_t t = pprof_string(p, type), u = pprof_string(p, unit);
    buffer_clear(&p->message);
    protobuf_number(&p->message, 1, t);
    protobuf_number(&p->message, 2, u);
    emit_message(p, field);
}

void pprof_value_type(struct pprof *p, const char *type, const char *unit)
{
    pprof_put_value_type(p, P_SAMPLE_TYPE, type, unit);
}

void pprof_default_type(struct pprof *p, const char *type)
{
    emit_number(p, P_DEFAULT_TYPE, pprof_string(p, type));
}

void pprof_period(struct pprof *p, const char *type, const char *unit, int64_t period)
{
    pprof_put_value_type(p, P_PERIOD_TYPE, type, unit);
    emit_number(p, P_PERIOD, (uint64_t)period);
}

void pprof_time(struct pprof *p, uint64_t realtime_ns, uint64_t duration_ns)
{
    emit_number(p, P_TIME, realtime_ns);
    emit_number(p, P_DURATION, duration_ns);
}

void pprof_comment(struct pprof *p, const char *text)
{
    emit_number(p, P_COMMENT, pprof_string(p, text));
}

uint64_t pprof_mapping(struct pprof *p, const struct pprof_mapping *m)
{
    if (pprof_has_failed(p))
        return 0;
    uint64_t path = pprof_string(p, m->path), build_id = 0;
    if (m->build_id && m->build_id_bytes) {
        buffer_clear(&p->inner);
        for (size_t i = 0; i < m->build_id_bytes; i++)
            buffer_printf(&p->inner, "%02x", m->build_id[i]);
        build_id = pprof_string(p, buffer_text(&p->inner));
    }
    buffer_clear(&p->message);
    protobuf_number(&p->message, 1, ++p->mappings);
    protobuf_number(&p->message, 2, m->start);
    protobuf_number(&p->message, 3, m->limit);
    protobuf_number(&p->message, 4, m->offset);
    protobuf_number(&p->message, 5, path);
    protobuf_number(&p->message, 6, build_id);
    protobuf_number(&p->message, 7, m->has_names);
    protobuf_number(&p->message, 8, m->has_files);
    protobuf_number(&p->message, 9, m->has_lines);
    protobuf_number(&p->message, 10, m->has_inlined);
    emit_message(p, P_MAPPING);
    return pprof_has_failed(p) ? 0 : p->mappings;
}

uint64_t pprof_location(struct pprof *p, uint64_t mapping, uint64_t address,
                        const struct pprof_line *lines, size_t line_count)
{
    if (pprof_has_failed(p))
        return 0;
    buffer_clear(&p->message);
    protobuf_number(&p->message, 1, ++p->locations);
    protobuf_number(&p->message, 2, mapping);
    protobuf_number(&p->message, 3, address);
    for (size_t i = 0; i < line_count; i++) {
        uint64_t id = pprof_function(p, &lines[i]);
        buffer_clear(&p->inner);
        protobuf_number(&p->inner, 1, id);
        protobuf_number(&p->inner, 2, lines[i].line);
        protobuf_buffer(&p->message, 4, &p->inner);
    }
    emit_message(p, P_LOCATION);
    return pprof_has_failed(p) ? 0 : p->locations;
}

void pprof_sample(struct pprof *p, const uint64_t *locations, size_t location_count,
                  const int64_t *values, size_t value_count, const struct pprof_label *labels,
                  size_t label_count)
{
    if (pprof_has_failed(p))
        return;
    buffer_clear(&p->message);
    buffer_clear(&p->packed);
    for (size_t i = 0; i < location_count; i++)
        protobuf_varint(&p->packed, locations[i]);
    protobuf_buffer(&p->message, 1, &p->packed);
    buffer_clear(&p->packed);
    for (size_t i = 0; i < value_count; i++)
        protobuf_varint(&p->packed, (uint64_t)values[i]);
    protobuf_buffer(&p->message, 2, &p->packed);
    for (size_t i = 0; i < label_count; i++) {
        uint64_t key = pprof_string(p, labels[i].key), text = pprof_string(p, labels[i].text),
                 unit = pprof_string(p, labels[i].number_unit);
        buffer_clear(&p->inner);
        protobuf_number(&p->inner, 1, key);
        protobuf_number(&p->inner, 2, text);
        protobuf_number(&p->inner, 3, labels[i].text ? 0 : (uint64_t)labels[i].number);
        protobuf_number(&p->inner, 4, unit);
        protobuf_buffer(&p->message, 3, &p->inner);
    }
    emit_message(p, P_SAMPLE);
}

void pprof_abandon(struct pprof *p)
{
    if (!p)
        return;
    if (p->zipping)
        deflateEnd(&p->zip);
    buffer_release(&p->message);
    buffer_release(&p->inner);
    buffer_release(&p->packed);
    buffer_release(&p->clean);
    buffer_release(&p->stripped);
    strings_release(&p->dropped);
    strings_release(&p->kept);
    strings_release(&p->kept_plain);
    strings_release(&p->strings);
    strings_release(&p->functions);
    free(p);
}

/* A function is dropped when no reader takes it for one that is kept. */
static void put_drop_frames(struct pprof *p)
{
    struct buffer all = {0};
    for (uint32_t i = 0; i < p->dropped.count && !pprof_has_failed(p); i++) {
        const char *name =
            (const char *)(const void *)p->dropped.bytes.data + p->dropped.entries[i].offset;
        bool fresh, plain;
        pprof_keep_name(p, name, &fresh, &plain);
        if (fresh && all.size_bytes)
            buffer_append_char(&all, '|');
        if (fresh)
            append_pattern(&all, name, plain);
    }
    if (buffer_failed(&all))
        pprof_no_memory(p);
    else
        emit_number(p, P_DROP_FRAMES, pprof_string(p, buffer_text(&all)));
    buffer_release(&all);
}

int pprof_finish(struct pprof *p, struct error *err)
{
    put_drop_frames(p);
    squeeze(p, "", 0, Z_FINISH);
    int status = pprof_has_failed(p) ? -1 : 0;
    if (status)
        *err = p->error;
    pprof_abandon(p);
    return status;
}
