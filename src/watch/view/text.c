/* text.c - the reports of `mallow watch` as text. See view.h. */
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/plural.h"
#include "base/text.h"
#include "watch/view/impl.h"

#define SITES          10u
#define SITES_OF_CHILD 3u
#define FRAMES         8u
#define FREED          16u

static struct page page_of(const struct watch_view *v)
{
    return (struct page){
        .out = v->o.out, .columns = v->o.columns, .unicode = v->o.unicode, .bold = v->o.bold};
}

static const char *size_text(char out[HUMAN_TEXT_BYTES], double bytes)
{
    return human_size(out, estimate_whole(bytes));
}

/* "12:03:07", of now. */
static void clock_text(char *out, size_t room)
{
    time_t now = time(NULL);
    struct tm t;
    out[0] = 0;
    if (localtime_r(&now, &t))
        strftime(out, room, "%H:%M:%S", &t);
}

static void print_stack(const struct watch_view *v, const struct page *p, const struct names *names,
                        const uint32_t *frames, size_t count, size_t first)
{
    size_t most = v->o.depth ? v->o.depth : FRAMES;
    count = names_shown(names, frames, count);
    for (size_t i = first; i < count; i++) {
        struct buffer line = {0};
        buffer_append_text(&line, "    ");
        if (i - first == most && i + 1 < count)
            buffer_printf(&line, "%s %zu more", v->o.unicode ? "\u2026" : "...", count - i);
        else
            page_frame(p, &line, names_frame(names, frames[i]),
                       p->columns > 4 ? p->columns - 4 : 0);
        page_line(p, &line);
        if (i - first == most)
            break;
    }
    if (first >= count)
        fputs("    (no stack known)\n", p->out);
}

static void print_node(struct watch_view *v, const struct page *p, struct names *names,
                       uint32_t node)
{
    struct buffer frames = {0};
    size_t n = names_append(names, node, &frames);
    print_stack(v, p, names, (const uint32_t *)(const void *)frames.data, n, 0);
    buffer_release(&frames);
}

/* "12.0 MB (95% between 10.1 MB and 14.2 MB)" */
static void append_estimate(struct buffer *b, const struct estimate *e)
{
    char n[HUMAN_TEXT_BYTES], low[HUMAN_TEXT_BYTES], high[HUMAN_TEXT_BYTES];
    struct estimate_interval i = estimate_bytes_interval(e);
    buffer_append_text(b, size_text(n, e->bytes));
    if (i.high > i.low)
        buffer_printf(b, " (95%% between %s and %s)", size_text(low, i.low),
                      size_text(high, i.high));
}

static void append_ages(struct buffer *b, const struct watch_site *s)
{
    char oldest[HUMAN_TEXT_BYTES], youngest[HUMAN_TEXT_BYTES];
    human_duration(oldest, s->oldest_ns);
    human_duration(youngest, s->youngest_ns);
    if (strcmp(oldest, youngest))
        buffer_printf(b, ", ages %s to %s", youngest, oldest);
    else
        buffer_printf(b, ", age %s", oldest);
}

static void append_growth(struct buffer *b, double growth)
{
    char n[HUMAN_TEXT_BYTES];
    if (growth >= 1)
        buffer_printf(b, ", grown by %s", size_text(n, growth));
    else if (growth <= -1)
        buffer_printf(b, ", shrunk by %s", size_text(n, -growth));
}

/* Adds the figures that only this order shows. */
static void append_order(struct buffer *b, const struct watch_site *s, enum watch_order order)
{
    char n[HUMAN_TEXT_BYTES];
    if (order == WATCH_BY_TIME)
        buffer_printf(b, ", %s seconds", size_text(n, s->byte_seconds));
    if (order == WATCH_BY_ALLOCATED)
        buffer_printf(b, ", %s allocated in all", size_text(n, s->sums.allocated_bytes));
    if (order == WATCH_BY_ELSEWHERE)
        buffer_printf(b, ", %s freed by another thread (%.0f%% of its frees)",
                      size_text(n, sites_weight(s, order)), 100 * sites_elsewhere(&s->sums));
}

