/* kind_reclaim.c - `probe reclaim`: how the kernel reclaims pages, and which threads wait. */
#include "bpf/reclaim.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/reclaim.skel.h>

static const char *const names[] = {[RECLAIM_DIRECT] = "direct reclaim",
                                    [RECLAIM_GROUP] = "reclaim at the group's limit",
                                    [RECLAIM_DAEMON] = "kswapd",
                                    [RECLAIM_WAKES] = "woke kswapd",
                                    [RECLAIM_OTHER] = "reclaim on request",
                                    [RECLAIM_KILL] = "killed: out of memory"};

static int reclaim_prepare(struct probe_engine *e, struct error *err)
{
    (void)err;
    if (!engine_has_tracepoint(e, "mark_victim", 2)) { /* before Linux 6.9 it had the id alone */
        engine_skip(e, "kill");
        engine_say(e, "processes killed for lack of memory are not shown: this kernel's tracepoint "
                      "mark_victim does not say which");
    }
    return 0;
}

static int reclaim_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e, "the tracepoints mm_vmscan_*, mark_victim");
    return engine_attach_tracepoints(e, err);
}

const struct probe_kind probe_kind_reclaim = {
    .name = "reclaim",
    .summary = "how the kernel reclaims pages: stalled threads, work of kswapd",
    .by = PROBE_BY_PROCESS | PROBE_BY_FUNCTION,
    .may_by = PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_KSTACK | PROBE_BY_FUNCTION,
    .stream = MLW_KERNEL_RECLAIM,
    .names = names,
    .name_count = sizeof names / sizeof *names,
    .layout = {.may_histogram = 1 << 1 | 1 << 2,
               .list = "events",
               .value = {"count", "reclaimed_pages", "stalled_ns", "scanned_pages"},
               .title = {"events", "reclaimed", "time", "scanned"},
               .unit = "nntn",
               .order = 2},
    .object = reclaim_bpf__elf_bytes,
    .prepare = reclaim_prepare,
    .attach = reclaim_attach,
};
