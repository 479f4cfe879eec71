/* columns.c - which columns the tables of a recording have; see columns.h. In text they stand in
 * this order. */
#include "report/columns.h"

#include <stdlib.h>

#include "analyse/faults.h"
#include "analyse/resident.h"
#include "analyse/suppress.h"
#include "report/heap.h"

struct report_listed report_listed(const struct trace_image *image, const struct model_totals *t)
{
    const bool ended = image->end_ns > image->start_ns;
    return (struct report_listed){.pid = image->pid,
                                  .ppid = image->ppid,
                                  .exe = image->exe ? image->exe : "",
                                  .start_ns = image->start_ns,
                                  .duration_ns = ended ? image->end_ns - image->start_ns : 0,
                                  .events = t->events,
                                  .allocations = t->allocations,
                                  .requested_bytes = t->requested_bytes,
                                  .peak_bytes = t->peak_bytes,
                                  .end_bytes = t->live_bytes,
                                  .temporary = t->temporary};
}

struct report_thread report_thread(const struct model *m, uint32_t index)
{
    const struct trace_thread *t = &model_image(m)->threads[index];
    return (struct report_thread){t->name, index, t->tid, t->lost_calls, model_threads(m)[index]};
}

void report_sizes(const struct model *m, struct report_class of[REPORT_SIZES])
{
    const struct model_count *sizes = model_sizes(m);
    for (unsigned bits = 0; bits < REPORT_SIZES; bits++)
        of[bits] =
            (struct report_class){.least = bits ? (uint64_t)1 << (bits - 1) : 0,
                                  .most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1};
    for (unsigned i = 0; i < MODEL_SIZE_COUNTS; i++) {
        const unsigned bits = i > MODEL_EXACT_SIZES ? i - MODEL_EXACT_SIZES
                              : i                   ? 32u - (unsigned)__builtin_clz(i)
                                                    : 0;
        of[bits].sums.count += sizes[i].count;
        of[bits].sums.bytes += sizes[i].bytes;
    }
}

void report_figures_json(struct json *j, const struct figures *f)
{
    const struct report_figures row = {*f, figures_mean(f)};
    table_fields(j, TABLE(report_figure_columns), &row);
}

static int compare_routes(const void *a, const void *b)
{
    const struct report_route *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    return x->place < y->place ? -1 : 1;
}

size_t report_routes(const struct routes *r, struct report_route list[ROUTES])
{
    uint64_t all[MLW_ROUTE_ENDS + 1] = {0};
    size_t n = 0;
    for (unsigned i = 0; i < ROUTES; i++)
        all[routes_group(i)] += r->of[i].calls;
    for (unsigned i = 0; i < ROUTES; i++) {
        const enum mlw_route_group group = routes_group(i);
        const bool unknown = i == MLW_ROUTE_UNKNOWN || i == ROUTES_FREE_UNKNOWN;
        if (group == MLW_ROUTE_OTHER || (unknown && !r->of[i].calls))
            continue;
        list[n++] = (struct report_route){
            .name = mlw_route_name(unknown ? MLW_ROUTE_UNKNOWN : i),
            .group = group == MLW_ROUTE_MAKES ? "made" : "freed",
            .calls = r->of[i].calls,
            .bytes = r->of[i].bytes,
            .permille = all[group]
                            ? (uint64_t)((double)r->of[i].calls * 1000 / (double)all[group] + .5)
                            : 0,
            .place = i};
    }
    qsort(list, n, sizeof *list, compare_routes);
    return n;
}

/* clang-format off */
#define LISTED(of, member, key, title, width) \
    COLUMN_WIDE(struct report_listed, member, of, key, title, 0, width)
const struct column report_listed_columns[] = {
    LISTED(NUMBER, pid, "pid", "pid", 7), LISTED(NUMBER, ppid, "ppid", "parent", 7),
    LISTED(TEXT, exe, "exe", NULL, 0), LISTED(TIME, start_ns, "start_ns", NULL, 0),
    LISTED(COUNT, events, "events", "calls", 11),
    LISTED(COUNT, allocations, "allocations", NULL, 0),
    LISTED(BYTES, requested_bytes, "requested_bytes", NULL, 0),
    LISTED(BYTES, peak_bytes, "peak_live_bytes", "peak", 0),
    LISTED(BYTES, end_bytes, "end_live_bytes", "end", 0),
    LISTED(TIME, duration_ns, "duration_ns", "duration", 0),
    LISTED(COUNT, temporary, "temporary_allocations", NULL, 0), COLUMN_END};

