/* image.c - Creates the state of an image that is being sealed, and applies its META rows:
 * nodes, modules, threads, marks and losses. A forked image begins with a copy of its parent's
 * live blocks. */
#include "image_impl.h"

static int image_no_memory(struct error *err) { return error_memory_for(err, "sealing"); }

uint32_t image_dense_id_new(struct image_work *g, uint32_t id)
{
    if (!id)
        return 0;
    struct node *n = nodes_use(&g->nodes, id);
    if (!n)
        return UINT32_MAX;
    if (!n->dense) {
        if (!g->used_count) /* id 0 is no stack */
            if (!ARRAY_ADD(g->used, g->used_count, g->used_cap))
                return UINT32_MAX;
        uint32_t *u = ARRAY_ADD(g->used, g->used_count, g->used_cap);
        if (!u)
            return UINT32_MAX;
        *u = n->id;
        n->dense = (uint32_t)g->used_count - 1;
    }
    return n->dense;
}

static void forget_image_past(struct image_work *g, uint64_t clock)
{
    live_free(&g->live);
    block_writer_forget(g->blocks);
    g->first_block = block_writer_blocks(g->blocks);
    g->calls = g->inherited = g->allocs = 0;
    g->note_count = g->early.notes = 0;
    g->early.described = false;
    g->early.marks_until = 0;
    for (uint32_t i = 0; i < g->raw->threads; i++)
        g->threads[i].calls = 0;
    g->start_clock = g->reset_clock = clock;
    faulted_forget(g->faulted);
}

int image_node(struct image_work *g, uint32_t id, const struct node *node)
{
    const int changed = id ? nodes_announce(&g->nodes, id, node) : 0;
    return changed < 0 || (changed && image_node_changed(g, id)) ? -1 : 0;
}

static int take_node(struct image_work *g, struct span s, struct error *err)
{
    uint64_t id = span_number(&s, 4);
    struct node k = {.parent = (uint32_t)span_number(&s, 4)};
    k.pc = span_number(&s, 8);
    k.module = (uint32_t)span_number(&s, 4);
    k.flags = (uint8_t)span_number(&s, 1);
    return !s.bad && image_node(g, (uint32_t)id, &k) ? image_no_memory(err) : 0;
}

static int take_image_module(struct image_work *g, struct span s, uint64_t clock, struct error *err)
{
    uint64_t id = span_number(&s, 4);
    struct trace_module k = {.start = span_number(&s, 8)};
    k.end = span_number(&s, 8);
    k.bias = span_number(&s, 8);
    uint64_t n = span_number(&s, 1);
    const uint8_t *build_id = span_take(&s, n);
    k.build_id_bytes = build_id ? (size_t)n : 0;
    uint64_t m = span_number(&s, 2);
    const uint8_t *path = span_take(&s, m);
    if (s.bad || !id)
        return 0;
    k.build_id = (uint8_t *)arena_text(&g->arena, build_id, k.build_id_bytes);
    k.path = arena_text(&g->arena, path, strnlen((const char *)path, (size_t)m));
    k.loaded_ns = timebase_ns(g->time, clock);
    k.gone_ns = UINT64_MAX;
    uint32_t *at = pair_map_at(&g->module_map, id, 0);
    struct trace_module *mod = ARRAY_ADD(g->modules, g->module_count, g->module_cap);
    if (!at || !mod || !k.path || !k.build_id)
        return image_no_memory(err);
    *mod = k;
    *at = (uint32_t)g->module_count;
    return 0;
}

static void take_module_gone(struct image_work *g, struct span s)
{
    uint64_t id = span_number(&s, 4), clock = span_number(&s, 8);
    uint32_t i = pair_map_get(&g->module_map, id, 0);
    if (!s.bad && i < g->module_count)
        g->modules[i].gone_ns = timebase_ns(g->time, clock);
}

