/* sample.c - a recording that never was: trace.h and symbol.h over a program made up here, so that
 * the reports about it are known to the byte.
 *
 * sample text|json|dump|dump-json [NAME=VALUE...]: prints that report. A NAME is a field of struct
 * report_options, or one of these:
 *   fail=N: reading fails after so many batches.
 *   split=FIELD:BYTES: of both measurements of the resident size.
 *   block=PATH:ADDRESS:BYTES: one more block of the parent's, which is never freed.
 *   allocator=NAME: of the parent. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

#define EVENTS 4000u
#define SLOTS  64u
#define MORE   8u /* blocks of the command line */

struct events {
    uint8_t kind[EVENTS], op[EVENTS], path[EVENTS], route[EVENTS];
    uint32_t slot[EVENTS], thread[EVENTS], stack[EVENTS];
    uint64_t size[EVENTS], time_ns[EVENTS], address[EVENTS], usable[EVENTS], argument[EVENTS];
    size_t n;
};

static struct events parent_events, child_events, other_events;
static struct events *const events_of[] = {&parent_events, &child_events, &other_events};

struct trace {
    struct trace_info info;
};

#define BATCH 100u

struct trace_cursor {
    uint32_t image;
    unsigned columns;
    size_t at, batches;
    uint32_t begun_stack[BATCH];
    uint64_t begun_size[BATCH], begun_usable[BATCH], begun_address[BATCH];
};

static size_t fail_after = SIZE_MAX;

/* --- trace.h --- */

const struct trace_info *trace_info(const struct trace *t) { return &t->info; }

struct trace_cursor *trace_cursor_open(struct trace *t, uint32_t image, struct error *err)
{
    (void)t, (void)err;
    struct trace_cursor *c = calloc(1, sizeof *c);
    if (c)
        c->image = image;
    return c;
}

/* It has no index. */
struct trace_kept *trace_kept_find(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                   uint64_t key)
{
    (void)t, (void)image, (void)kind, (void)key;
    return NULL;
}

bool trace_wants_threads(const struct trace *t, uint32_t image)
{
    (void)t, (void)image;
    return false;
}

unsigned trace_take_threads(struct trace *t, unsigned most)
{
    (void)t, (void)most;
    return 0;
}

void trace_give_threads(struct trace *t, unsigned n) { (void)t, (void)n; }

bool trace_keeps(const struct trace *t)
{
    (void)t;
    return false;
}

struct trace_kept *trace_kept_new(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                  uint64_t key)
{
    (void)t, (void)image, (void)kind, (void)key;
    return NULL;
}

uint64_t trace_kept_count(const struct trace_kept *k, unsigned column)
{
    (void)k, (void)column;
    return 0;
}

bool trace_kept_numbers(struct trace_kept *k, unsigned column, uint64_t *to, size_t n)
{
    (void)k, (void)column, (void)to, (void)n;
    return false;
}

bool trace_kept_table(struct trace_kept *k, unsigned first, unsigned columns, size_t n,
                      trace_kept_take *take, void *arg)
{
    (void)k, (void)first, (void)columns, (void)n, (void)take, (void)arg;
    return false;
}

const uint8_t *trace_kept_bytes(struct trace_kept *k, unsigned column)
{
    (void)k, (void)column;
    return NULL;
}

void trace_kept_close(struct trace_kept *k) { (void)k; }
void trace_kept_drop(struct trace_kept *k) { (void)k; }
void trace_kept_keep(struct trace *t, struct trace_kept *k) { (void)t, (void)k; }

void trace_kept_put_numbers(struct trace_kept *k, unsigned column, const uint64_t *v, size_t n)
{
    (void)k, (void)column, (void)v, (void)n;
}

void trace_kept_put_bytes(struct trace_kept *k, unsigned column, const void *data, size_t n)
{
    (void)k, (void)column, (void)data, (void)n;
}

struct trace_cursor *trace_cursor_open_columns(struct trace *t, uint32_t image, unsigned columns,
                                               struct error *err)
{
    struct trace_cursor *c = trace_cursor_open(t, image, err);
    if (c)
        c->columns = columns;
    return c;
}

