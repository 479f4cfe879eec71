/* page.c - a heap as a page for a browser; see show.h. Beside the tables of the JSON it
 * has links to click through: who refers to whom, ways, the tree, the map. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/show/columns.h"
#include "heap/show/show.h"
#include "show/document_text.h"

enum { NODES_MAX = 4000, NAME_BYTES = 600, CELLS_MAX = 4096, ROWS_MAX = 1000 };
enum { HOPS_MAX = 24, REFERRERS_MAX = 8, LINKS_MAX = 12 }; /* that are shown of each */

/* The groups of the page by place: the types and the roots of its tables, and behind them others as
 * they are needed. */
struct page {
    struct heap *h;
    struct json *j;
    struct buffer others;                     /* their names, as elements of an array */
    int32_t *place;                           /* by group; -1: none yet */
    const struct heap_row **row;              /* by group; NULL: it has no block */
    size_t types, roots, groups, place_count; /* types, roots: that the tables show */
    struct heap_ways *ways;
};

static int32_t place_of(struct page *p, uint32_t group)
{
    static const struct heap_row none = {.name = "the allocator's own", .kind = "", .module = ""};
    if (group >= p->groups)
        return -1;
    if (p->place[group] < 0) {
        const struct heap_row *r = p->row[group] ? p->row[group] : &none;
        char name[NAME_BYTES];
        snprintf(name, sizeof name, HEAP_NAME, HEAP_NAME_OF(r));
        buffer_append_text(&p->others, p->others.size_bytes ? "," : "");
        json_quote(&p->others, name);
        p->place[group] = (int32_t)p->place_count++;
    }
    return p->place[group];
}

static void put_numbers(struct json *j, int64_t a, uint64_t b, uint64_t c)
{
    json_open_array(j, NULL);
    json_signed(j, NULL, a);
    json_signed(j, NULL, (int64_t)b);
    json_signed(j, NULL, (int64_t)c);
    json_close_array(j);
}

/* [how many there are, [place, address, bytes]...] */
static void put_hops(struct page *p, size_t count, const struct heap_hop *hops, size_t shown)
{
    json_open_array(p->j, NULL);
    json_number(p->j, NULL, count);
    for (size_t i = 0; i < count && i < shown; i++)
        put_numbers(p->j, place_of(p, hops[i].group), hops[i].address, hops[i].bytes);
    json_close_array(p->j);
}

static void put_way(struct page *p, uint32_t number)
{
    struct heap_hop hops[HOPS_MAX];
    put_hops(p, heap_way(p->ways, number, hops, HOPS_MAX), hops, HOPS_MAX);
}

static void put_referrers(struct page *p, uint32_t number)
{
    struct heap_hop hops[REFERRERS_MAX];
    put_hops(p, heap_hop_referrers(p->h, number, hops, REFERRERS_MAX), hops, REFERRERS_MAX);
}

/* --- which group refers to which --- */

static int by_source(const void *a, const void *b)
{
    const struct heap_link *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->references != y->references)
        return x->references > y->references ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* For each group of the tables, in the order of places: the groups at the other end of most of its
 * references, [place, references, blocks] each. links: those of a near end stand in a row. */
static void put_links_of(struct page *p, const char *key, const struct heap_link *links,
                         size_t count, bool from, size_t *first)
{
    const size_t shown = p->types + p->roots;
    for (size_t i = 0; i < shown; i++)
        first[i] = count;
    for (size_t i = count; i-- > 0;) {
        const int32_t place = p->place[from ? links[i].from : links[i].to];
        if (place >= 0 && (size_t)place < shown)
            first[place] = i;
    }
    json_open_array(p->j, key);
    for (size_t of = 0; of < shown; of++) {
        json_open_array(p->j, NULL);
        for (size_t i = first[of]; i < count && i < first[of] + LINKS_MAX; i++) {
            if (p->place[from ? links[i].from : links[i].to] != (int32_t)of)
                break;
            put_numbers(p->j, place_of(p, from ? links[i].to : links[i].from), links[i].references,
                        links[i].blocks);
        }
        json_close_array(p->j);
    }
    json_close_array(p->j);
}

static int put_links(struct page *p, struct error *err)
{
    struct heap_link *links = NULL;
    size_t count, *first = calloc(p->types + p->roots + 1, sizeof *first);
    if (!first || heap_links(p->h, &links, &count)) {
        free(first);
        return error_memory(err);
    }
    put_links_of(p, "referred_by", links, count, false, first);
    if (count > 1)
        qsort(links, count, sizeof *links, by_source);
    put_links_of(p, "refers_to", links, count, true, first);
    free(links);
    free(first);
    return 0;
}

/* For each type of the table: the way to its block that retains most. */
static int put_type_ways(struct page *p, struct error *err)
{
    size_t count;
    const struct heap_row *rows = heap_table(p->h, HEAP_BY_TYPE, &count, err);
    uint32_t *example = heap_examples(p->h);
    if (!example)
        return error_memory(err);
    json_open_array(p->j, "type_ways");
    for (size_t i = 0; i < p->types; i++)
        put_way(p, example[rows[i].group]);
    json_close_array(p->j);
    free(example);
    return 0;
}