#define IMAGE(of, member, key, flags) COLUMN(struct trace_image, member, of, key, NULL, flags)
const struct column report_image_columns[] = {
    IMAGE(TEXT, comm, "comm", COLUMN_MAY_NULL), IMAGE(FLAG, complete, "complete", 0),
    IMAGE(FLAG, attached, "attached", 0), IMAGE(TEXT, allocator, "allocator", COLUMN_MAY_NULL),
    IMAGE(COUNT, lost_calls, "lost_events", 0), COLUMN_END};

#define TOTAL(of, member, key, flags) COLUMN(struct model_totals, member, of, key, NULL, flags)
const struct column report_totals_columns[] = {
    TOTAL(COUNT, failed_calls, "failed_calls", 0), TOTAL(BYTES, usable_bytes, "usable_bytes", 0),
    TOTAL(COUNT, peak_blocks, "peak_live_blocks", 0), TOTAL(SINCE, peak_time_ns, "peak_time_ns", 0),
    TOTAL(COUNT, live_blocks, "end_live_blocks", 0),
    TOTAL(BYTES, carried_bytes, "inherited_bytes", 0),
    TOTAL(COUNT, carried_blocks, "inherited_blocks", 0),
    TOTAL(COUNT, cross_thread_frees, "cross_thread_frees", 0),
    TOTAL(COUNT, unknown_frees, "unknown_frees", 0),
    TOTAL(COUNT, before_frees, "before_frees", REPORT_ATTACHED),
    TOTAL(COUNT, null_frees, "null_frees", 0), TOTAL(COUNT, inferred_frees, "inferred_frees", 0),
    TOTAL(BYTES, mapped_bytes, "mapped_bytes", 0),
    TOTAL(BYTES, unmapped_bytes, "unmapped_bytes", 0), COLUMN_END};

#define THREAD(of, member, key, title, width) \
    COLUMN_WIDE(struct report_thread, member, of, key, title, 0, width)
const struct column report_thread_columns[] = {
    THREAD(NUMBER, tid, "tid", "tid", 9), THREAD(TEXT, name, "name", NULL, 0),
    THREAD(COUNT, sums.calls, "calls", "calls", 13),
    THREAD(COUNT, sums.allocations, "allocations", NULL, 0),
    THREAD(BYTES, sums.allocated_bytes, "allocated_bytes", "allocated", 0),
    THREAD(BYTES, sums.live_bytes, "end_live_bytes", "live end", 0),
    THREAD(COUNT, sums.releases, "releases", NULL, 0),
    THREAD(COUNT, sums.foreign_frees, "releases_of_other_threads_blocks", "of others", 10),
    THREAD(COUNT, sums.freed_elsewhere, "released_by_other_threads", "by others", 10),
    THREAD(COUNT, sums.temporary, "temporary_allocations", NULL, 0),
    THREAD(COUNT, lost_calls, "lost_calls", NULL, 0), COLUMN_END};

#define CLASS(of, member, key, flags) COLUMN(struct report_class, member, of, key, NULL, flags)
const struct column report_size_columns[] = {
    CLASS(BYTES, least, "min_bytes", 0), CLASS(BYTES, most, "max_bytes", 0),
    CLASS(COUNT, sums.count, "calls", 0), CLASS(BYTES, sums.bytes, "bytes", 0), COLUMN_END};
const struct column report_lifetime_columns[] = {
    CLASS(TIME, least, "min_ns", 0), CLASS(TIME, most, "max_ns", COLUMN_MAY_NULL),
    CLASS(COUNT, sums.count, "blocks", 0), CLASS(BYTES, sums.bytes, "bytes", 0), COLUMN_END};

#define ROUTE(of, member, key, title) COLUMN(struct report_route, member, of, key, title, 0)
const struct column report_route_columns[] = {
    ROUTE(TEXT, name, "path", NULL), ROUTE(TEXT, group, "of", NULL),
    ROUTE(COUNT, calls, "calls", "calls"), ROUTE(BYTES, bytes, "bytes", "bytes"), COLUMN_END};

#define BIN(of, member) COLUMN(struct model_bin, member, of, #member, NULL, 0)
const struct column report_bin_columns[] = {
    BIN(BYTES, live_bytes), BIN(COUNT, live_blocks), BIN(BYTES, max_live_bytes), BIN(COUNT, events),
    COLUMN_END};

