/* columns.c - which columns the tables of a heap have; see columns.h. In text they stand in this
 * order. */
#include "heap/show/columns.h"

/* clang-format off */
#define FACT(of, member, key, flags) COLUMN(struct heap_facts, member, of, key, NULL, flags)
const struct column heap_fact_columns[] = {
    FACT(NUMBER, pid, "pid", 0),
    FACT(TEXT, source, "source", 0),
    FACT(TIME, stopped_ns, "stopped_ns", 0),
    FACT(FLAG, verified, "verified", 0),
    FACT(TEXT, reason, "reason", COLUMN_MAY_LACK),
    COLUMN_KEY(FLAG, "read_whole", COLUMN_MAY_NULL),
    FACT(TEXT, note, "note", COLUMN_MAY_LACK),
    FACT(TIME, moment_ns, "time_ns", COLUMN_MAY_LACK),
    FACT(TEXT, allocator, "allocator", 0),
    FACT(COUNT, threads, "threads", 0),
    FACT(COUNT, blocks, "blocks", 0),
    FACT(BYTES, used_bytes, "used_bytes", 0),
    FACT(BYTES, free_bytes, "free_bytes", 0),
    FACT(BYTES, trimmable_bytes, "trimmable_bytes", 0),
    FACT(BYTES, pinned_bytes, "pinned_free_bytes", 0),
    FACT(BYTES, kept_bytes, "kept_free_bytes", 0),
    FACT(FLAG, resident_known, "resident_known", 0),
    FACT(BYTES, cached_bytes, "cached_bytes", 0),
    FACT(BYTES, own_bytes, "overhead_bytes", 0),
    FACT(COUNT, mapped_blocks, "mapped_blocks", 0),
    FACT(BYTES, mapped_bytes, "mapped_bytes", 0),
    FACT(BYTES, pool_bytes, "python_pool_bytes", COLUMN_MAY_LACK),
    FACT(COUNT, pool_blocks, "python_pool_blocks", COLUMN_FOLLOWS),
    FACT(BYTES, pool_used_bytes, "python_pool_used_bytes", COLUMN_FOLLOWS),
    FACT(FLAG, sampled, "sampled", HEAP_RECORDED),
    FACT(COUNT, known_blocks, "recorded_blocks", HEAP_RECORDED),
    FACT(BYTES, known_bytes, "recorded_bytes", HEAP_RECORDED),
    FACT(COUNT, references, "references", 0),
    FACT(BYTES, file_bytes, "temporary_file_bytes", COLUMN_MAY_LACK),
    FACT(BYTES, unreachable_bytes, "unreachable_bytes", HEAP_VERIFIED),
    FACT(COUNT, unreachable_blocks, "unreachable_blocks", HEAP_VERIFIED),
    FACT(BYTES, garbage_bytes, "garbage_bytes", HEAP_VERIFIED),
    FACT(COUNT, garbage_blocks, "garbage_blocks", HEAP_VERIFIED),
    COLUMN_END};

const struct column heap_cold_facts_columns[] = {
    FACT(TEXT, cold_source, "source", 0),
    COLUMN_KEY(TEXT, "sees", 0),
    FACT(TIME, cold_ns, "waited_ns", 0),
    FACT(BYTES, cold_bytes, "bytes", 0),
    FACT(COUNT, cold_blocks, "blocks", 0),
    FACT(BYTES, cold_swapped_bytes, "swapped_bytes", 0),
    COLUMN_END};

#define ARENA(of, member, key, title) COLUMN(struct heap_arena, member, of, key, title, 0)
const struct column heap_arena_columns[] = {
    ARENA(ADDRESS, address, "address", NULL),
    ARENA(FLAG, main, "main", NULL),
    ARENA(COUNT, attached_threads, "threads", NULL),
    ARENA(COUNT, heaps, "heaps", NULL),
    ARENA(BYTES, system_bytes, "system_bytes", "system"),
    ARENA(BYTES, used_bytes, "used_bytes", "used"),
    ARENA(BYTES, free_bytes, "free_bytes", "free"),
    ARENA(BYTES, cached_bytes, "cached_bytes", "cached"),
    ARENA(COUNT, used_blocks, "blocks", "blocks"),
    ARENA(COUNT, free_blocks, "free_blocks", NULL),
    ARENA(BYTES, top_bytes, "top_bytes", NULL),
    ARENA(COUNT, cached_blocks, "cached_blocks", NULL),
    ARENA(BYTES, own_bytes, "overhead_bytes", NULL),
    COLUMN_END};

/* The keys are those of `watch --json`. */
#define AGES(type) \
    COLUMN(type, ages.known_blocks, COUNT, "recorded_blocks", NULL, COLUMN_MAY_LACK | HEAP_AGES), \
    COLUMN(type, ages.oldest_ns, TIME, "oldest_age_ns", "oldest", COLUMN_FOLLOWS | HEAP_AGES), \
    COLUMN(type, ages.youngest_ns, TIME, "youngest_age_ns", NULL, COLUMN_FOLLOWS | HEAP_AGES), \
    COLUMN(type, ages.mean_ns, TIME, "mean_age_ns", NULL, COLUMN_FOLLOWS | HEAP_AGES)