/* The columns of those that begin blocks. */
static void gather(struct trace_cursor *c, struct trace_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->kind[i] != TRACE_ALLOC)
            continue;
        c->begun_stack[b->begun] = b->stack[i];
        c->begun_size[b->begun] = b->size[i];
        c->begun_usable[b->begun] = b->usable[i];
        c->begun_address[b->begun++] = b->address[i];
    }
    b->begun_stack = c->begun_stack;
    b->begun_size = c->begun_size;
    b->begun_usable = c->begun_usable;
    b->begun_address = c->begun_address;
}

int trace_cursor_next(struct trace_cursor *c, struct trace_batch *b, struct error *err)
{
    const struct events *e = events_of[c->image];
    size_t n = e->n - c->at < BATCH ? e->n - c->at : BATCH, at = c->at;
    if (c->batches++ == fail_after)
        return error_set(err, ERROR_FORMAT, "the sample ends in the middle");
    c->at += n;
    *b = (struct trace_batch){.image = c->image,
                              .n = n,
                              .first_event = at,
                              .kind = e->kind + at,
                              .op = e->op + at,
                              .slot = e->slot + at,
                              .thread = e->thread + at,
                              .size = e->size + at,
                              .stack = e->stack + at,
                              .time_ns = e->time_ns + at,
                              .address = e->address + at,
                              .usable = e->usable + at,
                              .path = e->path + at,
                              .route = e->route + at,
                              .argument = e->argument + at};
    if (c->columns & TRACE_COL_BEGUN)
        gather(c, b);
    return n != 0;
}

void trace_cursor_close(struct trace_cursor *c) { free(c); }

/* --- symbol.h --- */

struct symbols {
    int none;
};

/* By address: the functions there, innermost first. At 0x1000 the name is not UTF-8; 0x1060 and
 * 0x1064 read the same, as in an unrolled loop. */
static const struct {
    uint64_t pc;
    struct symbol_frame frames[3];
} names[] = {
    {0x1000, {{"caf\xe9 \"quoted\"\n", "/src/dir/odd\tname.c", 7, "sample", false, 0}}},
    {0x1010, {{"main", "/src/main.c", 10, "sample", false, 0}}},
    {0x1020, {{"load_table", "/src/table.c", 42, "sample", false, 0}}},
    {0x1030,
     {{"row_append", "/src/row.h", 12, "sample", true, 0},
      {"table_read", "/src/table.c", 77, "sample", false, 0}}},
    {0x1040,
     {{"std::vector<int, std::allocator<int> >::push_back(int&&)", "/usr/include/v.h", 99, "sample",
       false, 0}}},
    {0x1050, {{"worker", "/src/worker.c", 5, "sample", false, 0}}},
    {0x1060, {{"cache_get", "/src/cache.c", 33, "libcache.so.1", false, 0}}},
    {0x1064, {{"cache_get", "/src/cache.c", 33, "libcache.so.1", false, 0}}},
    {0x1070, {{"operator new(unsigned long)", NULL, 0, "libstdc++.so.6", false, 0}}},
    {0x1080, {{"xmalloc", "/src/x.c", 3, "sample", false, 0}}},
};

size_t symbols_lookup(struct symbols *s, const struct symbol_module *module, uint32_t pid,
                      uint64_t address, bool is_return, struct symbol_frame *frames, size_t max)
{
    (void)s, (void)module, (void)pid, (void)is_return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].pc != address)
            continue;
        size_t n = 0;
        for (; n < 3 && n < max && names[i].frames[n].function; n++)
            frames[n] = names[i].frames[n];
        return n;
    }
    memset(frames, 0, sizeof *frames);
    return 1;
}

bool symbols_renew(struct symbols *s, uint32_t pid)
{
    (void)s;
    (void)pid;
    return false;
}

size_t symbols_problems(struct symbols *s, const char *const **text)
{
    static const char *const problems[] = {"libgone.so: not on this machine; names are missing"};
    (void)s;
    *text = problems;
    return 1;
}

