/* process.c - Writes the data of one process: frames, groups of stacks, cells over time, sizes,
 * lifetimes and excerpts of sources. Columns hold differences, because small numbers compress
 * well. Sources are read below one directory that the user named, and nowhere else. */
#include "page/process.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/resident.h"
#include "base/json.h"
#include "page/sites.h"
#include "report/json_process.h"
#include "report/kernel.h"
#include "show/table.h"
#include "trust/file.h"
#include "trust/place.h"

/* The text of the sources around the frames of a page, where the user allows it.
 *
 * A recording says which files its functions come from, and a page is made to be handed on: files
 * are read below one directory that the user named, and nowhere else. */

#define ITEMS_MAX  500u       /* excerpts */
#define FILES_MAX  200u       /* read for them */
#define FILE_BYTES (1u << 20) /* the largest file; larger ones are no sources */
#define AROUND     3u         /* lines before and behind */
#define LINE_BYTES 200u       /* the most of a line; the rest is left out */

struct source { /* a file that was read, or could not be */
    const char *file;
    char *text; /* NULL: it could not */
};

struct reader {
    int root; /* directory */
    const char *root_path;
    struct source files[FILES_MAX];
    size_t count;
};

/* The path below the root: without "." and "..", nor the root before it; "" when it is elsewhere.
 */
static void below(const struct reader *r, const char *file, struct buffer *out)
{
    const size_t root = strlen(r->root_path);
    buffer_clear(out);
    for (const char *p = file; *p;) {
        const size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (out->size_bytes && out->data[--out->size_bytes] != '/')
                ;
        } else if (n && !(n == 1 && p[0] == '.')) {
            buffer_append_char(out, '/');
            buffer_append(out, p, n);
        }
        p += n + (p[n] == '/');
    }
    if (buffer_failed(out) || !out->size_bytes) {
        buffer_clear(out);
        return;
    }
    out->data[out->size_bytes] = 0;
    size_t skip = 1; /* a relative name is one of the root */
    if (file[0] == '/') {
        const bool inside = !strncmp(out->data, r->root_path, root) && out->data[root] == '/';
        skip = inside ? root + 1 : out->size_bytes;
    }
    memmove(out->data, out->data + skip, out->size_bytes - skip + 1);
    out->size_bytes -= skip;
}

/* The text of a file; NULL when it cannot be had. */
static const char *source_text(struct reader *r, const char *file)
{
    static const struct trust_rule any = {
        .what = "the source", .owners = TRUST_ANYBODY, .follow = true, .most_bytes = FILE_BYTES};
    struct buffer path = {0};
    struct error ignored; /* a source that is not here is no fault */
    for (size_t i = 0; i < r->count; i++)
        if (!strcmp(r->files[i].file, file))
            return r->files[i].text;
    if (r->count == FILES_MAX)
        return NULL;
    struct source *s = &r->files[r->count++];
    *s = (struct source){file, NULL};
    below(r, file, &path);
    const int fd =
        path.size_bytes ? trust_open_below(r->root, buffer_text(&path), &any, &ignored) : -1;
    if (fd >= 0) {
        size_t bytes;
        s->text = trust_read_whole(fd, FILE_BYTES, &bytes, &ignored);
        close(fd);
    }
    buffer_release(&path);
    return s->text;
}

static void write_lines(struct json *j, const char *text, unsigned first, unsigned end)
{
    unsigned line = 1;
    json_open_array(j, "lines");
    for (const char *p = text; *p && line < end; line++) {
        size_t n = strcspn(p, "\n"), shown = n;
        if (line >= first) {
            char cut[LINE_BYTES + 1];
            while (shown && (shown > LINE_BYTES || ((unsigned char)p[shown] & 0xc0) == 0x80))
                shown--; /* never within a character */
            memcpy(cut, p, shown);
            cut[shown] = 0;
            json_text(j, NULL, cut);
        }
        p += n + (p[n] == '\n');
    }
    json_close_array(j);
}

/* False: the file is not there, or has no such line. */
static bool write_item(struct json *j, struct reader *r, const struct name_frame *f, uint32_t frame)
{
    if (!f->file || !*f->file || !f->line)
        return false;
    const char *text = source_text(r, f->file), *at = text;
    for (unsigned line = 1; at && line < f->line; line++)
        at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    if (!at || !*at)
        return false;
    const unsigned first = f->line > AROUND ? f->line - AROUND : 1;
    json_open_object(j, NULL);
    json_number(j, "frame", frame);
    json_number(j, "line", f->line);
    json_number(j, "first", first);
    write_lines(j, text, first, f->line + AROUND + 1);
    json_close_object(j);
    return true;
}

