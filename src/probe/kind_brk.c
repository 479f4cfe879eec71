/* kind_brk.c - `probe brk`: call sites that grow the heap. */
#include "bpf/brk.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/brk.skel.h>

static const char *const names[] = {
    [BRK_BRK] = "brk", [BRK_MMAP] = "mmap", [BRK_MUNMAP] = "munmap", [BRK_MREMAP] = "mremap"};

static int brk_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e, "the tracepoints sys_enter and sys_exit: brk%s",
                  e->options->mmap ? ", mmap, munmap and mremap of anonymous memory" : "");
    return engine_attach_tracepoints(e, err);
}

const struct probe_kind probe_kind_brk = {
    .name = "brk",
    .summary = "call sites that grow the heap: brk, with --mmap anonymous mappings",
    .by = PROBE_BY_PROCESS | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .may_by = PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .has_mmap = true,
    .names = names,
    .name_count = sizeof names / sizeof *names,
    .layout = {.may_histogram = 1 << 1 | 1 << 2,
               .list = "stacks",
               .value = {"calls", "grown_bytes", "released_bytes"},
               .title = {"calls", "grown", "given back"},
               .unit = "nbb",
               .order = 1},
    .no_stream = "what makes the heap grow is among the events of 'arenas', and how large the "
                 "program is among those of 'rss'",
    .object = brk_bpf__elf_bytes,
    .attach = brk_attach,
};