/* --- the program --- */

static uint64_t random_state = 12345;
static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

static void put(struct events *e, unsigned kind, unsigned op, uint32_t slot, uint32_t thread,
                uint64_t size, uint32_t stack, uint64_t time_ns, uint64_t address, unsigned path,
                uint64_t argument)
{
    size_t i = e->n++;
    e->kind[i] = (uint8_t)kind;
    e->op[i] = (uint8_t)op;
    e->slot[i] = slot;
    e->thread[i] = thread;
    e->size[i] = size;
    e->stack[i] = stack;
    e->time_ns[i] = time_ns;
    e->address[i] = address;
    e->usable[i] = kind == TRACE_ALLOC ? (size + 8 + 15) / 16 * 16 - 8 : 0;
    if (kind == TRACE_ALLOC && e->usable[i] < 24)
        e->usable[i] = 24;
    e->path[i] = (uint8_t)path;
    e->argument[i] = argument;
}

/* parent, module, flags, pc. Stacks end at main, at worker, or are cut. */
static const struct trace_frame_node nodes[] = {
    {0, 0, 0, 0},
    {0, 1, 0, 0x1010},              /* 1 main */
    {1, 1, 0, 0x1020},              /* 2 load_table < main */
    {2, 1, 0, 0x1030},              /* 3 row_append < table_read < 2 */
    {3, 1, 0, 0x1080},              /* 4 xmalloc < 3 */
    {0, 1, 0, 0x1050},              /* 5 worker */
    {5, 2, 0, 0x1060},              /* 6 cache_get < worker */
    {5, 2, 0, 0x1064},              /* 7 cache_get < worker, from another address */
    {1, 1, 0, 0x1040},              /* 8 push_back < main */
    {0, 0, MLW_NODE_TRUNCATED, 0},  /* 9 cut */
    {9, 0, 0, 0x7f00deadbeef},      /* 10 an address in no module < cut */
    {8, 2, 0, 0x1070},              /* 11 operator new < push_back < main */
    {1, 1, MLW_NODE_EXACT, 0x1000}, /* 12 the odd name < main */
    {1, 3, 0, 0x1ff0},              /* 13 no name, in libgone < main */
};
static const uint32_t tips[] = {4, 6, 7, 11, 10, 12, 13, 4, 4};

#define MODULE(of, shift)                                                                          \
    .path = (of), .start = 0x1000, .end = 0x2000, .bias = (shift), .gone_ns = UINT64_MAX
static const struct trace_module modules[] = {
    {MODULE("/bin/sample", 0), .build_id = (const uint8_t *)"\x01\x02", .build_id_bytes = 2},
    {MODULE("/lib/libcache.so.1", 0x1000)},
    {MODULE("/lib/libgone.so", 0x1800)},
};

static const struct trace_thread parent_threads[] = {
    {100, "sample", 1000, 9000000, false, 0, 0},
    {102, "worker-1", 50000, 8000000, true, 0, 0},
    {103, "worker-2", 60000, 9000000, false, 0, 3},
};
static const struct trace_thread child_threads[] = {{101, "sample", 5000000, 6000000, true, 0, 0}};
static const struct trace_event_note notes[] = {
    {2000000, 0, 0, "phase \"two\""},
    {3000000, UINT32_MAX, MLW_CONTROL_PAUSE, NULL},
    {3200000, UINT32_MAX, MLW_CONTROL_UNPAUSE, NULL},
};
static const char *const sample_command[] = {"/bin/sample", "--table", "a b", NULL};
static const char *const other_command[] = {"other", NULL};
static const char *const limits[] = {"only part of the program's calls are here", NULL};
static const struct mlw_resident resident[] = {{1000, 9000000, 4000000, 100000},
                                               {2500000, 9500000, 6000000, 100000},
                                               {8000000, 9500000, 5500000, 100000}};