struct wish {
    float weight; /* as a call site */
    uint32_t id;
};

static int by_weight(const void *a, const void *b)
{
    const struct wish *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The field `sources`: {root, items[]}, each with frame, line, first and lines[]; at most 500, of
 * the call sites that weigh most, then of other frames. number: of the frames on the page, by id +
 * 1. root: absolute, or NULL: nothing is read and the field is null. */
static int html_sources(struct json *j, const struct page_sites *sites, const struct names *names,
                        const uint32_t *number, const char *root, struct error *err)
{
    if (!root) {
        json_null(j, "sources");
        return 0;
    }
    struct reader *r = calloc(1, sizeof *r);
    struct wish *wishes = malloc(((size_t)sites->frame_ids + 1) * sizeof *wishes);
    uint32_t n = 0;
    if (!r || !wishes) {
        free(r);
        free(wishes);
        return error_memory_for(err, "the sources on the page");
    }
    r->root_path = root;
    r->root = trust_directory(AT_FDCWD, *root ? root : "/",
                              &(struct trust_rule){.owners = TRUST_ANYBODY, .follow = true}, err);
    if (r->root < 0) {
        free(r);
        free(wishes);
        return -1;
    }
    for (uint32_t id = 0; id < sites->frame_ids; id++)
        if (number[id + 1])
            wishes[n++] = (struct wish){sites->site_weight[id + 1], id};
    qsort(wishes, n, sizeof *wishes, by_weight);
    json_open_object(j, "sources");
    json_text(j, "root", root);
    json_open_array(j, "items");
    for (uint32_t i = 0, shown = 0; i < n && shown < ITEMS_MAX; i++)
        shown += write_item(j, r, names_frame(names, wishes[i].id), number[wishes[i].id + 1] - 1);
    json_close_array(j);
    json_close_object(j);
    for (size_t i = 0; i < r->count; i++)
        free(r->files[i].text);
    close(r->root);
    free(r);
    free(wishes);
    return 0;
}

#define STACKS_SHOWN 200u /* that mapped memory themselves */
#define SINGLE_LANES 15u  /* threads that are shown by themselves */

struct busy {
    uint64_t calls;
    uint32_t thread;
};

static int compare_thread_calls(const void *a, const void *b)
{
    const struct busy *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    return x->thread < y->thread ? -1 : x->thread > y->thread;
}

int page_lanes_find(struct page_lanes *l, const struct trace_image *image, struct error *err)
{
    const uint32_t n = image->thread_count;
    struct busy *busy = malloc(((size_t)n + 1) * sizeof *busy);
    l->lane_of = calloc((size_t)n + 1, sizeof *l->lane_of);
    if (!busy || !l->lane_of) {
        free(busy);
        page_lanes_release(l);
        return error_memory_for(err, "%u threads", n);
    }
    for (uint32_t i = 0; i < n; i++)
        busy[i] = (struct busy){image->threads[i].calls, i};
    qsort(busy, n, sizeof *busy, compare_thread_calls);
    l->single = n <= SINGLE_LANES + 1 ? n : SINGLE_LANES;
    for (uint32_t i = 0; i < n; i++)
        l->lane_of[busy[i].thread] = i < l->single ? i : l->single;
    l->count = l->single + (n > l->single) + 1;
    free(busy);
    return 0;
}

void page_lanes_release(struct page_lanes *l)
{
    free(l->lane_of);
    memset(l, 0, sizeof *l);
}

static void write_lanes(struct json *j, const struct page_lanes *lanes,
                        const struct trace_image *image)
{
    json_open_array(j, "lanes");
    for (uint32_t lane = 0; lane < lanes->count; lane++) {
        const char *name = "";
        uint64_t threads = 0;
        json_open_object(j, NULL);
        json_open_array(j, "tids");
        for (uint32_t i = 0; i < image->thread_count && lane + 1 < lanes->count; i++) {
            if (lanes->lane_of[i] != lane)
                continue;
            json_number(j, NULL, image->threads[i].tid);
            name = image->threads[i].name;
            threads++;
        }
        json_close_array(j);
        json_text(j, "name", threads == 1 ? name : "");
        json_bool(j, "inherited", lane + 1 == lanes->count);
        json_close_object(j);
    }
    json_close_array(j);
}

/* ---- frames ---- */

struct texts { /* each text once; [count] */
    const char **text;
    uint32_t count, room;
    uint32_t *table; /* index + 1, by hash */
    uint32_t table_size;
};

static uint32_t hash_frame_text(const char *s)
{
    uint32_t h = 2166136261u;
    while (*s)
        h = (h ^ (unsigned char)*s++) * 16777619u;
    return h ^ h >> 15;
}

static int texts_new(struct texts *t, size_t at_most)
{
    uint32_t size = 1024;
    while (size < 2 * at_most)
        size *= 2;
    *t = (struct texts){.text = malloc((at_most + 1) * sizeof *t->text),
                        .room = (uint32_t)at_most,
                        .table = calloc(size, sizeof *t->table),
                        .table_size = size};
    return t->text && t->table ? 0 : -1;
}

static uint32_t texts_add(struct texts *t, const char *text)
{
    text = text ? text : "";
    uint32_t i = hash_frame_text(text) & (t->table_size - 1);
    while (t->table[i] && strcmp(t->text[t->table[i] - 1], text) != 0)
        i = (i + 1) & (t->table_size - 1);
    if (!t->table[i]) {
        t->text[t->count++] = text;
        t->table[i] = t->count;
    }
    return t->table[i] - 1;
}

static void texts_release(struct texts *t)
{
    free(t->text);
    free(t->table);
}

static unsigned frame_flags(const struct name_frame *f)
{
    const bool own = f->own && f->role == ROLE_CODE;
    return own | f->inlined << 1 | f->wrapper << 2 | f->known << 3 | f->cut << 4;
}

enum { FUNCTION, FILE_NAME, LINE, MODULE, FLAGS };

static void write_frame_column(struct json *j, const char *key, unsigned column,
                               const struct names *names, const uint32_t *ids, uint32_t n,
                               struct texts *texts)
{
    json_open_array(j, key);
    for (uint32_t i = 0; i < n; i++) {
        const struct name_frame *f = names_frame(names, ids[i]);
        json_number(j, NULL,
                    column == FUNCTION    ? texts_add(texts, names_frame_brief(f))
                    : column == FILE_NAME ? texts_add(texts, f->below ? f->place : f->file)
                    : column == LINE      ? f->line
                    : column == MODULE    ? texts_add(texts, f->module)
                                          : frame_flags(f));
    }
    json_close_array(j);
}

/* Numbers what occurs, each frame once; returns how many. [number: by id + 1, 0: does not occur] */
static uint32_t number_frames(const struct page_sites *p, uint32_t *number, uint32_t *ids)
{
    const struct sites *s = &p->all;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->kept; i++) {
        const uint32_t frame = s->frame[p->kept_frames[i]];
        if (!number[frame + 1]) {
            ids[n++] = frame;
            number[frame + 1] = n;
        }
    }
    for (uint32_t i = 0; i < p->group_count; i++) {
        const uint32_t site = p->groups[i].site;
        if (site != PAGE_SITE_NONE && site != PAGE_SITE_OTHER && !number[site]) {
            ids[n++] = site - 1;
            number[site] = n;
        }
    }
    return n;
}

