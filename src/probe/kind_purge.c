/* kind_purge.c - `probe purge`: call sites that return memory. */
#include "bpf/purge.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/purge.skel.h>

static const char *const names[] = {[PURGE_DONTNEED] = "madvise(MADV_DONTNEED)",
                                    [PURGE_FREE] = "madvise(MADV_FREE)",
                                    [PURGE_MUNMAP] = "munmap",
                                    [PURGE_MREMAP] = "mremap",
                                    [PURGE_BRK] = "brk"};

static int purge_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e, "the tracepoints sys_enter and sys_exit: madvise, munmap, mremap, brk");
    return engine_attach_tracepoints(e, err);
}

const struct probe_kind probe_kind_purge = {
    .name = "purge",
    .summary = "call sites that return memory, and the time it takes: madvise, munmap",
    .by = PROBE_BY_PROCESS | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .may_by = PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .names = names,
    .name_count = sizeof names / sizeof *names,
    .layout = {.may_histogram = 1 << 1 | 1 << 3,
               .list = "stacks",
               .value = {"calls", "purged_bytes", "failed_calls", "time_ns"},
               .title = {"calls", "given back", "failed", "time"},
               .unit = "nbnt",
               .order = 1},
    .no_stream = "the size of the program after each is among the events of 'rss'",
    .object = purge_bpf__elf_bytes,
    .attach = purge_attach,
};
