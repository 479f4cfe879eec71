/* arenas.c - see arenas.h. The lines and the summary are those of the SystemTap script
 * that this kind of probe takes the place of, in its units, and nothing is said twice. */
#include "probe/show/arenas.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/human.h"
#include "base/text.h"
#include "probe/show/rows.h"

enum { EACH = 8 }; /* lines of one kind */

/* The words of a line for each; NULL: only the summary shows it. */
static const char *words_of(uint32_t probe)
{
    switch (probe) {
    case ARENAS_HEAP_NEW: return "New heap";
    case ARENAS_NEW: return "Created new arena";
    case ARENAS_REUSE: return "failed to allocate on own arena, trying another";
    case ARENAS_TCACHE_DOUBLE_FREE: return "double free of a block in the thread's cache";
    case ARENAS_HEAP_MORE:
    case ARENAS_HEAP_LESS:
    case ARENAS_HEAP_FREE:
    case ARENAS_SBRK_MORE:
    case ARENAS_SBRK_LESS:
    case ARENAS_REUSE_FREE_LIST:
    case ARENAS_REUSE_WAIT: return NULL;
    default: return arenas_name(probe);
    }
}

/* A parameter of mallopt(3) by its name; NULL: it has none. */
static const char *parameter_name(int64_t parameter)
{
    static const char *const names[] = {
        "M_MXFAST",         NULL,         "M_TRIM_THRESHOLD", "M_TOP_PAD",
        "M_MMAP_THRESHOLD", "M_MMAP_MAX", "M_CHECK_ACTION",   "M_PERTURB",
        "M_ARENA_TEST",     "M_ARENA_MAX"};
    return parameter <= 1 && parameter >= -8 ? names[1 - parameter] : NULL;
}

static void print_line(FILE *out, const struct arena_moment *m)
{
    const char *words = words_of(m->probe);
    if (!words)
        return;
    if (m->probe == ARENAS_FREE_DYN_THRESHOLDS) {
        text_printf(out, "%u: New thresholds:: mmap: %" PRId64 " bytes, trim: %" PRId64 " bytes\n",
                    m->tid, m->argument[0], m->argument[1]);
        return;
    }
    text_printf(out, "%u: %s", m->tid, words);
    if (m->probe == ARENAS_MALLOPT && parameter_name(m->argument[0]))
        text_printf(out, " %s %" PRId64, parameter_name(m->argument[0]), m->argument[1]);
    else if (words == arenas_name(m->probe))
        for (unsigned i = 0; i < arenas_argument_count(m->probe) && i < m->known; i++)
            text_printf(out, " %" PRId64, m->argument[i]);
    putc('\n', out);
}

/* Thresholds say something new each time. */
static bool is_news(uint32_t probe)
{
    return probe == ARENAS_FREE_DYN_THRESHOLDS || probe == ARENAS_TCACHE_DOUBLE_FREE;
}

void probe_arenas_line(FILE *out, struct probe_arenas_lines *lines, const struct arena_moment *m)
{
    if (m->probe == ARENAS_REUSE && !m->argument[1])
        return;
    if (m->probe >= ARENAS_PROBES || is_news(m->probe) || lines->seen[m->probe]++ < EACH)
        print_line(out, m);
}

void probe_arenas_rest(FILE *out, struct probe_arenas_lines *lines)
{
    for (uint32_t i = 0; i < ARENAS_PROBES; i++) {
        if (lines->seen[i] > EACH && words_of(i))
            text_printf(out, "%s more: %s\n", COUNT(lines->seen[i] - EACH), words_of(i));
        lines->seen[i] = 0;
    }
}

/* The requests of a process while its threshold was that. */
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
    char threshold[HUMAN_TEXT_BYTES];
    if (!find_regime(r, pid, 0, &g)) {
        fputs("Requests and the mmap threshold: none\n", out);
        return;
    }
    fputs("Requests and the mmap threshold:\n", out);
    for (uint64_t least = 0; find_regime(r, pid, least, &g); least = g.threshold + 1)
        text_printf(out, "\t%s: %s below, %s from it on\n", human_size(threshold, g.threshold),
                    human_count(below, g.below), human_count(from, g.from));
}