static void print_others(const struct page *p, const struct watch_row *row)
{
    char size[HUMAN_TEXT_BYTES];
    if (row->stacks)
        text_printf(p->out, "    and %s in %s more %s with this call site\n",
                    size_text(size, row->others.bytes), COUNT(row->stacks),
                    plural(row->stacks, "stack", "stacks"));
}

static void print_row(struct watch_view *v, const struct page *p, const struct watch_report *r,
                      const struct watch_rows *rows, const struct watch_row *row)
{
    const struct watch_site *s = &row->site;
    struct buffer b = {0};
    buffer_append_text(&b, "  ");
    append_estimate(&b, &s->chosen);
    uint64_t blocks = estimate_whole(s->chosen.blocks);
    buffer_printf(&b, " in %s%s block%s, %s sampled",
                  (double)s->chosen.samples < s->chosen.blocks ? "about " : "", COUNT(blocks),
                  blocks == 1 ? "" : "s", COUNT(s->chosen.samples));
    if (r->kind != WATCH_FREES && s->chosen.samples)
        append_ages(&b, s);
    if (r->since_ns)
        append_growth(&b, s->growth_bytes);
    append_order(&b, s, v->o.order);
    page_wrap(p, &b, 2);
    print_stack(v, p, rows->names, row->frames, row->count, row->first);
    print_others(p, row);
}

static void print_rows(struct watch_view *v, const struct page *p, const struct watch_report *r,
                       const struct watch_rows *rows)
{
    size_t most = v->o.top ? v->o.top : r->process->asked ? SITES : SITES_OF_CHILD;
    for (size_t i = 0; i < rows->count && i < most; i++)
        print_row(v, p, r, rows, &rows->items[i]);
    if (rows->count > most) {
        struct estimate rest = {0};
        char size[HUMAN_TEXT_BYTES];
        for (size_t i = most; i < rows->count; i++)
            estimate_merge(&rest, &rows->items[i].site.chosen);
        text_printf(p->out, "  %s from %s other call sites (-n N shows more)\n",
                    size_text(size, rest.bytes), COUNT(rows->count - most));
    }
}

static void print_age(const struct page *p, const struct watch_report *r)
{
    struct buffer b = {0};
    char age[HUMAN_TEXT_BYTES], seen[HUMAN_TEXT_BYTES];
    if (!r->automatic)
        return;
    human_duration(age, r->older_than_ns);
    human_count(seen, r->choice.lifetimes);
    if (r->choice.most_ns)
        buffer_printf(&b,
                      "  old is %s here: twice what 99 of 100 freed samples lived (%s; %s seen). "
                      "--old AGE sets it",
                      age, TIME(r->choice.most_ns), seen);
    else
        buffer_printf(&b,
                      "  old is %s until %u freed samples were seen (%s so far); then it is "
                      "chosen by their lifetimes. --old AGE sets it",
                      age, AGE_LEAST_SEEN, seen);
    page_wrap(p, &b, 2);
}

static void print_dropped(const struct page *p, const struct watch_process *process)
{
    const struct mlw_watch_counters *c = &process->counters;
    uint64_t asked = watch_period(process, false), period = watch_period(process, true);
    if (period > asked)
        text_printf(p->out,
                    "  many samples are live, so one byte in %s is sampled now, instead of %s: "
                    "estimates hold, and their intervals grow\n",
                    SIZE(period), SIZE(asked));
    if (watch_dropped(process))
        text_printf(
            p->out,
            "  %s %s could not be stored: the estimates lack the live part of %s allocated\n",
            COUNT(watch_dropped(process)), plural(watch_dropped(process), "sample", "samples"),
            SIZE(c->dropped_weight));
    if (c->crowded)
        text_printf(p->out,
                    "  %s %s a stack that could not be stored, shown as a site without frames\n",
                    COUNT(c->crowded), plural(c->crowded, "sample has", "samples have"));
    if (process->torn)
        text_printf(p->out, "  %s records were torn when the process died\n", COUNT(process->torn));
}

