/* columns.c - which columns the tables of a watch have; see columns.h. On the screen they stand in
 * this order. */
#include "watch/view/columns.h"

static int64_t round_signed(double v)
{
    const uint64_t n = estimate_whole(v < 0 ? -v : v);
    const int64_t most = n > INT64_MAX ? INT64_MAX : (int64_t)n;
    return v < 0 ? -most : most;
}

struct watch_figures watch_figures(const struct watch_site *s)
{
    const struct estimate_interval i = estimate_bytes_interval(&s->chosen);
    return (struct watch_figures){.samples = s->chosen.samples,
                                  .sampled_bytes = s->chosen.sampled_bytes,
                                  .blocks = estimate_whole(s->chosen.blocks),
                                  .bytes = estimate_whole(s->chosen.bytes),
                                  .low_bytes = estimate_whole(i.low),
                                  .high_bytes = estimate_whole(i.high),
                                  .growth_bytes = round_signed(s->growth_bytes),
                                  .oldest_ns = s->oldest_ns,
                                  .youngest_ns = s->youngest_ns,
                                  .byte_seconds = estimate_whole(s->byte_seconds),
                                  .allocated_bytes = estimate_whole(s->sums.allocated_bytes),
                                  .allocated_blocks = estimate_whole(s->sums.allocated_blocks),
                                  .freed_bytes = estimate_whole(s->sums.freed_bytes),
                                  .freed_samples = s->sums.freed_samples,
                                  .freed_elsewhere = s->sums.freed_elsewhere,
                                  .elsewhere_bytes =
                                      estimate_whole(sites_weight(s, WATCH_BY_ELSEWHERE)),
                                  .tid = s->tid,
                                  .more_tids = s->more_tids};
}

/* clang-format off */
#define FIGURE(of, member, key, title, flags, width) \
    COLUMN_WIDE(struct watch_figures, member, of, key, title, flags, width)
#define SITE(of, member, key) FIGURE(of, member, key, NULL, WATCH_SITE, 0)
#define SORTED(order) (WATCH_SITE | WATCH_SORTED << WATCH_BY_##order)
const struct column watch_figure_columns[] = {
    FIGURE(COUNT, samples, "sampled_blocks", NULL, 0, 0),
    FIGURE(BYTES, sampled_bytes, "sampled_bytes", NULL, 0, 0),
    FIGURE(BYTES, bytes, "estimated_bytes", "BYTES", 0, 10),
    FIGURE(RANGE, low_bytes, NULL, "95 % between", WATCH_ROOMY, 20),
    FIGURE(BYTES, low_bytes, "estimated_bytes_low", NULL, 0, 0),
    FIGURE(BYTES, high_bytes, "estimated_bytes_high", NULL, 0, 0),
    FIGURE(COUNT, blocks, "estimated_blocks", "BLOCKS", 0, 9),
    FIGURE(GROWTH, growth_bytes, "growth_bytes", "GROWTH", 0, 10),
    FIGURE(TIME, oldest_ns, "oldest_age_ns", "OLDEST", WATCH_SITE | COLUMN_DASH, 8),
    FIGURE(BYTES, byte_seconds, "byte_seconds", "BYTES x S", SORTED(TIME), 11),
    FIGURE(BYTES, allocated_bytes, "allocated_bytes", "ALLOCATED", SORTED(ALLOCATED), 11),
    FIGURE(BYTES, elsewhere_bytes, NULL, "OTHER THREAD", SORTED(ELSEWHERE), 13),
    SITE(TIME, youngest_ns, "youngest_age_ns"), SITE(NUMBER, tid, "tid"),
    SITE(FLAG, more_tids, "more_threads"), SITE(COUNT, allocated_blocks, "allocated_blocks"),
    SITE(BYTES, freed_bytes, "freed_bytes"), SITE(COUNT, freed_samples, "freed_samples"),
    SITE(COUNT, freed_elsewhere, "freed_by_other_thread"), COLUMN_END};

#define LISTED(of, member, title, flags, width) \
    COLUMN_WIDE(struct watch_listed, member, of, NULL, title, flags, width)
const struct column watch_listed_columns[] = {
    LISTED(NUMBER, pid, "PID", 0, 9), LISTED(BYTES, live_bytes, "LIVE", 0, 10),
    LISTED(BYTES, peak_bytes, "PEAK", 0, 10), LISTED(BYTES, rss_bytes, "RSS", COLUMN_DASH, 10),
    COLUMN_END};

