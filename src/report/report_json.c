/* report_json.c - the report as one JSON document; its keys are in mallow-report(1).
 *
 * Written image by image as the pass goes on: memory is that of one image. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/sites.h"
#include "base/json.h"
#include "frames/known.h"
#include "frames/pass.h"
#include "report/columns.h"
#include "report/explained.h"
#include "show/frame_texts.h"
#include "report/gate.h"
#include "report/json_process.h"
#include "report/kernel.h"
#include "report/routes.h"
#include "report/warnings.h"

unsigned report_columns(void) { return model_columns(); }

/* Elements of a list that grows with the number of call sites; UINT32_MAX is all. */
static uint64_t json_limit(const struct report_options *o)
{
    return o->top ? o->top : REPORT_JSON_SITES;
}

/* A recursion that allocates at each of its levels has as many sites as levels, and their frames
 * together are the square of that: gigabytes for 10,000. So stacks deeper than DEEP_FRAMES share an
 * allowance; when it is used up, a deep stack keeps its two ends and says how many frames are left
 * out between them. The deepest stack is always whole. */
#define DEEP_FRAMES    256u
#define DEEP_ALLOWANCE 100000u
#define DEEP_ENDS      64u

static size_t site_depth(const struct sites *sites, uint32_t tip)
{
    size_t n = 0;
    for (uint32_t at = tip; at; at = sites->parent[at])
        n++;
    return n;
}

/* The index of the site with the most frames, of the first `count`. */
static size_t deepest_site(const struct sites *sites, size_t count)
{
    size_t best = 0, most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = site_depth(sites, sites->items[i].tip);
        if (n > most) {
            most = n;
            best = i;
        }
    }
    return best;
}

/* frames[] of a site, and omitted_frames when not all are there. */
static bool write_frames(struct json *j, const struct sites *sites, uint32_t tip, bool whole,
                         size_t *allowance, struct frame_texts *texts, const struct names *names)
{
    size_t depth = site_depth(sites, tip), at_frame = 0;
    if (depth <= DEEP_FRAMES)
        whole = true;
    else if (!whole && *allowance >= depth) {
        *allowance -= depth;
        whole = true;
    }
    json_open_array(j, "frames");
    for (uint32_t at = tip; at; at = sites->parent[at], at_frame++) {
        uint32_t id = sites->frame[at];
        if (at != tip && names_frame(names, id)->hidden)
            continue;
        if (!whole && at_frame >= DEEP_ENDS && at_frame < depth - DEEP_ENDS)
            continue;
        if (!frame_texts_frame(j, texts, names, id))
            return false;
    }
    json_close_array(j);
    if (!whole) {
        json_number(j, "omitted_frames", depth - 2 * DEEP_ENDS);
        json_number(j, "omitted_after", DEEP_ENDS);
    }
    return true;
}

/* The suppression that matches a site. stack: room for its frames, used again. */
static struct suppression *known_site(struct known *known, const struct sites *sites, uint32_t tip,
                                      struct buffer *stack)
{
    buffer_clear(stack);
    for (uint32_t at = tip; at; at = sites->parent[at])
        buffer_append(stack, &sites->frame[at], sizeof *sites->frame);
    return known_frames(known, (const uint32_t *)(const void *)stack->data,
                        stack->size_bytes / sizeof *sites->frame);
}

/* Faults in blocks, by the tip of the site that allocated them; NULL without memory. */
static struct fault_count *faults_by_tip(const struct sites *sites, const struct fault_sums *faults,
                                         uint32_t stacks)
{
    struct fault_count *by_tip = calloc((size_t)sites->frame_count + 1, sizeof *by_tip);
    for (uint32_t i = 0; by_tip && i <= stacks; i++) {
        const uint32_t tip = sites->tip_of[i];
        by_tip[tip].minor += faults->block[i].minor;
        by_tip[tip].major += faults->block[i].major;
    }
    return by_tip;
}

/* The figures of a site, or of several together. faults: NULL when they were not recorded. */
static void write_figures(struct json *j, const struct figures *f, const struct fault_count *faults)
{
    report_figures_json(j, f);
    if (faults) {
        json_number(j, "minor_faults", faults->minor);
        json_number(j, "major_faults", faults->major);
    }
}

/* How many sites follow the first `shown`, and their figures. by_tip: as above. */
static void write_left_out(struct json *j, const struct sites *sites, size_t shown,
                           const struct fault_count *by_tip)
{
    struct figures sum = {0};
    struct fault_count faults = {0};
    for (size_t i = shown; i < sites->count; i++) {
        figures_join(&sum, &sites->items[i].figures);
        if (by_tip) {
            faults.minor += by_tip[sites->items[i].tip].minor;
            faults.major += by_tip[sites->items[i].tip].major;
        }
    }
    json_number(j, "sites_total", sites->count);
    json_number(j, "sites_left_out", sites->count - shown);
    json_open_object(j, "left_out");
    write_figures(j, &sum, by_tip ? &faults : NULL);
    json_close_object(j);
}

