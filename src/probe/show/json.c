/* json.c - what a probe counted, as JSON. See show.h. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "probe/show/arenas.h"
#include "probe/show/rows.h"

static void write_frames(struct json *j, const struct probe_result *r,
                         const struct probe_report *how, uint64_t stack)
{
    struct symbol_frame f[PROBE_FRAMES_MAX];
    size_t n = probe_functions(r, how, stack, f, PROBE_FRAMES_MAX);
    json_open_array(j, "frames");
    for (size_t i = 0; i < n; i++) {
        json_open_object(j, NULL);
        json_text(j, "function", f[i].function);
        json_text(j, "file", f[i].file);
        if (f[i].line)
            json_number(j, "line", f[i].line);
        else
            json_null(j, "line");
        json_text(j, "module", f[i].module);
        json_bool(j, "inlined", f[i].inlined);
        if (!f[i].function)
            json_address(j, "address", f[i].offset);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_kernel_frames(struct json *j, const struct probe_result *r, uint64_t kstack)
{
    const char *names[PROBE_DEPTH_MAX];
    size_t n = probe_kernel_frames(r, kstack, names, PROBE_DEPTH_MAX);
    json_texts(j, "kernel_frames", names, n);
}

static void write_key(struct json *j, const struct probe_result *r, const struct probe_report *how,
                      const struct probe_key *k)
{
    char text[PROBE_NAME_BYTES + 1];
    if (r->by & PROBE_BY_PROCESS)
        json_number(j, "pid", k->pid);
    if (r->by & PROBE_BY_THREAD)
        json_number(j, "tid", k->tid);
    if (r->by & (PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD)) {
        char command[PROBE_COMMAND_BYTES + 1] = "";
        memcpy(command, k->command, PROBE_COMMAND_BYTES);
        json_text(j, "comm", command);
    }
    if (r->by & PROBE_BY_PARENT)
        json_number(j, "ppid", k->parent);
    if (r->by & PROBE_BY_USER)
        json_number(j, "uid", k->uid);
    if (r->by & PROBE_BY_CPU)
        json_number(j, "cpu", k->cpu);
    if (r->by & PROBE_BY_FUNCTION)
        json_text(j, "function", k->what < r->name_count ? r->names[k->what] : NULL);
    if (r->by & PROBE_BY_ACCESS)
        json_text(j, "access", k->what < r->name_count ? r->names[k->what] : NULL);
    if (r->by & PROBE_BY_MAPPING)
        json_text(j, "mapping", probe_key_name(k, text));
    if (r->by & PROBE_BY_ADDRESS)
        json_address(j, "address", k->site);
    if (r->by & PROBE_BY_CALLER)
        json_text(j, "function", probe_kernel_name(r, k->site));
    if (r->by & PROBE_BY_CACHE)
        json_text(j, "cache", probe_key_name(k, text));
    if (r->by & PROBE_BY_STACK)
        write_frames(j, r, how, k->stack);
    if (r->by & PROBE_BY_KSTACK)
        write_kernel_frames(j, r, k->kstack);
}

static void write_values(struct json *j, const struct probe_layout *l, const struct probe_value *v)
{
    for (int i = 0; i < PROBE_VALUES; i++)
        if (l->value[i])
            json_number(j, l->value[i], probe_value(v, i));
}

/* Rows of one group, or of all when they are added up by size here. */
static void write_histogram(struct json *j, const struct probe_result *r,
                            const struct probe_row *rows, size_t n)
{
    const struct probe_layout *l = probe_layout(r);
    const int counted = probe_histogram_counted(r), of = probe_histogram_of(r);
    const char unit = probe_histogram_unit(r);
    struct probe_value class[65] = {0};
    for (size_t i = 0; i < n; i++)
        if (rows[i].key.size_class < 65)
            probe_value_add(&class[rows[i].key.size_class], &rows[i].value);
    json_open_array(j, "histogram");
    for (uint32_t i = 0; i < 65; i++) {
        if (!probe_value(&class[i], counted))
            continue;
        json_open_object(j, NULL);
        json_number(j,
                    unit == 't'   ? "min_ns"
                    : unit == 'b' ? "min_bytes"
                                  : "min",
                    probe_class_min(i));
        json_number(j,
                    unit == 't'   ? "max_ns"
                    : unit == 'b' ? "max_bytes"
                                  : "max",
                    probe_class_max(i));
        json_number(j, l->value[counted], probe_value(&class[i], counted));
        json_number(j, l->value[of], probe_value(&class[i], of));
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_groups(struct json *j, const struct probe_result *r,
                         const struct probe_report *how, const struct probe_layout *l,
                         const struct probe_groups *g)
{
    json_open_array(j, l->list);
    for (size_t i = 0; i < g->count; i++) {
        const struct probe_group *group = &g->group[i];
        json_open_object(j, NULL);
        write_key(j, r, how, &group->sum.key);
        write_values(j, l, &group->sum.value);
        if (probe_histogram_unit(r))
            write_histogram(j, r, g->rows + group->first, group->count);
        json_close_object(j);
    }
    json_close_array(j);
}

static bool same_process(const struct probe_key *a, const struct probe_key *b)
{
    return a->pid == b->pid && memcmp(a->command, b->command, PROBE_COMMAND_BYTES) == 0;
}

/* processes[], in each of them stacks[] (or another key of rows). */
static void write_fault_processes(struct json *j, const struct probe_result *r,
                                  const struct probe_report *how, const struct probe_layout *l,
                                  const struct probe_groups *g)
{
    const bool apart = r->by & ~(uint32_t)(PROBE_BY_PROCESS | PROBE_BY_COMMAND);
    json_open_array(j, l->list);
    for (size_t i = 0; i < g->count; i++) {
        const struct probe_key *k = &g->group[i].sum.key;
        struct probe_value sum = {0};
        bool first = true;
        for (size_t n = 0; n < g->count; n++)
            if (same_process(&g->group[n].sum.key, k)) {
                first = first && n >= i;
                probe_value_add(&sum, &g->group[n].sum.value);
            }
        if (!first)
            continue;
        char command[PROBE_COMMAND_BYTES + 1] = "";
        memcpy(command, k->command, PROBE_COMMAND_BYTES);
        json_open_object(j, NULL);
        if (r->by & PROBE_BY_PROCESS)
            json_number(j, "pid", k->pid);
        json_text(j, "comm", *command ? command : NULL);
        write_values(j, l, &sum);
        json_open_array(j, "stacks");
        for (size_t n = i; apart && n < g->count; n++)
            if (same_process(&g->group[n].sum.key, k)) {
                json_open_object(j, NULL);
                write_key(j, r, how, &g->group[n].sum.key);
                write_values(j, l, &g->group[n].sum.value);
                json_close_object(j);
            }
        json_close_array(j);
        json_close_object(j);
    }
    json_close_array(j);
}

/* The rows of one process of rss: a level and a peak for each kind of page. */
static void write_levels(struct json *j, const struct probe_result *r, const struct probe_key *k)
{
    char name[64];
    for (size_t n = 0; n < r->row_count; n++) {
        const struct probe_row *row = &r->rows[n];
        if (row->key.pid != k->pid || row->key.what >= r->name_count)
            continue;
        snprintf(name, sizeof name, "%s_bytes", r->names[row->key.what]);
        json_number(j, name, row->value.bytes);
        snprintf(name, sizeof name, "peak_%s_bytes", r->names[row->key.what]);
        json_number(j, name, row->value.more);
    }
}

/* For rss: processes[] with their sizes by kind of page, and timeline[]. */
static void write_sizes_in_time(struct json *j, const struct probe_result *r)
{
    json_open_array(j, "processes");
    for (size_t i = 0; i < r->row_count; i++) {
        const struct probe_key *k = &r->rows[i].key;
        if (k->what != 0)
            continue;
        char command[PROBE_COMMAND_BYTES + 1] = "";
        memcpy(command, k->command, PROBE_COMMAND_BYTES);
        json_open_object(j, NULL);
        json_number(j, "pid", k->pid);
        json_text(j, "comm", command);
        json_number(j, "changes", r->rows[i].value.calls);
        write_levels(j, r, k);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "timeline");
    for (size_t i = 0; i < r->sample_count; i++) {
        const struct probe_sample *s = &r->samples[i];
        json_open_object(j, NULL);
        json_number(j, "time_ns", s->time_ns);
        json_number(j, "pid", s->pid);
        json_number(j, "resident_bytes", s->file + s->anonymous + s->shared);
        json_number(j, "anonymous_bytes", s->anonymous);
        json_number(j, "file_bytes", s->file);
        json_number(j, "shared_bytes", s->shared);
        json_number(j, "swap_bytes", s->swap);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_not_placed(struct json *j, const struct probe_result *r)
{
    json_open_array(j, "not_placed");
    for (size_t i = 0; i < r->unplaced_count; i++) {
        const struct probe_unplaced *u = &r->unplaced[i];
        json_open_object(j, NULL);
        if (u->name)
            json_text(j, "function", u->name);
        json_text(j, "module", u->path);
        json_number(j, "offset", u->offset);
        json_text(j, "reason", u->why);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_not_known(struct json *j, const struct probe_result *r,
                            const struct probe_layout *l)
{
    json_open_array(j, "not_known");
    for (size_t i = 0; i < r->not_known_count; i++) {
        const struct probe_not_known *n = &r->not_known[i];
        char text[PROBE_NAME_BYTES + 1];
        json_open_object(j, NULL);
        json_text(j, "function", probe_kernel_name(r, n->key.site));
        json_text(j, "cache", probe_key_name(&n->key, text));
        write_values(j, l, &n->value);
        json_number(j, "given_out_again", n->given_out_again);
        json_text(j, "reason", probe_not_known_why(n));
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_bystanders(struct json *j, const struct probe_result *r)
{
    json_open_array(j, "bystanders");
    for (size_t i = 0; i < r->bystander_count; i++) {
        json_open_object(j, NULL);
        json_text(j, "comm", r->bystanders[i].command);
        json_number(j, "processes", r->bystanders[i].processes);
        json_text(j, "module", r->bystanders[i].path);
        json_close_object(j);
    }
    json_close_array(j);
    if (r->bystanders_cut)
        json_bool(j, "bystanders_cut", true);
}

int probe_report_json(FILE *out, const struct probe_result *r, const struct probe_report *how,
                      struct error *err)
{
    struct probe_groups g;
    if (probe_groups_make(&g, r, how, err))
        return -1;
    const struct probe_layout *l = probe_layout(r);
    struct json j = {.out = out, .one_line = how->one_line};
    json_begin(&j);
    json_text(&j, "probe", probe_kind_name(r->kind));
    json_text(&j, "source", r->source);
    if (how->where)
        json_text(&j, "where", how->where);
    json_number(&j, "duration_ns", r->duration_ns);
    if (r->interval)
        json_number(&j, "interval", r->interval);
    json_number(&j, "lost", probe_lost(r));
    if (r->by & PROBE_BY_STACK)
        json_number(&j, "cut_stacks", r->losses[PROBE_CUT_STACKS]);
    if (r->by & (PROBE_BY_STACK | PROBE_BY_KSTACK))
        json_number(&j, "lost_stacks", r->losses[PROBE_LOST_STACKS]);
    if (probe_kind_uses_library(r->kind)) {
        write_not_placed(&j, r);
        write_bystanders(&j, r);
    }
    if (r->live)
        write_not_known(&j, r, l);
    if (!l->gauge && !r->arenas)
        write_values(&j, l, &g.total);
    if (probe_histogram_unit(r) && !r->arenas)
        write_histogram(&j, r, g.rows, r->row_count);
    if (r->arenas)
        probe_arenas_json(&j, r);
    else if (l->within == PROBE_WITHIN_PROCESSES)
        write_fault_processes(&j, r, how, l, &g);
    else if (l->within == PROBE_WITHIN_TIME)
        write_sizes_in_time(&j, r);
    else if (r->by & ~(uint32_t)PROBE_BY_SIZE)
        write_groups(&j, r, how, l, &g);
    json_close_object(&j);
    json_end(&j);
    probe_groups_release(&g);
    return 0;
}

void probe_report_list(FILE *out, const struct probe_functions *list)
{
    struct json j = {.out = out};
    json_begin(&j);
    json_text(&j, "library", list->path);
    json_open_array(&j, "functions");
    for (size_t i = 0; i < list->count; i++) {
        json_open_object(&j, NULL);
        json_text(&j, "function", list->name[i]);
        json_number(&j, "offset", list->offset[i]);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_close_object(&j);
    json_end(&j);
}

static void put_folded(struct buffer *b, const char *name)
{
    if (b->size_bytes)
        buffer_append_char(b, ';');
    struct text_shown c;
    while (*name) {
        name += text_shown(name, &c);
        buffer_append(b, *c.text == ';' ? ":" : c.text, c.bytes);
    }
}

int probe_report_folded(FILE *out, const struct probe_result *r, const struct probe_report *how,
                        struct error *err)
{
    struct probe_groups g;
    struct buffer b = {0};
    if (probe_groups_make(&g, r, how, err))
        return -1;
    for (size_t i = 0; i < g.count; i++) {
        const struct probe_key *k = &g.group[i].sum.key;
        struct symbol_frame f[PROBE_FRAMES_MAX];
        const char *kernel[PROBE_DEPTH_MAX];
        char command[PROBE_COMMAND_BYTES + 1] = "";
        buffer_clear(&b);
        memcpy(command, k->command, PROBE_COMMAND_BYTES);
        if (*command)
            put_folded(&b, command);
        for (size_t n = probe_functions(r, how, k->stack, f, PROBE_FRAMES_MAX); n-- > 0;) {
            struct buffer name = {0};
            if (f[n].function)
                buffer_append_text(&name, f[n].function);
            else
                probe_function_text(&name, &f[n]);
            put_folded(&b, buffer_text(&name));
            buffer_release(&name);
        }
        for (size_t n = probe_kernel_frames(r, k->kstack, kernel, PROBE_DEPTH_MAX); n-- > 0;) {
            put_folded(&b, kernel[n]);
            buffer_append_text(&b, "_[k]");
        }
        text_printf(out, "%s %" PRIu64 "\n", buffer_text(&b),
                    probe_value(&g.group[i].sum.value, probe_layout(r)->order));
    }
    buffer_release(&b);
    probe_groups_release(&g);
    return 0;
}