#define ROW(of, member, key, title, flags) COLUMN(struct heap_row, member, of, key, title, flags)
const struct column heap_row_columns[] = {
    ROW(TEXT, name, "type", NULL, HEAP_TYPES),
    ROW(TEXT, name, "size", NULL, HEAP_SIZES),
    ROW(BYTES, size_min, "min_bytes", NULL, HEAP_SIZES),
    ROW(BYTES, size_max, "max_bytes", NULL, HEAP_SIZES),
    ROW(BYTES, retained_bytes, "retained_bytes", "retained", 0),
    ROW(BYTES, bytes, "bytes", "own", 0),
    ROW(COUNT, blocks, "blocks", "blocks", 0),
    ROW(COUNT, retained_blocks, "retained_blocks", NULL, 0),
    AGES(struct heap_row),
    COLUMN_END};

const struct column heap_root_columns[] = {
    ROW(TEXT, name, "root", NULL, 0),
    ROW(TEXT, module, "module", NULL, 0),
    ROW(TEXT, kind, "kind", NULL, 0),
    ROW(TEXT, file, "file", NULL, COLUMN_MAY_LACK),
    ROW(NUMBER, line, "line", NULL, COLUMN_FOLLOWS),
    ROW(TEXT, declared, "declared_type", NULL, COLUMN_MAY_LACK),
    ROW(BYTES, retained_bytes, "retained_bytes", "retained", 0),
    ROW(COUNT, retained_blocks, "retained_blocks", "blocks", 0),
    ROW(BYTES, bytes, "reached_bytes", "reached", 0),
    ROW(COUNT, blocks, "reached_blocks", NULL, 0),
    COLUMN_END};

#define SITE(of, member, key, title, flags) COLUMN(struct heap_site, member, of, key, title, flags)
const struct column heap_site_columns[] = {
    SITE(FRAMES, stack, "frames", NULL, 0),
    SITE(BYTES, retained_bytes, "retained_bytes", "retained", 0),
    SITE(COUNT, retained_blocks, "retained_blocks", NULL, 0),
    SITE(BYTES, bytes, "bytes", "own", 0),
    SITE(BYTES, unreachable_bytes, "unreachable_bytes", "leaked", HEAP_VERIFIED),
    SITE(COUNT, unreachable_blocks, "unreachable_blocks", NULL, HEAP_VERIFIED),
    SITE(COUNT, blocks, "blocks", "blocks", 0),
    AGES(struct heap_site),
    COLUMN_END};

#define SAMPLED(of, member, key, title, flags) \
    COLUMN(struct heap_sampled_row, member, of, key, title, flags)
const struct column heap_sampled_columns[] = {
    SAMPLED(FRAMES, site.stack, "frames", NULL, 0),
    SAMPLED(COUNT, sampled_blocks, "sampled_blocks", NULL, COLUMN_MAY_LACK),
    SAMPLED(BYTES, sampled_bytes, "sampled_bytes", NULL, COLUMN_FOLLOWS),
    SAMPLED(COUNT, blocks, "estimated_blocks", NULL, COLUMN_FOLLOWS),
    SAMPLED(BYTES, bytes, "estimated_bytes", "estimated", COLUMN_FOLLOWS),
    SAMPLED(BYTES, low_bytes, "estimated_bytes_low", NULL, COLUMN_FOLLOWS),
    SAMPLED(BYTES, high_bytes, "estimated_bytes_high", NULL, COLUMN_FOLLOWS),
    SAMPLED(TIME, oldest_ns, "oldest_age_ns", NULL, COLUMN_FOLLOWS),
    SAMPLED(TIME, youngest_ns, "youngest_age_ns", NULL, COLUMN_FOLLOWS),
    SAMPLED(BYTES, site.retained_bytes, "retained_bytes", "retained", 0),
    SAMPLED(COUNT, site.retained_blocks, "retained_blocks", NULL, 0),
    SAMPLED(BYTES, site.bytes, "bytes", "sampled", 0),
    SAMPLED(BYTES, site.unreachable_bytes, "unreachable_bytes", "leaked", HEAP_VERIFIED),
    SAMPLED(COUNT, site.unreachable_blocks, "unreachable_blocks", NULL, HEAP_VERIFIED),
    SAMPLED(COUNT, site.blocks, "blocks", "blocks", 0),
    COLUMN_END};

#define GROUP(type) \
    COLUMN(type, group.name, TEXT, "type", NULL, HEAP_TYPES), \
    COLUMN(type, group.name, TEXT, "root", NULL, HEAP_ROOTS), \
    COLUMN(type, group.module, TEXT, "module", NULL, HEAP_ROOTS), \
    COLUMN(type, group.kind, TEXT, "kind", NULL, HEAP_ROOTS), \
    COLUMN(type, group.stack, FRAMES, "frames", NULL, HEAP_SITES)