static struct mlw_split splits[] = {
    {2500000, 60000, 40000, 2200000, 90000, 3000000, 5000, 600000, 4000, 0},
    {8000000, 60000, 40000, 1000, 90000, 3000000, 5000, 600000, 4000, 12}};

static struct more {
    uint64_t address, bytes;
    unsigned path;
} more[MORE];
static uint32_t more_count;
static const char *allocator = "glibc 2.36";
static bool measured; /* the process that has no events */

struct live {
    uint32_t slot, thread;
    uint64_t address;
    bool keep;
};

static void make_parent(struct events *e)
{
    struct live live[SLOTS];
    uint32_t spare[SLOTS];
    size_t live_count = 0, spare_count = SLOTS;
    uint64_t now = 1000;
    for (uint32_t i = 0; i < SLOTS; i++)
        spare[i] = SLOTS - 1 - i;
    for (uint32_t i = 0; i < more_count; i++)
        put(e, TRACE_ALLOC, MLW_OP_MALLOC, SLOTS + i, 0, more[i].bytes, 4, now, more[i].address,
            more[i].path, 0);
    for (unsigned round = 0; round < 1500; round++) {
        now += 200 + rnd(10000);
        uint32_t thread = now < 70000 ? 0 : rnd(3);
        if (live_count < 8 || (live_count < SLOTS - 2 && rnd(100) < 52)) {
            struct live *l = &live[live_count++];
            uint32_t stack = tips[rnd(9)];
            bool large = rnd(200) == 0, aligned = rnd(5) == 0;
            uint64_t size = large ? 300000 : 1 + rnd(700);
            unsigned path = large ? MLW_PATH_MMAPPED : thread ? MLW_PATH_NON_MAIN : 0;
            l->slot = spare[--spare_count];
            l->thread = thread;
            l->keep = stack == 12 && rnd(2);
            l->address = 0x5000000 + l->slot * 0x100000u;
            put(e, TRACE_ALLOC, aligned ? MLW_OP_POSIX_MEMALIGN : MLW_OP_MALLOC, l->slot, thread,
                size, stack, now, l->address, path, aligned ? 64 : 0);
            continue;
        }
        size_t which = rnd(4) ? live_count - 1 : rnd((uint32_t)live_count);
        struct live *l = &live[which];
        bool temporary = which == live_count - 1 && thread == l->thread &&
                         e->kind[e->n - 1] == TRACE_ALLOC && e->thread[e->n - 1] == thread;
        unsigned kind = temporary ? TRACE_FREE_TEMP : TRACE_FREE;
        if (l->keep)
            continue;
        if (rnd(5) == 0) {
            put(e, kind, MLW_OP_REALLOC_OLD, l->slot, thread, 0, 0, now, l->address, 0, 0);
            l->thread = thread;
            put(e, TRACE_ALLOC, MLW_OP_REALLOC, l->slot, thread, 10 + rnd(2000), 4, now + 100,
                l->address, 0, 0);
            continue;
        }
        put(e, kind, MLW_OP_FREE, l->slot, thread, 0, 0, now, l->address, 0, 0);
        spare[spare_count++] = l->slot;
        *l = live[--live_count];
    }
    now += 1000;
    put(e, TRACE_OTHER, MLW_OP_MALLOC, TRACE_NO_SLOT, 0, 1ull << 60, 4, now, 0, MLW_PATH_FAILED, 0);
    put(e, TRACE_OTHER, MLW_OP_FREE, TRACE_NO_SLOT, 0, 0, 0, now, 0, 0, 0);
    put(e, TRACE_FREE_UNKNOWN, MLW_OP_FREE, TRACE_NO_SLOT, 1, 0, 0, now, 0x777000, 0, 0);
    put(e, TRACE_OTHER, MLW_OP_MMAP, TRACE_NO_SLOT, 0, 8192, 2, now, 0x7f0000000000, 0,
        3 | 0x22 << 8);
    put(e, TRACE_OTHER, MLW_OP_MUNMAP, TRACE_NO_SLOT, 0, 8192, 0, now, 0x7f0000000000, 0, 0);
}

