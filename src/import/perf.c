/* perf.c - reading what `perf script` prints of probes on malloc and its like:
 *
 *     perf probe -x LIBC 'malloc bytes=%di' 'malloc%return ret=$retval' 'free mem=%di'
 *     perf record -e 'probe_libc:*' -g PROGRAM; perf script
 *
 * At the entry of a function, frame pointers skip its caller; the return's stack has it, and counts
 * where the entry's is the rest of it. Lines about mappings (--show-mmap-events) say where a file
 * was; those about tasks say nothing here.
 *
 * An event is a line that begins in its first column, with its stack, if there is one, in the
 * indented lines behind it, innermost first. A call and its return are paired by thread. Arguments
 * are taken by what people call them, else by their order. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "base/strings.h"
#include "import/readers.h"
#include "import/source.h"

/* Addresses of a program are above, offsets in a file below. */
#define OFFSETS_BELOW ((uint64_t)1 << 44)

enum { NESTED = 8, ARGUMENTS = 4, FRAMES = 1024, THREADS = 1 << 16 };
#define HASH 0x9e3779b97f4a7c15u

struct probe { /* a function that may have a probe */
    uint8_t op;
    bool releases;
    const char *size[3], *pointer[3], *count[3], *alignment[3]; /* names of its arguments */
};

static const struct probe probes[] = {
    {.op = MLW_OP_MALLOC, .size = {"bytes", "size", "arg1"}},
    {.op = MLW_OP_CALLOC, .size = {"elem_size", "size", "arg2"}, .count = {"n", "nmemb", "arg1"}},
    {.op = MLW_OP_REALLOC, .size = {"bytes", "size", "arg2"}, .pointer = {"oldmem", "ptr", "arg1"}},
    {.op = MLW_OP_MEMALIGN,
     .size = {"bytes", "size", "arg2"},
     .alignment = {"alignment", "align", "arg1"}},
    {.op = MLW_OP_ALIGNED_ALLOC,
     .size = {"bytes", "size", "arg2"},
     .alignment = {"alignment", "align", "arg1"}},
    {.op = MLW_OP_VALLOC, .size = {"bytes", "size", "arg1"}},
    {.op = MLW_OP_PVALLOC, .size = {"bytes", "size", "arg1"}},
    {.op = MLW_OP_FREE, .releases = true, .pointer = {"mem", "ptr", "arg1"}},
};

struct argument {
    char name[24];
    uint64_t value;
};

struct call { /* entered, not returned from */
    const struct probe *probe;
    uint64_t size, pointer, alignment;
    uint32_t stack;
};

struct thread {
    uint64_t tid;
    uint32_t number;
    unsigned depth;
    struct call calls[NESTED];
};

struct frame {
    uint64_t pc;
    uint32_t module;
};

struct mapping { /* a mapping of a file: later ones count */
    uint64_t start, end, offset;
    uint32_t file; /* number in files */
};

struct event { /* as it was read last, until its stack is complete */
    const struct probe *probe;
    bool returns;
    uint64_t time_ns, pid, tid, at; /* at: of the probe; 0: not printed */
    struct argument arguments[ARGUMENTS];
    unsigned argument_count;
    struct frame frames[FRAMES];
    unsigned frame_count;
};

struct reader {
    struct source *source;
    struct rows *rows;
    struct import_result *result;
    struct thread *threads;
    size_t thread_count, thread_room;
    struct index thread_index;             /* by tid */
    struct strings nodes, modules, places; /* (parent, pc, module); (file, bias); pc */
    struct strings files;                  /* paths */
    struct mapping *mappings;
    size_t mapping_count, mapping_room;
    struct event event;
    uint64_t start_ns, last_ns, pid;
    bool pending; /* an event waits for its stack */
    bool passed;  /* frames that follow are of an event that is of no use */
    bool any;
    struct buffer inlined; /* functions that are inlined into the next frame, each ended by NUL */
};

/* --- a line of an event --- */

/* The number at *p, which moves behind it; hex with 0x in front. */
static bool perf_number(const char **p, uint64_t *v)
{
    char *end;
    if (!isdigit((unsigned char)**p))
        return false;
    *v = strtoull(*p, &end, (*p)[0] == '0' && (*p)[1] == 'x' ? 16 : 10);
    bool any = end != *p;
    *p = end;
    return any;
}

