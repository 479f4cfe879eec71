/* kernel.c - Prints the kernel's events about a process as text, as JSON and in the dump:
 * faults, levels of memory, and moments such as reclaim. The sums follow the same range of time
 * as the rest of the report. */
#include "report/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "probe/arenas.h"
#include "report/columns.h"

typedef unsigned long long ull;

const char *kernel_kind_name(unsigned kind)
{
    static const char *const names[MLW_KERNEL_KINDS] = {[MLW_KERNEL_FAULT] = "faults",
                                                        [MLW_KERNEL_LEVEL] = "rss",
                                                        [MLW_KERNEL_ARENA] = "arenas",
                                                        [MLW_KERNEL_SWAP] = "swapin",
                                                        [MLW_KERNEL_RECLAIM] = "reclaim"};
    return kind && kind < MLW_KERNEL_KINDS ? names[kind] : "?";
}

static const char *place_name(unsigned place)
{
    static const char *const names[MLW_PLACES] = {
        [MLW_PLACE_UNKNOWN] = "unknown",     [MLW_PLACE_HEAP] = "heap",
        [MLW_PLACE_STACK] = "stack",         [MLW_PLACE_FILE] = "file",
        [MLW_PLACE_ANONYMOUS] = "anonymous", [MLW_PLACE_RECORDER] = "recorder",
        [MLW_PLACE_BLOCK] = "block",         [MLW_PLACE_MAPPED] = "mapping"};
    return place < MLW_PLACES ? names[place] : "unknown";
}

static const char *access_name(unsigned access)
{
    static const char *const names[MLW_ACCESSES] = {[MLW_ACCESS_KERNEL] = "kernel access",
                                                    [MLW_ACCESS_READ] = "first read",
                                                    [MLW_ACCESS_WRITE] = "first write",
                                                    [MLW_ACCESS_COPY] = "copy on write",
                                                    [MLW_ACCESS_CODE] = "code"};
    return access < MLW_ACCESSES ? names[access] : "?";
}

static const char *pages_name(unsigned what)
{
    static const char *const names[MLW_PAGES_WHATS] = {[MLW_PAGES_IN] = "swap-in",
                                                       [MLW_PAGES_OUT] = "swap-out",
                                                       [MLW_PAGES_RECLAIMED] = "direct-reclaim",
                                                       [MLW_PAGES_GROUP] = "group-reclaim",
                                                       [MLW_PAGES_WAIT] = "major-fault-wait",
                                                       [MLW_PAGES_KILLED] = "out-of-memory-kill"};
    return what < MLW_PAGES_WHATS ? names[what] : "?";
}

static const char *moment_name(const struct trace_moment *m)
{
    const char *name = m->kind == MLW_KERNEL_ARENA ? arenas_name(m->what) : pages_name(m->what);
    return name ? name : "?";
}

static unsigned moment_values(const struct trace_moment *m)
{
    unsigned n = m->kind == MLW_KERNEL_ARENA ? arenas_argument_count(m->what) : m->values;
    return n < m->values ? n : m->values;
}

bool kernel_shown(const struct report_options *o)
{
    return !selection_any(&o->select, SELECTION_BLOCKS);
}

/* ---- text ---- */

static void fault_line(struct buffer *b, const struct fault_count *c)
{
    buffer_printf(b, "%14s", COUNT(c->minor));
    page_right(b, c->major ? COUNT(c->major) : "", 9);
    buffer_append_text(b, "  ");
}

struct fault_site {
    uint32_t frame; /* UINT32_MAX: no stack was recorded */
    struct fault_count count;
};

