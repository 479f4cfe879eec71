/* text.c - what a probe counted, for people. See show.h. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "show/layout.h"
#include "probe/show/arenas.h"
#include "probe/show/rows.h"

enum { VALUE_WIDTH = 12, BAR_WIDTH = 32, FRAMES_SHOWN = 24 };

static void put_value(struct buffer *b, char unit, uint64_t value)
{
    char text[HUMAN_TEXT_BYTES];
    if (unit == 'b')
        human_size(text, value);
    else if (unit == 't')
        human_duration(text, value);
    else
        human_count(text, value);
    page_right(b, text, VALUE_WIDTH);
    buffer_append_char(b, ' ');
}

static void put_values(struct buffer *b, const struct probe_layout *l, const struct probe_value *v,
                       bool is_part)
{
    for (int i = 0; i < PROBE_VALUES; i++) {
        if (!l->value[i])
            continue;
        if (i || !is_part)
            put_value(b, l->unit[i], probe_value(v, i));
        else
            buffer_printf(b, "%*s", VALUE_WIDTH + 1, "");
    }
}

/* For a gauge: a size that is and was nothing. */
static bool is_nothing(const struct probe_layout *l, const struct probe_group *g)
{
    for (int i = 1; i < PROBE_VALUES; i++)
        if (!l->gauge || (l->value[i] && probe_value(&g->sum.value, i)))
            return false;
    return true;
}

static size_t count_shown(const struct probe_layout *l, const struct probe_groups *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->count; i++)
        n += !is_nothing(l, &g->group[i]);
    return n;
}

/* For a gauge, a kind of page: its process's changes are counted once, with the whole size. */
static bool is_part(const struct probe_result *r, const struct probe_layout *l,
                    const struct probe_key *k)
{
    return l->gauge && r->by & PROBE_BY_FUNCTION && k->what < r->name_count &&
           strcmp(r->names[k->what], "resident") != 0;
}

/* "1,234 calls, 5.6 KB asked for". */
static void put_total(struct buffer *b, const struct probe_layout *l, const struct probe_value *v)
{
    for (int i = 0; i < PROBE_VALUES; i++) {
        struct buffer one = {0};
        if (!l->value[i])
            continue;
        put_value(&one, l->unit[i], probe_value(v, i));
        const char *text = buffer_text(&one);
        buffer_printf(b, "%s%s%s", i ? ", " : "", text + strspn(text, " "), l->title[i]);
        buffer_release(&one);
    }
}

static const char *bound(char text[HUMAN_TEXT_BYTES], char unit, uint64_t value)
{
    return unit == 't'   ? human_duration(text, value)
           : unit == 'b' ? human_size(text, value)
                         : human_count(text, value);
}

static void print_histogram(const struct page *p, const struct probe_result *r,
                            const struct probe_row *rows, size_t n)
{
    const char unit = probe_histogram_unit(r);
    const int counted = probe_histogram_counted(r);
    uint64_t class[65] = {0}, largest = 0;
    uint32_t first = 65, last = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].key.size_class < 65)
            class[rows[i].key.size_class] += probe_value(&rows[i].value, counted);
    for (uint32_t i = 0; i < 65; i++) {
        if (!class[i])
            continue;
        first = first < i ? first : i;
        last = i;
        largest = largest > class[i] ? largest : class[i];
    }
    for (uint32_t i = first; i <= last; i++) {
        struct buffer b = {0};
        char low[HUMAN_TEXT_BYTES], high[HUMAN_TEXT_BYTES], range[2 * HUMAN_TEXT_BYTES + 8];
        snprintf(range, sizeof range, "%s .. %s", bound(low, unit, probe_class_min(i)),
                 bound(high, unit, probe_class_max(i)));
        page_right(&b, i ? range : bound(low, unit, 0), 24);
        put_value(&b, 'n', class[i]);
        buffer_append_char(&b, ' ');
        page_bar(p, &b, class[i], largest, BAR_WIDTH);
        page_line(p, &b);
    }
}

