/* probe_arenas.c - see probe_arenas.h. The lines and the summary are those of the SystemTap script
 * that this kind of probe takes the place of. */
#include "report/probe_arenas.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/human.h"
#include "base/text.h"
#include "report/probe_rows.h"

void probe_arenas_line(FILE *out, const struct arena_moment *m)
{
    switch (m->probe) {
    case ARENAS_HEAP_NEW: text_printf(out, "%u: New heap\n", m->tid); return;
    case ARENAS_NEW: text_printf(out, "%u: Created new arena\n", m->tid); return;
    case ARENAS_REUSE:
        if (m->argument[1])
            text_printf(out, "%u: failed to allocate on own arena, trying another\n", m->tid);
        return;
    case ARENAS_FREE_DYN_THRESHOLDS:
        text_printf(out, "%u: New thresholds:: mmap: %" PRId64 " bytes, trim: %" PRId64 " bytes\n",
                    m->tid, m->argument[0], m->argument[1]);
        return;
    case ARENAS_TCACHE_DOUBLE_FREE:
        text_printf(out, "%u: double free of a block in the thread's cache\n", m->tid);
        return;
    case ARENAS_HEAP_MORE:
    case ARENAS_HEAP_LESS:
    case ARENAS_HEAP_FREE:
    case ARENAS_SBRK_MORE:
    case ARENAS_SBRK_LESS:
    case ARENAS_REUSE_FREE_LIST:
    case ARENAS_REUSE_WAIT: return; /* the summary has their sums */
    default: break;
    }
    text_printf(out, "%u: %s", m->tid, arenas_name(m->probe));
    for (unsigned i = 0; i < arenas_argument_count(m->probe) && i < ARENAS_ARGUMENTS; i++)
        text_printf(out, " %" PRId64, m->argument[i]);
    putc('\n', out);
}

/* Of a process while its threshold was that. */
struct regime {
    uint64_t threshold, below, from;
};

static bool is_of(const struct probe_row *row, uint32_t pid, uint64_t threshold)
{
    return row->key.pid == pid && row->key.site == threshold;
}

/* The one with the lowest threshold that is not below `least`; false: none. */
static bool find_regime(const struct probe_result *r, uint32_t pid, uint64_t least,
                        struct regime *g)
{
    bool found = false;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct probe_key *k = &r->rows[i].key;
        if (k->pid == pid && k->site >= least && (!found || k->site < g->threshold)) {
            *g = (struct regime){.threshold = k->site};
            found = true;
        }
    }
    for (size_t i = 0; found && i < r->row_count; i++)
        if (is_of(&r->rows[i], pid, g->threshold))
            *(r->rows[i].key.what ? &g->from : &g->below) += r->rows[i].value.calls;
    return found;
}

static void print_requests(FILE *out, const struct probe_result *r, uint32_t pid)
{
    struct regime g;
    char below[HUMAN_TEXT_BYTES], from[HUMAN_TEXT_BYTES];
    if (!r->counts_requests)
        return;
    fputs("Requests and the mmap threshold:\n", out);
    for (uint64_t least = 0; find_regime(r, pid, least, &g); least = g.threshold + 1)
        text_printf(out, "\t%" PRIu64 " bytes: %s below, %s from it on\n", g.threshold,
                    human_count(below, g.below), human_count(from, g.from));
}

static const char *const waits_are[] = {
    [ARENAS_WAITS_REUSE] = "waits to reuse an arena",
    [ARENAS_WAITS_LOCK] = "waits for the lock of any arena",
    [ARENAS_WAITS_OTHER] = "waits for the lock of any arena but the main one",
    [ARENAS_WAITS_NONE] = "not known",
};