static const char *blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* "TID [CPU] SECONDS.FRACTION: [PERIOD] EVENT:" at p, or "PID/TID ..."; NULL when it is not. */
static const char *parse_head(const char *p, struct event *e, char name[64])
{
    uint64_t v, fraction = 0;
    if (!perf_number(&p, &e->tid))
        return NULL;
    e->pid = 0;
    if (*p == '/') {
        p++;
        e->pid = e->tid;
        if (!perf_number(&p, &e->tid))
            return NULL;
    }
    if (*p != ' ' && *p != '\t')
        return NULL;
    p = blanks(p);
    if (*p == '[') {
        p = strchr(p, ']');
        if (!p)
            return NULL;
        p = blanks(p + 1);
    }
    if (!perf_number(&p, &v) || *p != '.' || v > UINT64_MAX / 4000000000u)
        return NULL;
    unsigned places = 0;
    for (p++; isdigit((unsigned char)*p); p++)
        if (places < 9) {
            fraction = fraction * 10 + (uint64_t)(*p - '0');
            places++;
        }
    while (places++ < 9)
        fraction *= 10;
    if (*p != ':')
        return NULL;
    e->time_ns = v * 1000000000 + fraction;
    p = blanks(p + 1);
    const char *before = p;
    if (perf_number(&p, &v) && (*p == ' ' || *p == '\t'))
        p = blanks(p);
    else
        p = before;
    size_t n = strcspn(p, " \t");
    if (n < 2 || p[n - 1] != ':')
        return NULL;
    const char *colon = memrchr(p, ':', n - 1);
    const char *start = colon ? colon + 1 : p;
    size_t length = (size_t)(p + n - 1 - start);
    if (!length || length >= 64)
        return NULL;
    memcpy(name, start, length);
    name[length] = 0;
    return p + n;
}

static bool name_ends_with(char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    if (n <= k || strcmp(name + n - k, end) != 0)
        return false;
    name[n - k] = 0;
    return true;
}

static const struct probe *probe_of(char *name, bool *returns)
{
    char *number = strrchr(name, '_'); /* a second probe at the same place is malloc_1 */
    if (number && number[1] && strspn(number + 1, "0123456789") == strlen(number + 1))
        *number = 0;
    /* perf adds its own to a name that has one already */
    *returns = false;
    while (name_ends_with(name, "__return") || name_ends_with(name, "_return") ||
           name_ends_with(name, "_ret"))
        *returns = true;
    const char *bare = !strncmp(name, "__libc_", 7) ? name + 7 : name;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (!strcmp(bare, mlw_op_name(probes[i].op)))
            return &probes[i];
    return NULL;
}

static void parse_arguments(const char *p, struct event *e)
{
    e->argument_count = 0;
    p = blanks(p);
    e->at = 0;
    if (*p == '(') { /* where it is, and where it returns to */
        e->at = strtoull(p + 1, NULL, 16);
        p = strchr(p, ')');
        p = p ? p + 1 : "";
    }
    while (e->argument_count < ARGUMENTS) {
        struct argument *a = &e->arguments[e->argument_count];
        p = blanks(p);
        size_t n = strcspn(p, "= \t");
        if (!n || p[n] != '=')
            return;
        memset(a->name, 0, sizeof a->name);
        memcpy(a->name, p, n < sizeof a->name ? n : sizeof a->name - 1);
        p += n + 1;
        if (!perf_number(&p, &a->value))
            return;
        e->argument_count++;
    }
}

static bool argument(const struct event *e, const char *const names[3], uint64_t *v)
{
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; names[k] && i < e->argument_count; i++)
            if (!strcmp(e->arguments[i].name, names[k])) {
                *v = e->arguments[i].value;
                return true;
            }
    return false;
}

/* --- what it means --- */

/* NULL with *err set. */
static struct thread *perf_thread(struct reader *r, uint64_t tid, struct error *err)
{
    size_t at = INDEX_START;
    for (uint32_t i; (i = index_next(&r->thread_index, tid * HASH, &at)) != INDEX_NONE;)
        if (r->threads[i].tid == tid)
            return &r->threads[i];
    if (r->thread_count >= THREADS) {
        source_error(r->source, err, "more than %u threads", THREADS);
        return NULL;
    }
    if (!ARRAY_ROOM(r->threads, r->thread_count + 1, r->thread_room) ||
        !index_add(&r->thread_index, tid * HASH, (uint32_t)r->thread_count)) {
        error_memory(err);
        return NULL;
    }
    struct thread *t = &r->threads[r->thread_count++];
    memset(t, 0, sizeof *t);
    t->tid = tid;
    t->number = rows_thread(r->rows, (uint32_t)tid, "");
    return t;
}