static void make(struct trace *t)
{
    static struct trace_image images[3];
    struct events *c = &child_events;
    make_parent(&parent_events);
    put(c, TRACE_ALLOC, MLW_OP_MALLOC, 0, 0, 1000, 4, 5000000, 0x100, 0, 0); /* inherited */
    put(c, TRACE_ALLOC, MLW_OP_MALLOC, 1, 0, 500, 8, 5000000, 0x200, 0, 0);  /* inherited */
    put(c, TRACE_FREE, MLW_OP_FREE, 0, 0, 0, 0, 5100000, 0x100, 0, 0);
    put(c, TRACE_ALLOC, MLW_OP_CALLOC, 0, 0, 64, 8, 5200000, 0x100, 0, 0);
    images[0] = (struct trace_image){.id = 1,
                                     .pid = 100,
                                     .ppid = 99,
                                     .forked_from = UINT32_MAX,
                                     .command = sample_command,
                                     .exe = "/bin/sample",
                                     .allocator = allocator,
                                     .notes = limits,
                                     .start_ns = 1000,
                                     .end_ns = 9000000,
                                     .end_how = MLW_END_KILLED,
                                     .end_status = 9,
                                     .events = parent_events.n,
                                     .lost_calls = 3,
                                     .max_slots = SLOTS + MORE,
                                     .stacks = 13,
                                     .nodes = nodes,
                                     .module_count = 3,
                                     .modules = modules,
                                     .thread_count = 3,
                                     .threads = parent_threads,
                                     .note_count = 3,
                                     .event_notes = notes,
                                     .resident_count = 3,
                                     .resident = resident,
                                     .split_count = 2,
                                     .splits = splits};
    images[1] = images[0];
    images[1].id = 2;
    images[1].pid = 101;
    images[1].ppid = 100;
    images[1].forked_from = 0;
    images[1].inherited = 2;
    images[1].events = c->n;
    images[1].notes = NULL;
    images[1].start_ns = 5000000;
    images[1].end_ns = 6000000;
    images[1].end_how = MLW_END_EXIT;
    images[1].end_status = 3 << 8;
    images[1].complete = true;
    images[1].lost_calls = 0;
    images[1].thread_count = 1;
    images[1].threads = child_threads;
    images[1].note_count = images[1].resident_count = images[1].split_count = 0;
    images[2] = images[1];
    images[2].id = 3;
    images[2].events = images[2].inherited = 0;
    images[2].pid = 104;
    images[2].forked_from = UINT32_MAX;
    images[2].command = other_command;
    images[2].exe = "";
    images[2].end_how = MLW_END_EXEC;
    if (measured) {
        images[2].start_ns = images[0].start_ns;
        images[2].end_ns = images[0].end_ns;
        images[2].splits = splits;
        images[2].split_count = sizeof splits / sizeof *splits;
        images[2].resident = resident;
        images[2].resident_count = sizeof resident / sizeof *resident;
    }
    t->info = (struct trace_info){.file_bytes = 123456,
                                  .sealed = true,
                                  .damaged_bytes = 17,
                                  .start_realtime_ns = 1700000000000000000u,
                                  .tick_ns_x1000 = 1000,
                                  .host = "Linux 6.1 x86_64",
                                  .tool = "mallow test",
                                  .image_count = 3,
                                  .images = images};
}

/* "FIELD:BYTES" */
static bool set_split(const char *text)
{
    static const struct {
        const char *name;
        size_t offset;
    } fields[] = {{"heap:", offsetof(struct mlw_split, heap)},
                  {"arenas:", offsetof(struct mlw_split, arenas)},
                  {"anonymous:", offsetof(struct mlw_split, anonymous)},
                  {"stacks:", offsetof(struct mlw_split, stacks)},
                  {"files:", offsetof(struct mlw_split, files)},
                  {"recorder:", offsetof(struct mlw_split, recorder)},
                  {"huge:", offsetof(struct mlw_split, huge)},
                  {"hugetlb:", offsetof(struct mlw_split, hugetlb)},
                  {"forked:", offsetof(struct mlw_split, forked)},
                  {"proportional:", offsetof(struct mlw_split, proportional)},
                  {"lazy:", offsetof(struct mlw_split, lazy)}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const size_t n = strlen(fields[i].name);
        if (strncmp(text, fields[i].name, n) != 0)
            continue;
        const uint64_t v = strtoull(text + n, NULL, 0);
        for (size_t k = 0; k < sizeof splits / sizeof *splits; k++)
            memcpy((char *)&splits[k] + fields[i].offset, &v, sizeof v);
        return true;
    }
    return false;
}