/* The frames that occur, each once, and the forest of callers that they stand in. *number: by
 * id + 1, the caller's to free. */
static int write_page_frames(struct json *j, const struct page_sites *p, const struct names *names,
                             uint32_t **numbers, struct error *err)
{
    const struct sites *s = &p->all;
    const uint32_t known = names_count(names);
    uint32_t *number = calloc((size_t)known + 2, sizeof *number);
    uint32_t *ids = calloc((size_t)known + 1, sizeof *ids);
    struct texts texts = {0};
    if (!number || !ids || texts_new(&texts, 3 * (size_t)known + 1)) {
        free(number);
        free(ids);
        texts_release(&texts);
        return error_memory_for(err, "the names on the page");
    }
    const uint32_t n = number_frames(p, number, ids);
    json_open_object(j, "frames");
    write_frame_column(j, "function", FUNCTION, names, ids, n, &texts);
    write_frame_column(j, "file", FILE_NAME, names, ids, n, &texts);
    write_frame_column(j, "line", LINE, names, ids, n, &texts);
    write_frame_column(j, "module", MODULE, names, ids, n, &texts);
    write_frame_column(j, "flags", FLAGS, names, ids, n, &texts);
    json_close_object(j);
    json_texts(j, "texts", texts.text, texts.count);
    json_open_object(j, "nodes");
    json_open_array(j, "caller"); /* 0: outermost; else how far before this one */
    for (uint32_t i = 0; i < p->kept; i++) {
        const uint32_t caller = s->parent[p->kept_frames[i]];
        json_number(j, NULL, caller ? i + 1 - p->page_frame[caller] : 0);
    }
    json_close_array(j);
    json_open_array(j, "frame");
    for (uint32_t i = 0; i < p->kept; i++)
        json_number(j, NULL, number[s->frame[p->kept_frames[i]] + 1] - 1);
    json_close_array(j);
    json_close_object(j);
    texts_release(&texts);
    free(ids);
    *numbers = number;
    return 0;
}

