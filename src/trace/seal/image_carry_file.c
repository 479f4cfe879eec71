/* image_carry_file.c - what an image carries over, as CARRIED chunks: written by folding, read by
 * the next fold and by sealing. See docs/format.md. */
#include <stdio.h>
#include <unistd.h>

#include "image_impl.h"
#include "trace/raw/carried.h"

#define BLOCK_BYTES 56u
#define NODE_BYTES  24u
#define SITE_BYTES  32u

static int carry_file_no_memory(struct error *err) { return error_memory_for(err, "folding"); }

/* ---- writing ---- */

#define CHUNK_BYTES (1u << 20)

struct writer {
    const struct image_work *g;
    struct carry_out *out;
    struct bytes b;
    enum mlw_carried kind;
    uint32_t part;
    int status;
    struct error *err;
};

static void carry_flush(struct writer *w)
{
    if (w->b.failed)
        w->status = carry_file_no_memory(w->err);
    if (!w->b.n || w->status)
        return;
    struct mlw_chunk c = {.type = MLW_CHUNK_CARRIED,
                          .image = w->g->raw->id,
                          .pid = w->g->raw->pid,
                          .lane = w->kind,
                          .sequence = w->part++,
                          .first_call = w->out->generation,
                          .base_clock = w->g->carry->cut};
    w->status = carry_put(w->out, &c, w->b.data, w->b.n, w->err);
    w->b.n = 0;
}

/* Records of a kind follow. */
static void carry_begin_kind(struct writer *w, enum mlw_carried kind)
{
    carry_flush(w);
    w->kind = kind;
}

static void put32(struct writer *w, uint32_t v) { bytes_put(&w->b, &v, sizeof v); }
static void put64(struct writer *w, uint64_t v) { bytes_put(&w->b, &v, sizeof v); }

/* A record is over. */
static void carry_end_record(struct writer *w)
{
    if (w->b.n > CHUNK_BYTES)
        carry_flush(w);
}

/* Which threads stay known: that may get more rows, whose chunks may be met once more, or that made
 * a live block. By dense number. NULL without memory. */
static bool *keep_threads(const struct image_work *g)
{
    const struct live *l = &g->live;
    bool *keep = calloc((size_t)g->raw->threads + 1, sizeof *keep);
    for (uint32_t i = 0; keep && i < l->used; i++)
        if (l->blocks[i].live && l->blocks[i].thread < g->raw->threads)
            keep[l->blocks[i].thread] = true;
    for (uint32_t i = 0; keep && i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        const struct merge_position *p = &g->carry->where[i];
        const bool over = g->threads[s->thread_index].ended && !s->pieces &&
                          p->sequence != UINT32_MAX && s->whole > p->sequence;
        keep[s->thread_index] |= !over;
    }
    return keep;
}

static void put_streams(struct writer *w, const bool *keep)
{
    const struct image_work *g = w->g;
    carry_begin_kind(w, MLW_CARRIED_STREAMS);
    for (uint32_t i = 0; i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        const struct merge_position *p = &g->carry->where[i];
        if (!keep[s->thread_index] || p->sequence == UINT32_MAX)
            continue;
        put32(w, s->thread);
        put32(w, s->lane);
        put32(w, s->tid);
        put32(w, p->sequence);
        put32(w, p->bytes);
        put32(w, s->whole);
        put64(w, p->calls);
        put64(w, s->lost_calls);
        put64(w, s->gap_calls);
        carry_end_record(w);
    }
}

static void put_threads(struct writer *w, const bool *keep)
{
    const struct image_work *g = w->g;
    carry_begin_kind(w, MLW_CARRIED_THREADS);
    for (uint32_t i = 0; i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        const struct image_thread *t = &g->threads[s->thread_index];
        if (!keep[s->thread_index] ||
            (i && g->streams[s->index - 1]->thread_index == s->thread_index))
            continue;
        const size_t n = t->name ? strlen(t->name) : 0;
        put32(w, s->thread);
        put32(w, t->turn);
        put64(w, t->start);
        put64(w, t->end);
        bytes_put_u8(&w->b, t->ended);
        bytes_put_u8(&w->b, (uint8_t)(n < 255 ? n : 255));
        bytes_put(&w->b, t->name, n < 255 ? n : 255);
        carry_end_record(w);
    }
}

/* The nodes of an image, those of the ones that it was forked from first. */
static void carry_put_nodes(struct writer *w, const struct image_work *g)
{
    if (g->parent && !g->raw->carried)
        carry_put_nodes(w, g->parent);
    const uint64_t end = (uint64_t)g->nodes.page_count << NODES_PAGE_BITS;
    for (uint64_t id = 1; id < end; id++) {
        const struct node *n = nodes_find(&g->nodes, (uint32_t)id);
        if (!n || !n->known)
            continue;
        put32(w, (uint32_t)id);
        put32(w, n->parent);
        put64(w, n->pc);
        put32(w, n->module);
        put32(w, n->flags);
        carry_end_record(w);
    }
}