/* The node of the event's stack. *holds: whether `rest`, a node, is an outer part of it. */
static bool perf_stack(struct reader *r, const struct thread *t, uint32_t rest, uint32_t *stack,
                       bool *holds)
{
    struct event *e = &r->event;
    *stack = 0;
    *holds = !rest;
    for (unsigned i = e->frame_count; i-- > 0;) {
        struct {
            uint64_t pc;
            uint32_t parent, module;
        } node = {e->frames[i].pc, *stack, e->frames[i].module};
        bool fresh;
        uint32_t id = strings_id(&r->nodes, &node, sizeof node, &fresh);
        if (!id)
            return false;
        if (fresh)
            rows_node(r->rows, t->number, id, *stack, node.pc, node.module);
        *stack = id;
        *holds |= id == rest;
    }
    return true;
}

static int perf_entered(struct reader *r, struct thread *t, uint32_t stack, struct error *err)
{
    const struct event *e = &r->event;
    const struct probe *p = e->probe;
    struct call c = {.probe = p, .stack = stack};
    uint64_t count = 1;
    if (p->releases) {
        if (!argument(e, p->pointer, &c.pointer))
            return source_error(r->source, err, "free without its argument (mem=, ptr= or arg1=)");
        rows_call(r->rows, t->number,
                  &(struct rows_call){
                      .time_ns = e->time_ns - r->start_ns, .op = p->op, .address = c.pointer});
        return 0;
    }
    if (!argument(e, p->size, &c.size))
        return source_error(r->source, err, "%s without its size (bytes=, size= or %s=)",
                            mlw_op_name(p->op), p->size[2]);
    if (p->count[0] && !argument(e, p->count, &count))
        return source_error(r->source, err, "calloc without its count (n=, nmemb= or arg1=)");
    if (__builtin_mul_overflow(c.size, count, &c.size))
        c.size = UINT64_MAX;
    if (p->pointer[0] && !argument(e, p->pointer, &c.pointer))
        return source_error(r->source, err, "realloc without its block (oldmem=, ptr= or arg1=)");
    if (p->alignment[0])
        argument(e, p->alignment, &c.alignment);
    if (t->depth == NESTED) { /* returns were lost */
        r->result->unsure++;
        memmove(t->calls, t->calls + 1, (NESTED - 1) * sizeof *t->calls);
        t->depth--;
    }
    t->calls[t->depth++] = c;
    if (c.pointer)
        rows_call(r->rows, t->number,
                  &(struct rows_call){.time_ns = e->time_ns - r->start_ns,
                                      .op = MLW_OP_REALLOC_OLD,
                                      .address = c.pointer});
    return 0;
}

/* The call that the event returns from: 1 + its place, 0: none is known. */
static unsigned entry_of(const struct thread *t, const struct event *e)
{
    unsigned at = t->depth;
    while (at && t->calls[at - 1].probe != e->probe)
        at--;
    return at;
}

static int returned(struct reader *r, struct thread *t, uint32_t stack, bool holds,
                    struct error *err)
{
    static const char *const names[3] = {"ret", "retval", "arg1"};
    const struct event *e = &r->event;
    uint64_t address;
    const unsigned at = entry_of(t, e);
    if (!argument(e, names, &address))
        return source_error(r->source, err, "a return without its value (ret=, retval= or arg1=)");
    if (!at) { /* from before the recording */
        r->result->unsure++;
        return 0;
    }
    const struct call c = t->calls[at - 1];
    r->result->unsure += t->depth - at;
    t->depth = at - 1;
    bool frees = c.probe->op == MLW_OP_REALLOC && c.pointer && !c.size;
    rows_call(r->rows, t->number,
              &(struct rows_call){.time_ns = e->time_ns - r->start_ns,
                                  .op = c.probe->op,
                                  .address = address,
                                  .size = c.size,
                                  .argument = c.alignment,
                                  .stack = holds ? stack : c.stack,
                                  .path = address || frees ? 0 : MLW_PATH_FAILED});
    return 0;
}