static void put_label(struct buffer *b, const struct probe_result *r, const struct probe_key *k)
{
    char command[PROBE_COMMAND_BYTES + 1] = "";
    memcpy(command, k->command, PROBE_COMMAND_BYTES);
    if (r->by & (PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD))
        buffer_printf(b, " %s", *command ? command : "?");
    if (r->by & PROBE_BY_PROCESS)
        buffer_printf(b, " pid %u", k->pid);
    if (r->by & PROBE_BY_THREAD)
        buffer_printf(b, " thread %u", k->tid);
    char text[PROBE_NAME_BYTES + 1];
    if (r->by & PROBE_BY_CALLER) {
        const char *caller = probe_kernel_name(r, k->site);
        buffer_printf(b, " %s", caller ? caller : "?");
    }
    if (r->by & (PROBE_BY_CACHE | PROBE_BY_MAPPING))
        buffer_printf(b, " %s", probe_key_name(k, text));
    if (r->by & PROBE_BY_ADDRESS)
        buffer_printf(b, " 0x%llx", (unsigned long long)k->site);
    if (r->by & PROBE_BY_PARENT)
        buffer_printf(b, " parent %u", k->parent);
    if (r->by & PROBE_BY_USER)
        buffer_printf(b, " user %u", k->uid);
    if (r->by & PROBE_BY_CPU)
        buffer_printf(b, " cpu %u", k->cpu);
    if (r->by & (PROBE_BY_FUNCTION | PROBE_BY_ACCESS))
        buffer_printf(b, " %s", k->what < r->name_count ? r->names[k->what] : "?");
}

static void print_stacks(const struct page *p, const struct probe_result *r,
                         const struct probe_report *how, const struct probe_key *k)
{
    struct symbol_frame f[PROBE_FRAMES_MAX];
    const char *kernel[PROBE_DEPTH_MAX];
    struct buffer b = {0};
    size_t n =
        r->by & PROBE_BY_KSTACK ? probe_kernel_frames(r, k->kstack, kernel, PROBE_DEPTH_MAX) : 0;
    for (size_t i = 0; i < n && i < FRAMES_SHOWN; i++) {
        buffer_printf(&b, "                  %s [kernel]", kernel[i]);
        page_line(p, &b);
    }
    n = r->by & PROBE_BY_STACK ? probe_functions(r, how, k->stack, f, PROBE_FRAMES_MAX) : 0;
    for (size_t i = 0; i < n; i++) {
        if (i == FRAMES_SHOWN && n > FRAMES_SHOWN + 1) {
            buffer_printf(&b, "                  ... %zu more", n - i);
            page_line(p, &b);
            break;
        }
        buffer_append_text(&b, "                  ");
        probe_function_text(&b, &f[i]);
        page_line(p, &b);
    }
    if (r->by & PROBE_BY_STACK && n == 0) {
        buffer_append_text(&b, "                  (no user stack)");
        page_line(p, &b);
    }
    buffer_release(&b);
}

static void put_titles(struct buffer *b, const struct probe_layout *l)
{
    for (int i = 0; i < PROBE_VALUES; i++)
        if (l->value[i]) {
            page_right(b, l->title[i], VALUE_WIDTH);
            buffer_append_char(b, ' ');
        }
}

static void print_groups(const struct page *p, const struct probe_result *r,
                         const struct probe_report *how, const struct probe_layout *l,
                         const struct probe_groups *g)
{
    struct buffer b = {0};
    size_t left = count_shown(l, g), shown = 0;
    putc('\n', p->out);
    if (!left) {
        buffer_append_text(&b, "nothing of this kind happened");
        page_line(p, &b);
        return;
    }
    put_titles(&b, l);
    page_line(p, &b);
    for (size_t i = 0; i < g->count; i++) {
        if (is_nothing(l, &g->group[i]))
            continue;
        if (shown == how->top) {
            buffer_printf(&b, "... and %zu more (-n shows more)", left - shown);
            page_line(p, &b);
            break;
        }
        shown++;
        put_values(&b, l, &g->group[i].sum.value, is_part(r, l, &g->group[i].sum.key));
        put_label(&b, r, &g->group[i].sum.key);
        page_line(p, &b);
        print_stacks(p, r, how, &g->group[i].sum.key);
        if (probe_histogram_unit(r))
            print_histogram(p, r, g->rows + g->group[i].first, g->group[i].count);
    }
    buffer_release(&b);
}

static void print_losses(const struct page *p, const struct probe_result *r)
{
    static const char *const what[PROBE_LOSSES] = {
        [PROBE_LOST_ROWS] = "events not counted: the table of sums was full",
        [PROBE_LOST_STACKS] = "events counted without their stack: no room for it",
        [PROBE_LOST_EVENTS] = "events lost: the ring buffer was full",
        [PROBE_LOST_TARGETS] = "processes not followed: too many",
        [PROBE_LOST_BLOCKS] = "blocks not followed: too many are live",
        [PROBE_LOST_WITHIN] = "events lost: they came while another was counted",
        [PROBE_CUT_STACKS] = "stacks end early: no unwind tables for the code they go through",
    };
    for (int i = 0; i < PROBE_LOSSES; i++) {
        struct buffer b = {0};
        if (!r->losses[i] || (i == PROBE_CUT_STACKS && !(r->by & PROBE_BY_STACK)))
            continue;
        buffer_printf(&b, "%s %s", COUNT(r->losses[i]), what[i]);
        page_line(p, &b);
    }
}

