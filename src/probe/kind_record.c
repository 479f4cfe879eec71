/* kind_record.c - every call of an allocator of a process that runs already: `mallow record -p`.
 * Not a kind that `mallow probe` has. */
#include <bpf/bpf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/record.h"
#include "format/op.h"
#include "probe/cost.h"
#include "probe/kind.h"
#include "probe/stacks.h"
#include "symbol/functions.h"
#include "symbol/program.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/record.skel.h>

#define COOKIE(form, op) ((uint64_t)(form) | (uint64_t)(op) << 8)

/* Where the size stands in the calls of a function. */
static const struct family {
    uint8_t op, form;
    const char *other_name; /* NULL: the operation's */
} family[] = {
    {MLW_OP_MALLOC, RECORD_FIRST, NULL},
    {MLW_OP_CALLOC, RECORD_PRODUCT, NULL},
    {MLW_OP_REALLOC, RECORD_RESIZE, NULL},
    {MLW_OP_REALLOCARRAY, RECORD_RESIZE_PRODUCT, NULL},
    {MLW_OP_POSIX_MEMALIGN, RECORD_THIRD, NULL},
    {MLW_OP_ALIGNED_ALLOC, RECORD_SECOND, NULL},
    {MLW_OP_MEMALIGN, RECORD_SECOND, NULL},
    {MLW_OP_VALLOC, RECORD_FIRST, NULL},
    {MLW_OP_PVALLOC, RECORD_FIRST, NULL},
    {MLW_OP_FREE, 0, NULL},
    {MLW_OP_FREE, 0, "cfree"},
};
enum { FAMILY = sizeof family / sizeof *family };

/* The kernel does without a second trap for `push`; other instructions cost it over ten
 * microseconds. glibc's free begins with a test for NULL, behind which stands a push. */
static uint64_t release_place(int fd, uint64_t offset)
{
    uint8_t code[32] = {0};
    size_t at = 0;
    if (fd < 0 || pread(fd, code, sizeof code, (off_t)offset) != (ssize_t)sizeof code)
        return offset;
    static const uint8_t landing[] = {0xf3, 0x0f, 0x1e, 0xfa}, test[] = {0x48, 0x85, 0xff};
    if (!memcmp(code, landing, sizeof landing))
        at += sizeof landing;
    if (memcmp(code + at, test, sizeof test) != 0)
        return offset;
    at += sizeof test;
    if (code[at] == 0x0f && code[at + 1] == 0x84)
        at += 6; /* je, far */
    else if (code[at] == 0x74)
        at += 2; /* je, near */
    else
        return offset;
    bool pushes = (code[at] & 0xf8) == 0x50 || (code[at] == 0x41 && (code[at + 1] & 0xf8) == 0x50);
    return pushes ? offset + at : offset;
}

static size_t places_of(const char *path, const struct functions *f, bool releases,
                        struct place *places)
{
    size_t n = 0;
    struct error ignored;
    int fd = program_open(path, &ignored);
    for (size_t i = 0; i < FAMILY; i++) {
        const unsigned op = family[i].op;
        const char *name = family[i].other_name ? family[i].other_name : mlw_op_name(op);
        const struct function *at =
            mlw_op_is(op, MLW_CLASS_RELEASE) == releases ? functions_find(f, name) : NULL;
        bool again = !at;
        uint64_t offset = at ? releases ? release_place(fd, at->offset) : at->offset : 0;
        for (size_t k = 0; k < n; k++)
            again |= places[k].offset == offset; /* another name of the same function */
        if (!again)
            places[n++] = (struct place){.offset = offset, .cookie = COOKIE(family[i].form, op)};
    }
    if (fd >= 0)
        close(fd);
    return n;
}