/* The findings that writing a process needs besides its model. */
struct findings {
    struct sites sites;
    struct heap_view heap;
    struct explained_list explained;
    struct routes routes;
};

static void findings_release(struct findings *f)
{
    sites_release(&f->sites);
    heap_release(&f->heap);
    explained_release(&f->explained);
    routes_release(&f->routes);
}

/* faults: NULL when they were not recorded. */
static int write_sites(struct json *j, const struct model *m, const struct sites *sites,
                       struct names *names, struct frame_texts *texts,
                       const struct report_options *o, struct suppressions *suppressions,
                       const struct fault_sums *faults, struct error *err)
{
    struct known known = {.suppressions = suppressions, .names = names};
    struct buffer stack = {0};
    struct fault_count *by_tip =
        faults ? faults_by_tip(sites, faults, model_image(m)->stacks) : NULL;
    bool failed = names_failed(names) || (faults && !by_tip);
    const uint64_t limit = json_limit(o);
    const size_t shown = sites->count < limit ? sites->count : (size_t)limit;
    size_t deepest = deepest_site(sites, shown), allowance = DEEP_ALLOWANCE;
    json_open_array(j, "sites");
    for (size_t i = 0; i < sites->count && !failed; i++) {
        const struct site *site = &sites->items[i];
        const struct figures *f = &site->figures;
        struct suppression *hides = NULL;
        if (suppressions && f->end_blocks) {
            hides = known_site(&known, sites, site->tip, &stack);
            if (hides)
                known_count(&known, hides, f->end_blocks, f->end_bytes);
        }
        if (i >= shown)
            continue;
        json_open_object(j, NULL);
        failed = !write_frames(j, sites, site->tip, i == deepest, &allowance, texts, names);
        json_number(j, "call_site", names_tip(names, sites, site->tip));
        write_figures(j, f, by_tip ? &by_tip[site->tip] : NULL);
        if (suppressions)
            json_bool(j, "suppressed", hides != NULL);
        json_close_object(j);
    }
    json_close_array(j);
    write_left_out(j, sites, shown, by_tip);
    if (o->frame_table)
        frame_texts_table(j, texts);
    if (suppressions) {
        json_number(j, "suppressed_end_live_bytes", known.bytes);
        json_number(j, "suppressed_end_live_blocks", known.blocks);
    }
    known_release(&known);
    buffer_release(&stack);
    free(by_tip);
    return failed ? error_memory_for(err, "the names of call sites") : 0;
}