static void print_not_placed(const struct page *p, const struct probe_result *r)
{
    enum { NAMED = 8 };
    struct buffer b = {0};
    if (!r->unplaced_count)
        return;
    buffer_printf(&b, "%s %s no probe:", COUNT(r->unplaced_count),
                  r->unplaced_count == 1 ? "place has" : "places have");
    for (size_t i = 0; i < r->unplaced_count && i < NAMED; i++)
        if (r->unplaced[i].name)
            buffer_printf(&b, "%s %s", i ? "," : "", r->unplaced[i].name);
        else
            buffer_printf(&b, "%s 0x%" PRIx64, i ? "," : "", r->unplaced[i].offset);
    if (r->unplaced_count > NAMED)
        buffer_printf(&b, " and %s more (--json has all)", COUNT(r->unplaced_count - NAMED));
    page_wrap(p, &b, 2);
}

static void print_not_known(const struct page *p, const struct probe_result *r,
                            const struct probe_report *how, const struct probe_layout *l)
{
    struct buffer b = {0};
    if (!r->not_known_count)
        return;
    putc('\n', p->out);
    buffer_append_text(&b,
                       "not known whether live, for Linux did not report every release: at most");
    page_wrap(p, &b, 0);
    put_titles(&b, l);
    page_right(&b, "given again", VALUE_WIDTH);
    page_line(p, &b);
    for (size_t i = 0; i < r->not_known_count; i++) {
        const struct probe_not_known *n = &r->not_known[i];
        const char *function = probe_kernel_name(r, n->key.site);
        char text[PROBE_NAME_BYTES + 1];
        if (i == how->top) {
            buffer_printf(&b, "... and %zu more (-n shows more)", r->not_known_count - i);
            page_line(p, &b);
            break;
        }
        put_values(&b, l, &n->value, false);
        put_value(&b, 'n', n->given_out_again);
        buffer_printf(&b, " %s%s%s", function ? function : "", function ? " " : "",
                      probe_key_name(&n->key, text));
        page_line(p, &b);
    }
    buffer_release(&b);
}

static void print_source(const struct page *p, const struct probe_result *r,
                         const struct probe_report *how)
{
    struct buffer b = {0};
    buffer_printf(&b, "from %s", r->source);
    page_wrap(p, &b, 2);
    if (how->where) {
        buffer_printf(&b, "events where %s", how->where);
        page_wrap(p, &b, 2);
    }
    buffer_release(&b);
}

int probe_report_text(FILE *out, const struct probe_result *r, const struct probe_report *how,
                      struct error *err)
{
    const struct page p = {
        .out = out, .columns = how->columns, .unicode = how->unicode, .bold = how->bold};
    const struct probe_layout *l = probe_layout(r);
    struct probe_groups g;
    struct buffer b = {0};
    if (r->arenas) {
        text_printf(out, "arenas: %zu process%s in %s\n", r->arenas->processes,
                    r->arenas->processes == 1 ? "" : "es", TIME(r->duration_ns));
        print_source(&p, r, how);
        print_not_placed(&p, r);
        print_losses(&p, r);
        probe_arenas_text(out, r);
        return 0;
    }
    if (probe_groups_make(&g, r, how, err))
        return -1;
    if (l->gauge)
        buffer_printf(&b, "%zu sizes", count_shown(l, &g));
    else
        put_total(&b, l, &g.total);
    fputs(p.bold ? "\033[1m" : "", out);
    text_printf(out, "%s: %s in %s", probe_kind_name(r->kind), buffer_text(&b),
                TIME(r->duration_ns));
    fputs(p.bold ? "\033[0m\n" : "\n", out);
    print_source(&p, r, how);
    print_not_placed(&p, r);
    print_losses(&p, r);
    if (r->by & ~(uint32_t)PROBE_BY_SIZE)
        print_groups(&p, r, how, l, &g);
    else if (g.total.calls && probe_histogram_unit(r)) {
        putc('\n', out);
        print_histogram(&p, r, g.rows, r->row_count);
    }
    print_not_known(&p, r, how, l);
    buffer_release(&b);
    probe_groups_release(&g);
    return 0;
}
