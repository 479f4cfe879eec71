/* page.c - a heap as a page for a browser; see show.h. Beside the tables of the JSON it
 * has links to click through: who refers to whom, ways, the tree, the map. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/document.h"
#include "heap/show/show.h"
#include "show/json_document.h"

enum { NODES_MAX = 4000, NAME_BYTES = 600, CELLS_MAX = 4096, ROWS_MAX = 1000 };
enum { HOPS_MAX = 24, REFERRERS_MAX = 8, LINKS_MAX = 12 }; /* that are shown of each */

/* The groups of the page by place: the types and the roots of its tables, and behind them others as
 * they are needed. */
struct page {
    struct heap *h;
    json_object *to, *others;
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
        snprintf(name, sizeof name, "%s%s%s%s%s%s", r->kind, *r->kind ? " " : "", r->name,
                 *r->module ? " (" : "", r->module, *r->module ? ")" : "");
        json_object_array_add(p->others, json_object_new_string(name));
        p->place[group] = (int32_t)p->place_count++;
    }
    return p->place[group];
}

static json_object *numbers(size_t n, const uint64_t *at)
{
    json_object *list = json_object_new_array();
    for (size_t i = 0; i < n; i++)
        json_object_array_add(list, json_object_new_int64((int64_t)at[i]));
    return list;
}

/* [how many there are, [place, address, bytes]...] */
static json_object *hops_of(struct page *p, size_t count, const struct heap_hop *hops, size_t shown)
{
    json_object *list = json_object_new_array();
    json_object_array_add(list, json_object_new_uint64(count));
    for (size_t i = 0; i < count && i < shown; i++) {
        const uint64_t hop[] = {(uint64_t)place_of(p, hops[i].group), hops[i].address,
                                hops[i].bytes};
        json_object_array_add(list, numbers(3, hop));
    }
    return list;
}

static json_object *way_to(struct page *p, uint32_t number)
{
    struct heap_hop hops[HOPS_MAX];
    return hops_of(p, heap_way(p->ways, number, hops, HOPS_MAX), hops, HOPS_MAX);
}