/* "PATH:ADDRESS:BYTES" */
static bool add_block(const char *text)
{
    char *end;
    if (more_count == MORE)
        return false;
    struct more *m = &more[more_count++];
    m->path = (unsigned)strtoul(text, &end, 0);
    m->address = strtoull(end + (*end == ':'), &end, 0);
    m->bytes = strtoull(end + (*end == ':'), &end, 0);
    return !*end;
}

/* Sets the option `name`; false when there is none. */
static bool set(struct report_options *o, const char *name, const char *text)
{
    const uint64_t v = strtoull(text, NULL, 10);
    const struct {
        const char *name;
        uint64_t *to;
    } numbers[] = {{"from_ns", &o->select.from_ns},
                   {"to_ns", &o->select.to_ns},
                   {"min_bytes", &o->select.min_bytes},
                   {"below_bytes", &o->select.below_bytes},
                   {"min_lifetime_ns", &o->select.min_lifetime_ns},
                   {"top", &o->top},
                   {"fail", &fail_after}};
    const struct {
        const char *name;
        const char **to;
    } texts[] = {{"thread", &o->select.thread},
                 {"function", &o->select.function},
                 {"module", &o->select.module},
                 {"source", &o->select.source},
                 {"suppressions", &o->suppressions}};
    const struct {
        const char *name;
        bool *to;
    } flags[] = {{"only_new", &o->select.only_new},
                 {"names", &o->names},
                 {"all_frames", &o->all_frames},
                 {"unicode", &o->unicode},
                 {"plots", &o->plots},
                 {"numbers", &o->numbers},
                 {"heap", &o->heap},
                 {"bold", &o->bold},
                 {"measured", &measured}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].name)) {
            *numbers[i].to = v;
            return true;
        }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(name, texts[i].name)) {
            *texts[i].to = text;
            return true;
        }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!strcmp(name, flags[i].name)) {
            *flags[i].to = v != 0;
            return true;
        }
    if (!strcmp(name, "split"))
        return set_split(text);
    if (!strcmp(name, "block"))
        return add_block(text);
    if (!strcmp(name, "by")) {
        o->by = (enum metric)v;
        o->by_given = true;
    } else if (!strcmp(name, "pid")) {
        o->select.pid = (uint32_t)v;
    } else if (!strcmp(name, "allocator")) {
        allocator = text;
    } else if (!strcmp(name, "columns")) {
        o->columns = (unsigned)v;
    } else if (!strcmp(name, "depth")) {
        o->depth = (unsigned)v;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct trace t;
    static struct symbols symbols;
    struct report_options o = {.unicode = true};
    struct error err = {0};
    int status = -1;
    for (int i = 2; i < argc; i++) {
        char *v = strchr(argv[i], '=');
        if (v)
            *v++ = 0;
        if (!v || !set(&o, argv[i], v)) {
            fprintf(stderr, "sample: no option '%s'\n", argv[i]);
            return 2;
        }
    }
    make(&t);
    const char *what = argc > 1 ? argv[1] : "text";
    if (!strcmp(what, "text"))
        status = report_text(stdout, "sample.mlw", &t, &symbols, &o, &err);
    else if (!strcmp(what, "json"))
        status = report_json(stdout, "sample.mlw", &t, &symbols, &o, &err);
    else
        status = report_dump(stdout, &t, &symbols, &o, !strcmp(what, "dump-json"), &err);
    if (status)
        fprintf(stderr, "%s\n", err.text);
    return status ? 1 : 0;
}
