/* heaptrack.c - reading heaptrack's interpreted format, versions 1 to 3. They differ in how strings
 * are written: with their length since 3.
 *
 * It names an allocation by a pair of size and trace, without an address: which of several live
 * blocks of one pair is freed is not known, and makes no difference to any sum. Here it is the
 * youngest; addresses are made up. Threads are not in the format. */
#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "base/array.h"
#include "base/buffer.h"
#include "import/readers.h"
#include "import/source.h"

#define NONE UINT32_MAX

struct place { /* an instruction pointer */
    uint64_t pc;
    uint32_t module;
};

struct pair { /* size and trace: live blocks, and addresses that were freed */
    uint64_t size;
    uint32_t trace, live, freed; /* heads of lists in blocks[] */
};

struct block {
    uint64_t address;
    uint32_t next;
};

struct reader {
    struct source *source;
    struct rows *rows;
    struct import_result *result;
    struct buffer strings; /* bytes, each ended by NUL */
    size_t *string_at;     /* offset in strings */
    struct place *places;
    struct pair *pairs;
    struct block *blocks;
    uint32_t *module_of; /* by string: module id, 0: not one yet */
    size_t string_count, string_room, place_count, place_room, pair_count, pair_room, block_count,
        block_room, module_room;
    uint32_t traces, modules, thread, spare;
    uint64_t now_ms, last_ns, next_address, page_bytes;
    bool headed; /* the v line came */
    bool sized;  /* strings have their length in front */
    bool described;
};

static int heaptrack_no_memory(struct error *err) { return error_memory(err); }

/* A number in hex; false when there is none, or it does not fit. */
static bool heaptrack_hex(char **p, uint64_t *v)
{
    unsigned digits = 0;
    while (**p == ' ')
        (*p)++;
    *v = 0;
    for (;; (*p)++) {
        char c = **p;
        unsigned d;
        if (c >= '0' && c <= '9')
            d = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            d = (unsigned)(c - 'a' + 10);
        else
            break;
        if (++digits > 16)
            return false;
        *v = *v << 4 | d;
    }
    return digits && (**p == ' ' || !**p);
}

static int heaptrack_bad_line(struct reader *r, struct error *err, const char *what)
{
    return source_error(r->source, err, "%s", what);
}

static int read_string(struct reader *r, char *p, size_t line_bytes, const char *line,
                       struct error *err)
{
    uint64_t n = 0;
    if (r->sized && (!heaptrack_hex(&p, &n) || *p != ' '))
        return heaptrack_bad_line(r, err, "a string without its length");
    p += *p == ' ';
    if (!r->sized)
        n = line_bytes - (size_t)(p - line);
    if ((size_t)(p - line) + n != line_bytes)
        return heaptrack_bad_line(r, err, "a string that is not as long as it says");
    if (!ARRAY_ROOM(r->string_at, r->string_count + 1, r->string_room))
        return heaptrack_no_memory(err);
    r->string_at[r->string_count++] = r->strings.size_bytes;
    buffer_append(&r->strings, p, (size_t)n + 1);
    return buffer_failed(&r->strings) ? heaptrack_no_memory(err) : 0;
}

static const char *string_of(const struct reader *r, uint64_t id)
{
    return id ? r->strings.data + r->string_at[id - 1] : NULL;
}

static int heaptrack_module(struct reader *r, uint64_t string, uint32_t *id, struct error *err)
{
    *id = 0;
    if (!string)
        return 0;
    if (string >= r->module_room) {
        size_t room = r->string_room + 1;
        uint32_t *more = realloc(r->module_of, room * sizeof *more);
        if (!more)
            return heaptrack_no_memory(err);
        memset(more + r->module_room, 0, (room - r->module_room) * sizeof *more);
        r->module_of = more;
        r->module_room = room;
    }
    if (!r->module_of[string]) {
        r->module_of[string] = ++r->modules;
        rows_module(r->rows, r->thread, r->modules, string_of(r, string), 0);
    }
    *id = r->module_of[string];
    return 0;
}