static void carry_put_modules(struct writer *w)
{
    const struct image_work *g = w->g;
    carry_begin_kind(w, MLW_CARRIED_MODULES);
    for (size_t i = 0; i < g->module_map.cap; i++) {
        const struct pair_map_entry *e = &g->module_map.entries[i];
        if (!e->value)
            continue;
        const struct trace_module *m = &g->modules[e->value - 1];
        put32(w, (uint32_t)e->a);
        put64(w, m->start);
        put64(w, m->end);
        put64(w, m->bias);
        put64(w, m->loaded_ns);
        put64(w, m->gone_ns);
        bytes_put_varint(&w->b, m->build_id_bytes);
        bytes_put(&w->b, m->build_id, m->build_id_bytes);
        bytes_put_text(&w->b, m->path, strlen(m->path));
        carry_end_record(w);
    }
}

/* The number of the thread that made a block. None made an inherited one, which belongs to the
 * first thread of its process: that one may be met after others. */
static uint32_t number_of_maker(const struct image_work *g, const struct live_block *b,
                                const uint32_t *number)
{
    if (b->turn == UINT32_MAX)
        return UINT32_MAX;
    return b->thread < g->raw->threads ? number[b->thread] : 0;
}

static int carry_put_blocks(struct writer *w)
{
    const struct image_work *g = w->g;
    uint32_t *number = calloc((size_t)g->raw->threads + 1, sizeof *number);
    struct carry_block *all = carry_gather(g);
    if (!number || !all) {
        free(number);
        free(all);
        return carry_file_no_memory(w->err);
    }
    for (uint32_t i = 0; i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        number[s->thread_index] = s->thread;
    }
    carry_begin_kind(w, MLW_CARRIED_BLOCKS);
    for (uint32_t i = 0; i < g->live.count && !w->status; i++) {
        const struct live_block *b = &all[i].block;
        put64(w, b->address);
        put64(w, b->size);
        put64(w, b->usable);
        put64(w, g->time->origin + (all[i].origin.tick << g->time->shift));
        put64(w, all[i].origin.argument);
        put32(w, b->stack);
        put32(w, number_of_maker(g, b, number));
        put32(w, b->turn);
        bytes_put_u8(&w->b, b->op);
        bytes_put_u8(&w->b, b->path);
        bytes_put(&w->b, "\0", 2);
        carry_end_record(w);
    }
    w->out->blocks += g->live.count;
    free(number);
    free(all);
    return w->status;
}

static void carry_put_sums(struct writer *w)
{
    struct carry *c = w->g->carry;
    carry_begin_kind(w, MLW_CARRIED_SUMS);
    for (uint32_t k = 0; k < c->slice_count; k++) {
        put64(w, c->slices[k].from);
        put64(w, c->slices[k].to);
        const size_t at = w->b.n;
        uint64_t count = 0;
        put64(w, 0);
        for (size_t i = 0; i < c->site_count; i++) {
            const struct carry_site *s = &c->sites[i];
            if (s->slice != k)
                continue;
            put64(w, s->stack);
            put64(w, s->sum.calls);
            put64(w, s->sum.bytes);
            put64(w, s->sum.temporary);
            count++;
        }
        if (!w->b.failed)
            memcpy(w->b.data + at, &count, sizeof count);
        carry_end_record(w);
    }
}

/* For the resident sizes before: the largest and the last. */
static int put_resident(const struct image_work *g, struct carry_out *out, struct error *err)
{
    struct mlw_resident two[2];
    unsigned n = 0;
    const struct raw_image *m = g->raw;
    for (size_t i = 0; i < m->resident_count && m->residents[i].clock < g->carry->cut; i++) {
        const struct mlw_resident *s = &m->residents[i];
        if (!n || s->rss > two[0].rss) {
            two[0] = *s;
            n = 1;
        } else {
            two[1] = *s;
            n = 2;
        }
    }
    struct mlw_chunk c = {.type = MLW_CHUNK_RESIDENT, .image = m->id, .pid = m->pid};
    c.base_clock = n ? two[0].clock : 0;
    return n ? carry_put(out, &c, two, n * sizeof *two, err) : 0;
}

