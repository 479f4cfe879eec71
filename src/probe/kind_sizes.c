/* kind_sizes.c - `probe sizes`: which functions are asked for memory, and where each has the size.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/sizes.h"
#include "probe/kind.h"
#include "symbol/functions.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/sizes.skel.h>

/* The family, by the C names; what another allocator calls them has these at the end. reallocarray
 * is not here, because the C library's calls realloc. */
static const struct family {
    const char *name;
    enum sizes_form form;
} family[] = {
    {"malloc", SIZES_FIRST},    {"calloc", SIZES_PRODUCT},       {"realloc", SIZES_RESIZE},
    {"memalign", SIZES_SECOND}, {"aligned_alloc", SIZES_SECOND}, {"posix_memalign", SIZES_THIRD},
    {"valloc", SIZES_FIRST},    {"pvalloc", SIZES_FIRST},        {"mallocx", SIZES_FIRST},
    {"rallocx", SIZES_RESIZE},
};

enum { FAMILY = sizeof family / sizeof *family, PLACES_MAX = 64 };

/* Where the size stands in a function that the user named. */
static enum sizes_form form_of(const char *name)
{
    size_t length = strlen(name), best = 0;
    enum sizes_form form = SIZES_FIRST;
    for (size_t i = 0; i < FAMILY; i++) {
        size_t n = strlen(family[i].name);
        if (n <= length && n > best && !strcmp(name + length - n, family[i].name)) {
            best = n;
            form = family[i].form;
        }
    }
    return form;
}

static bool is_wanted(const struct probe_options *o, const char *name)
{
    for (size_t i = 0; i < o->function_count; i++)
        if (!fnmatch(o->functions[i], name, 0))
            return true;
    for (size_t i = 0; !o->function_count && i < FAMILY; i++)
        if (!strcmp(family[i].name, name))
            return true;
    return false;
}

/* Whether this is glibc's allocator, whose realloc(NULL, size) jumps to malloc: one request, which
 * is to be counted once. */
static bool realloc_is_malloc(const struct probe_options *o, const struct functions *f)
{
    const struct function *inner = functions_find(f, "__libc_malloc");
    const struct function *outer = functions_find(f, "malloc");
    return inner && outer && inner->offset == outer->offset && is_wanted(o, "malloc");
}

static bool is_new(const struct place *places, size_t n, uint64_t offset)
{
    for (size_t i = 0; i < n; i++)
        if (places[i].offset == offset)
            return false; /* another name of the same function */
    return true;
}

static int sizes_attach(struct engine *e, struct error *err)
{
    char path[PATH_MAX];
    struct functions f;
    struct place places[PLACES_MAX] = {{0}};
    size_t n = 0;
    if (files_find_library(&e->files, e->options->library, path, sizeof path, err) ||
        functions_read(path, FUNCTIONS_EXPORTED | FUNCTIONS_LOCAL, &f, err))
        return -1;
    engine_source(e, "%s of %s:", e->multi ? "uprobe_multi" : "perf uprobes", path);
    int bad = 0;
    for (size_t i = 0; i < f.count && n < PLACES_MAX && !bad; i++) {
        const struct function *at = &f.at[i];
        if (!is_wanted(e->options, at->name) || !is_new(places, n, at->offset))
            continue;
        enum sizes_form form = form_of(at->name);
        if (form == SIZES_RESIZE && realloc_is_malloc(e->options, &f))
            form = SIZES_RESIZE_ELSE;
        bad = engine_add_name(e, at->name, err);
        places[n] = (struct place){.offset = at->offset, .cookie = n << 8 | (uint64_t)form};
        engine_source(e, "%s%s", n ? "," : " ", at->name);
        n++;
    }
    functions_release(&f);
    if (!bad && n == 0)
        bad = error_set(err, ERROR_USAGE, "%s has none of the functions; --function names others",
                        path);
    if (!bad && engine_attach_places(e, "request", path, places, n, false, err) < 0)
        bad = -1;
    return bad;
}

static int sizes_collect(struct engine *e, struct error *err)
{
    if (e->options->by != PROBE_BY_SIZE)
        return 0;
    int cpus = libbpf_num_possible_cpus(), fd = engine_map(e, "classes"), bad = 0;
    struct sizes_class *values = calloc((size_t)cpus, sizeof *values);
    if (!values)
        return error_set(err, ERROR_MEMORY, "out of memory");
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
    .may_by = PROBE_BY_SIZE | PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD |
              PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .uses_library = true,
    .object = sizes_bpf__elf_bytes,
    .attach = sizes_attach,
    .collect = sizes_collect,
};
