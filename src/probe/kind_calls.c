/* kind_calls.c - `probe calls`: how often each function of a library is called. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/calls.h"
#include "format/op.h"
#include "probe/kind.h"
#include "symbol/functions.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/calls.skel.h>

/* Without --lib and --function: what the C library's allocator exports. */
static bool name_is_allocator(const char *name)
{
    for (unsigned op = 0; op < MLW_OP_COUNT; op++)
        if ((mlw_op_standard(op) == op || op == MLW_OP_MALLOC_USABLE_SIZE) &&
            !strcmp(mlw_op_name(op), name))
            return true;
    return !strcmp(name, "malloc_trim");
}

static bool function_is_wanted(const struct probe_options *o, const char *name)
{
    for (size_t i = 0; i < o->function_count; i++)
        if (!fnmatch(o->functions[i], name, 0))
            return true;
    if (o->function_count || o->library)
        return !o->function_count;
    return name_is_allocator(name);
}

/* Functions without exports (a static program) are found by its symbols. */
static int read_functions(const char *path, bool named, struct functions *f, struct error *err)
{
    if (functions_read(path, FUNCTIONS_EXPORTED | (named ? FUNCTIONS_LOCAL : 0), f, err))
        return -1;
    if (f->count)
        return 0;
    functions_release(f);
    return functions_read(path, FUNCTIONS_LOCAL, f, err);
}

static int calls_list(struct probe_engine *e, char *path, size_t room, struct functions *f,
                      struct error *err)
{
    const struct probe_options *o = e->options;
    size_t kept = 0;
    if (files_find_library(&e->files, o->library, path, room, err) ||
        read_functions(path, o->function_count > 0, f, err))
        return -1;
    for (size_t i = 0; i < f->count; i++)
        if (!f->at[i].data && function_is_wanted(o, f->at[i].name))
            f->at[kept++] = f->at[i];
    f->count = kept;
    functions_unique(f);
    if (f->count)
        return 0;
    functions_release(f);
    return error_set(err, ERROR_USAGE, "%s has none of the functions; --function names others",
                     path);
}

static int calls_attach(struct probe_engine *e, struct error *err)
{
    char path[PATH_MAX];
    struct functions f;
    if (calls_list(e, path, sizeof path, &f, err))
        return -1;
    struct place *places = calloc(f.count + 1, sizeof *places);
    size_t n = 0;
    int bad = places ? 0 : error_memory(err);
    for (size_t i = 0; i < f.count && !bad; i++) {
        bad = engine_add_name(e, f.at[i].name, err);
        if (!bad)
            places[n] = (struct place){.name = e->names[n], .offset = f.at[i].offset, .cookie = n};
        n++;
    }
    functions_release(&f);
    if (!bad && n > CALLS_FUNCTIONS_MAX)
        bad = error_set(err, ERROR_USAGE,
                        "%s has %zu such functions, %d are the most; --function chooses", path, n,
                        CALLS_FUNCTIONS_MAX);
    long done = bad ? -1 : engine_attach_places(e, "call", path, places, n, false, err);
    if (done >= 0) {
        engine_source(e, "%s of %s: %ld functions", e->multi ? "uprobe_multi" : "perf uprobes",
                      path, done);
        bad = engine_say_refused(e, path, places, n, err);
    }
    free(places);
    return done < 0 || bad ? -1 : 0;
}

static int calls_collect(struct probe_engine *e, struct error *err)
{
    if (e->options->by != PROBE_BY_FUNCTION)
        return 0;
    int cpus = libbpf_num_possible_cpus(), fd = engine_map(e, "counts"), bad = 0;
    uint64_t *values = calloc((size_t)cpus, sizeof *values);
    if (!values)
        return error_memory(err);
    for (uint32_t i = 0; i < e->name_count && !bad; i++) {
        struct probe_row row = {.key.what = i};
        if (bpf_map_lookup_elem(fd, &i, values))
            continue;
        for (int cpu = 0; cpu < cpus; cpu++)
            row.value.calls += values[cpu];
        if (row.value.calls)
            bad = engine_add_row(e, &row, err);
    }
    free(values);
    return bad;
}

const struct probe_kind probe_kind_calls = {
    .name = "calls",
    .summary = "how often each function of an allocator, or of any library, is called",
    .by = PROBE_BY_FUNCTION,
    .may_by = PROBE_BY_FUNCTION | PROBE_BY_WHO | PROBE_BY_STACK,
    .uses_library = true,
    .layout = {.list = "functions", .value = {"calls"}, .title = {"calls"}, .unit = "n"},
    .no_stream = "every call of the allocator is recorded, with its stack",
    .object = calls_bpf__elf_bytes,
    .list = calls_list,
    .attach = calls_attach,
    .collect = calls_collect,
};