static int read_place(struct reader *r, char *p, struct error *err)
{
    uint64_t pc, module, v[3];
    struct place *k;
    if (!heaptrack_hex(&p, &pc) || !heaptrack_hex(&p, &module))
        return heaptrack_bad_line(r, err, "an instruction pointer without its address and module");
    if (module > r->string_count)
        return heaptrack_bad_line(
            r, err, "an instruction pointer names a string that was not defined before");
    if (!ARRAY_ROOM(r->places, r->place_count + 1, r->place_room))
        return heaptrack_no_memory(err);
    k = &r->places[r->place_count++];
    k->pc = pc;
    if (heaptrack_module(r, module, &k->module, err))
        return -1;
    struct rows_name name = {.pc = pc};
    bool any = false;
    while (*p) {
        v[1] = v[2] = 0;
        if (!heaptrack_hex(&p, &v[0]) ||
            (*p && (!heaptrack_hex(&p, &v[1]) || !heaptrack_hex(&p, &v[2]))))
            return heaptrack_bad_line(r, err,
                                      "a frame is not a function, or a function, file and line");
        if (v[0] > r->string_count || v[1] > r->string_count || v[2] > UINT32_MAX)
            return heaptrack_bad_line(r, err, "a frame names a string that was not defined before");
        if (any) {
            name.inlined = true; /* into this one */
            rows_name(r->rows, &name);
        }
        any = true;
        name = (struct rows_name){.pc = pc,
                                  .function = string_of(r, v[0]),
                                  .file = string_of(r, v[1]),
                                  .line = (uint32_t)v[2]};
    }
    rows_name(r->rows, &name);
    return 0;
}

static int read_trace(struct reader *r, char *p, struct error *err)
{
    uint64_t place, parent;
    if (!heaptrack_hex(&p, &place) || !heaptrack_hex(&p, &parent) || *p)
        return heaptrack_bad_line(r, err, "a trace is not an instruction pointer and a parent");
    if (!place || place > r->place_count || parent > r->traces)
        return heaptrack_bad_line(r, err, "a trace names an entry that was not defined before");
    const struct place *k = &r->places[place - 1];
    rows_node(r->rows, r->thread, ++r->traces, (uint32_t)parent, k->pc, k->module);
    return 0;
}

static int read_pair(struct reader *r, char *p, struct error *err)
{
    uint64_t size, trace;
    if (!heaptrack_hex(&p, &size) || !heaptrack_hex(&p, &trace) || *p)
        return heaptrack_bad_line(r, err, "an allocation's description is not a size and a trace");
    if (trace > r->traces)
        return heaptrack_bad_line(
            r, err, "an allocation's description names a trace that was not defined before");
    if (!ARRAY_ROOM(r->pairs, r->pair_count + 1, r->pair_room))
        return heaptrack_no_memory(err);
    r->pairs[r->pair_count++] = (struct pair){size, (uint32_t)trace, NONE, NONE};
    return 0;
}

static uint64_t heaptrack_tick(struct reader *r)
{
    uint64_t ns = r->now_ms * 1000000;
    r->last_ns = ns > r->last_ns ? ns : r->last_ns + 1;
    return r->last_ns;
}

static int read_event(struct reader *r, char *p, bool allocates, struct error *err)
{
    uint64_t id;
    if (!heaptrack_hex(&p, &id) || *p)
        return heaptrack_bad_line(r, err, "an event without the number of its allocation");
    if (id >= r->pair_count)
        return heaptrack_bad_line(r, err,
                                  "an event names an allocation that was not described before");
    struct pair *k = &r->pairs[id];
    if (!allocates) {
        uint32_t b = k->live;
        if (b == NONE)
            return heaptrack_bad_line(r, err, "a release of a block that is not live");
        k->live = r->blocks[b].next;
        r->blocks[b].next = k->freed;
        k->freed = b;
        rows_call(r->rows, r->thread,
                  &(struct rows_call){.time_ns = heaptrack_tick(r),
                                      .op = MLW_OP_FREE,
                                      .address = r->blocks[b].address});
        return 0;
    }
    uint32_t b = k->freed;
    if (b != NONE) {
        k->freed = r->blocks[b].next;
    } else {
        if (!ARRAY_ROOM(r->blocks, r->block_count + 1, r->block_room) || r->block_count >= NONE)
            return heaptrack_no_memory(err);
        b = (uint32_t)r->block_count++;
        r->blocks[b].address = r->next_address;
        uint64_t step = (k->size < (uint64_t)1 << 40 ? k->size : (uint64_t)1 << 40) + 31;
        r->next_address += step & ~(uint64_t)15;
    }
    r->blocks[b].next = k->live;
    k->live = b;
    rows_call(r->rows, r->thread,
              &(struct rows_call){.time_ns = heaptrack_tick(r),
                                  .op = MLW_OP_MALLOC,
                                  .address = r->blocks[b].address,
                                  .size = k->size,
                                  .stack = k->trace});
    return 0;
}