/* ---- groups, rows, cells ---- */

/* 1: frames are left out between the tip and the call site. */
static const struct column gap_column[] = {COLUMN(struct page_group, gap, COUNT, "gap", NULL, 0),
                                           COLUMN_END};
static const struct column shape_columns[] = {
    COLUMN(struct series_shape, min_bytes, LEAST, "min_bytes", NULL, 0),
    COLUMN(struct series_shape, max_bytes, BYTES, "max_bytes", NULL, 0), COLUMN_END};

/* number: of the frames on the page. */
static void write_page_groups(struct json *j, const struct page_sites *p, const struct series *s,
                              const uint32_t *number)
{
    const struct series_shape *shapes = series_shapes(s);
    json_open_object(j, "groups");
    json_open_array(j, "tip");
    for (uint32_t i = 0; i < p->group_count; i++)
        json_number(j, NULL, p->groups[i].tip ? p->page_frame[p->groups[i].tip] : 0);
    json_close_array(j);
    json_open_array(j, "site"); /* frame of the call site, plus 1; 0: none; -1: several others */
    for (uint32_t i = 0; i < p->group_count; i++)
        json_signed(j, NULL,
                    p->groups[i].site == PAGE_SITE_NONE    ? 0
                    : p->groups[i].site == PAGE_SITE_OTHER ? -1
                                                           : (int64_t)number[p->groups[i].site]);
    json_close_array(j);
    json_open_array(j, "folded"); /* 0: a stack by itself; else how many it stands for, plus 1 */
    for (uint32_t i = 0; i < p->group_count; i++)
        json_number(j, NULL, p->groups[i].folded ? p->groups[i].stacks + 1 : 0);
    json_close_array(j);
    table_lists(j, TABLE(gap_column), p->groups, p->group_count, sizeof *p->groups);
    table_lists(j, TABLE(shape_columns), shapes, p->group_count, sizeof *shapes);
    json_open_array(j, "sizes"); /* [bits, calls, bits, calls, ...] of each */
    for (uint32_t i = 0; i < p->group_count; i++) {
        json_open_array(j, NULL);
        for (unsigned bits = 0; bits < 65; bits++)
            if (shapes[i].sizes[bits]) {
                json_number(j, NULL, bits);
                json_number(j, NULL, shapes[i].sizes[bits]);
            }
        json_close_array(j);
    }
    json_close_array(j);
    json_open_array(j, "lifetimes"); /* [class, blocks, ...]; the class behind the last: live */
    for (uint32_t i = 0; i < p->group_count; i++) {
        json_open_array(j, NULL);
        for (unsigned c = 0; c <= MODEL_LIFETIMES; c++)
            if (shapes[i].lifetimes[c]) {
                json_number(j, NULL, c);
                json_number(j, NULL, shapes[i].lifetimes[c]);
            }
        json_close_array(j);
    }
    json_close_array(j);
    json_close_object(j);
}

#define ROW(of, member, key) COLUMN(struct series_row, member, of, key, NULL, 0)
static const struct column row_columns[] = {ROW(NUMBER, group, "group"),
                                            ROW(NUMBER, lane, "lane"),
                                            ROW(COUNT, cells, "cells"),
                                            ROW(BYTES, start_bytes, "start_bytes"),
                                            ROW(COUNT, start_blocks, "start_blocks"),
                                            COLUMN_END};

static void write_rows(struct json *j, const struct series *s)
{
    size_t n;
    const struct series_row *rows = series_rows(s, &n);
    json_open_object(j, "rows");
    table_lists(j, TABLE(row_columns), rows, n, sizeof *rows);
    json_close_object(j);
}

