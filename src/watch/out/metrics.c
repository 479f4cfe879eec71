/* metrics.c - Formats the figures of watched processes as Prometheus or OpenMetrics text. A
 * table lists each metric once for all processes. */
#include "watch/out/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "watch/estimate.h"

enum { FAMILIES = 12 };

struct watched { /* one process's part */
    const struct watch_process *process;
    uint64_t values[FAMILIES]; /* in the order of families[] */
};

/* name: of the family; counters have samples called NAME_total. */
static const struct family {
    const char *name, *unit, *help;
    bool counter;
} families[FAMILIES] = {
    {"mallow_heap_live_bytes", "bytes", "Live heap, estimated from samples.", false},
    {"mallow_heap_live_low_bytes", "bytes", "Lower end of the 95 % interval of the live heap.",
     false},
    {"mallow_heap_live_high_bytes", "bytes", "Upper end of the 95 % interval of the live heap.",
     false},
    {"mallow_heap_live_blocks", NULL, "Live blocks, estimated from samples.", false},
    {"mallow_heap_peak_bytes", "bytes", "Largest live heap since the watch began, estimated.",
     false},
    {"mallow_sampling_period_bytes", "bytes", "Mean number of bytes between two samples.", false},
    {"mallow_allocated_bytes", "bytes", "Bytes allocated since the process started.", true},
    {"mallow_freed_bytes", "bytes", "Bytes freed since the process started, estimated.", true},
    {"mallow_samples", NULL, "Blocks sampled.", true},
    {"mallow_freed_samples", NULL, "Sampled blocks freed.", true},
    {"mallow_dropped_samples", NULL, "Samples that could not be taken.", true},
    {"mallow_memory_errors", NULL, "Memory errors found at guarded blocks.", true},
};

static struct watched look_at(const struct watch_process *p)
{
    const struct mlw_watch_counters *c = &p->counters;
    struct estimate live = {0};
    for (uint32_t k = 0; k < p->block_count; k++)
        estimate_add(&live, p->blocks[k].size, p->blocks[k].weight);
    const struct estimate_interval i = estimate_bytes_interval(&live);
    return (struct watched){
        p,
        {estimate_whole(live.bytes), estimate_whole(i.low), estimate_whole(i.high),
         estimate_whole(live.blocks), estimate_whole(p->high_water_bytes), watch_period(p, true),
         c->drawn_bytes, c->free_weight, c->samples, c->frees, watch_dropped(p), c->errors}};
}

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
        buffer_printf(out, "\"} %llu\n", (unsigned long long)items[i].values[m - families]);
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
    for (size_t i = 0; i < count; i++)
        items[i] = look_at(processes[i]);
    for (size_t i = 0; i < FAMILIES; i++)
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