static int read_version(struct reader *r, char *p, struct error *err)
{
    uint64_t tool, format;
    if (!heaptrack_hex(&p, &tool))
        return heaptrack_bad_line(r, err, "no version of the file format");
    if (!*p && tool == 0x10200) /* before the format had a version of its own */
        format = 1;
    else if (!heaptrack_hex(&p, &format))
        return heaptrack_bad_line(r, err, "no version of the file format");
    if (!format || format > 3)
        return source_error(
            r->source, err,
            "heaptrack's file format %llu; mallow reads 1 to 3, which heaptrack 1.0 "
            "to 1.6 write",
            (unsigned long long)format);
    r->sized = format > 2;
    r->headed = true;
    return 0;
}

static void heaptrack_describe(struct reader *r, const char *command)
{
    rows_process(r->rows,
                 &(struct rows_process){
                     .tool = "heaptrack",
                     .command = command,
                     .pid = 1,
                     .stack_mode = MLW_STACKS_FULL,
                     .note = "imported from heaptrack: threads, addresses, usable sizes "
                             "and the functions that allocated are not in its files; every "
                             "allocation counts as malloc"});
    r->described = true;
}

static int heaptrack_read_line(void *arg, char *line, size_t n, struct error *err)
{
    struct reader *r = arg;
    char *p = line + 1;
    uint64_t v;
    if (!n || *line == '#')
        return 0;
    if (!r->headed && *line != 'v')
        return heaptrack_bad_line(r, err,
                                  "not a file of heaptrack: it does not begin with its version");
    if (n > 1 && *p != ' ')
        return heaptrack_bad_line(r, err, "not a line of heaptrack's format");
    switch (*line) {
    case 'v': return read_version(r, p, err);
    case 'X':
        if (r->described)
            return heaptrack_bad_line(r, err, "a second command line");
        heaptrack_describe(r, n > 2 ? line + 2 : NULL);
        return 0;
    case 'I':
        if (!heaptrack_hex(&p, &r->page_bytes) || !r->page_bytes || r->page_bytes > 1u << 30)
            return heaptrack_bad_line(r, err, "no size of a page");
        return 0;
    case 's': return read_string(r, p, n, line, err);
    case 'i': return read_place(r, p, err);
    case 't': return read_trace(r, p, err);
    case 'a': return read_pair(r, p, err);
    case '+': return read_event(r, p, true, err);
    case '-': return read_event(r, p, false, err);
    case 'c':
        if (!heaptrack_hex(&p, &v) || *p || v > UINT64_MAX / 1000000000)
            return heaptrack_bad_line(r, err, "no time");
        if (v > r->now_ms)
            r->now_ms = v;
        return 0;
    case 'R':
        if (!heaptrack_hex(&p, &v) || *p || v > (uint64_t)1 << 50)
            return heaptrack_bad_line(r, err, "no resident size");
        rows_resident(r->rows, 0, r->now_ms * 1000000,
                      &(struct mlw_resident){.rss = v * r->page_bytes});
        return 0;
    case 'A':
    case 'S': r->result->skipped++; return 0; /* attached; a suppression */
    case 'x':
    case 'm':
        return heaptrack_bad_line(
            r, err,
            "what heaptrack --raw writes: its names are not looked up yet. Make a file that "
            "has them by 'zstdcat FILE | heaptrack --interpret', or heaptrack_interpret "
            "(zcat, cat: as it is packed)");
    default: return heaptrack_bad_line(r, err, "not a line of heaptrack's format");
    }
}

int import_heaptrack(const char *path, struct rows *rows, struct import_result *result,
                     uint64_t *end_ns, struct error *err)
{
    struct reader r = {
        .rows = rows, .result = result, .next_address = 0x10000000, .page_bytes = ARCH_PAGE_BYTES};
    int more = -1;
    r.source = source_open(path, err);
    if (r.source) {
        r.thread = rows_thread(rows, 1, "");
        more = source_each(r.source, heaptrack_read_line, &r, err);
        result->cut = !more && source_is_cut(r.source);
        if (!more && !r.headed)
            more = heaptrack_bad_line(
                &r, err, result->cut ? "it is cut off within its first line" : "the file is empty");
        if (!more && !r.described)
            heaptrack_describe(&r, NULL);
    }
    *end_ns = r.now_ms * 1000000 > r.last_ns ? r.now_ms * 1000000 : r.last_ns;
    result->calls = rows_calls(rows);
    source_close(r.source);
    buffer_release(&r.strings);
    free(r.string_at);
    free(r.places);
    free(r.pairs);
    free(r.blocks);
    free(r.module_of);
    return more;
}
