/* metrics.c - Formats the figures of watched processes as Prometheus or OpenMetrics text. A
 * table lists each metric once for all processes. */
#include "watch/out/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "watch/estimate.h"

struct watched { /* one process's part */
    const struct watch_process *process;
    struct estimate live;
};

static uint64_t live_bytes(const struct watched *f) { return estimate_whole(f->live.bytes); }
static uint64_t live_low(const struct watched *f)
{
    return estimate_whole(estimate_bytes_interval(&f->live).low);
}
static uint64_t live_high(const struct watched *f)
{
    return estimate_whole(estimate_bytes_interval(&f->live).high);
}
static uint64_t live_blocks(const struct watched *f) { return estimate_whole(f->live.blocks); }
static uint64_t peak(const struct watched *f)
{
    return estimate_whole(f->process->high_water_bytes);
}
static uint64_t period(const struct watched *f) { return watch_period(f->process, true); }
static uint64_t allocated(const struct watched *f) { return f->process->counters.drawn_bytes; }
static uint64_t freed(const struct watched *f) { return f->process->counters.free_weight; }
static uint64_t samples(const struct watched *f) { return f->process->counters.samples; }
static uint64_t freed_samples(const struct watched *f) { return f->process->counters.frees; }
static uint64_t dropped(const struct watched *f) { return watch_dropped(f->process); }
static uint64_t errors(const struct watched *f) { return f->process->counters.errors; }

/* name: of the family; counters have samples called NAME_total. */
static const struct family {
    const char *name, *unit, *help;
    bool counter;
    uint64_t (*value)(const struct watched *f);
} families[] = {
    {"mallow_heap_live_bytes", "bytes", "Live heap, estimated from samples.", false, live_bytes},
    {"mallow_heap_live_low_bytes", "bytes", "Lower end of the 95 % interval of the live heap.",
     false, live_low},
    {"mallow_heap_live_high_bytes", "bytes", "Upper end of the 95 % interval of the live heap.",
     false, live_high},
    {"mallow_heap_live_blocks", NULL, "Live blocks, estimated from samples.", false, live_blocks},
    {"mallow_heap_peak_bytes", "bytes", "Largest live heap since the watch began, estimated.",
     false, peak},
    {"mallow_sampling_period_bytes", "bytes", "Mean number of bytes between two samples.", false,
     period},
    {"mallow_allocated_bytes", "bytes", "Bytes allocated since the process started.", true,
     allocated},
    {"mallow_freed_bytes", "bytes", "Bytes freed since the process started, estimated.", true,
     freed},
    {"mallow_samples", NULL, "Blocks sampled.", true, samples},
    {"mallow_freed_samples", NULL, "Sampled blocks freed.", true, freed_samples},
    {"mallow_dropped_samples", NULL, "Samples that could not be taken.", true, dropped},
    {"mallow_memory_errors", NULL, "Memory errors found at guarded blocks.", true, errors},
};

static void append_label(struct buffer *out, const char *value)
{
    struct text_shown c;
    for (const char *s = value; *s;) {
        s += text_shown(s, &c);
        for (unsigned i = 0; i < c.bytes; i++) {
            if (c.text[i] == '"' || c.text[i] == '\\')
                buffer_append_char(out, '\\');
            buffer_append_char(out, c.text[i]);
        }
    }
}

static void append_family(struct buffer *out, const struct family *m, const struct watched *items,
                          size_t count, bool open)
{
    const char *total = m->counter ? "_total" : "", *named = open ? "" : total;
    buffer_printf(out, "# TYPE %s%s %s\n", m->name, named, m->counter ? "counter" : "gauge");
    if (open && m->unit)
        buffer_printf(out, "# UNIT %s %s\n", m->name, m->unit);
    buffer_printf(out, "# HELP %s%s %s\n", m->name, named, m->help);
    for (size_t i = 0; i < count; i++) {
        buffer_printf(out, "%s%s{pid=\"%d\",program=\"", m->name, total,
                      (int)items[i].process->pid);
        append_label(out, watch_process_name(items[i].process));
        if (items[i].process->elsewhere) /* process ids are of that namespace */
            buffer_printf(out, "\",pid_namespace=\"%llu",
                          (unsigned long long)items[i].process->segment.head.pid_namespace);
        buffer_printf(out, "\"} %llu\n", (unsigned long long)m->value(&items[i]));
    }
}

void watch_metrics(struct buffer *out, struct watch_process *const *processes, size_t count,
                   bool open)
{
    struct watched *items = calloc(count + 1, sizeof *items);
    if (!items) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        items[i].process = processes[i];
        for (uint32_t k = 0; k < processes[i]->block_count; k++)
            estimate_add(&items[i].live, processes[i]->blocks[k].size,
                         processes[i]->blocks[k].weight);
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        append_family(out, &families[i], items, count, open);
    if (open)
        buffer_append_text(out, "# EOF\n");
    free(items);
}

/* The quality of a media range, 1 without one. */
static double quality(const char *range, size_t length)
{
    for (const char *p = range; p + 2 < range + length; p++)
        if (*p == ';') {
            const char *q = p + 1 + strspn(p + 1, " \t");
            if (q + 2 < range + length + 1 && (*q == 'q' || *q == 'Q') && q[1] == '=')
                return strtod(q + 2, NULL);
        }
    return 1;
}

bool watch_metrics_open(const char *accept)
{
    static const char name[] = "application/openmetrics-text";
    double open = 0, text = 0;
    for (const char *p = accept ? accept : ""; *p;) {
        p += strspn(p, " \t,");
        const size_t length = strcspn(p, ",");
        const double q = quality(p, length);
        if (!strncasecmp(p, name, sizeof name - 1))
            open = q > open ? q : open;
        else if (!strncasecmp(p, "text/plain", strlen("text/plain")))
            text = q > text ? q : text;
        p += length;
    }
    return open > 0 && open >= text;
}