#define COUNTER(of, member, key) COLUMN(struct mlw_watch_counters, member, of, key, NULL, 0)
const struct column watch_counter_columns[] = {
    COUNTER(COUNT, samples, "samples"), COUNTER(COUNT, frees, "freed_samples"),
    COUNTER(BYTES, drawn_bytes, "allocated_bytes"), COUNTER(COUNT, errors, "errors"),
    COUNTER(BYTES, own_bytes, "own_bytes"), COLUMN_END};

/* ---- the schema ---- */

#define KEY(of, key) COLUMN_KEY(of, key, 0)
#define MAY(of, key) COLUMN_KEY(of, key, COLUMN_MAY_LACK)
#define NIL(of, key) COLUMN_KEY(of, key, COLUMN_MAY_NULL)
#define LACKS(of, key) COLUMN_KEY(of, key, COLUMN_MAY_LACK | COLUMN_MAY_NULL)
static const struct column line_keys[] = {
    KEY(TEXT, "kind"), KEY(TIME, "time_ns"), KEY(TIME, "realtime_ns"), KEY(NUMBER, "pid"),
    MAY(FLAG, "other_pid_namespace"), MAY(NUMBER, "ppid"), MAY(NUMBER, "claimed_ppid"),
    KEY(TEXT, "host"), KEY(TEXT, "exe"), KEY(LIST, "command"), KEY(TEXT, "name"),
    NIL(TEXT, "title"), NIL(TEXT, "comm"), KEY(BYTES, "period_bytes"),
    KEY(BYTES, "period_now_bytes"), KEY(COUNT, "dropped"), KEY(BYTES, "dropped_bytes"),
    KEY(COUNT, "stacks_without_room"), NIL(LIST, "unguarded"), COLUMN_END};
static const struct column report_keys[] = {
    MAY(TIME, "older_than_ns"), MAY(TEXT, "older_than_from"), MAY(COUNT, "freed_lifetimes_seen"),
    MAY(TIME, "lifetime_p99_ns"), MAY(TEXT, "process"), MAY(NUMBER, "signal"),
    MAY(NUMBER, "exit_status"), MAY(FLAG, "out_of_memory"), MAY(FLAG, "killed"),
    MAY(BYTES, "high_water_bytes"), MAY(COUNT, "marked_blocks"), MAY(COUNT, "known_blocks"),
    MAY(BYTES, "known_bytes"), MAY(COUNT, "sites_total"), COLUMN_END};
static const struct column error_keys[] = {
    MAY(TEXT, "error"), MAY(TEXT, "found"), MAY(TEXT, "access_kind"),
    MAY(ADDRESS, "access_address"), MAY(NUMBER, "tid"), MAY(ADDRESS, "address"),
    LACKS(BYTES, "size_bytes"), LACKS(SIGNED, "offset_bytes"),
    MAY(NUMBER, "allocated_tid"), MAY(TIME, "age_ns"), MAY(NUMBER, "freed_tid"), MAY(TIME, "freed_ago_ns"), MAY(STACK, "access"),
    MAY(STACK, "allocation"), MAY(STACK, "release"), COLUMN_END};
static const struct column freed_keys[] = {
    KEY(TEXT, "call"), KEY(ADDRESS, "address"), KEY(BYTES, "size_bytes"),
    MAY(BYTES, "new_size_bytes"), KEY(TIME, "time_ns"), KEY(TIME, "age_ns"),
    KEY(NUMBER, "allocated_tid"), KEY(NUMBER, "freed_tid"), MAY(STACK, "release"),
    MAY(STACK, "allocation"), COLUMN_END};
static const struct column site_keys[] = {KEY(FRAMES, "frames"), COLUMN_END};
const struct schema_part watch_schema[] = {
    {"", line_keys}, {"", report_keys}, {"", error_keys}, {"", watch_figure_columns},
    {"", watch_counter_columns}, {"sites[]", site_keys}, {"sites[]", watch_figure_columns},
    {"frees[]", freed_keys}, {NULL, NULL}};
/* clang-format on */

struct table watch_screen_table(enum watch_order order, bool roomy)
{
    static const char *const keys[] = {
        [WATCH_BY_BYTES] = "BYTES",         [WATCH_BY_GROWTH] = "GROWTH",
        [WATCH_BY_AGE] = "OLDEST",          [WATCH_BY_TIME] = "BYTES x S",
        [WATCH_BY_ALLOCATED] = "ALLOCATED", [WATCH_BY_ELSEWHERE] = "OTHER THREAD"};
    return (struct table){
        .columns = watch_figure_columns,
        .with = (uint16_t)(WATCH_SITE | WATCH_SORTED << order | (roomy ? WATCH_ROOMY : 0)),
        .sorted = keys[order]};
}