static const char *const waits_are[] = {
    [ARENAS_WAITS_REUSE] = "waits to reuse an arena",
    [ARENAS_WAITS_LOCK] = "waits for the lock of any arena",
    [ARENAS_WAITS_OTHER] = "waits for the lock of any arena but the main one",
    [ARENAS_WAITS_NONE] = "not known",
};

static void print_not_seen(FILE *out, const struct arenas *a)
{
    if (!a->not_seen || !a->not_seen[0])
        return;
    fputs("Not seen by this source:", out);
    for (unsigned i = 0; i < ARENAS_NOT_SEEN_MAX && a->not_seen[i]; i++)
        text_printf(out, "%s %s", i ? ";" : "", a->not_seen[i]);
    putc('\n', out);
}

static void print_waits(FILE *out, const struct arenas *a, const struct arenas_process *p)
{
    static const char *const contention[] = {
        [ARENAS_WAITS_REUSE] = "Contention",
        [ARENAS_WAITS_LOCK] = "Contention (waits for any arena's lock)",
        [ARENAS_WAITS_OTHER] = "Contention (waits for the lock of any arena but the main one)",
        [ARENAS_WAITS_NONE] = "Contention: not seen from within the program",
    };
    const bool seen = a->waits != ARENAS_WAITS_NONE;
    text_printf(out, "%s%s\n", contention[a->waits], !seen ? "" : p->waits ? ":" : ": none");
    for (size_t k = 0; k < p->waits; k++)
        text_printf(out, "\t%u: %" PRIu64 " wait%s\n", p->wait[k].tid, p->wait[k].count,
                    p->wait[k].count == 1 ? "" : "s");
}

/* A line an arena, with the threads that use it: there may be hundreds. */
static void print_arenas(FILE *out, const struct arenas_process *p)
{
    enum { NAMED = 8 };
    size_t used = 0;
    for (size_t k = 0; k < p->arenas; k++) {
        const struct probe_arena *a = &p->arena[k];
        char name[32] = "main_arena";
        if (!a->threads)
            continue;
        fputs(used++ ? "" : "Active arenas:\n", out);
        if (a->address)
            snprintf(name, sizeof name, "0x%" PRIx64, a->address);
        text_printf(out, "\t%s <-", name);
        for (size_t t = 0; t < a->threads && t < NAMED; t++)
            text_printf(out, " %u", a->thread[t]);
        if (a->threads > NAMED)
            text_printf(out, " and %zu threads more", a->threads - NAMED);
        putc('\n', out);
    }
    if (!used)
        fputs("Active arenas: none\n", out);
}

static void print_heaps(FILE *out, const struct arenas_process *p)
{
    enum { SHOWN = 16 };
    uint64_t sum = 0;
    for (size_t k = 0; k < p->heaps; k++)
        sum += p->heap[k].bytes;
    if (!p->heaps)
        fputs("Allocated heaps: none\n", out);
    else
        text_printf(out, "Allocated heaps: %zu, %" PRIu64 " bytes\n", p->heaps, sum);
    for (size_t k = 0; k < p->heaps && k < SHOWN; k++)
        text_printf(out, "\t0x%" PRIx64 " -> %" PRIu64 " bytes\n", p->heap[k].address,
                    p->heap[k].bytes);
    if (p->heaps > SHOWN)
        text_printf(out, "\tand %zu more\n", p->heaps - SHOWN);
}

void probe_arenas_text(FILE *out, const struct probe_result *r)
{
    const struct arenas *a = r->arenas;
    print_not_seen(out, a);
    for (size_t i = 0; i < a->processes; i++) {
        const struct arenas_process *p = &a->process[i];
        if (a->processes > 1)
            text_printf(out, "Process %u:\n", p->pid);
        print_waits(out, a, p);
        print_arenas(out, p);
        print_heaps(out, p);
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
        if (i < m->known)
            json_signed(j, NULL, m->argument[i]);
        else
            json_null(j, NULL);
    json_close_array(j);
    json_close_object(j);
}

/* Writes the requests under each threshold that there was, by classes of size. */
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
    json_texts(j, "not_seen", a->not_seen, ARENAS_NOT_SEEN_MAX);
    json_open_array(j, "children");
    for (size_t i = 1; i < a->processes; i++) {
        json_open_object(j, NULL);
        write_process(j, r, &a->process[i]);
        json_close_object(j);
    }
    json_close_array(j);
}