static int by_faults(const void *a, const void *b)
{
    const struct fault_site *x = a, *y = b;
    uint64_t u = x->count.minor + x->count.major, v = y->count.minor + y->count.major;
    if (x->count.major != y->count.major)
        return x->count.major < y->count.major ? 1 : -1;
    if (u != v)
        return u < v ? 1 : -1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int by_frame(const void *a, const void *b)
{
    const struct fault_site *x = a, *y = b;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* The call site of a stack. */
static uint32_t site_of(struct names *names, uint32_t stack, bool all_frames)
{
    uint32_t node, position;
    const uint32_t *ids;
    if (!all_frames)
        return names_site(names, stack, &node, &position);
    return names_of(names, stack, &ids) ? ids[0] : UINT32_MAX;
}

/* Call sites by their faults; the caller frees them. -1 without memory. */
static long sites_of(const struct trace_image *image, const struct fault_count *by_stack,
                     struct names *names, bool all_frames, struct fault_site **sites)
{
    size_t n = 0, kept = 0;
    struct fault_site *s = malloc(((size_t)image->stacks + 1) * sizeof *s);
    *sites = s;
    if (!s)
        return -1;
    for (uint32_t i = 0; i <= image->stacks; i++)
        if (by_stack[i].minor || by_stack[i].major)
            s[n++] = (struct fault_site){site_of(names, i, all_frames), by_stack[i]};
    if (n > 1)
        qsort(s, n, sizeof *s, by_frame);
    for (size_t i = 0; i < n; i++) {
        if (kept && s[kept - 1].frame == s[i].frame) {
            s[kept - 1].count.minor += s[i].count.minor;
            s[kept - 1].count.major += s[i].count.major;
        } else
            s[kept++] = s[i];
    }
    if (kept > 1)
        qsort(s, kept, sizeof *s, by_faults);
    return names_failed(names) ? -1 : (long)kept;
}

/* A line for each of the first call sites. */
static int sites_text(const struct page *p, const struct trace_image *image,
                      const struct fault_count *by_stack, struct names *names,
                      const struct report_options *o, struct error *err)
{
    struct fault_site *sites = NULL;
    struct buffer b = {0};
    const long top = o->top ? (long)o->top : 10;
    const long count = sites_of(image, by_stack, names, o->all_frames, &sites);
    for (long i = 0; i < count && i < top; i++) {
        fault_line(&b, &sites[i].count);
        buffer_append_text(&b, "   ");
        if (sites[i].frame == UINT32_MAX)
            buffer_append_text(&b, "(no stack recorded)");
        else
            page_frame(p, &b, names_frame(names, sites[i].frame),
                       p->columns > 28 ? p->columns - 28 : 0);
        page_line(p, &b);
    }
    if (count > top) {
        buffer_printf(&b, "%25s   and %ld more call sites (-n shows more)", "", count - top);
        page_line(p, &b);
    }
    free(sites);
    buffer_release(&b);
    return count < 0 ? error_memory_for(err, "the call sites of faults") : 0;
}

static int faults_text(const struct page *p, const struct trace_image *image, struct names *names,
                       const struct report_options *o, struct error *err)
{
    static const struct {
        enum mlw_place place;
        const char *text;
    } places[] = {
        {MLW_PLACE_BLOCK, "in blocks, by the call site that allocated them:"},
        {MLW_PLACE_MAPPED, "in mappings of the program's own, by the call site that made them:"},
        {MLW_PLACE_HEAP, "in the heap, in no block"},
        {MLW_PLACE_ANONYMOUS, "in other anonymous memory: variables, mappings of libraries"},
        {MLW_PLACE_STACK, "in the stack"},
        {MLW_PLACE_FILE, "in files: code and data of the program and its libraries"},
        {MLW_PLACE_RECORDER, "in memory of the recorder"},
        {MLW_PLACE_UNKNOWN, "elsewhere: the map of the process was being changed"},
    };
    struct fault_sums sums;
    struct buffer b = {0};
    int status = 0;
    if (fault_sums_of(&sums, image, o->select.from_ns, o->select.to_ns, err)) {
        fault_sums_release(&sums);
        return -1;
    }
    buffer_printf(&b, "Page faults: %s minor, %s major", COUNT(sums.all.minor),
                  COUNT(sums.all.major));
    if (sums.access[MLW_ACCESS_COPY].minor)
        buffer_printf(&b, "; %s copied on write", COUNT(sums.access[MLW_ACCESS_COPY].minor));
    page_heading(p, "%s", buffer_text(&b));
    buffer_clear(&b);
    buffer_append_text(&b, "         minor    major");
    page_line(p, &b);
    for (size_t i = 0; i < sizeof places / sizeof *places && !status; i++) {
        const enum mlw_place place = places[i].place;
        if (!sums.place[place].minor && !sums.place[place].major)
            continue;
        fault_line(&b, &sums.place[place]);
        buffer_append_text(&b, places[i].text);
        page_line(p, &b);
        if (place == MLW_PLACE_BLOCK || place == MLW_PLACE_MAPPED)
            status = sites_text(p, image, place == MLW_PLACE_BLOCK ? sums.block : sums.mapping,
                                names, o, err);
    }
    fault_sums_release(&sums);
    buffer_release(&b);
    return status;
}

static void levels_text(const struct page *p, const struct trace_image *image)
{
    const struct trace_level *l = level_peak(image);
    struct buffer b = {0};
    page_heading(p, "Resident size, as the kernel counted it");
    if (!l) {
        page_right(&b, "0", 14);
        buffer_append_text(&b, "  changes were seen");
        page_line(p, &b);
        return;
    }
    buffer_printf(&b, "%14s", SIZE(level_resident(l)));
    uint64_t after = l->time_ns > image->start_ns ? l->time_ns - image->start_ns : 0;
    buffer_printf(&b, "  at most, %s after the start: %s anonymous, %s of files", TIME(after),
                  SIZE(l->anonymous), SIZE(l->file));
    if (l->shared)
        buffer_printf(&b, ", %s shared", SIZE(l->shared));
    if (l->swapped)
        buffer_printf(&b, "; %s swapped out", SIZE(l->swapped));
    page_wrap(p, &b, 16);
    const struct trace_level *last = &image->levels[image->level_count - 1];
    buffer_printf(&b, "%14s  at the last update; %s updates recorded", SIZE(level_resident(last)),
                  COUNT(image->level_count));
    page_wrap(p, &b, 16);
}

/* Events of a kind, added up by what they are. */
static void moments_text(const struct page *p, const struct trace_image *image, unsigned kind,
                         const char *title, const struct report_options *o)
{
    struct buffer b = {0};
    uint64_t counts[256] = {0}, pages[256] = {0}, ns[256] = {0}, all = 0;
    const struct trace_moment *of[256] = {NULL};
    for (uint32_t i = 0; i < image->moment_count; i++) {
        const struct trace_moment *m = &image->moments[i];
        if (m->kind != kind || !selection_has_time(&o->select, m->time_ns))
            continue;
        of[m->what] = m;
        counts[m->what]++;
        pages[m->what] += (uint64_t)m->value[0];
        ns[m->what] += (uint64_t)m->value[1];
        all++;
    }
    page_heading(p, "%s: %s events", title, COUNT(all));
    for (unsigned what = 0; what < 256; what++) {
        if (!of[what])
            continue;
        buffer_printf(&b, "%14s  %s", COUNT(counts[what]), moment_name(of[what]));
        if (kind != MLW_KERNEL_ARENA && pages[what])
            buffer_printf(&b, ", %s pages", COUNT(pages[what]));
        if (kind != MLW_KERNEL_ARENA && ns[what])
            buffer_printf(&b, ", waited %s", TIME(ns[what]));
        page_line(p, &b);
    }
    buffer_release(&b);
}

int section_kernel(const struct page *p, const struct trace_image *image, uint32_t kinds,
                   struct names *names, const struct report_options *o, struct error *err)
{
    if (!kernel_shown(o))
        return 0;
    if (kinds & 1u << MLW_KERNEL_FAULT && faults_text(p, image, names, o, err))
        return -1;
    if (kinds & 1u << MLW_KERNEL_LEVEL)
        levels_text(p, image);
    if (kinds & 1u << MLW_KERNEL_ARENA)
        moments_text(p, image, MLW_KERNEL_ARENA, "glibc's allocator from inside", o);
    if (kinds & 1u << MLW_KERNEL_SWAP)
        moments_text(p, image, MLW_KERNEL_SWAP, "Pages from and to swap", o);
    if (kinds & 1u << MLW_KERNEL_RECLAIM)
        moments_text(p, image, MLW_KERNEL_RECLAIM, "Waiting for pages to be reclaimed", o);
    return 0;
}

/* ---- JSON ---- */

static void json_counts(struct json *j, const struct fault_count *c)
{
    table_fields(j, TABLE(report_fault_columns), c);
}

static void json_faults(struct json *j, const struct fault_sums *sums)
{
    json_open_object(j, "page_faults");
    json_counts(j, &sums->all);
    json_open_array(j, "places");
    for (unsigned i = 0; i < MLW_PLACES; i++) {
        if (!sums->place[i].minor && !sums->place[i].major)
            continue;
        json_open_object(j, NULL);
        json_text(j, "place", place_name(i));
        json_counts(j, &sums->place[i]);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "accesses");
    for (unsigned i = 0; i < MLW_ACCESSES; i++) {
        if (!sums->access[i].minor && !sums->access[i].major)
            continue;
        json_open_object(j, NULL);
        json_text(j, "access", access_name(i));
        json_counts(j, &sums->access[i]);
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
}

static void json_level(struct json *j, const struct trace_image *image, const struct trace_level *l)
{
    json_open_object(j, NULL);
    table_fields(j, &(struct table){.columns = report_level_columns, .start_ns = image->start_ns},
                 l);
    json_number(j, "resident_bytes", level_resident(l));
    json_close_object(j);
}

/* Writes the largest of each stretch of a long series, so that peaks stay. */
static void json_levels(struct json *j, const struct trace_image *image)
{
    const uint32_t step = image->level_count / 1000 + 1;
    json_open_array(j, "resident_exact");
    for (uint32_t i = 0; i < image->level_count; i += step)
        json_level(j, image, level_largest(image, i, step));
    json_close_array(j);
    const struct trace_level *peak = level_peak(image);
    if (peak)
        json_number(j, "peak_resident_bytes", level_resident(peak));
    else
        json_null(j, "peak_resident_bytes");
}

static void json_moments(struct json *j, const struct trace_image *image,
                         const struct report_options *o)
{
    json_open_array(j, "kernel_events");
    for (uint32_t i = 0; i < image->moment_count; i++) {
        const struct trace_moment *m = &image->moments[i];
        if (!selection_has_time(&o->select, m->time_ns))
            continue;
        json_open_object(j, NULL);
        json_signed(j, "time_ns", (int64_t)(m->time_ns - image->start_ns));
        json_number(j, "tid", m->tid);
        json_text(j, "kind", kernel_kind_name(m->kind));
        json_text(j, "event", moment_name(m));
        if (m->kind == MLW_KERNEL_ARENA) {
            json_open_array(j, "arguments");
            for (unsigned k = 0; k < moment_values(m); k++)
                json_signed(j, NULL, m->value[k]);
            json_close_array(j);
        } else {
            json_number(j, "pages", (uint64_t)m->value[0]);
            json_number(j, "waited_ns", (uint64_t)m->value[1]);
        }
        json_close_object(j);
    }
    json_close_array(j);
}

void json_kernel(struct json *j, const struct trace_image *image, uint32_t kinds,
                 const struct fault_sums *sums, const struct report_options *o)
{
    const uint32_t moments =
        1u << MLW_KERNEL_ARENA | 1u << MLW_KERNEL_SWAP | 1u << MLW_KERNEL_RECLAIM;
    if (!kernel_shown(o))
        return;
    if (kinds & 1u << MLW_KERNEL_FAULT)
        json_faults(j, sums);
    if (kinds & 1u << MLW_KERNEL_LEVEL)
        json_levels(j, image);
    if (kinds & moments)
        json_moments(j, image, o);
}

int json_page_timeline(struct json *j, const struct model *m, uint32_t kinds,
                       const struct report_options *o, struct error *err)
{
    const bool faults = kinds & 1u << MLW_KERNEL_FAULT, swap = kinds & 1u << MLW_KERNEL_SWAP;
    const struct trace_image *image = model_image(m);
    struct fault_slices slices;
    if ((!faults && !swap) || !kernel_shown(o))
        return 0;
    model_timeline(m, &slices.start_ns, &slices.width_ns, &slices.bins);
    struct fault_slice *series = calloc(slices.bins + 1, sizeof *series);
    if (!series)
        return error_memory_for(err, "the faults of a timeline");
    if (slices.bins)
        fault_series(series, &slices, image, o->select.from_ns, o->select.to_ns);
    json_open_array(j, "page_timeline");
    for (size_t i = 0; i < slices.bins; i++) {
        json_open_object(j, NULL);
        json_number(j, "time_ns", slices.start_ns + (i + 1) * slices.width_ns - image->start_ns);
        if (faults) {
            json_number(j, "minor_faults", series[i].faults.minor);
            json_number(j, "major_faults", series[i].faults.major);
        }
        if (swap)
            json_number(j, "swapped_in_pages", series[i].swapped_in_pages);
        json_close_object(j);
    }
    json_close_array(j);
    free(series);
    return 0;
}

void json_kernel_kinds(struct json *j, const struct trace_info *info)
{
    if (!info->kernel_kinds)
        return;
    json_open_object(j, "kernel");
    json_open_array(j, "kinds");
    for (unsigned kind = 1; kind < MLW_KERNEL_KINDS; kind++)
        if (info->kernel_kinds & 1u << kind)
            json_text(j, NULL, kernel_kind_name(kind));
    json_close_array(j);
    json_number(j, "lost_events", info->lost_kernel_events);
    json_close_object(j);
}

/* ---- the dump ---- */

const char *kernel_words(const struct trace_image *image, enum kernel_side side, uint32_t index,
                         struct buffer *text, uint32_t *tid, uint32_t *stack)
{
    *stack = 0;
    *tid = image->pid;
    if (side == KERNEL_FAULT) {
        const struct trace_fault *f = &image->faults[index];
        *tid = f->tid;
        *stack = f->stack;
        buffer_printf(text, "0x%llx, %s, %s", (ull)f->address,
                      access_name(f->what & ~MLW_FAULT_MAJOR), place_name(f->place));
        return f->what & MLW_FAULT_MAJOR ? "major-fault" : "minor-fault";
    }
    if (side == KERNEL_LEVEL) {
        const struct trace_level *l = &image->levels[index];
        buffer_printf(text, "%s (anonymous %llu, files %llu, shared %llu, swapped %llu bytes)",
                      SIZE(level_resident(l)), (ull)l->anonymous, (ull)l->file, (ull)l->shared,
                      (ull)l->swapped);
        return "resident";
    }
    const struct trace_moment *m = &image->moments[index];
    *tid = m->tid;
    for (unsigned i = 0; i < moment_values(m) && m->kind == MLW_KERNEL_ARENA; i++)
        buffer_printf(text, m->value[i] >= 1 << 30 ? "%s0x%llx" : "%s%lld", i ? ", " : "",
                      (long long)m->value[i]);
    if (m->kind != MLW_KERNEL_ARENA && m->value[0])
        buffer_printf(text, "%lld pages%s", (long long)m->value[0], m->value[1] ? ", " : "");
    if (m->kind != MLW_KERNEL_ARENA && m->value[1])
        buffer_printf(text, "waited %s", TIME((uint64_t)m->value[1]));
    return moment_name(m);
}

void kernel_fields(const struct trace_image *image, enum kernel_side side, uint32_t index,
                   struct buffer *text)
{
    if (side == KERNEL_FAULT) {
        const struct trace_fault *f = &image->faults[index];
        buffer_printf(text, ",\"address\":\"0x%llx\",\"access\":\"%s\",\"place\":\"%s\"",
                      (ull)f->address, access_name(f->what & ~MLW_FAULT_MAJOR),
                      place_name(f->place));
        if (f->stack)
            buffer_printf(text, ",\"stack\":%u", f->stack);
    } else if (side == KERNEL_LEVEL) {
        const struct trace_level *l = &image->levels[index];
        buffer_printf(text,
                      ",\"resident_bytes\":%llu,\"anonymous_bytes\":%llu,\"file_bytes\":%llu,"
                      "\"shared_bytes\":%llu,\"swapped_bytes\":%llu",
                      (ull)level_resident(l), (ull)l->anonymous, (ull)l->file, (ull)l->shared,
                      (ull)l->swapped);
    } else {
        const struct trace_moment *m = &image->moments[index];
        buffer_append_text(text, ",\"arguments\":[");
        for (unsigned i = 0; i < moment_values(m); i++)
            buffer_printf(text, "%s%lld", i ? "," : "", (long long)m->value[i]);
        buffer_append_text(text, "]");
    }
}
