/* kind_purge.c - `probe purge`: call sites that return memory. */
#include "bpf/purge.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/purge.skel.h>

static int purge_attach(struct probe_engine *e, struct error *err)
{
    static const char *const names[] = {[PURGE_DONTNEED] = "madvise(MADV_DONTNEED)",
                                        [PURGE_FREE] = "madvise(MADV_FREE)",
                                        [PURGE_MUNMAP] = "munmap",
                                        [PURGE_MREMAP] = "mremap",
                                        [PURGE_BRK] = "brk"};
    engine_source(e, "the tracepoints sys_enter and sys_exit: madvise, munmap, mremap, brk");
    return engine_add_names(e, names, sizeof names / sizeof *names, err) ||
                   engine_attach_tracepoints(e, err)
               ? -1
               : 0;
}

const struct probe_kind probe_kind_purge = {
    .name = "purge",
    .summary = "call sites that return memory, and the time it takes: madvise, munmap",
    .by = PROBE_BY_PROCESS | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .may_by =
        PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD | PROBE_BY_STACK | PROBE_BY_FUNCTION,
    .layout = {.list = "stacks",
               .value = {"calls", "purged_bytes", "failed_calls", "time_ns"},
               .title = {"calls", "given back", "failed", "time"},
               .unit = "nbnt",
               .order = 1},
    .no_stream = "the size of the program after each is among the events of 'rss'",
    .object = purge_bpf__elf_bytes,
    .attach = purge_attach,
};
