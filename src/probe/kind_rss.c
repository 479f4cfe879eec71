/* kind_rss.c - `probe rss`: the resident size of processes, exactly, as it changes. */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/proc.h"
#include "bpf/rss.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/rss.skel.h>

enum { RESIDENT = RSS_KINDS, SAMPLES_MAX = 1 << 20 };

static uint64_t page_bytes(void)
{
    static uint64_t bytes;
    if (!bytes)
        bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

/* The current size of a running process: the kernel reports changes only. False: no room for it. */
static bool seed(struct probe_engine *e, uint32_t pid)
{
    static const struct {
        const char *name;
        enum rss_kind kind;
    } lines[] = {{"RssAnon:", RSS_ANONYMOUS},
                 {"RssFile:", RSS_FILE},
                 {"RssShmem:", RSS_SHARED},
                 {"VmSwap:", RSS_SWAP}};
    char text[8192];
    struct rss_process p = {0};
    if (proc_read((pid_t)pid, "status", text, sizeof text) <= 0)
        return true;
    const char *name = proc_status_field(text, "Name:");
    if (name)
        snprintf(p.command, sizeof p.command, "%.*s", (int)strcspn(name, "\n"), name);
    const char *wanted = e->options->command;
    if (wanted && strncmp(wanted, p.command, sizeof p.command - 1) != 0)
        return true;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        unsigned long kib;
        if (proc_status_numbers(text, lines[i].name, &kib, 1))
            p.peak[lines[i].kind] = p.pages[lines[i].kind] = kib * 1024 / page_bytes();
    }
    p.peak_resident = p.pages[RSS_ANONYMOUS] + p.pages[RSS_FILE] + p.pages[RSS_SHARED];
    return !p.peak_resident ||
           !bpf_map_update_elem(engine_map(e, "resident"), &pid, &p, BPF_NOEXIST) ||
           errno == EEXIST;
}

/* Those that are there already, of which some may never change. */
static void seed_all(struct probe_engine *e)
{
    const int targets = engine_map(e, "targets");
    size_t lost = 0;
    DIR *proc = opendir("/proc");
    for (const struct dirent *d; proc && (d = readdir(proc));) {
        const uint32_t pid = (uint32_t)strtoul(d->d_name, NULL, 10);
        uint32_t state;
        if (pid && pid != (uint32_t)getpid() &&
            (e->options->all || !bpf_map_lookup_elem(targets, &pid, &state)))
            lost += !seed(e, pid);
    }
    if (proc)
        closedir(proc);
    if (lost)
        engine_say(e, "%zu processes are not listed unless they change: there are too many", lost);
}

static int rss_attach(struct probe_engine *e, struct error *err)
{
    static const char *const names[] = {[RSS_FILE] = "file",
                                        [RSS_ANONYMOUS] = "anonymous",
                                        [RSS_SWAP] = "swap",
                                        [RSS_SHARED] = "shared",
                                        [RESIDENT] = "resident"};
    engine_source(e, "the tracepoint rss_stat");
    if (engine_add_names(e, names, sizeof names / sizeof *names, err) ||
        engine_attach_tracepoints(e, err))
        return -1;
    /* One that changes meanwhile has its row already. Of a stream, nothing but changes is sent. */
    if (!e->options->stream && (e->options->all || e->options->pid))
        seed_all(e);
    return 0;
}

static void rss_event(struct probe_engine *e, const void *data, size_t size)
{
    struct rss_event event;
    struct probe_result *r = e->result;
    if (size < sizeof event || r->sample_count == SAMPLES_MAX)
        return;
    memcpy(&event, data, sizeof event);
    const uint64_t page = page_bytes();
    if (e->options->stream) {
        const struct mlw_kernel k = {
            .clock = event.time_ns, .pid = event.pid, .tid = event.pid, .values = RSS_KINDS};
        const uint64_t bytes[RSS_KINDS] = {
            event.pages[RSS_FILE] * page, event.pages[RSS_ANONYMOUS] * page,
            event.pages[RSS_SWAP] * page, event.pages[RSS_SHARED] * page};
        engine_stream(e, &k, bytes);
        return;
    }
    if (!ARRAY_ROOM(r->samples, r->sample_count + 1, r->sample_room))
        return;
    r->samples[r->sample_count++] = (struct probe_sample){
        .time_ns = event.time_ns > r->start_ns ? event.time_ns - r->start_ns : 0,
        .pid = event.pid,
        .file = event.pages[RSS_FILE] * page,
        .anonymous = event.pages[RSS_ANONYMOUS] * page,
        .swap = event.pages[RSS_SWAP] * page,
        .shared = event.pages[RSS_SHARED] * page};
}

static int add_rss_process(struct probe_engine *e, uint32_t pid, const struct rss_process *p,
                           struct error *err)
{
    const uint64_t page = page_bytes();
    for (uint32_t i = 0; i <= RESIDENT; i++) {
        struct probe_row row = {.key = {.pid = pid, .what = i}};
        memcpy(row.key.command, p->command, sizeof row.key.command);
        row.value.calls = p->changes;
        if (i == RESIDENT) {
            row.value.bytes =
                (p->pages[RSS_FILE] + p->pages[RSS_ANONYMOUS] + p->pages[RSS_SHARED]) * page;
            row.value.more = p->peak_resident * page;
        } else {
            row.value.bytes = p->pages[i] * page;
            row.value.more = p->peak[i] * page;
        }
        if (engine_add_row(e, &row, err))
            return -1;
    }
    return 0;
}

static int rss_collect(struct probe_engine *e, struct error *err)
{
    int fd = engine_map(e, "resident");
    uint32_t pid, last;
    const uint32_t *from = NULL;
    struct rss_process p;
    while (bpf_map_get_next_key(fd, from, &pid) == 0) {
        if (bpf_map_lookup_elem(fd, &pid, &p) == 0 && add_rss_process(e, pid, &p, err))
            return -1;
        last = pid;
        from = &last;
    }
    return 0;
}

const struct probe_kind probe_kind_rss = {
    .name = "rss",
    .summary = "the resident size of a process, exactly, as it changes",
    .by = PROBE_BY_PROCESS | PROBE_BY_FUNCTION,
    .may_by = PROBE_BY_PROCESS | PROBE_BY_FUNCTION,
    .gauge = true,
    .stream = MLW_KERNEL_LEVEL,
    .layout = {.list = "rows",
               .value = {"changes", "bytes", "peak_bytes"},
               .title = {"changes", "size", "peak"},
               .unit = "nbb",
               .order = 2,
               .gauge = true,
               .within = PROBE_WITHIN_TIME},
    .object = rss_bpf__elf_bytes,
    .attach = rss_attach,
    .event = rss_event,
    .collect = rss_collect,
};