#define SAMPLE(of, member, key) COLUMN(struct mlw_resident, member, of, key, NULL, 0)
const struct column report_sample_columns[] = {
    SAMPLE(CLOCK, clock, "time_ns"), SAMPLE(BYTES, vmsize, "vmsize_bytes"),
    SAMPLE(BYTES, rss, "rss_bytes"), SAMPLE(BYTES, rss_shared, "rss_shared_bytes"), COLUMN_END};

#define REALLOCS(of, member, key) COLUMN(struct model_reallocs, member, of, key, NULL, 0)
const struct column report_realloc_columns[] = {
    REALLOCS(COUNT, resized, "resized"), REALLOCS(COUNT, grown, "grown"),
    REALLOCS(COUNT, shrunk, "shrunk"), REALLOCS(BYTES, kept_bytes, "kept_bytes"),
    REALLOCS(COUNT, chains, "chains"), REALLOCS(COUNT, longest[0].resizes, "longest_chain"),
    COLUMN_END};

#define RESIDENT(of, member, key, flags) COLUMN(struct resident_view, member, of, key, NULL, flags)
const struct column report_resident_columns[] = {
    RESIDENT(CLOCK, time_ns, "time_ns", 0), RESIDENT(BYTES, resident_bytes, "resident_bytes", 0),
    RESIDENT(BYTES, recorder_bytes, "recorder_bytes", 0),
    RESIDENT(BYTES, swapped_bytes, "swapped_bytes", 0),
    RESIDENT(BYTES, live_bytes, "live_bytes", 0), RESIDENT(COUNT, live_blocks, "live_blocks", 0),
    COLUMN_KEY(SIGNED, "above_live_bytes", 0),
    RESIDENT(SIGNED, parts[RESIDENT_ROUNDING], "rounding_bytes", 0),
    RESIDENT(SIGNED, parts[RESIDENT_HEAP_FREE], "heap_and_arenas_free_bytes", REPORT_GLIBC),
    RESIDENT(SIGNED, parts[RESIDENT_MMAPPED], "other_mappings_bytes", REPORT_GLIBC),
    RESIDENT(SIGNED, parts[RESIDENT_ALLOCATOR], "allocator_and_mappings_bytes", REPORT_OTHER),
    RESIDENT(SIGNED, parts[RESIDENT_STACKS], "stacks_bytes", 0),
    RESIDENT(SIGNED, parts[RESIDENT_FILES], "files_bytes", 0),
    RESIDENT(SIGNED, parts[RESIDENT_SHARED], "shared_bytes", 0),
    RESIDENT(SIGNED, parts[RESIDENT_OTHER], "other_bytes", 0), COLUMN_END};

#define MAPPING(of, member, key) COLUMN(struct mapped_stack, member, of, key, NULL, 0)
const struct column report_mapping_columns[] = {
    MAPPING(COUNT, calls, "calls"), MAPPING(BYTES, bytes, "mapped_bytes"),
    MAPPING(BYTES, peak_bytes, "peak_bytes"), MAPPING(BYTES, live_bytes, "end_bytes"), COLUMN_END};

#define HEAP(of, member, key) COLUMN(struct pinned_heap, member, of, key, NULL, 0)
const struct column report_heaps_columns[] = {
    COLUMN(struct pinned_heap, address, COUNT, "heaps", NULL, 0),
    HEAP(COUNT, live_blocks, "live_blocks"), HEAP(BYTES, live_bytes, "live_bytes"),
    HEAP(BYTES, span_bytes, "span_bytes"), COLUMN_END};
const struct column report_heap_columns[] = {
    HEAP(ADDRESS, address, "address"), HEAP(COUNT, live_blocks, "live_blocks"),
    HEAP(BYTES, live_bytes, "live_bytes"), HEAP(BYTES, span_bytes, "span_bytes"),
    HEAP(BYTES, header_bytes, "header_bytes"), HEAP(BYTES, pinned_bytes, "pinned_bytes"),
    HEAP(BYTES, between_bytes, "between_bytes"), HEAP(BYTES, before_bytes, "before_bytes"),
    COLUMN_KEY(FLAG, "main", 0), COLUMN_END};

#define FREE(member, key, flags) COLUMN(struct heap_free, member, SIGNED, key, NULL, flags)
const struct column report_free_columns[] = {
    FREE(pinned_bytes, "pinned_bytes", 0), FREE(free_bytes, "free_bytes", REPORT_GLIBC),
    FREE(header_bytes, "header_bytes", REPORT_GLIBC),
    FREE(between_bytes, "between_bytes", REPORT_GLIBC), FREE(top_bytes, "top_bytes", REPORT_GLIBC),
    COLUMN_END};