/* A mark of the program, or a command that the recorder obeyed. */
static int take_image_note(struct image_work *g, struct span s, bool is_mark, uint32_t thread,
                           struct error *err)
{
    uint64_t clock = span_number(&s, 8);
    const char *label = "";
    uint64_t v = span_number(&s, is_mark ? 2 : 1);
    if (is_mark) {
        const uint8_t *t = span_take(&s, v);
        if (t && !(label = arena_text(&g->arena, t, strnlen((const char *)t, (size_t)v))))
            return image_no_memory(err);
    }
    if (s.bad)
        return 0;
    if (!is_mark && v == MLW_CONTROL_RESET)
        forget_image_past(g, clock);
    struct note *n = ARRAY_ADD(g->notes, g->note_count, g->note_cap);
    if (!n)
        return image_no_memory(err);
    n->clock = clock;
    n->thread = thread;
    n->control = is_mark ? 0 : (uint8_t)v;
    n->label = label;
    return 0;
}

static int take_thread_start(struct image_work *g, struct span s, uint32_t thread,
                             struct error *err)
{
    struct image_thread *th = &g->threads[thread];
    uint64_t clock = span_number(&s, 8), n = span_number(&s, 2);
    const uint8_t *t = span_take(&s, n);
    if (s.bad)
        return 0;
    if (!th->start || clock < th->start)
        th->start = clock;
    if (n && !(th->name = arena_text(&g->arena, t, strnlen((const char *)t, (size_t)n))))
        return image_no_memory(err);
    return image_thread_due(g, thread) ? image_no_memory(err) : 0;
}

static void take_thread_end(struct image_thread *th, struct span s)
{
    uint64_t clock = span_number(&s, 8);
    if (s.bad)
        return;
    th->ended = true;
    if (clock > th->end)
        th->end = clock;
}

static void take_lost(struct image_thread *th, struct span s)
{
    span_number(&s, 8);
    uint64_t lost = span_number(&s, 8);
    if (!s.bad)
        th->lost_said += lost;
}

int image_take_meta(struct image_work *g, const struct mlw_row *r, uint32_t thread,
                    struct error *err)
{
    const struct span s = span_of(r->meta_data, r->meta_bytes);
    switch (r->meta) {
    case MLW_META_NODE: return take_node(g, s, err);
    case MLW_META_MODULE: return take_image_module(g, s, r->clock, err);
    case MLW_META_MODULE_GONE: take_module_gone(g, s); return 0;
    case MLW_META_MARK: return take_image_note(g, s, true, thread, err);
    case MLW_META_CONTROL: return take_image_note(g, s, false, thread, err);
    case MLW_META_THREAD_START: return take_thread_start(g, s, thread, err);
    case MLW_META_THREAD_END: take_thread_end(&g->threads[thread], s); return 0;
    case MLW_META_LOST: take_lost(&g->threads[thread], s); return 0;
    default: return 0;
    }
}

static int inherit(struct image_work *g, struct image_work *parent, struct error *err)
{
    for (size_t i = 0; i < parent->module_map.cap; i++) {
        const struct pair_map_entry *e = &parent->module_map.entries[i];
        if (!e->value)
            continue;
        uint32_t *at = pair_map_at(&g->module_map, e->a, e->b);
        struct trace_module *m = ARRAY_ADD(g->modules, g->module_count, g->module_cap);
        if (!at || !m)
            return image_no_memory(err);
        *m = parent->modules[e->value - 1];
        *at = (uint32_t)g->module_count;
    }
    uint64_t tick = timebase_tick(g->time, g->start_clock);
    for (uint32_t s = 0; s < parent->live.used; s++) {
        const struct live_block *b = &parent->live.blocks[s];
        if (!b->live)
            continue;
        struct block_event e = {.op = b->op,
                                .path = b->path,
                                .stack = image_dense_id(g, b->stack),
                                .tick = tick,
                                .size = b->size,
                                .usable = b->usable,
                                .address = b->address};
        if (e.stack == UINT32_MAX)
            return image_no_memory(err);
        /* No thread's turn: it is never temporary here. */
        if (image_begin_block(g, &e, b->stack, UINT32_MAX, false, err))
            return -1;
        g->inherited++;
    }
    return 0;
}