void probe_arenas_text(FILE *out, const struct probe_result *r)
{
    static const char *const contention[] = {
        [ARENAS_WAITS_REUSE] = "Contention:",
        [ARENAS_WAITS_LOCK] = "Contention (waits for any arena's lock):",
        [ARENAS_WAITS_OTHER] = "Contention (waits for the lock of any arena but the main one):",
        [ARENAS_WAITS_NONE] = "Contention: not seen from within the program",
    };
    const struct arenas *a = r->arenas;
    for (size_t i = 0; i < a->processes; i++) {
        const struct arenas_process *p = &a->process[i];
        if (a->processes > 1)
            text_printf(out, "Process %u:\n", p->pid);
        text_printf(out, "%s\n", contention[a->waits]);
        for (size_t k = 0; k < p->waits; k++)
            text_printf(out, "\t%u: %" PRIu64 " waits\n", p->wait[k].tid, p->wait[k].count);
        fputs("Active arenas:\n", out);
        for (size_t k = 0; k < p->arenas; k++)
            for (size_t t = 0; t < p->arena[k].threads; t++)
                if (p->arena[k].address)
                    text_printf(out, "\t%u -> 0x%" PRIx64 "\n", p->arena[k].thread[t],
                                p->arena[k].address);
                else
                    text_printf(out, "\t%u -> main_arena\n", p->arena[k].thread[t]);
        fputs("Allocated heaps:\n", out);
        for (size_t k = 0; k < p->heaps; k++)
            text_printf(out, "\t0x%" PRIx64 " -> %" PRIu64 " bytes\n", p->heap[k].address,
                        p->heap[k].bytes);
        text_printf(out, "Total sbrk: %" PRId64 " bytes\n", p->sbrk_bytes);
        text_printf(out, "Mmap threshold in the end: %" PRIu64 " kb\n",
                    p->mmap_threshold_bytes / 1024);
        print_requests(out, r, p->pid);
    }
}

static void write_event(struct json *j, const struct arena_moment *m)
{
    json_open_object(j, NULL);
    json_number(j, "time_ns", m->time_ns);
    json_number(j, "tid", m->tid);
    json_text(j, "event", arenas_name(m->probe));
    json_open_array(j, "arguments");
    for (unsigned i = 0; i < arenas_argument_count(m->probe) && i < ARENAS_ARGUMENTS; i++)
        json_signed(j, NULL, m->argument[i]);
    json_close_array(j);
    json_close_object(j);
}

/* Of each threshold that there was, by classes of size. */
static void write_requests(struct json *j, const struct probe_result *r, uint32_t pid)
{
    struct regime g;
    if (!r->counts_requests)
        return;
    json_open_array(j, "requests");
    for (uint64_t least = 0; find_regime(r, pid, least, &g); least = g.threshold + 1) {
        json_open_object(j, NULL);
        json_number(j, "mmap_threshold_bytes", g.threshold);
        json_number(j, "below", g.below);
        json_number(j, "from", g.from);
        json_open_array(j, "histogram");
        for (size_t i = 0; i < r->row_count; i++) {
            const struct probe_key *k = &r->rows[i].key;
            if (!is_of(&r->rows[i], pid, g.threshold))
                continue;
            json_open_object(j, NULL);
            json_number(j, "min_bytes", probe_class_min(k->size_class));
            json_number(j, "max_bytes", probe_class_max(k->size_class));
            json_bool(j, "below", !k->what);
            json_number(j, "calls", r->rows[i].value.calls);
            json_close_object(j);
        }
        json_close_array(j);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_process(struct json *j, const struct probe_result *r,
                          const struct arenas_process *p)
{
    json_number(j, "pid", p->pid);
    json_signed(j, "sbrk_bytes", p->sbrk_bytes);
    json_number(j, "mmap_threshold_bytes", p->mmap_threshold_bytes);
    json_number(j, "trim_threshold_bytes", p->trim_threshold_bytes);
    json_open_array(j, "arenas");
    for (size_t i = 0; i < p->arenas; i++) {
        json_open_object(j, NULL);
        json_address(j, "address", p->arena[i].address);
        json_bool(j, "main", p->arena[i].main);
        json_open_array(j, "threads");
        for (size_t k = 0; k < p->arena[i].threads; k++)
            json_number(j, NULL, p->arena[i].thread[k]);
        json_close_array(j);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "heaps");
    for (size_t i = 0; i < p->heaps; i++) {
        json_open_object(j, NULL);
        json_address(j, "address", p->heap[i].address);
        json_number(j, "bytes", p->heap[i].bytes);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "waits");
    for (size_t i = 0; i < p->waits; i++) {
        json_open_object(j, NULL);
        json_number(j, "tid", p->wait[i].tid);
        json_number(j, "count", p->wait[i].count);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "events");
    for (size_t i = 0; i < p->moments; i++)
        write_event(j, &p->moment[i]);
    json_close_array(j);
    write_requests(j, r, p->pid);
}

void probe_arenas_json(struct json *j, const struct probe_result *r)
{
    static const struct arenas_process none = {.mmap_threshold_bytes = 128 << 10,
                                               .trim_threshold_bytes = 128 << 10};
    const struct arenas *a = r->arenas;
    write_process(j, r, a->processes ? &a->process[0] : &none);
    json_text(j, "waits_are", waits_are[a->waits]);
    json_open_array(j, "children");
    for (size_t i = 1; i < a->processes; i++) {
        json_open_object(j, NULL);
        write_process(j, r, &a->process[i]);
        json_close_object(j);
    }
    json_close_array(j);
}