/* The event's stack is complete. */
static int finish_event(struct reader *r, struct error *err)
{
    struct event *e = &r->event;
    uint32_t stack;
    if (!r->pending)
        return 0;
    r->pending = false;
    if (!r->any) {
        r->start_ns = e->time_ns;
        r->pid = e->pid;
        rows_process(r->rows,
                     &(struct rows_process){
                         .tool = "perf script",
                         .pid = (uint32_t)(e->pid ? e->pid : e->tid),
                         .stack_mode = MLW_STACKS_FULL,
                         .note = "imported from perf script: usable sizes and resident sizes are "
                                 "not in it, and only functions that had a probe"});
    }
    r->any = true;
    if (e->pid != r->pid)
        return source_error(r->source, err,
                            "a second process, %llu; print one with perf script --pid=%llu",
                            (unsigned long long)e->pid, (unsigned long long)r->pid);
    if (e->time_ns < r->start_ns)
        return source_error(r->source, err, "time goes back before the first event");
    r->last_ns = e->time_ns;
    struct thread *t = perf_thread(r, e->tid, err);
    if (!t)
        return -1;
    const unsigned entry = e->returns ? entry_of(t, e) : 0;
    bool holds;
    if (!perf_stack(r, t, entry ? t->calls[entry - 1].stack : 0, &stack, &holds))
        return error_memory(err);
    return e->returns ? returned(r, t, stack, holds, err) : perf_entered(r, t, stack, err);
}

/* *bias: an address in the file less the offset there, by the mappings that were printed. */
static bool mapped_bias(const struct reader *r, uint32_t file, uint64_t pc, uint64_t *bias)
{
    for (size_t i = r->mapping_count; i-- > 0;) {
        const struct mapping *m = &r->mappings[i];
        if (m->file == file && pc >= m->start && pc < m->end) {
            *bias = m->start - m->offset;
            return true;
        }
    }
    return false;
}

/* The id of the module, and the frame's address in a space where no two modules meet: perf before
 * 6.12 prints offsets in files. A run-time address without a name is its own name, unless it is
 * known where the file was. */
static int perf_place_frame(struct reader *r, const char *file, bool named, uint64_t *pc,
                            uint32_t *module, struct error *err)
{
    struct {
        uint64_t file, bias;
    } key = {0};
    bool fresh;
    *module = 0;
    if (!file || !strcmp(file, "[unknown]"))
        return 0;
    const uint32_t number = strings_id(&r->files, file, strlen(file), &fresh);
    if (!number)
        return error_memory(err);
    const struct thread *t = perf_thread(r, r->event.tid, err);
    if (!t)
        return -1;
    key.file = number;
    if (*pc < OFFSETS_BELOW) {
        key.bias = number * OFFSETS_BELOW;
        *pc += key.bias;
    } else if (!mapped_bias(r, number, *pc, &key.bias) && !named) {
        return 0;
    }
    if (!(*module = strings_id(&r->modules, &key, sizeof key, &fresh)))
        return error_memory(err);
    if (fresh)
        rows_module(r->rows, t->number, *module, file, key.bias);
    return 0;
}

/* "PID/TID: [0xSTART(0xBYTES) @ 0xOFFSET DEVICE INODE GENERATION]: r-xp FILE" or, of older ones,
 * "[0xSTART(0xBYTES) @ 0xOFFSET]: x FILE". */
static int read_mapping(struct reader *r, const char *p, struct error *err)
{
    uint64_t start, bytes, offset;
    bool fresh;
    if (!(p = strchr(p, '[')) || !perf_number((p++, &p), &start) || *p++ != '(' ||
        !perf_number(&p, &bytes) || strncmp(p, ") @ ", 4) != 0 ||
        !perf_number((p += 4, &p), &offset) || !(p = strchr(p, ']')) || strncmp(p, "]: ", 3) != 0 ||
        !(p = strchr(p + 3, ' ')) || p[1] != '/')
        return 0; /* the kernel's, or no file's */
    const uint32_t file = strings_id(&r->files, p + 1, strlen(p + 1), &fresh);
    if (!file || !ARRAY_ROOM(r->mappings, r->mapping_count + 1, r->mapping_room))
        return error_memory(err);
    r->mappings[r->mapping_count++] = (struct mapping){start, start + bytes, offset, file};
    return 0;
}