#define KEEPER(of, member, key) COLUMN(struct pinned_stack, member, of, key, NULL, 0)
const struct column report_keeper_columns[] = {
    KEEPER(COUNT, live_blocks, "live_blocks"), KEEPER(BYTES, live_bytes, "live_bytes"),
    KEEPER(BYTES, pinned_bytes, "pinned_bytes"), KEEPER(BYTES, below_bytes, "below_bytes"),
    COLUMN_END};
const struct column report_pinning_columns[] = {
    KEEPER(BYTES, pinned_bytes, "free_on_shared_pages_bytes"),
    KEEPER(BYTES, below_bytes, "free_below_bytes"), KEEPER(BYTES, live_bytes, "live_bytes"),
    KEEPER(COUNT, live_blocks, "live_blocks"), COLUMN_END};

#define ARENA(of, member, key, flags) COLUMN(struct pinned_arena, member, of, key, NULL, flags)
const struct column report_arena_columns[] = {
    ARENA(ADDRESS, address, "address", COLUMN_MAY_NULL), ARENA(COUNT, heaps, "heaps", 0),
    ARENA(COUNT, live_blocks, "live_blocks", 0), ARENA(BYTES, live_bytes, "live_bytes", 0),
    ARENA(BYTES, header_bytes, "header_bytes", 0), ARENA(BYTES, cached_bytes, "tcache_bytes", 0),
    ARENA(BYTES, pinned_bytes, "free_on_shared_pages_bytes", 0),
    COLUMN_KEY(BYTES, "free_below_bytes", 0), COLUMN_KEY(BYTES, "extent_bytes", 0),
    COLUMN_KEY(FLAG, "main", 0), COLUMN_KEY(LIST, "threads", 0), COLUMN_END};

#define LEVEL(of, member, key) COLUMN(struct trace_level, member, of, key, NULL, 0)
const struct column report_level_columns[] = {
    LEVEL(CLOCK, time_ns, "time_ns"), LEVEL(BYTES, anonymous, "anonymous_bytes"),
    LEVEL(BYTES, file, "file_bytes"), LEVEL(BYTES, shared, "shared_bytes"),
    LEVEL(BYTES, swapped, "swapped_bytes"), COLUMN_KEY(BYTES, "resident_bytes", 0), COLUMN_END};

#define FAULTS(member) COLUMN(struct fault_count, member, COUNT, #member, NULL, 0)
const struct column report_fault_columns[] = {FAULTS(minor), FAULTS(major), COLUMN_END};

#define SUPPRESSION(of, member) COLUMN(struct suppression, member, of, #member, NULL, 0)
const struct column report_suppression_columns[] = {
    SUPPRESSION(TEXT, pattern), SUPPRESSION(NUMBER, line), SUPPRESSION(COUNT, blocks),
    SUPPRESSION(BYTES, bytes), COLUMN_END};

#define FIGURE(member, of, key) COLUMN(struct report_figures, sums.member, COUNT, key, NULL, 0),
const struct column report_figure_columns[] = {
    SITE_FIGURES(FIGURE) COLUMN(struct report_figures, mean_bytes, BYTES, "mean_bytes", NULL, 0),
    COLUMN_END};
#define GROWTH(member, of, key) COLUMN(struct figures, member, SIGNED, key, NULL, 0),
const struct column report_growth_columns[] = {SITE_FIGURES(GROWTH) COLUMN_END};

/* ---- the schema ---- */

#define KEY(of, key)  COLUMN_KEY(of, key, 0)
#define MAY(of, key)  COLUMN_KEY(of, key, COLUMN_MAY_LACK)
#define NIL(of, key)  COLUMN_KEY(of, key, COLUMN_MAY_NULL)
static const struct column document_keys[] = {
    KEY(TEXT, "file"), KEY(BYTES, "file_bytes"), KEY(TIME, "start_realtime_ns"), NIL(TEXT, "host"),
    NIL(TEXT, "recorded_by"), MAY(TEXT, "error"), KEY(COUNT, "events"), KEY(COUNT, "lost_events"),
    KEY(BYTES, "damaged_bytes"), KEY(COUNT, "damaged_blocks"), KEY(LIST, "warnings"),
    MAY(COUNT, "unused_suppressions"), MAY(LIST, "symbol_problems"), COLUMN_END};
#define LIMIT(key) COLUMN_KEY(BYTES, key, COLUMN_MAY_LACK | COLUMN_MAY_NULL)
static const struct column limit_keys[] = {
    LIMIT("memory_bytes"), LIMIT("address_space_bytes"), LIMIT("data_bytes"), COLUMN_END};