static void append_end(struct buffer *b, const struct watch_process *p)
{
    int w = p->wait_status;
    if (p->life == WATCH_RUNNING)
        buffer_append_text(b, " (still running)");
    else if (p->life == WATCH_REPLACED)
        buffer_append_text(b, " when it became another program");
    else if (w >= 0 && WIFSIGNALED(w))
        buffer_printf(b, " when it was killed by signal %d (%s)", WTERMSIG(w),
                      strsignal(WTERMSIG(w)));
    else if (w >= 0)
        buffer_printf(b, " when it ended with status %d", WEXITSTATUS(w));
    else
        buffer_append_text(b, process_said_goodbye(p) ? " when it ended" : " when it was killed");
    if (p->out_of_memory)
        buffer_append_text(b, ", by the kernel because memory was short");
}

static void print_heading(const struct page *p, const struct watch_report *r,
                          const struct watch_rows *rows, bool marking)
{
    const struct watch_process *process = r->process;
    struct buffer b = {0};
    char time_of_day[16], title[100];
    clock_text(time_of_day, sizeof time_of_day);
    buffer_printf(&b, "%s %s [%d%s]: ", time_of_day,
                  watch_process_title(process, title, sizeof title), (int)process->pid,
                  process->elsewhere ? ", in another pid namespace" : "");
    switch (r->kind) {
    case WATCH_OLD:
        append_estimate(&b, &rows->total);
        buffer_printf(&b, " in blocks older than %s", TIME(r->older_than_ns));
        if (r->since_ns)
            append_growth(&b, rows->growth_bytes);
        buffer_append_text(&b, marking ? "; known from now on" : "");
        break;
    case WATCH_HIGH_WATER:
        buffer_append_text(&b, "a new high-water mark: ");
        append_estimate(&b, &rows->total);
        break;
    case WATCH_FREES:
        if (!r->freed_count) {
            buffer_append_text(&b, "no sampled block was freed or reallocated yet");
            break;
        }
        buffer_printf(&b, "the last %u sampled blocks that were freed or reallocated, latest last",
                      r->freed_count > FREED ? FREED : r->freed_count);
        break;
    case WATCH_FINAL:
        append_estimate(&b, &rows->total);
        buffer_append_text(&b, " live");
        append_end(&b, process);
        break;
    default: append_estimate(&b, &rows->total); buffer_append_text(&b, " live");
    }
    page_heading(p, "%s", buffer_text(&b));
    buffer_release(&b);
}

static void print_freed(struct watch_view *v, const struct page *p, struct names *names,
                        const struct watch_report *r, const struct watch_freed *f)
{
    const struct mlw_watch_free *c = &f->call;
    uint64_t now = r->process->time_ns;
    text_printf(p->out, "  0x%llx, %s", (unsigned long long)c->address, SIZE(c->size));
    if (c->kind == MLW_WATCH_REALLOC)
        text_printf(p->out, ", reallocated to %s", SIZE(c->new_size));
    text_printf(p->out, ", %s ago by thread %u, at the age of %s",
                TIME(now > c->freed_ns ? now - c->freed_ns : 0), c->freed_tid,
                TIME(c->freed_ns > c->allocated_ns ? c->freed_ns - c->allocated_ns : 0));
    fputs("\n", p->out);
    print_node(v, p, names, f->release);
    text_printf(p->out, "   allocated by thread %u\n", c->allocated_tid);
    print_node(v, p, names, f->allocation);
}