/* "    ADDRESS SYMBOL+0xOFFSET (FILE)" */
static int perf_read_frame(struct reader *r, char *line, struct error *err)
{
    struct event *e = &r->event;
    char *p = (char *)blanks(line), *end;
    if (!r->pending)
        return 0;
    uint64_t pc = strtoull(p, &end, 16);
    if (end == p || (*end && *end != ' '))
        return source_error(r->source, err, "a frame without its address");
    p = (char *)blanks(end);
    char *file = strrchr(p, '(');
    char *close = file ? strrchr(file, ')') : NULL;
    if (file && close) {
        *close = 0;
        if (file > p)
            file[-1] = 0;
        file++;
    } else {
        file = NULL;
    }
    char *plus = strrchr(p, '+');
    if (plus && plus[1] == '0' && plus[2] == 'x')
        *plus = 0;
    const char *name = strcmp(p, "[unknown]") != 0 ? p : "";
    if (file && !strcmp(file, "inlined")) { /* into the frame that follows */
        buffer_append(&r->inlined, name, strlen(name) + 1);
        return buffer_failed(&r->inlined) ? error_memory(err) : 0;
    }
    const char *bare = !strncmp(name, "__libc_", 7) ? name + 7 : name;
    const bool own = !e->frame_count && (!strcmp(bare, mlw_op_name(e->probe->op)) ||
                                         (!e->returns && pc && pc == e->at));
    uint32_t module;
    bool fresh;
    if (own || !pc || e->frame_count == FRAMES) { /* the function itself is no caller */
        buffer_clear(&r->inlined);
        return 0;
    }
    if (perf_place_frame(r, file, *name, &pc, &module, err))
        return -1;
    if (!strings_id(&r->places, &pc, sizeof pc, &fresh))
        return error_memory(err);
    for (size_t at = 0; fresh && at < r->inlined.size_bytes;) {
        const char *function = r->inlined.data + at;
        rows_name(r->rows, &(struct rows_name){.pc = pc, .function = function, .inlined = true});
        at += strlen(function) + 1;
    }
    if (fresh)
        rows_name(r->rows, &(struct rows_name){.pc = pc, .function = name});
    buffer_clear(&r->inlined);
    e->frames[e->frame_count++] = (struct frame){pc, module};
    return 0;
}

static int perf_read_line(void *arg, char *line, size_t n, struct error *err)
{
    struct reader *r = arg;
    char name[64];
    if (!n || *line == '#') {
        r->passed &= n != 0;
        return n ? 0 : finish_event(r, err);
    }
    const char *const word = blanks(line);
    const bool frame = strspn(word, "0123456789abcdef") == strcspn(word, " \t");
    /* a short name of a program is indented as well, but has no event before it */
    if (frame && (*line == '\t' || (*line == ' ' && r->pending)))
        return perf_read_frame(r, line, err);
    if (finish_event(r, err))
        return -1;
    struct event *e = &r->event;
    const char *rest = NULL, *record = strstr(line, ": PERF_RECORD_");
    if (record) {
        r->result->skipped++;
        return strncmp(record + 14, "MMAP", 4) != 0 ? 0 : read_mapping(r, record + 14, err);
    }
    for (const char *p = blanks(line); *p && !rest;) { /* the program's name may have blanks */
        p += strcspn(p, " \t");
        p = blanks(p);
        rest = *p ? parse_head(p, e, name) : NULL;
    }
    if (!rest && r->passed && frame && *line == ' ')
        return 0;
    if (!rest)
        return source_error(r->source, err,
                            "neither an event nor a frame of perf script (is it the output of "
                            "perf script with its usual fields?)");
    e->probe = probe_of(name, &e->returns);
    r->passed = !e->probe || (e->probe->releases && e->returns);
    if (r->passed) {
        r->result->skipped++;
        return 0;
    }
    parse_arguments(rest, e);
    e->frame_count = 0;
    buffer_clear(&r->inlined);
    r->pending = true;
    return 0;
}

int import_perf(const char *path, struct rows *rows, struct import_result *result, uint64_t *end_ns,
                struct error *err)
{
    struct reader *r = calloc(1, sizeof *r);
    int more = -1;
    if (!r)
        return error_memory(err);
    r->rows = rows;
    r->result = result;
    r->source = source_open(path, err);
    if (r->source) {
        more = source_each(r->source, perf_read_line, r, err);
        result->cut = !more && source_is_cut(r->source);
        if (!more && finish_event(r, err))
            more = -1;
        if (!more && !r->any)
            more =
                error_set(err, ERROR_FORMAT,
                          "%s has no event of a probe on malloc, calloc, realloc, free and their "
                          "like",
                          path);
    }
    *end_ns = r->last_ns - r->start_ns;
    result->calls = rows_calls(rows);
    source_close(r->source);
    strings_release(&r->nodes);
    strings_release(&r->modules);
    strings_release(&r->places);
    strings_release(&r->files);
    free(r->mappings);
    buffer_release(&r->inlined);
    free(r->threads);
    index_release(&r->thread_index);
    free(r);
    return more;
}