const struct column heap_pin_columns[] = {
    GROUP(struct heap_pin),
    COLUMN(struct heap_pin, free_bytes, BYTES, "free_bytes", "free", 0),
    COLUMN(struct heap_pin, blocks, COUNT, "blocks", "blocks", 0),
    COLUMN_END};

const struct column heap_cold_columns[] = {
    GROUP(struct heap_cold),
    COLUMN(struct heap_cold, cold_bytes, BYTES, "cold_bytes", "cold", 0),
    COLUMN(struct heap_cold, bytes, BYTES, "bytes", "own", 0),
    COLUMN(struct heap_cold, cold_blocks, COUNT, "cold_blocks", "cold blocks", 0),
    COLUMN(struct heap_cold, blocks, COUNT, "blocks", NULL, 0),
    COLUMN_END};

const struct column heap_leak_columns[] = {
    COLUMN(struct heap_leak, bytes, BYTES, "bytes", "leaked", 0),
    COLUMN(struct heap_leak, blocks, COUNT, "blocks", "blocks", 0),
    COLUMN(struct heap_leak, type, TEXT, "type", NULL, 0),
    COLUMN(struct heap_leak, address, ADDRESS, "address", NULL, 0),
    COLUMN(struct heap_leak, stack, FRAMES, "frames", NULL, 0),
    COLUMN_END};

#define STEP(of, member, key) COLUMN(struct heap_step, member, of, key, NULL, 0)
const struct column heap_step_columns[] = {
    STEP(TEXT, type, "type"),
    STEP(BYTES, bytes, "bytes"),
    STEP(ADDRESS, address, "address"),
    STEP(BYTES, retained_bytes, "retained_bytes"),
    COLUMN_END};
const struct column heap_step_root_columns[] = {
    STEP(TEXT, name, "root"),
    STEP(TEXT, module, "module"),
    STEP(TEXT, type, "kind"),
    STEP(ADDRESS, address, "address"),
    STEP(BYTES, retained_bytes, "retained_bytes"),
    COLUMN_END};

static const struct column answer_columns[] = {
    COLUMN_KEY(ADDRESS, "address", COLUMN_MAY_LACK),
    COLUMN_KEY(TEXT, "found", COLUMN_MAY_LACK),
    COLUMN_END};
const struct schema_part heap_schema[] = {
    {"", heap_fact_columns},
    {"", answer_columns},
    {"arenas[]", heap_arena_columns},
    {"types[]", heap_row_columns},
    {"types[]", heap_change_columns},
    {"roots[]", heap_root_columns},
    {"roots[]", heap_root_change_columns},
    {"sizes[]", heap_row_columns},
    {"sites[]", heap_site_columns},
    {"sites[]", heap_sampled_columns},
    {"pinning[]", heap_pin_columns},
    {"pinning_roots[]", heap_pin_columns},
    {"pinning_sites[]", heap_pin_columns},
    {"cold", heap_cold_facts_columns},
    {"cold.types[]", heap_cold_columns},
    {"cold.roots[]", heap_cold_columns},
    {"cold.sites[]", heap_cold_columns},
    {"unreachable[]", heap_leak_columns},
    {"path[]", heap_step_columns},
    {"path[]", heap_step_root_columns},
    {"referrers[]", heap_step_columns},
    {"referrers[]", heap_step_root_columns},
    {"old", schema_head},
    {"old", heap_fact_columns},
    {"new", schema_head},
    {"new", heap_fact_columns},
    {NULL, NULL}};
/* clang-format on */

struct table heap_columns(const struct heap *h, const struct column *columns, enum heap_by by,
                          struct names *names)
{
    const struct heap_facts *f = heap_facts(h);
    unsigned with = f->verified ? HEAP_VERIFIED : 0;
    with |= f->recorded ? HEAP_RECORDED | HEAP_AGES : 0;
    with |= by == HEAP_BY_TYPE   ? HEAP_TYPES
            : by == HEAP_BY_ROOT ? HEAP_ROOTS
            : by == HEAP_BY_SIZE ? HEAP_SIZES
                                 : HEAP_SITES;
    return (struct table){.columns = columns, .with = (uint16_t)with, .names = names};
}

struct heap_sampled_row heap_sampled_row(const struct heap_samples *s, const struct heap_site *site)
{
    const struct heap_sampled_site *of = heap_samples_of(s, site->stack);
    if (!of)
        return (struct heap_sampled_row){.site = *site};
    const struct estimate_interval e = estimate_bytes_interval(&of->live);
    return (struct heap_sampled_row){.site = *site,
                                     .sampled_blocks = of->live.samples,
                                     .sampled_bytes = of->live.sampled_bytes,
                                     .blocks = estimate_whole(of->live.blocks),
                                     .bytes = estimate_whole(of->live.bytes),
                                     .low_bytes = estimate_whole(e.low),
                                     .high_bytes = estimate_whole(e.high),
                                     .oldest_ns = of->oldest_ns,
                                     .youngest_ns = of->youngest_ns};
}