static void put_node(struct json *j, const struct heap_node *node)
{
    char name[NAME_BYTES];
    const struct heap_step *step = &node->step;
    if (step->is_root)
        snprintf(name, sizeof name, "%s %s%s%s%s", step->type, step->name,
                 *step->module ? " (" : "", step->module, *step->module ? ")" : "");
    else
        snprintf(name, sizeof name, "%s%s at 0x%" PRIx64,
                 node->unreachable && node->parent == UINT32_MAX ? "unreachable: " : "", step->type,
                 step->address);
    json_open_array(j, NULL);
    json_signed(j, NULL, node->parent == UINT32_MAX ? -1 : (int64_t)node->parent);
    json_number(j, NULL, step->retained_bytes);
    json_number(j, NULL, step->bytes);
    json_text(j, NULL, name);
    json_close_array(j);
}

/* The tree as arrays of arrays: [parent, retained bytes, own bytes, name], a holder first. Beside
 * it the way to each, and who refers to it. */
static int put_tree(struct page *p, struct error *err)
{
    struct heap_node *nodes;
    size_t count;
    if (heap_tree(p->h, NODES_MAX, &nodes, &count))
        return error_memory(err);
    json_open_array(p->j, "tree");
    for (size_t i = 0; i < count; i++)
        put_node(p->j, &nodes[i]);
    json_close_array(p->j);
    json_open_array(p->j, "tree_ways");
    for (size_t i = 0; i < count; i++)
        put_way(p, nodes[i].number);
    json_close_array(p->j);
    json_open_array(p->j, "tree_referrers");
    for (size_t i = 0; i < count; i++)
        put_referrers(p, nodes[i].number);
    json_close_array(p->j);
    free(nodes);
    return 0;
}

/* Runs of neighboring cells: [address, used bytes of each...]. */
static int put_map(struct json *j, const struct heap *h, struct error *err)
{
    struct heap_cell *cells;
    size_t count;
    uint64_t cell_bytes, next = 0;
    if (heap_map(h, CELLS_MAX, &cells, &count, &cell_bytes))
        return error_memory(err);
    json_open_object(j, "map");
    json_number(j, "cell_bytes", cell_bytes);
    json_open_array(j, "runs");
    const unsigned depth = j->depth;
    for (size_t i = 0; i < count; i++) {
        if (!i || cells[i].address != next) {
            json_close_to(j, depth);
            json_open_array(j, NULL);
            json_address(j, NULL, cells[i].address);
        }
        json_number(j, NULL, cells[i].used_bytes);
        next = cells[i].address + cell_bytes;
    }
    json_close_to(j, depth - 2);
    free(cells);
    return 0;
}

/* Takes the places of a table's rows; the rest have none yet. */
static void take_places(struct page *p, const struct heap_row *rows, size_t count, size_t shown)
{
    for (size_t i = 0; i < count; i++) {
        p->row[rows[i].group] = &rows[i];
        if (i < shown)
            p->place[rows[i].group] = (int32_t)p->place_count++;
    }
}

static int begin(struct page *p, size_t top, struct error *err)
{
    size_t types, roots;
    const struct heap_row *type = heap_table(p->h, HEAP_BY_TYPE, &types, err);
    if (!type && err->kind != ERROR_NONE)
        return -1;
    const struct heap_row *root = heap_table(p->h, HEAP_BY_ROOT, &roots, err);
    if (!root && err->kind != ERROR_NONE)
        return -1;
    for (size_t i = 0; i < types; i++)
        p->groups = type[i].group + 1U > p->groups ? type[i].group + 1U : p->groups;
    for (size_t i = 0; i < roots; i++)
        p->groups = root[i].group + 1U > p->groups ? root[i].group + 1U : p->groups;
    p->types = types < top ? types : top;
    p->roots = roots < top ? roots : top;
    p->place = malloc((p->groups + 1) * sizeof *p->place);
    p->row = calloc(p->groups + 1, sizeof *p->row);
    p->ways = heap_ways_make(p->h);
    if (!p->place || !p->row || !p->ways)
        return error_memory(err);
    memset(p->place, 0xff, (p->groups + 1) * sizeof *p->place);
    take_places(p, type, types, p->types);
    take_places(p, root, roots, p->roots);
    return 0;
}

int heap_show_page(struct heap *h, const struct heap_show *s, const char *target, const char *path,
                   struct error *err)
{
    const size_t top = s->top_given && s->top < ROWS_MAX ? s->top : ROWS_MAX;
    struct document_text d;
    if (document_begin(&d, err))
        return -1;
    struct page p = {.h = h, .j = &d.json};
    int status = heap_show_tables(p.j, h, s, top, err);
    if (!status)
        status = begin(&p, top, err);
    if (!status)
        status = put_tree(&p, err);
    if (!status)
        status = put_links(&p, err);
    if (!status)
        status = put_type_ways(&p, err);
    if (!status)
        status = put_map(p.j, h, err);
    if (!status && buffer_failed(&p.others))
        status = error_memory(err);
    json_open_array(p.j, "others");
    json_raw(p.j, NULL, buffer_text(&p.others), p.others.size_bytes);
    json_close_array(p.j);
    json_text(p.j, "target", target);
    heap_ways_free(p.ways);
    free(p.place);
    free(p.row);
    buffer_release(&p.others);
    return document_end_page(&d, status, path, "heap", "heap", err);
}