enum cell_column { BIN, CALLS, ALLOCATED, TEMPORARY, LIVE, BLOCKS, PEAK, PEAK_BLOCKS, MEAN };

/* The value of a cell in a column: differences to the cell before, or to the live bytes at the
 * start of the bin, so that most of it is small. */
static int64_t cell_value(enum cell_column column, const struct series_cell *c,
                          const struct series_cell *before)
{
    switch (column) {
    case BIN: return (int64_t)c->bin - (int64_t)before->bin;
    case CALLS: return (int64_t)c->calls;
    case ALLOCATED: return (int64_t)c->allocated_bytes;
    case TEMPORARY: return (int64_t)c->temporary;
    case LIVE: return (int64_t)(c->live_bytes - before->live_bytes);
    case BLOCKS: return (int64_t)(c->live_blocks - before->live_blocks);
    case PEAK: return (int64_t)(c->peak_bytes - before->live_bytes);
    case PEAK_BLOCKS: return (int64_t)(c->peak_blocks - before->live_blocks);
    default: return (int64_t)(c->mean_bytes - (double)before->live_bytes);
    }
}

static void write_cells(struct json *j, const struct series *s)
{
    static const char *const keys[] = {"bin",    "calls", "allocated",   "temporary", "live",
                                       "blocks", "peak",  "peak_blocks", "mean"};
    size_t n, cell_count;
    const struct series_row *rows = series_rows(s, &n);
    const struct series_cell *cells = series_cells(s, &cell_count);
    json_open_object(j, "cells");
    for (unsigned column = BIN; column <= MEAN; column++) {
        json_open_array(j, keys[column]);
        for (size_t i = 0; i < n; i++) {
            struct series_cell before = {.live_bytes = rows[i].start_bytes,
                                         .live_blocks = rows[i].start_blocks};
            for (size_t k = 0; k < rows[i].cells; k++) {
                const struct series_cell *c = &cells[rows[i].first_cell + k];
                json_signed(j, NULL, cell_value((enum cell_column)column, c, &before));
                before = *c;
            }
        }
        json_close_array(j);
    }
    json_close_object(j);
}

/* ---- time ---- */

#define BIN_COLUMN(of, member) COLUMN(struct series_bin, member, of, #member, NULL, 0)
static const struct column bin_columns[] = {BIN_COLUMN(BYTES, live_bytes),
                                            BIN_COLUMN(COUNT, live_blocks),
                                            BIN_COLUMN(BYTES, usable_bytes),
                                            BIN_COLUMN(BYTES, max_bytes),
                                            BIN_COLUMN(COUNT, max_blocks),
                                            BIN_COLUMN(SINCE, max_time_ns),
                                            BIN_COLUMN(COUNT, releases),
                                            BIN_COLUMN(COUNT, foreign_releases),
                                            BIN_COLUMN(LEAST, mmapped_min_bytes),
                                            BIN_COLUMN(BYTES, heap_max_bytes),
                                            COLUMN_END};

static void write_bins(struct json *j, const struct model *m, const struct series *s,
                       const struct series_plan *plan)
{
    const uint64_t image_ns = model_image(m)->start_ns;
    const struct table table = {.columns = bin_columns, .start_ns = image_ns};
    json_open_object(j, "bins");
    json_number(j, "count", plan->bins);
    json_number(j, "start_ns", plan->start_ns > image_ns ? plan->start_ns - image_ns : 0);
    json_number(j, "width_ns", plan->width_ns);
    table_lists(j, &table, series_bins(s), plan->bins, sizeof *series_bins(s));
    json_close_object(j);
}

/* For a table with few entries that are not 0: [place, count, bytes, ...], place as the distance
 * from the entry before. */
static void write_counts(struct json *j, const char *key, const struct model_count *c, size_t n)
{
    size_t last = 0;
    json_open_array(j, key);
    for (size_t i = 0; i < n; i++) {
        if (!c[i].count)
            continue;
        json_number(j, NULL, i - last);
        json_number(j, NULL, c[i].count);
        json_number(j, NULL, c[i].bytes);
        last = i;
    }
    json_close_array(j);
}

#define SPLITS_SHOWN 200u