static const struct column kernel_keys[] = {
    KEY(LIST, "kinds"), KEY(COUNT, "lost_events"), COLUMN_END};
static const struct column filter_keys[] = {
    MAY(NUMBER, "pid"), MAY(TIME, "from_ns"), MAY(TIME, "to_ns"), MAY(FLAG, "only_new"),
    MAY(BYTES, "min_bytes"), MAY(BYTES, "max_bytes"), MAY(TIME, "min_lifetime_ns"),
    MAY(TEXT, "thread"), MAY(TEXT, "function"), MAY(TEXT, "module"), MAY(TEXT, "source_file"),
    COLUMN_END};
static const struct column process_keys[] = {
    KEY(LIST, "command"), KEY(TEXT, "name"), NIL(TEXT, "title"), MAY(LIST, "environment"),
    KEY(COUNT, "threads"), KEY(TEXT, "end"), MAY(NUMBER, "signal"), MAY(NUMBER, "exit_status"),
    KEY(TEXT, "stacks_mode"), KEY(LIST, "warnings"), KEY(OBJECT, "calls"), KEY(OBJECT, "failed"),
    KEY(BYTES, "peak_usable_bytes"), MAY(COUNT, "before_blocks"), MAY(BYTES, "before_bytes"),
    KEY(COUNT, "stacks"), NIL(BYTES, "peak_rss_bytes"), NIL(CLOCK, "peak_rss_time_ns"),
    KEY(COUNT, "marks_total"), MAY(BYTES, "peak_resident_bytes"), KEY(TEXT, "source_root"),
    KEY(COUNT, "sites_total"), KEY(COUNT, "sites_left_out"),
    MAY(BYTES, "suppressed_end_live_bytes"), MAY(COUNT, "suppressed_end_live_blocks"), COLUMN_END};
static const struct column unseen_keys[] = {
    KEY(TEXT, "reason"), KEY(TEXT, "module"), KEY(TEXT, "text"), COLUMN_END};
static const struct column time_key[] = {KEY(CLOCK, "time_ns"), COLUMN_END};
static const struct column mark_keys[] = {
    KEY(CLOCK, "time_ns"), MAY(TEXT, "control"), MAY(TEXT, "label"), COLUMN_END};
static const struct column threshold_keys[] = {
    KEY(FLAG, "known"), MAY(TEXT, "why_not"), MAY(BYTES, "contradiction_bytes"),
    MAY(CLOCK, "contradiction_time_ns"), KEY(TEXT, "start"), KEY(FLAG, "fixed"), COLUMN_END};
static const struct column step_keys[] = {KEY(CLOCK, "time_ns"), KEY(BYTES, "bytes"), COLUMN_END};
static const struct column mapped_keys[] = {
    KEY(BYTES, "peak_bytes"), KEY(TIME, "peak_time_ns"), KEY(BYTES, "end_bytes"),
    KEY(COUNT, "sites_total"), COLUMN_END};
static const struct column paths_keys[] = {
    KEY(COUNT, "emptied_fast_bins"), KEY(COUNT, "sites_total"), COLUMN_END};
static const struct column path_site_keys[] = {
    KEY(FRAMES, "frames"), KEY(COUNT, "calls"), KEY(COUNT, "missed_calls"), KEY(OBJECT, "made"),
    KEY(OBJECT, "freed"), COLUMN_END};
static const struct column frames_key[] = {MAY(FRAMES, "frames"), COLUMN_END};
static const struct column heap_keys[] = {
    KEY(CLOCK, "time_ns"), KEY(BYTES, "page_bytes"), KEY(COUNT, "heaps_total"),
    KEY(COUNT, "sites_total"), COLUMN_END};
static const struct column explained_keys[] = {
    KEY(TEXT, "at"), KEY(LIST, "also"), KEY(CLOCK, "time_ns"), NIL(CLOCK, "measured_ns"),
    NIL(BYTES, "rss_bytes"), MAY(BYTES, "swapped_bytes"), MAY(BYTES, "huge_bytes"),
    MAY(BYTES, "hugetlb_bytes"), LIMIT("forked_bytes"), LIMIT("proportional_bytes"),
    COLUMN_KEY(CLOCK, "nearest_measured_ns", COLUMN_MAY_LACK | COLUMN_MAY_NULL),
    KEY(BYTES, "live_bytes"), KEY(COUNT, "live_blocks"), MAY(FLAG, "unknown_version"),
    KEY(COUNT, "pinning_total"), COLUMN_END};