/* Where one function is not seen, blocks would come or go that the recording does not know. */
static int attach_all(struct probe_engine *e, const char *program, const char *path,
                      struct place *places, size_t n, bool on_return, struct error *err)
{
    if (engine_attach_places(e, program, path, places, n, on_return, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (places[i].refused)
            return error_set(err, ERROR_UNSUPPORTED, "cannot probe all functions of %s: %s", path,
                             attach_refusal(&places[i]));
    return 0;
}

/* Foresees the cost of the probes at these places; the first of each is malloc and free. */
static void foresee(struct probe_engine *e, const char *path, const struct place *made,
                    const struct place *released)
{
    struct cost cost;
    if (!e->multi || !cost_measure(bpf_object__find_program_by_name(e->object, "releases"),
                                   bpf_object__find_program_by_name(e->object, "leaves"), &cost))
        return;
    e->result->malloc_cost_ns =
        cost.return_ns + (cost_is_aside(path, made->offset) ? cost.entry_aside_ns : cost.entry_ns);
    e->result->free_cost_ns =
        cost_is_aside(path, released->offset) ? cost.entry_aside_ns : cost.entry_ns;
}

static int record_attach_calls(struct probe_engine *e, struct error *err)
{
    char path[PATH_MAX];
    struct functions f;
    struct place made[FAMILY], released[FAMILY];
    if (files_find_library(&e->files, NULL, path, sizeof path, err) ||
        functions_read(path, FUNCTIONS_EXPORTED | FUNCTIONS_LOCAL, &f, err))
        return -1;
    const size_t makes = places_of(path, &f, false, made);
    const size_t releases = places_of(path, &f, true, released);
    functions_release(&f);
    if (!makes || !releases)
        return error_set(err, ERROR_UNSUPPORTED, "%.200s has no functions malloc and free", path);
    engine_source(e, "%s", path);
    foresee(e, path, made, released);
    /* Allocating functions come last, or blocks whose release was not seen would seem to live on;
     * and a call that was seen to enter a function must be seen to leave it. */
    if (engine_attach_tracepoints(e, err) ||
        attach_all(e, "releases", path, released, releases, false, err) ||
        attach_all(e, "leaves", path, made, makes, true, err))
        return -1;
    return attach_all(e, "enters", path, made, makes, false, err);
}

static int record_prepare(struct probe_engine *e, struct error *err)
{
    (void)err;
    if (e->options->no_follow)
        engine_skip(e, "forks");
    return 0;
}

static void record_became(const struct probe_engine *e, const void *data, size_t size)
{
    struct record_exec event;
    if (size < sizeof event)
        return;
    memcpy(&event, data, sizeof event);
    if (e->stacks) /* while its libraries are still to come: it will hardly have called anything */
        stacks_learn_all(e->stacks, event.pid);
    event.path[sizeof event.path - 1] = 0;
    size_t n = event.argument_bytes;
    if (n >= sizeof event.arguments) { /* whole ones only, but for one that is longer than all */
        n = sizeof event.arguments;
        event.arguments[n - 1] = 0;
        const char *last = memrchr(event.arguments, 0, n - 1);
        n = last ? (size_t)(last - event.arguments) + 1 : n;
    }
    const struct probe_call call = {.time_ns = event.time_ns,
                                    .pid = event.pid,
                                    .what = PROBE_BECAME,
                                    .path = event.path,
                                    .arguments = event.arguments,
                                    .argument_bytes = n};
    e->options->call(e->options->arg, &call);
}

static void record_event_came(struct probe_engine *e, const void *data, size_t size)
{
    struct record_event event;
    if (size < sizeof event)
        return;
    memcpy(&event, data, sizeof event);
    if (event.type == RECORD_EXEC) {
        record_became(e, data, size);
        return;
    }
    const struct probe_call call = {.time_ns = event.time_ns,
                                    .address = event.address,
                                    .size = event.size,
                                    .argument = event.argument,
                                    .stack = event.stack,
                                    .pid = event.pid,
                                    .tid = event.tid,
                                    .what = event.type == RECORD_FORK   ? PROBE_FORKED
                                            : event.type == RECORD_EXIT ? PROBE_ENDED
                                                                        : PROBE_CALL,
                                    .op = event.what == RECORD_RESIZES ? MLW_OP_REALLOC_OLD
                                                                       : event.op};
    e->options->call(e->options->arg, &call);
}

/* Reports whose calls were lost. */
static void record_finish(struct probe_engine *e)
{
    const int fd = engine_map(e, "lost_calls");
    uint32_t pid, *last = NULL, key;
    uint64_t calls;
    while (bpf_map_get_next_key(fd, last, &key) == 0) {
        pid = key;
        last = &pid;
        if (bpf_map_lookup_elem(fd, &pid, &calls))
            continue;
        const struct probe_call call = {.pid = pid, .size = calls, .what = PROBE_LOST_CALLS};
        e->options->call(e->options->arg, &call);
    }
}

const struct probe_kind probe_kind_record = {
    .name = "record",
    .summary = "every call of the allocator",
    .by = PROBE_BY_STACK,
    .may_by = PROBE_BY_STACK,
    .uses_library = true,
    .object = record_bpf__elf_bytes,
    .prepare = record_prepare,
    .attach = record_attach_calls,
    .finish = record_finish,
    .event = record_event_came,
};