int watch_text_report(struct watch_view *v, const struct watch_report *r,
                      const struct watch_rows *rows, bool marking, struct error *err)
{
    struct page p = page_of(v);
    struct watch_named *n = watch_named_of(v, r->process, err);
    char size[HUMAN_TEXT_BYTES];
    if (!n)
        return -1;
    if ((!r->process->asked || r->process->life == WATCH_REPLACED) && !rows->count &&
        (r->kind == WATCH_OLD || r->kind == WATCH_FINAL))
        return 0; /* a child without findings is left out: a build has thousands */
    print_heading(&p, r, rows, marking);
    if (r->kind == WATCH_OLD)
        print_age(&p, r);
    print_dropped(&p, r->process);
    if (r->kind == WATCH_FREES)
        for (uint32_t i = r->freed_count > FREED ? r->freed_count - FREED : 0; i < r->freed_count;
             i++)
            print_freed(v, &p, n->names, r, &r->freed[i]);
    else
        print_rows(v, &p, r, rows);
    if (r->sites.known_blocks)
        text_printf(p.out, "  %s sampled %s marked as known and left out\n",
                    COUNT(r->sites.known_blocks),
                    plural(r->sites.known_blocks, "block is", "blocks are"));
    if (rows->known_blocks)
        text_printf(p.out, "  %s in %s sampled %s is on the known list and left out\n",
                    size_text(size, rows->known.bytes), COUNT(rows->known_blocks),
                    plural(rows->known_blocks, "block", "blocks"));
    if (fflush(p.out))
        return error_system(err, "cannot write the report");
    return 0;
}

static void print_block(const struct page *p, const struct mlw_watch_error *e)
{
    char size[HUMAN_TEXT_BYTES];
    const char *where = e->offset < 0 ? "before" : "behind";
    uint64_t distance = e->offset < 0                    ? (uint64_t)-e->offset
                        : (uint64_t)e->offset >= e->size ? (uint64_t)e->offset - e->size
                                                         : (uint64_t)e->offset;
    if (e->offset >= 0 && (uint64_t)e->offset < e->size)
        where = "inside";
    human_count(size, e->size);
    text_printf(p->out, "  %llu bytes %s the block of %s bytes at 0x%llx\n",
                (unsigned long long)distance, where, size, (unsigned long long)e->address);
}

int watch_text_caught(struct watch_view *v, const struct watch_caught *c, struct error *err)
{
    struct page p = page_of(v);
    const struct mlw_watch_error *e = &c->error;
    struct watch_named *n = watch_named_of(v, c->process, err);
    char time_of_day[16];
    if (!n)
        return -1;
    clock_text(time_of_day, sizeof time_of_day);
    page_heading(&p, "%s %s [%d]: %s at 0x%llx by thread %u", time_of_day,
                 watch_process_name(c->process), (int)c->process->pid, watch_error_name(e->kind),
                 (unsigned long long)e->access_address, e->tid);
    if (e->flags & MLW_WATCH_ERROR_BLOCK)
        print_block(&p, e);
    if (e->flags & MLW_WATCH_ERROR_AT_END)
        fputs("  found when the process ended\n", p.out);
    else
        fputs(e->flags & MLW_WATCH_ERROR_AT_FREE ? "  found when it was released:\n"
              : e->kind >= MLW_WATCH_DOUBLE_FREE ? "  released:\n"
              : e->flags & MLW_WATCH_ERROR_WRITE ? "  written:\n"
                                                 : "  read:\n",
              p.out);
    if (!(e->flags & MLW_WATCH_ERROR_AT_END))
        print_node(v, &p, n->names, c->access);
    if (e->flags & MLW_WATCH_ERROR_FREED) {
        text_printf(p.out, "  freed %s before, by thread %u:\n",
                    TIME(e->time_ns > e->freed_ns ? e->time_ns - e->freed_ns : 0), e->freed_tid);
        print_node(v, &p, n->names, c->release);
    }
    if (e->flags & MLW_WATCH_ERROR_BLOCK) {
        text_printf(p.out, "  allocated %s before, by thread %u:\n",
                    TIME(e->time_ns > e->allocated_ns ? e->time_ns - e->allocated_ns : 0),
                    e->allocated_tid);
        print_node(v, &p, n->names, c->allocation);
    }
    if (fflush(p.out))
        return error_system(err, "cannot write the report");
    return 0;
}
