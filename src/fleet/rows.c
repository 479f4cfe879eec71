/* rows.c - the columns of each kind of row. Their order is that of the stored tables. */
#include "fleet/rows.h"

#include <stddef.h>

#define NUMBER(type, member)                                                                       \
    {                                                                                              \
#member, STORE_NUMBER, offsetof(struct type, member)                                       \
    }
#define COUNT(type, member)                                                                        \
    {                                                                                              \
#member, STORE_COUNT, offsetof(struct type, member)                                        \
    }
#define TEXT(type, member)                                                                         \
    {                                                                                              \
#member, STORE_TEXT, offsetof(struct type, member)                                         \
    }
#define NAMED(name, type, member)                                                                  \
    {                                                                                              \
        name, STORE_NUMBER, offsetof(struct type, member)                                          \
    }

#define FIGURE(member, key) {#member, STORE_COUNT, offsetof(struct store_process, figures.member)},
static const struct store_column process_row[] = {NUMBER(store_process, key),
                                                  NUMBER(store_process, content),
                                                  TEXT(store_process, host),
                                                  TEXT(store_process, service),
                                                  TEXT(store_process, build_id),
                                                  TEXT(store_process, exe),
                                                  TEXT(store_process, allocator),
                                                  TEXT(store_process, command),
                                                  NUMBER(store_process, pid),
                                                  NUMBER(store_process, ppid),
                                                  NUMBER(store_process, start_ns),
                                                  NUMBER(store_process, end_ns),
                                                  NUMBER(store_process, complete),
                                                  NUMBER(store_process, events),
                                                  NUMBER(store_process, lost_events),
                                                  COUNT(store_process, requested_bytes),
                                                  NUMBER(store_process, peak_time_ns),
                                                  NUMBER(store_process, stacks),
                                                  STORE_FIGURE_LIST(FIGURE)
                                                      NUMBER(store_process, slice_ns),
                                                  NUMBER(store_process, memory_limit_bytes),
                                                  NUMBER(store_process, address_space_limit_bytes),
                                                  NUMBER(store_process, data_limit_bytes)};
#undef FIGURE

static const struct store_column label_row[] = {
    NAMED("process", store_label, owner),
    {"key", STORE_KEY, offsetof(struct store_label, label)},
    {"value", STORE_TEXT, offsetof(struct store_label, label.value)}};

static const struct store_column watched_label_row[] = {
    NAMED("report", store_label, owner),
    {"key", STORE_KEY, offsetof(struct store_label, label)},
    {"value", STORE_TEXT, offsetof(struct store_label, label.value)}};

static const struct store_column module_row[] = {
    TEXT(store_module, build_id), TEXT(store_module, path), NUMBER(store_module, process)};

static const struct store_column location_row[] = {
    NUMBER(store_location, id), TEXT(store_location, build_id), TEXT(store_location, module),
    NUMBER(store_location, offset), NUMBER(store_location, flags)};

static const struct store_column stack_row[] = {
    NUMBER(store_stack, id), NUMBER(store_stack, parent), NUMBER(store_stack, location),
    NUMBER(store_stack, site), NUMBER(store_stack, named)};

static const struct store_column frame_row[] = {NUMBER(store_frame, id), TEXT(store_frame, json)};

static const struct store_column site_row[] = {
    NUMBER(store_site, id),
    NUMBER(store_site, parent),
    NUMBER(store_site, frame),
    NUMBER(store_site, path),
    {"call_site", STORE_PLACE, offsetof(struct store_site, call_site)}};

static const struct store_column called_row[] = {NUMBER(store_called, site),
                                                 NUMBER(store_called, frame)};

#define FIGURE(member, key)                                                                        \
    , { #member, STORE_COUNT, offsetof(struct store_figure, figures.member) }
static const struct store_column figure_row[] = {
    NUMBER(store_figure, process), NUMBER(store_figure, stack) STORE_FIGURE_LIST(FIGURE)};
#undef FIGURE

static const struct store_column slice_row[] = {
    NUMBER(store_slice, process),    NUMBER(store_slice, start_ns),
    NUMBER(store_slice, width_ns),   NUMBER(store_slice, last),
    NUMBER(store_slice, calls),      NUMBER(store_slice, allocated_bytes),
    NUMBER(store_slice, live_bytes), NUMBER(store_slice, peak_bytes)};

static const struct store_column block_row[] = {
    NUMBER(store_block, process),  NUMBER(store_block, number),
    NUMBER(store_block, stack),    NUMBER(store_block, size_bytes),
    NUMBER(store_block, address),  NUMBER(store_block, thread),
    NUMBER(store_block, freed_by), NUMBER(store_block, allocated_ns),
    NUMBER(store_block, freed_ns), NUMBER(store_block, temporary)};

#define ESTIMATE(type, member)                                                                     \
    NAMED("bytes", type, member.bytes), NAMED("low", type, member.low),                            \
        NAMED("high", type, member.high), NAMED("blocks", type, member.blocks),                    \
        NAMED("samples", type, member.samples), NAMED("sampled_bytes", type, member.sampled_bytes)

static const struct store_column watched_row[] = {
    NUMBER(store_watched, key),     NUMBER(store_watched, process),
    TEXT(store_watched, host),      TEXT(store_watched, service),
    TEXT(store_watched, exe),       TEXT(store_watched, command),
    TEXT(store_watched, kind),      TEXT(store_watched, process_end),
    NUMBER(store_watched, pid),     NUMBER(store_watched, start_ns),
    NUMBER(store_watched, time_ns), NUMBER(store_watched, period),
    NUMBER(store_watched, dropped), NUMBER(store_watched, sites),
    ESTIMATE(store_watched, total)};

static const struct store_column watched_site_row[] = {
    NUMBER(store_watched_site, report),     NUMBER(store_watched_site, place),
    NUMBER(store_watched_site, site),       ESTIMATE(store_watched_site, estimate),
    NUMBER(store_watched_site, oldest_ns),  NUMBER(store_watched_site, allocated_bytes),
    NUMBER(store_watched_site, freed_bytes)};

#define ROW(name, columns)                                                                         \
    {                                                                                              \
        name, columns, sizeof(columns) / sizeof *(columns)                                         \
    }
const struct store_columns store_columns[STORE_TABLES] = {
    [STORE_LOCATION] = ROW("location", location_row),
    [STORE_FRAME] = ROW("frame", frame_row),
    [STORE_SITE] = ROW("site", site_row),
    [STORE_CALLED] = ROW("called", called_row),
    [STORE_STACK] = ROW("stack", stack_row),
    [STORE_FIGURE] = ROW("figure", figure_row),
    [STORE_SLICE] = ROW("slice", slice_row),
    [STORE_BLOCK] = ROW("block", block_row),
    [STORE_WATCHED_SITE] = ROW("watched_site", watched_site_row),
    [STORE_PROCESS] = ROW("process", process_row),
    [STORE_WATCHED] = ROW("watched", watched_row),
    [STORE_LABEL] = ROW("label", label_row),
    [STORE_MODULE] = ROW("module", module_row),
    [STORE_WATCHED_LABEL] = ROW("watched_label", watched_label_row)};

const char *store_text(const struct store_column *c, const void *row, size_t *bytes)
{
    const void *at = (const char *)row + c->offset;
    const char *text;
    if (c->kind == STORE_KEY) {
        const struct fleet_label *l = at;
        *bytes = l->key_bytes;
        return l->key;
    }
    memcpy(&text, at, sizeof text);
    text = text ? text : "";
    *bytes = strlen(text);
    return text;
}
