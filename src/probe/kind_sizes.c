/* kind_sizes.c - `probe sizes`: which functions are asked for memory, and where each has the size.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <limits.h>
#include <stdlib.h>

#include "bpf/sizes.h"
#include "probe/family.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/sizes.skel.h>

static int sizes_attach(struct probe_engine *e, struct error *err)
{
    char path[PATH_MAX];
    struct family f = {.count = 0};
    int bad = files_find_library(&e->files, e->options->library, path, sizeof path, err) ||
              family_find(e->options, path, &f, err);
    for (size_t i = 0; i < f.count && !bad; i++)
        bad = engine_add_name(e, f.name[i], err);
    bad = bad || engine_attach_places(e, "request", path, f.place, f.count, false, err) < 0;
    if (!bad)
        engine_source(e, "%s of %s:", e->multi ? "uprobe_multi" : "perf uprobes", path);
    const char *before = " ";
    bad = bad || engine_say_refused(e, path, f.place, f.count, err);
    for (size_t i = 0; i < f.count && !bad; i++) {
        if (f.place[i].refused)
            continue;
        engine_source(e, "%s%s", before, f.name[i]);
        before = ",";
    }
    family_release(&f);
    return bad ? -1 : 0;
}

static int sizes_collect(struct probe_engine *e, struct error *err)
{
    if (e->options->by != PROBE_BY_SIZE)
        return 0;
    int cpus = libbpf_num_possible_cpus(), fd = engine_map(e, "classes"), bad = 0;
    struct sizes_class *values = calloc((size_t)cpus, sizeof *values);
    if (!values)
        return error_memory(err);
    for (uint32_t class = 0; class < SIZES_CLASSES && !bad; class ++) {
        struct probe_row row = {.key.size_class = class};
        if (bpf_map_lookup_elem(fd, &class, values))
            continue;
        for (int i = 0; i < cpus; i++) {
            row.value.calls += values[i].calls;
            row.value.bytes += values[i].bytes;
        }
        if (row.value.calls)
            bad = engine_add_row(e, &row, err);
    }
    free(values);
    return bad;
}

const struct probe_kind probe_kind_sizes = {
    .name = "sizes",
    .summary = "how large the blocks are that malloc and its family are asked for",
    .by = PROBE_BY_SIZE,
    .may_by = PROBE_BY_SIZE | PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .uses_library = true,
    .layout = {.may_histogram = 1 << 1,
               .list = "groups",
               .value = {"calls", "bytes"},
               .title = {"calls", "asked for"},
               .unit = "nb",
               .histogram = 'b'},
    .no_stream = "every call is recorded, with its size",
    .object = sizes_bpf__elf_bytes,
    .attach = sizes_attach,
    .collect = sizes_collect,
};