/* The last split of before. */
static int put_split(const struct image_work *g, struct carry_out *out, struct error *err)
{
    const struct raw_image *m = g->raw;
    const struct mlw_split *last = NULL;
    for (size_t i = 0; i < m->split_count && m->splits[i].clock < g->carry->cut; i++)
        last = &m->splits[i];
    if (!last)
        return 0;
    uint8_t payload[8 + sizeof *last];
    const uint16_t tag[2] = {MLW_TLV_SPLIT, 0};
    const uint32_t length = sizeof *last;
    memcpy(payload, tag, 4);
    memcpy(payload + 4, &length, 4);
    memcpy(payload + 8, last, sizeof *last);
    struct mlw_chunk c = {
        .type = MLW_CHUNK_SPLIT, .image = m->id, .pid = m->pid, .base_clock = last->clock};
    return carry_put(out, &c, payload, sizeof payload, err);
}

/* The sums of the rows since the last fold become a slice; neighbors are joined when there are too
 * many. False without memory. */
static bool close_slice(const struct image_work *g)
{
    struct carry *c = g->carry;
    if (c->slice_count == CARRY_SLICES) {
        for (uint32_t k = 0; k < CARRY_SLICES / 2; k++)
            c->slices[k] = (struct carry_slice){c->slices[2 * k].from, c->slices[2 * k + 1].to};
        c->slice_count = CARRY_SLICES / 2;
        struct pair_map places = {0};
        size_t n = 0;
        for (size_t i = 0; i < c->site_count; i++) {
            struct carry_site s = c->sites[i];
            s.slice /= 2;
            uint32_t *at = pair_map_at(&places, s.stack, s.slice);
            if (!at) {
                pair_map_free(&places);
                return false;
            }
            if (!*at) {
                c->sites[n++] = s;
                *at = (uint32_t)n;
                continue;
            }
            c->sites[*at - 1].sum.calls += s.sum.calls;
            c->sites[*at - 1].sum.bytes += s.sum.bytes;
            c->sites[*at - 1].sum.temporary += s.sum.temporary;
        }
        c->site_count = n;
        pair_map_free(&places);
    }
    const uint32_t slice = c->slice_count++;
    c->slices[slice] =
        (struct carry_slice){g->raw->carried ? g->raw->carried_clock : g->start_clock, c->cut};
    for (size_t i = 0; i < c->sum_cap; i++) {
        if (!c->sums[i].calls && !c->sums[i].temporary)
            continue;
        struct carry_site *s = ARRAY_ADD(c->sites, c->site_count, c->site_cap);
        if (!s)
            return false;
        *s = (struct carry_site){(uint32_t)i, slice, c->sums[i]};
    }
    return true;
}

int image_carry(struct image_work *g, struct carry_out *out, struct error *err)
{
    struct writer w = {.g = g, .out = out, .err = err};
    bool *keep = keep_threads(g);
    if (!keep || !close_slice(g))
        w.status = carry_file_no_memory(err);
    if (!w.status &&
        (!g->raw->process_offset ||
         !carry_again(out, g->recording->fd, g->raw->process_offset, err)) &&
        !put_resident(g, out, err) && !put_split(g, out, err)) {
        put_streams(&w, keep);
        put_threads(&w, keep);
        carry_begin_kind(&w, MLW_CARRIED_NODES);
        carry_put_nodes(&w, g);
        carry_put_modules(&w);
        carry_put_sums(&w);
        if (!w.status)
            carry_put_blocks(&w);
        carry_flush(&w);
    } else {
        w.status = -1;
    }
    /* Where the rows go on, for what can be released. */
    for (uint32_t i = 0; i < g->raw->streams; i++) {
        struct raw_stream *s = g->recording->streams[g->raw->first_stream + i];
        const struct merge_position *p = &g->carry->where[i];
        if (p->sequence == UINT32_MAX)
            continue;
        s->skips = true;
        s->skip_sequence = p->sequence;
        s->skip_bytes = p->bytes;
        s->skip_calls = p->calls;
    }
    free(keep);
    bytes_free(&w.b);
    return w.status;
}

/* ---- reading ---- */

static int carry_load_threads(struct image_work *g, struct span *s)
{
    while (span_left(s) >= 26) {
        const uint32_t number = (uint32_t)span_number(s, 4);
        struct image_thread t = {.turn = (uint32_t)span_number(s, 4)};
        t.start = span_number(s, 8);
        t.end = span_number(s, 8);
        t.ended = span_number(s, 1) != 0;
        const uint64_t n = span_number(s, 1);
        const uint8_t *name = span_take(s, n);
        const uint32_t dense = carry_thread(g, number);
        if (s->bad || dense == UINT32_MAX)
            continue;
        struct image_thread *to = &g->threads[dense];
        to->turn = t.turn;
        to->start = t.start;
        to->end = t.end;
        to->ended = t.ended;
        if (n && !(to->name = arena_text(&g->arena, name, strnlen((const char *)name, (size_t)n))))
            return -1;
        if (image_thread_due(g, dense))
            return -1;
    }
    return 0;
}