static int by_peak(const void *a, const void *b)
{
    const struct mapped_stack *x = *(const struct mapped_stack *const *)a,
                              *y = *(const struct mapped_stack *const *)b;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes < y->peak_bytes ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* The stacks that mapped anything, those with most at once first; freed by the caller. NULL without
 * memory. */
static const struct mapped_stack **mapping_stacks(const struct mapped *mapped, size_t *n)
{
    const struct mapped_stack *stacks = mapped_stacks(mapped, n);
    const struct mapped_stack **order = malloc((*n + 1) * sizeof *order);
    for (size_t i = 0; order && i < *n; i++)
        order[i] = &stacks[i];
    if (order && *n)
        qsort(order, *n, sizeof *order, by_peak);
    return order;
}

int json_mapped(struct json *j, const struct model *m, struct names *names, uint64_t limit,
                struct error *err)
{
    const struct mapped *mapped = model_mapped(m);
    const uint64_t start = model_image(m)->start_ns, peak = mapped_peak_time_ns(mapped);
    struct frame_texts texts = {0};
    size_t sites;
    const struct mapped_stack **order = mapping_stacks(mapped, &sites);
    bool failed = !order;
    json_open_object(j, "mapped");
    json_number(j, "peak_bytes", mapped_peak_bytes(mapped));
    json_number(j, "peak_time_ns", peak > start ? peak - start : 0);
    json_number(j, "end_bytes", mapped_live_bytes(mapped));
    json_open_array(j, "sites");
    for (size_t i = 0; i < sites && i < limit && !failed; i++) {
        const struct mapped_stack *s = order[i];
        json_open_object(j, NULL);
        failed = !frame_texts_stack(j, s->stack, &texts, names);
        table_fields(j, TABLE(report_mapping_columns), s);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "sites_total", sites);
    json_close_object(j);
    free(order);
    frame_texts_release(&texts);
    return failed ? error_memory_for(err, "the names of mappings") : 0;
}

static void write_free(struct json *j, const struct heap_view *h, enum pinned_kind kind)
{
    static const char *const keys[PINNED_KINDS] = {"main", "arenas", "pages"};
    const struct table free = {.columns = report_free_columns,
                               .with = kind != PINNED_OTHER ? REPORT_GLIBC : REPORT_OTHER};
    const struct heap_free f = heap_free_of(h, kind);
    json_open_object(j, keys[kind]);
    table_fields(j, TABLE(report_heaps_columns), &h->pinned.sum[kind]);
    table_fields(j, &free, &f);
    json_close_object(j);
}

static void write_heaps(struct json *j, const struct pinned *p, uint64_t limit)
{
    json_open_array(j, "heaps");
    for (size_t i = 0; i < p->count && i < limit; i++) {
        json_open_object(j, NULL);
        table_fields(j, TABLE(report_heap_columns), &p->heaps[i]);
        json_bool(j, "main", p->heaps[i].kind == PINNED_MAIN);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "heaps_total", p->count);
}

int json_heap(struct json *j, const struct heap_view *h, struct names *names, uint64_t limit,
              struct error *err)
{
    const struct trace_image *image = names_image(names);
    struct frame_texts texts = {0};
    bool failed = false;
    size_t n;
    if (!h->known) {
        json_null(j, "heap_at_peak");
        return 0;
    }
    uint32_t *keepers = heap_keepers(&h->pinned, &n);
    if (!keepers)
        return error_memory_for(err, "who keeps the heap");
    json_open_object(j, "heap_at_peak");
    json_signed(j, "time_ns", (int64_t)(h->pinned.time_ns - image->start_ns));
    json_number(j, "page_bytes", PINNED_PAGE_BYTES);
    for (unsigned kind = 0; kind < PINNED_KINDS; kind++)
        if (h->pinned.glibc == (kind != PINNED_OTHER))
            write_free(j, h, (enum pinned_kind)kind);
    write_heaps(j, &h->pinned, limit);
    json_open_array(j, "sites");
    for (size_t i = 0; i < n && !failed && i < limit; i++) {
        const struct pinned_stack *s = &h->pinned.stacks.of[keepers[i]];
        json_open_object(j, NULL);
        failed = !frame_texts_stack(j, s->stack, &texts, names);
        table_fields(j, TABLE(report_keeper_columns), s);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "sites_total", n);
    json_close_object(j);
    free(keepers);
    frame_texts_release(&texts);
    return failed ? error_memory_for(err, "the names of call sites") : 0;
}

static int write_process(struct json *j, const struct model *m, struct names *names,
                         const struct findings *found, const struct report_options *o,
                         uint32_t kernel_kinds, struct suppressions *suppressions,
                         struct error *err)
{
    struct fault_sums faults;
    struct frame_texts texts = {.table = o->frame_table};
    const bool has_faults = kernel_kinds & 1u << MLW_KERNEL_FAULT && kernel_shown(o);
    if (fault_sums_of(&faults, model_image(m), o->select.from_ns, o->select.to_ns, err)) {
        fault_sums_release(&faults);
        return -1;
    }
    json_open_object(j, NULL);
    json_process(j, m);
    json_marks(j, model_image(m));
    json_kernel(j, model_image(m), kernel_kinds, &faults, o);
    int status = json_page_timeline(j, m, kernel_kinds, o, err);
    if (!status && !model_filtered(m))
        status = json_mapped(j, m, names, json_limit(o), err);
    if (!status)
        status = json_routes(j, &found->routes, names, json_limit(o), err);
    if (!status)
        status = json_explained(j, m, &found->explained, &texts, names, o->top, err);
    if (!status && o->heap)
        status = json_heap(j, &found->heap, names, json_limit(o), err);
    if (!status)
        json_text(j, "source_root", names_source_root(names));
    if (!status)
        status = write_sites(j, m, &found->sites, names, &texts, o, suppressions,
                             has_faults ? &faults : NULL, err);
    frame_texts_release(&texts);
    json_close_object(j);
    fault_sums_release(&faults);
    return status;
}

static void write_suppressions(struct json *j, const struct suppressions *s)
{
    table_json(j, "suppressions", TABLE(report_suppression_columns), s->items, s->count,
               sizeof *s->items);
    json_number(j, "unused_suppressions", suppressions_unused(s));
}

/* The facts that hold for all processes of a document. */
struct whole {
    const struct report_options *o;
    struct selection selection;
    struct suppressions *suppressions; /* NULL: none were asked for */
    uint64_t events, lost;
};

static int find_sites(struct sites *sites, const struct model *m, struct names *names,
                      const struct report_options *o, struct error *err)
{
    struct frame_source source = names_source(names, true);
    source.hidden = NULL; /* suppressions know whole stacks */
    return sites_build_top(sites, m, &source, o->by, json_limit(o), err);
}

static int find_all(struct trace *t, uint32_t i, const struct model *m, struct names *names,
                    const struct report_options *o, struct findings *found, struct error *err)
{
    if (o->heap && heap_find(t, i, m, &found->heap, err))
        return -1;
    if (!model_filtered(m) && routes_read(&found->routes, t, i, err))
        return -1;
    if (!trace_wants_threads(t, i)) /* names of its own would cost a small process more than that */
        return find_sites(&found->sites, m, names, o, err)
                   ? -1
                   : explained_find(t, i, m, o, names, &found->explained, err);
    struct explaining *e = explaining_begin(t, i, m, o, names, &found->explained, err);
    if (!e)
        return -1;
    if (find_sites(&found->sites, m, names, o, err)) {
        explaining_drop(e);
        return -1;
    }
    return explaining_end(e, err);
}

static int one_image(struct json *j, struct trace *t, uint32_t i, struct symbols *symbols,
                     struct whole *w, struct error *err)
{
    struct pass p;
    int status = pass_begin(&p, t, i, &w->selection, symbols, &w->o->look, err);
    if (!status)
        status = gate_add(w->o->gate, p.model, p.names, w->o, err);
    if (!status) {
        w->events += model_totals(p.model)->events;
        w->lost += p.image->lost_calls;
        struct findings found = {0};
        status = find_all(t, i, p.model, p.names, w->o, &found, err);
        if (!status)
            status = write_process(j, p.model, p.names, &found, w->o, trace_info(t)->kernel_kinds,
                                   w->suppressions, err);
        findings_release(&found);
    }
    pass_end(&p);
    return status;
}

static void write_limit(struct json *j, const char *key, uint64_t bytes)
{
    if (bytes && bytes != MLW_NO_LIMIT)
        json_number(j, key, bytes);
    else if (bytes)
        json_null(j, key);
}

/* null: there is no limit; an unknown one is left out. */
static void write_limits(struct json *j, const struct mlw_limits *l)
{
    if (!l->memory && !l->address && !l->data)
        return;
    json_open_object(j, "limits");
    write_limit(j, "memory_bytes", l->memory);
    write_limit(j, "address_space_bytes", l->address);
    write_limit(j, "data_bytes", l->data);
    json_close_object(j);
}

int report_json(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *o, struct error *err)
{
    const struct trace_info *info = trace_info(t);
    struct json j = {.out = out};
    struct suppressions suppressions = {0};
    struct whole whole = {.o = o, .suppressions = o->suppressions ? &suppressions : NULL};
    struct warnings w = {0};
    int status = 0;
    struct explain_wish wish;
    if (explained_wish(o->at, info, &wish, err) ||
        selection_open(&whole.selection, &o->select, info, err))
        return -1;
    if (o->suppressions && suppressions_read(&suppressions, o->suppressions, err)) {
        selection_close(&whole.selection);
        return -1;
    }
    json_begin(&j);
    json_text(&j, "file", path);
    json_number(&j, "file_bytes", info->file_bytes);
    json_number(&j, "start_realtime_ns", info->start_realtime_ns);
    json_text(&j, "host", info->host);
    json_text(&j, "recorded_by", info->tool);
    write_limits(&j, &info->limits);
    json_kernel_kinds(&j, info);
    json_filter(&j, &whole.selection);
    json_open_array(&j, "processes");
    for (uint32_t i = 0; i < info->image_count && !status; i++) {
        if (selection_has_image(&whole.selection, &info->images[i]))
            status = one_image(&j, t, i, symbols, &whole, err);
    }
    json_close_to(&j, 1);
    if (status)
        json_text(&j, "error", err->text);
    json_number(&j, "events", whole.events);
    json_number(&j, "lost_events", whole.lost);
    json_number(&j, "damaged_bytes", info->damaged_bytes);
    json_number(&j, "damaged_blocks", info->damaged_runs); /* known once all was read */
    warn_about_file(&w, info);
    json_warnings(&j, &w);
    if (o->suppressions)
        write_suppressions(&j, &suppressions);
    if (symbols)
        json_problems(&j, symbols, SIZE_MAX);
    json_close_object(&j);
    json_end(&j);
    warnings_release(&w);
    suppressions_release(&suppressions);
    selection_close(&whole.selection);
    return status;
}