struct image_work *image_begin(struct raw *r, const struct timebase *t, uint32_t index,
                               uint32_t number, struct image_work *parent, enum image_fate fate,
                               uint64_t cut, struct block_writer *b, struct error *err)
{
    struct image_work *g = calloc(1, sizeof *g);
    if (!g) {
        image_no_memory(err);
        return NULL;
    }
    g->recording = r;
    g->raw = &r->images[index];
    g->index = index;
    g->time = t;
    g->parent = parent;
    g->number = number;
    g->parent_number = parent ? parent->number : UINT32_MAX;
    g->blocks = b;
    g->start_clock = g->raw->start_clock ? g->raw->start_clock : g->raw->first_clock;
    if (g->start_clock == UINT64_MAX)
        g->start_clock = t->origin;
    const int moved = image_moved(g, err);
    if (moved || !(g->feed = feed_open(r, index, err))) {
        image_free(g);
        return NULL;
    }
    g->ahead.feed = g->feed;
    block_writer_image(b, number, &g->live);
    g->kernel = kernel_run_of(&r->kernel, index);
    if (g->kernel.fault_count &&
        !(g->faulted = faulted_new(g->kernel.faults, g->kernel.fault_count))) {
        image_no_memory(err);
        image_free(g);
        return NULL;
    }
    const bool carried = g->raw->carried != 0;
    if ((fate != IMAGE_WHOLE && carry_begin(g, fate, cut, err)) ||
        (carried ? carry_load(g, err) : parent && inherit(g, parent, err))) {
        image_free(g);
        return NULL;
    }
    return g;
}

void image_growing(struct image_work *g) { feed_growing(g->feed); }

int image_moved(struct image_work *g, struct error *err)
{
    g->raw = &g->recording->images[g->index];
    g->streams = g->recording->streams;
    const uint32_t was = g->thread_room, need = g->raw->threads + 1;
    if (need <= was)
        return 0;
    if (!ARRAY_ROOM(g->threads, need, g->thread_room))
        return image_no_memory(err);
    memset(g->threads + was, 0, (g->thread_room - was) * sizeof *g->threads);
    return 0;
}

int image_grow(struct image_work *g, uint64_t limit, bool *late, struct error *err)
{
    return image_moved(g, err) || feed_grow(g->feed, limit, late, err) ? -1 : 0;
}

uint64_t image_limit(const struct image_work *g) { return feed_limit(g->feed); }

bool image_is_stalled(const struct image_work *g) { return feed_is_stalled(g->feed); }

uint64_t image_last_clock(const struct image_work *g) { return g->last_clock; }

int image_suspend(struct image_work *g, struct error *err)
{
    if (image_write_block(g, err))
        return -1;
    return block_writer_save(g->blocks, &g->saved, err);
}

void image_resume(struct image_work *g) { block_writer_restore(g->blocks, &g->saved); }

void image_beside(struct image_work *g) { feed_beside(g->feed); }

uint64_t image_bytes_done(const struct image_work *g) { return feed_bytes_done(g->feed); }

void image_free(struct image_work *g)
{
    if (!g)
        return;
    feed_close(g->feed);
    carry_free(g->carry);
    live_free(&g->live);
    faulted_free(g->faulted);
    arena_free(&g->arena);
    pair_map_free(&g->module_map);
    nodes_free(&g->nodes);
    free(g->modules);
    free(g->threads);
    free(g->notes);
    free(g->used);
    free(g->early.unknown);
    free(g->early.threads);
    free(g->saved.resync);
    bytes_free(&g->saved.begun);
    free(g);
}