static void write_splits(struct json *j, const struct model *m)
{
    static const char *const keys[RESIDENT_PARTS] = {
        "rounding_bytes", "heap_free_bytes", "mappings_bytes", "allocator_bytes",
        "stacks_bytes",   "files_bytes",     "shared_bytes",   "other_bytes"};
    const struct trace_image *image = model_image(m);
    size_t count;
    model_moments(m, &count);
    size_t step = count / SPLITS_SHOWN + 1;
    json_open_array(j, "splits");
    for (size_t i = 0; i < count; i += step) {
        struct resident_view v = {0};
        resident_at(m, i, &v);
        json_open_object(j, NULL);
        json_signed(j, "time_ns", (int64_t)(v.time_ns - image->start_ns));
        json_number(j, "live_bytes", v.live_bytes);
        json_number(j, "live_blocks", v.live_blocks);
        json_number(j, "resident_bytes", v.resident_bytes);
        json_number(j, "recorder_bytes", v.recorder_bytes);
        json_number(j, "swapped_bytes", v.swapped_bytes);
        json_bool(j, "glibc", v.glibc);
        for (unsigned part = 0; part < RESIDENT_PARTS; part++)
            json_signed(j, keys[part], v.parts[part]);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "splits_total", count);
}

static void write_chains(struct json *j, const struct model *m, const struct page_sites *p)
{
    const struct model_reallocs *r = model_reallocs(m);
    json_open_array(j, "chains");
    for (unsigned i = 0; i < MODEL_CHAINS && r->longest[i].resizes; i++) {
        json_open_object(j, NULL);
        json_number(j, "group", page_sites_group(p, r->longest[i].stack));
        json_number(j, "resizes", r->longest[i].resizes);
        json_number(j, "last_bytes", r->longest[i].last_bytes);
        json_number(j, "chains", r->longest[i].chains);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "chain_lengths"); /* by number of bits of the resizes */
    for (unsigned i = 0; i < sizeof r->by_length / sizeof *r->by_length; i++)
        json_number(j, NULL, r->by_length[i]);
    json_close_array(j);
}

static void write_failures(struct json *j, const struct model *m, const struct page_sites *p)
{
    size_t n;
    const struct model_failure *f = model_failures(m, &n);
    json_open_array(j, "failures");
    for (size_t i = 0; i < n; i++) {
        json_open_object(j, NULL);
        json_text(j, "call", mlw_op_name(f[i].op));
        json_number(j, "size_bytes", f[i].size_bytes);
        json_signed(j, "time_ns", (int64_t)(f[i].time_ns - model_image(m)->start_ns));
        json_number(j, "group", page_sites_group(p, f[i].stack));
        json_close_object(j);
    }
    json_close_array(j);
}

int html_process(struct json *j, const struct model *m, const struct series *s,
                 const struct series_plan *plan, const struct page_sites *sites,
                 const struct page_lanes *lanes, struct names *names, uint32_t kernel_kinds,
                 const struct report_options *o, struct error *err)
{
    const struct trace_image *image = model_image(m);
    const size_t bins = plan->bins;
    json_open_object(j, NULL);
    json_process(j, m);
    int status = json_page_timeline(j, m, kernel_kinds, o, err);
    if (!status && !model_filtered(m))
        status = json_mapped(j, m, names, STACKS_SHOWN, err);
    json_text(j, "source_root", names_source_root(names));
    json_open_object(j, "page");
    json_number(j, "sites_total", sites->all.count);
    json_number(j, "sites_folded", sites->folded);
    json_number(j, "call_sites", sites->call_sites);
    json_number(j, "call_sites_together", sites->others);
    write_bins(j, m, s, plan);
    write_lanes(j, lanes, image);
    uint32_t *number = NULL;
    if (!status)
        status = write_page_frames(j, sites, names, &number, err);
    if (!status)
        status = html_sources(j, sites, names, number, o->sources, err);
    if (!status)
        write_page_groups(j, sites, s, number);
    free(number);
    write_rows(j, s);
    write_cells(j, s);
    write_counts(j, "sizes", series_sizes(s), bins * SERIES_SIZES);
    write_counts(j, "lifetimes", series_lifetimes(s), bins * MODEL_LIFETIMES);
    write_counts(j, "lane_releases", series_lane_releases(s), bins * lanes->count);
    write_counts(j, "handovers", series_handovers(s), (size_t)lanes->count * lanes->count);
    write_splits(j, m);
    json_marks(j, image);
    write_chains(j, m, sites);
    write_failures(j, m, sites);
    json_close_object(j);
    json_close_object(j);
    return status;
}
