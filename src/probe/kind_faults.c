/* kind_faults.c - `probe faults`: page faults, minor and major. */
#include <linux/perf_event.h>
#include <string.h>

#include "bpf/faults.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/faults.skel.h>

static const char *const names[] = {[FAULTS_KERNEL] = "kernel access",
                                    [FAULTS_READ] = "first read",
                                    [FAULTS_WRITE] = "first write",
                                    [FAULTS_COPY] = "copy on write",
                                    [FAULTS_FETCH] = "code"};

static int faults_prepare(struct probe_engine *e, struct error *err)
{
    (void)err;
    if (!engine_asks(e, PROBE_BY_ACCESS))
        engine_skip(e, "fault_begins");
    return 0;
}

static int faults_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e, "the software events page-faults-min and page-faults-maj%s",
                  engine_asks(e, PROBE_BY_ACCESS) ? ", the tracepoint page_fault_user" : "");
    if (engine_attach_tracepoints(e, err) ||
        engine_attach_perf(e, "minor_fault", PERF_COUNT_SW_PAGE_FAULTS_MIN, err))
        return -1;
    return engine_attach_perf(e, "major_fault", PERF_COUNT_SW_PAGE_FAULTS_MAJ, err);
}

static void faults_event(struct probe_engine *e, const void *data, size_t size)
{
    _Static_assert((int)FAULTS_FETCH == MLW_ACCESS_CODE && (int)FAULTS_COPY == MLW_ACCESS_COPY &&
                       (int)FAULTS_ANONYMOUS == MLW_PLACE_ANONYMOUS &&
                       (int)FAULTS_OWN == MLW_PLACE_RECORDER,
                   "accesses and places have the same numbers in both");
    struct faults_event event;
    if (size < sizeof event)
        return;
    memcpy(&event, data, sizeof event);
    const struct mlw_kernel k = {.clock = event.time_ns,
                                 .pid = event.pid,
                                 .tid = event.tid,
                                 .what =
                                     (uint8_t)(event.access | (event.major ? MLW_FAULT_MAJOR : 0)),
                                 .place = event.place,
                                 .values = 1};
    const uint64_t address = event.address;
    engine_stream(e, &k, &address);
}

const struct probe_kind probe_kind_faults = {
    .name = "faults",
    .summary = "page faults: minor and major, by stack, mapping and kind of access",
    .by = PROBE_BY_PROCESS | PROBE_BY_STACK,
    .may_by = PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_ADDRESS | PROBE_BY_MAPPING | PROBE_BY_ACCESS,
    .within_faults = true,
    .stream = MLW_KERNEL_FAULT,
    .stream_by = PROBE_BY_ACCESS,
    .names = names,
    .name_count = sizeof names / sizeof *names,
    .layout = {.list = "processes",
               .value = {"minor", NULL, "major"},
               .title = {"minor", NULL, "major"},
               .unit = "n n",
               .within = PROBE_WITHIN_PROCESSES},
    .object = faults_bpf__elf_bytes,
    .prepare = faults_prepare,
    .attach = faults_attach,
    .event = faults_event,
};