static json_object *referrers_of(struct page *p, uint32_t number)
{
    struct heap_hop hops[REFERRERS_MAX];
    return hops_of(p, heap_hop_referrers(p->h, number, hops, REFERRERS_MAX), hops, REFERRERS_MAX);
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
 * references, [place, references, blocks] each. links: in the order of the near end. */
static json_object *links_of(struct page *p, const struct heap_link *links, size_t count, bool from)
{
    json_object *list = json_object_new_array();
    const size_t shown = p->types + p->roots;
    json_object **of = calloc(shown + 1, sizeof *of);
    for (size_t i = 0; of && i < count; i++) {
        const uint32_t near = from ? links[i].from : links[i].to;
        const uint32_t far = from ? links[i].to : links[i].from;
        const int32_t place = p->place[near];
        if (place < 0 || (size_t)place >= shown)
            continue;
        if (!of[place])
            of[place] = json_object_new_array();
        if (json_object_array_length(of[place]) == LINKS_MAX)
            continue;
        const uint64_t link[] = {(uint64_t)place_of(p, far), links[i].references, links[i].blocks};
        json_object_array_add(of[place], numbers(3, link));
    }
    for (size_t i = 0; of && i < shown; i++)
        json_object_array_add(list, of[i] ? of[i] : json_object_new_array());
    free(of);
    return list;
}

static int put_links(struct page *p, struct error *err)
{
    struct heap_link *links;
    size_t count;
    if (heap_links(p->h, &links, &count))
        return error_memory(err);
    json_object_object_add(p->to, "referred_by", links_of(p, links, count, false));
    if (count > 1)
        qsort(links, count, sizeof *links, by_source);
    json_object_object_add(p->to, "refers_to", links_of(p, links, count, true));
    free(links);
    return 0;
}

/* For each type of the table: the way to its block that retains most. */
static int put_type_ways(struct page *p, struct error *err)
{
    size_t count;
    const struct heap_row *rows = heap_table(p->h, HEAP_BY_TYPE, &count, err);
    uint32_t *example = heap_examples(p->h);
    json_object *list = json_object_new_array();
    for (size_t i = 0; example && i < p->types; i++)
        json_object_array_add(list, way_to(p, example[rows[i].group]));
    json_object_object_add(p->to, "type_ways", list);
    const bool failed = !example;
    free(example);
    return failed ? error_memory(err) : 0;
}

/* The tree as arrays of arrays: [parent, retained bytes, own bytes, name], a holder first. Beside
 * it the way to each, and who refers to it. */
static int put_tree(struct page *p, struct error *err)
{
    struct heap_node *nodes;
    size_t count;
    if (heap_tree(p->h, NODES_MAX, &nodes, &count))
        return error_memory(err);
    json_object *list = json_object_new_array(), *ways = json_object_new_array();
    json_object *referrers = json_object_new_array();
    for (size_t i = 0; i < count; i++) {
        char name[NAME_BYTES];
        const struct heap_step *step = &nodes[i].step;
        json_object *row = json_object_new_array();
        if (step->is_root)
            snprintf(name, sizeof name, "%s %s%s%s%s", step->type, step->name,
                     *step->module ? " (" : "", step->module, *step->module ? ")" : "");
        else
            snprintf(name, sizeof name, "%s%s at 0x%" PRIx64,
                     nodes[i].unreachable && nodes[i].parent == UINT32_MAX ? "unreachable: " : "",
                     step->type, step->address);
        json_object_array_add(
            row,
            json_object_new_int64(nodes[i].parent == UINT32_MAX ? -1 : (int64_t)nodes[i].parent));
        json_object_array_add(row, json_object_new_uint64(step->retained_bytes));
        json_object_array_add(row, json_object_new_uint64(step->bytes));
        json_object_array_add(row, json_object_new_string(name));
        json_object_array_add(list, row);
        json_object_array_add(ways, way_to(p, nodes[i].number));
        json_object_array_add(referrers, referrers_of(p, nodes[i].number));
    }
    json_object_object_add(p->to, "tree", list);
    json_object_object_add(p->to, "tree_ways", ways);
    json_object_object_add(p->to, "tree_referrers", referrers);
    free(nodes);
    return 0;
}

/* Runs of neighboring cells: [address, used bytes of each...]. */
static int put_map(json_object *to, const struct heap *h, struct error *err)
{
    struct heap_cell *cells;
    size_t count;
    uint64_t cell_bytes, next = 0;
    if (heap_map(h, CELLS_MAX, &cells, &count, &cell_bytes))
        return error_memory(err);
    json_object *map = json_object_new_object(), *runs = json_object_new_array(), *run = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!run || cells[i].address != next) {
            char text[32];
            run = json_object_new_array();
            snprintf(text, sizeof text, "0x%" PRIx64, cells[i].address);
            json_object_array_add(run, json_object_new_string(text));
            json_object_array_add(runs, run);
        }
        json_object_array_add(run, json_object_new_uint64(cells[i].used_bytes));
        next = cells[i].address + cell_bytes;
    }
    json_object_object_add(map, "cell_bytes", json_object_new_uint64(cell_bytes));
    json_object_object_add(map, "runs", runs);
    json_object_object_add(to, "map", map);
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
    struct page p = {.h = h, .to = heap_show_tables(h, s, top, err)};
    if (!p.to)
        return -1;
    json_object_object_add(p.to, "others", p.others = json_object_new_array());
    int status = begin(&p, top, err);
    if (!status)
        status = put_tree(&p, err);
    if (!status)
        status = put_links(&p, err);
    if (!status)
        status = put_type_ways(&p, err);
    if (!status)
        status = put_map(p.to, h, err);
    if (!status) {
        json_object_object_add(p.to, "target", json_object_new_string(target));
        status = document_page(path, "heap", "heap", p.to, err);
    }
    heap_ways_free(p.ways);
    free(p.place);
    free(p.row);
    json_object_put(p.to);
    return status;
}
