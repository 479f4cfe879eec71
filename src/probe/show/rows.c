/* rows.c - Sorts a probe's rows into groups and names their keys and columns. Keys that print
 * alike, such as stacks of one program in several processes, become one group. */
#include "probe/show/rows.h"
#include "symbol/spelling.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const struct probe_layout *probe_layout(const struct probe_result *r)
{
    return probe_kind_layout(r->kind);
}

char probe_histogram_unit(const struct probe_result *r)
{
    const struct probe_layout *l = probe_layout(r);
    return r->histogram ? l->unit[r->histogram - 1] : l->histogram;
}

int probe_histogram_counted(const struct probe_result *r)
{
    return r->histogram ? 0 : probe_layout(r)->counted;
}

int probe_histogram_of(const struct probe_result *r)
{
    if (r->histogram)
        return (int)r->histogram - 1;
    return probe_layout(r)->histogram == 't' ? 3 : 1;
}

uint64_t probe_value(const struct probe_value *v, int which) { return v->at[which]; }

static int compare(const struct probe_row *x, const struct probe_row *y)
{
    struct probe_key a = x->key, b = y->key;
    a.size_class = b.size_class = 0;
    int order = memcmp(&a, &b, sizeof a);
    if (order)
        return order;
    return (x->key.size_class > y->key.size_class) - (x->key.size_class < y->key.size_class);
}

static int by_group(const void *a, const void *b) { return compare(a, b); }

static bool same_group(const struct probe_row *x, const struct probe_row *y)
{
    struct probe_key a = x->key, b = y->key;
    a.size_class = b.size_class = 0;
    return memcmp(&a, &b, sizeof a) == 0;
}

static int sort_value;

static int by_value(const void *a, const void *b)
{
    const struct probe_group *x = a, *y = b;
    uint64_t of_x = probe_value(&x->sum.value, sort_value);
    uint64_t of_y = probe_value(&y->sum.value, sort_value);
    if (of_x != of_y)
        return of_x < of_y ? 1 : -1;
    if (x->sum.value.calls != y->sum.value.calls)
        return x->sum.value.calls < y->sum.value.calls ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* ---- keys that read the same ---- */

/* A part of a key, how it reads, and the first part that reads so. */
struct reading {
    uint64_t part, same;
    char *text; /* owned */
};

static int by_part(const void *a, const void *b)
{
    const struct reading *x = a, *y = b;
    return (x->part > y->part) - (x->part < y->part);
}

static int by_text(const void *a, const void *b)
{
    const struct reading *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : by_part(a, b);
}

/* Writes how a part of a key reads. */
typedef void read_part(struct buffer *b, const struct probe_result *r,
                       const struct probe_report *how, uint64_t part);

static void read_stack(struct buffer *b, const struct probe_result *r,
                       const struct probe_report *how, uint64_t stack)
{
    struct symbol_frame f[PROBE_FRAMES_MAX];
    const size_t n = probe_functions(r, how, stack, f, PROBE_FRAMES_MAX);
    for (size_t i = 0; i < n; i++) {
        probe_function_text(b, &f[i]);
        buffer_append_char(b, '\n');
    }
}

static void read_kernel_stack(struct buffer *b, const struct probe_result *r,
                              const struct probe_report *how, uint64_t kstack)
{
    const char *names[PROBE_DEPTH_MAX];
    const size_t n = probe_kernel_frames(r, kstack, names, PROBE_DEPTH_MAX);
    (void)how;
    for (size_t i = 0; i < n; i++)
        buffer_printf(b, "%s\n", names[i]);
}

static void read_caller(struct buffer *b, const struct probe_result *r,
                        const struct probe_report *how, uint64_t site)
{
    const char *name = probe_kernel_name(r, site);
    (void)how;
    buffer_append_text(b, name ? name : "");
}

static void read_name(struct buffer *b, const struct probe_result *r,
                      const struct probe_report *how, uint64_t what)
{
    (void)how;
    buffer_append_text(b, what < r->name_count ? r->names[what] : "");
}

static const struct part {
    uint32_t by;
    read_part *read;
    size_t at; /* in struct probe_key */
    bool is_what;
} parts[] = {
    {PROBE_BY_STACK, read_stack, offsetof(struct probe_key, stack), false},
    {PROBE_BY_KSTACK, read_kernel_stack, offsetof(struct probe_key, kstack), false},
    {PROBE_BY_CALLER, read_caller, offsetof(struct probe_key, site), false},
    {PROBE_BY_FUNCTION | PROBE_BY_ACCESS, read_name, offsetof(struct probe_key, what), true},
};

static uint64_t get_part(const struct part *p, const struct probe_key *k)
{
    uint64_t value;
    if (p->is_what)
        return k->what;
    memcpy(&value, (const char *)k + p->at, sizeof value);
    return value;
}

static void set_part(const struct part *p, struct probe_key *k, uint64_t value)
{
    if (p->is_what)
        k->what = (uint32_t)value;
    else
        memcpy((char *)k + p->at, &value, sizeof value);
}

static int read_all(const struct part *p, struct reading *list, size_t n,
                    const struct probe_result *r, const struct probe_report *how, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct buffer b = {0};
        p->read(&b, r, how, list[i].part);
        list[i].text = strdup(buffer_text(&b));
        buffer_release(&b);
        if (!list[i].text)
            return error_memory(err);
    }
    return 0;
}

