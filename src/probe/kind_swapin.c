/* kind_swapin.c - `probe swapin`: pages that come back from swap. */
#include <linux/perf_event.h>
#include <stdio.h>

#include "probe/caps.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/swapin.skel.h>

static int swapin_prepare(struct probe_engine *e, struct error *err)
{
    if (!engine_has_tracepoint(e, "count_memcg_events", 3))
        return error_set(
            err, ERROR_UNSUPPORTED,
            "this kernel has no tracepoint count_memcg_events, which reports pages that "
            "come from swap: use a newer one, or 'mallow probe faults' for all major "
            "faults");
    if (!caps_any_swap())
        engine_say(e, "no swap is configured: anonymous pages cannot be paged in, and major faults "
                      "can only be of files");
    return 0;
}

static int swapin_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e,
                  "the tracepoints count_memcg_events, page_fault_user and page_fault_kernel, the "
                  "software event page-faults-maj");
    return engine_attach_tracepoints(e, err) ||
                   engine_attach_perf(e, "major_fault", PERF_COUNT_SW_PAGE_FAULTS_MAJ, err)
               ? -1
               : 0;
}

const struct probe_kind probe_kind_swapin = {
    .name = "swapin",
    .summary = "pages that come back from swap, pages that go there, time waited",
    .by = PROBE_BY_PROCESS,
    .may_by = PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_KSTACK,
    .stream = MLW_KERNEL_SWAP,
    .layout = {.may_histogram = 1 << 3,
               .list = "processes",
               .value = {"pages_in", "pages_out", "major_faults", "major_fault_ns", "zero_pages_in",
                         "readahead_pages_in"},
               .title = {"pages in", "pages out", "major faults", "waited", "zero pages",
                         "read ahead"},
               .unit = "nnntnn",
               .histogram = 't',
               .counted = 2},
    .object = swapin_bpf__elf_bytes,
    .prepare = swapin_prepare,
    .attach = swapin_attach,
};