static const struct column part_keys[] = {KEY(TEXT, "name"), KEY(SIGNED, "bytes"), COLUMN_END};
static const struct column advice_keys[] = {
    KEY(TEXT, "text"), NIL(TEXT, "setting"), NIL(BYTES, "saves_bytes"),
    NIL(BYTES, "saves_at_most_bytes"), KEY(FLAG, "measured"), NIL(TEXT, "command"),
    MAY(BYTES, "saves_address_bytes"), MAY(COUNT, "blocks"), MAY(FRAMES, "frames"), COLUMN_END};
static const struct column place_key[] = {KEY(TEXT, "place"), COLUMN_END};
static const struct column access_key[] = {KEY(TEXT, "access"), COLUMN_END};
static const struct column event_keys[] = {
    KEY(CLOCK, "time_ns"), KEY(NUMBER, "tid"), KEY(TEXT, "kind"), KEY(TEXT, "event"),
    MAY(LIST, "arguments"), MAY(COUNT, "pages"), MAY(TIME, "waited_ns"), COLUMN_END};
static const struct column slice_keys[] = {
    KEY(CLOCK, "time_ns"), MAY(COUNT, "minor_faults"), MAY(COUNT, "major_faults"),
    MAY(COUNT, "swapped_in_pages"), COLUMN_END};
static const struct column site_keys[] = {
    KEY(FRAMES, "frames"), MAY(COUNT, "omitted_frames"), MAY(COUNT, "omitted_after"),
    MAY(COUNT, "minor_faults"), MAY(COUNT, "major_faults"), MAY(FLAG, "suppressed"), COLUMN_END};

#define P "processes[]."
const struct schema_part report_schema[] = {
    {"", document_keys}, {"limits", limit_keys}, {"kernel", kernel_keys}, {"filter", filter_keys},
    {"suppressions[]", report_suppression_columns}, {"processes[]", report_listed_columns},
    {"processes[]", report_image_columns}, {"processes[]", report_totals_columns},
    {"processes[]", process_keys}, {P "not_seen[]", unseen_keys},
    {P "size_histogram[]", report_size_columns},
    {P "lifetime_histogram[]", report_lifetime_columns},
    {P "thread_figures[]", report_thread_columns}, {P "reallocs", report_realloc_columns},
    {P "timeline[]", time_key}, {P "timeline[]", report_bin_columns},
    {P "resident[]", report_sample_columns}, {P "resident_at_peak?", report_resident_columns},
    {P "marks[]", mark_keys}, {P "mmap_threshold?", threshold_keys},
    {P "mmap_threshold?.steps[]", step_keys}, {P "mapped", mapped_keys},
    {P "mapped.sites[]", frames_key}, {P "mapped.sites[]", report_mapping_columns},
    {P "paths", paths_keys}, {P "paths.taken[]", report_route_columns},
    {P "paths.sites[]", path_site_keys}, {P "heap_at_peak?", heap_keys}, {P "heap_at_peak?.main", report_heaps_columns},
    {P "heap_at_peak?.main", report_free_columns}, {P "heap_at_peak?.arenas", report_heaps_columns},
    {P "heap_at_peak?.arenas", report_free_columns},
    {P "heap_at_peak?.pages", report_heaps_columns}, {P "heap_at_peak?.pages", report_free_columns},
    {P "heap_at_peak?.heaps[]", report_heap_columns}, {P "heap_at_peak?.sites[]", frames_key},
    {P "heap_at_peak?.sites[]", report_keeper_columns}, {P "explained[]", explained_keys},
    {P "explained[].parts[]", part_keys}, {P "explained[].arenas[]", report_arena_columns},
    {P "explained[].pinning[]", frames_key}, {P "explained[].pinning[]", report_pinning_columns},
    {P "explained[].advice[]", advice_keys}, {P "page_faults", report_fault_columns},
    {P "page_faults.places[]", place_key}, {P "page_faults.places[]", report_fault_columns},
    {P "page_faults.accesses[]", access_key}, {P "page_faults.accesses[]", report_fault_columns},
    {P "resident_exact[]", report_level_columns}, {P "kernel_events[]", event_keys},
    {P "page_timeline[]", slice_keys}, {P "sites[]", site_keys},
    {P "sites[]", report_figure_columns}, {P "left_out", report_figure_columns},
    {P "left_out", site_keys}, {NULL, NULL}};
/* clang-format on */