static int load_nodes(struct image_work *g, struct span *s)
{
    while (span_left(s) >= NODE_BYTES) {
        const uint32_t id = (uint32_t)span_number(s, 4);
        struct node n = {.parent = (uint32_t)span_number(s, 4)};
        n.pc = span_number(s, 8);
        n.module = (uint32_t)span_number(s, 4);
        n.flags = (uint32_t)span_number(s, 4);
        if (image_node(g, id, &n))
            return -1;
    }
    return 0;
}

static int load_modules(struct image_work *g, struct span *s)
{
    while (span_left(s) && !s->bad) {
        const uint64_t id = span_number(s, 4);
        struct trace_module m = {.start = span_number(s, 8)};
        m.end = span_number(s, 8);
        m.bias = span_number(s, 8);
        m.loaded_ns = span_number(s, 8);
        m.gone_ns = span_number(s, 8);
        size_t bytes, length;
        const uint8_t *build_id = span_text(s, &bytes), *path = span_text(s, &length);
        if (s->bad || !id)
            return 0;
        m.build_id_bytes = bytes;
        m.build_id = (uint8_t *)arena_text(&g->arena, build_id, bytes);
        m.path = arena_text(&g->arena, path, strnlen((const char *)path, length));
        uint32_t *at = pair_map_at(&g->module_map, id, 0);
        struct trace_module *to = ARRAY_ADD(g->modules, g->module_count, g->module_cap);
        if (!at || !to || !m.build_id || !m.path)
            return -1;
        *to = m;
        *at = (uint32_t)g->module_count;
    }
    return 0;
}

static int load_blocks(struct image_work *g, struct span *s)
{
    while (span_left(s) >= BLOCK_BYTES) {
        struct block_event e = {.address = span_number(s, 8)};
        e.size = span_number(s, 8);
        e.usable = span_number(s, 8);
        e.tick = timebase_tick(g->time, span_number(s, 8));
        e.argument = span_number(s, 8);
        const uint32_t stack = (uint32_t)span_number(s, 4);
        const uint32_t thread = carry_thread(g, (uint32_t)span_number(s, 4));
        const uint32_t turn = (uint32_t)span_number(s, 4);
        e.op = (uint8_t)span_number(s, 1);
        e.path = (uint8_t)span_number(s, 1);
        span_number(s, 2);
        e.thread = thread == UINT32_MAX ? 0 : thread;
        if (!e.address || !mlw_op_is(e.op, MLW_CLASS_MAKES) ||
            seal_usable_of(e.size, seal_usable_code(e.size, e.usable)) != e.usable ||
            live_find(&g->live, e.address) != LIVE_NONE)
            continue; /* damage */
        e.stack = image_dense_id(g, stack);
        struct error ignored;
        if (e.stack == UINT32_MAX || image_begin_block(g, &e, stack, turn, false, &ignored))
            return -1;
    }
    return 0;
}

static int load_sums(struct image_work *g, struct span *s)
{
    struct carry *c = g->carry;
    while (span_left(s) >= 24 && c->slice_count < CARRY_SLICES) {
        struct carry_slice *k = &c->slices[c->slice_count];
        k->from = span_number(s, 8);
        k->to = span_number(s, 8);
        const uint64_t count = span_number(s, 8);
        for (uint64_t i = 0; i < count && span_left(s) >= SITE_BYTES; i++) {
            struct carry_site *x = ARRAY_ADD(c->sites, c->site_count, c->site_cap);
            if (!x)
                return -1;
            x->stack = (uint32_t)span_number(s, 8);
            x->slice = c->slice_count;
            x->sum.calls = span_number(s, 8);
            x->sum.bytes = span_number(s, 8);
            x->sum.temporary = span_number(s, 8);
        }
        c->slice_count++;
    }
    return 0;
}

int carry_load(struct image_work *g, struct error *err)
{
    int status = 0;
    for (uint32_t i = 0; i < g->raw->carried && !status; i++) {
        const struct carried_chunk *k = &g->recording->carried.chunks[g->raw->first_carried + i];
        uint8_t *payload = carried_read(g->recording, k, err);
        if (!payload)
            return -1;
        struct span s = span_of(payload, k->payload_bytes);
        switch (k->kind) {
        case MLW_CARRIED_THREADS: status = carry_load_threads(g, &s); break;
        case MLW_CARRIED_NODES: status = load_nodes(g, &s); break;
        case MLW_CARRIED_MODULES: status = load_modules(g, &s); break;
        case MLW_CARRIED_BLOCKS: status = load_blocks(g, &s); break;
        case MLW_CARRIED_SUMS: status = load_sums(g, &s); break;
        default: break;
        }
        free(payload);
    }
    return status ? carry_file_no_memory(err) : 0;
}