/* Gives the parts of keys that read the same one value. */
static int unite(const struct part *p, struct probe_row *rows, size_t count,
                 const struct probe_result *r, const struct probe_report *how, struct error *err)
{
    struct reading *list = calloc(count + 1, sizeof *list);
    size_t n = 0;
    if (!list)
        return error_memory(err);
    for (size_t i = 0; i < count; i++)
        list[i].part = get_part(p, &rows[i].key);
    qsort(list, count, sizeof *list, by_part);
    for (size_t i = 0; i < count; i++)
        if (!n || list[n - 1].part != list[i].part)
            list[n++].part = list[i].part;
    const int bad = read_all(p, list, n, r, how, err);
    if (!bad) {
        qsort(list, n, sizeof *list, by_text);
        for (size_t i = 0; i < n; i++)
            list[i].same =
                i && !strcmp(list[i - 1].text, list[i].text) ? list[i - 1].same : list[i].part;
        qsort(list, n, sizeof *list, by_part);
    }
    for (size_t i = 0; !bad && i < count; i++) {
        const struct reading wanted = {.part = get_part(p, &rows[i].key)};
        const struct reading *found = bsearch(&wanted, list, n, sizeof *list, by_part);
        set_part(p, &rows[i].key, found->same);
    }
    for (size_t i = 0; i < n; i++)
        free(list[i].text);
    free(list);
    return bad;
}

static int unite_all(struct probe_row *rows, size_t count, const struct probe_result *r,
                     const struct probe_report *how, struct error *err)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (count > 1 && r->by & parts[i].by && unite(&parts[i], rows, count, r, how, err))
            return -1;
    return 0;
}

int probe_groups_make(struct probe_groups *g, const struct probe_result *r,
                      const struct probe_report *how, struct error *err)
{
    *g = (struct probe_groups){0};
    g->rows = calloc(r->row_count + 1, sizeof *g->rows);
    g->group = calloc(r->row_count + 1, sizeof *g->group);
    if (!g->rows || !g->group) {
        probe_groups_release(g);
        return error_memory(err);
    }
    if (r->row_count) {
        memcpy(g->rows, r->rows, r->row_count * sizeof *g->rows);
        if (unite_all(g->rows, r->row_count, r, how, err)) {
            probe_groups_release(g);
            return -1;
        }
        qsort(g->rows, r->row_count, sizeof *g->rows, by_group);
    }
    for (size_t i = 0; i < r->row_count; i++) {
        if (i == 0 || !same_group(&g->rows[i - 1], &g->rows[i])) {
            g->group[g->count] = (struct probe_group){.sum.key = g->rows[i].key, .first = i};
            g->group[g->count++].sum.key.size_class = 0;
        }
        struct probe_group *last = &g->group[g->count - 1];
        last->count++;
        probe_value_add(&last->sum.value, &g->rows[i].value);
        probe_value_add(&g->total, &g->rows[i].value);
    }
    sort_value = r->order ? (int)r->order - 1 : probe_layout(r)->order;
    if (g->count)
        qsort(g->group, g->count, sizeof *g->group, by_value);
    return 0;
}

void probe_groups_release(struct probe_groups *g)
{
    free(g->rows);
    free(g->group);
    *g = (struct probe_groups){0};
}

const char *probe_key_name(const struct probe_key *k, char text[PROBE_NAME_BYTES + 1])
{
    memcpy(text, k->name, PROBE_NAME_BYTES);
    text[PROBE_NAME_BYTES] = 0;
    if (!*text && k->what >= 1024 && k->what % 1024 == 0 && k->what / 1024 < 1024)
        snprintf(text, PROBE_NAME_BYTES, "kmalloc-%uk", k->what / 1024);
    else if (!*text)
        snprintf(text, PROBE_NAME_BYTES, "kmalloc-%u", k->what);
    return text;
}

const char *probe_not_known_why(const struct probe_not_known *n)
{
    return n->given_out_again
               ? "Linux gave such blocks out again and had reported no release of them"
               : "Linux reported no release of this cache, whose blocks kfree_rcu() may release";
}

uint64_t probe_class_min(uint32_t size_class) { return size_class ? 1ull << (size_class - 1) : 0; }

uint64_t probe_class_max(uint32_t size_class)
{
    if (size_class == 0)
        return 0;
    return size_class >= 64 ? UINT64_MAX : (1ull << size_class) - 1;
}

size_t probe_functions(const struct probe_result *r, const struct probe_report *how, uint64_t stack,
                       struct symbol_frame *frames, size_t max)
{
    struct probe_frame raw[PROBE_DEPTH_MAX];
    size_t n = probe_stack_frames(r, stack, raw, PROBE_DEPTH_MAX), count = 0;
    for (size_t i = 0; i < n && count < max; i++) {
        const struct symbol_module module = {.path = raw[i].path, .end = UINT64_MAX};
        count += symbols_lookup(how->symbols, raw[i].path ? &module : NULL, 0, raw[i].address,
                                i > 0, frames + count, max - count);
        if (frames[count - 1].function)
            continue;
        /* Without a name the place must do; symbols_lookup wrote one frame. */
        frames[count - 1].offset = raw[i].address;
        if (!frames[count - 1].module)
            frames[count - 1].module = "[unknown]";
    }
    return count;
}

void probe_function_text(struct buffer *b, const struct symbol_frame *f)
{
    if (!f->function) {
        buffer_printf(b, "%s+0x%" PRIx64, f->module, f->offset);
        return;
    }
    if (!spelling_short(f->function, b))
        buffer_append_text(b, f->function);
    if (f->file) {
        const char *slash = strrchr(f->file, '/');
        buffer_printf(b, " (%s:%u)", slash ? slash + 1 : f->file, f->line);
    } else if (f->module)
        buffer_printf(b, " (%s)", f->module);
    if (f->inlined)
        buffer_append_text(b, " [inlined]");
}
