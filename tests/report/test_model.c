/* test_model.c - the model against a slow reference that knows every block's whole life.
 *
 * Random programs (several threads, reallocs, losses, fork) are made as batches; the reference
 * then decides block by block, without streaming, what counts, and replays the result once to find
 * the peak and once more to share it out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/model.h"
#include "model/state.h"

#define EVENTS 6000u
#define SLOTS  300u
#define STACKS 40u

struct life { /* of a block */
    uint64_t size, usable, born_ns, died_ns;
    uint32_t stack, thread, born, died; /* events; died EVENTS: lives on */
    uint8_t op, path, died_kind, died_op;
    uint32_t died_thread;
    bool inherited;
};

struct program {
    uint8_t kind[EVENTS], op[EVENTS], path[EVENTS];
    uint32_t slot[EVENTS], thread[EVENTS], stack[EVENTS];
    uint64_t size[EVENTS], time_ns[EVENTS], usable[EVENTS];
    uint32_t block[EVENTS]; /* index into lives of block events */
    struct life lives[EVENTS];
    size_t n, life_count;
    struct trace_image image;
    struct mlw_split splits[7];
    struct trace_event_note notes[1];
};

static uint64_t random_state;
static uint64_t rnd(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void put(struct program *p, unsigned kind, unsigned op, uint32_t slot, uint32_t thread,
                uint64_t size, uint32_t stack, uint64_t time_ns, unsigned path)
{
    size_t i = p->n++;
    p->kind[i] = (uint8_t)kind;
    p->op[i] = (uint8_t)op;
    p->slot[i] = slot;
    p->thread[i] = thread;
    p->size[i] = size;
    p->stack[i] = stack;
    p->time_ns[i] = time_ns;
    p->path[i] = (uint8_t)path;
    p->usable[i] = op && op < MLW_OP_FREE && kind == TRACE_ALLOC ? size + rnd(30) : 0;
    p->block[i] = UINT32_MAX;
}

static struct program *make_program(uint64_t seed, uint32_t threads, uint32_t inherited)
{
    struct program *p = calloc(1, sizeof *p);
    uint32_t owner[SLOTS], live[SLOTS], spare[SLOTS];
    size_t live_count = 0, spare_count = SLOTS;
    uint64_t now = 1000;
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t i = 0; i < SLOTS; i++)
        spare[i] = i;
    p->image = (struct trace_image){.pid = 1,
                                    .start_ns = now,
                                    .max_slots = SLOTS,
                                    .stacks = STACKS,
                                    .thread_count = threads,
                                    .inherited = inherited,
                                    .splits = p->splits,
                                    .split_count = 7,
                                    .event_notes = p->notes};
    uint64_t bias = 3;
    while (p->n + 2 < EVENTS) {
        bool carried = p->n < inherited;
        if (!carried)
            now += rnd(8) ? rnd(50) : rnd(100000);
        if (rnd(700) == 0)
            bias = 1 + rnd(5);
        uint32_t thread = (uint32_t)rnd(threads);
        uint32_t stack = (uint32_t)rnd(STACKS + 1);
        uint64_t size = rnd(20) ? rnd(2000) : rnd(5000000);
        unsigned path = (unsigned)rnd(4) << 1;
        unsigned what = carried ? 0 : (unsigned)rnd(100);
        if (what >= 97) {
            static const uint8_t ops[] = {MLW_OP_FREE, MLW_OP_MALLOC, MLW_OP_MMAP, MLW_OP_MUNMAP,
                                          MLW_OP_REALLOC};
            unsigned op = ops[rnd(5)];
            bool failed = op == MLW_OP_MALLOC || (op == MLW_OP_REALLOC && rnd(2));
            put(p, TRACE_OTHER, op, TRACE_NO_SLOT, thread, op == MLW_OP_FREE ? 0 : size,
                op == MLW_OP_FREE || op == MLW_OP_MUNMAP ? 0 : stack, now,
                failed ? MLW_PATH_FAILED : 0);
            continue;
        }
        if (what == 96) {
            put(p, TRACE_FREE_UNKNOWN, MLW_OP_FREE, TRACE_NO_SLOT, thread, 0, 0, now, 0);
            continue;
        }
        bool begin = live_count == 0 || (live_count < SLOTS && rnd(6) < bias);
        bool end = carried ? false : !begin;
        bool resize = end && rnd(6) == 0;
        if (carried)
            begin = true;
        if (end) {
            size_t which = rnd(3) ? live_count - 1 : rnd(live_count);
            uint32_t slot = live[which];
            live[which] = live[--live_count];
            spare[spare_count++] = slot;
            struct life *l = &p->lives[owner[slot]];
            unsigned kind = l->thread == thread && rnd(3) == 0 ? TRACE_FREE_TEMP : TRACE_FREE;
            if (rnd(200) == 0 && !resize)
                kind = TRACE_FREE_INFERRED;
            if (l->inherited && kind == TRACE_FREE_TEMP)
                kind = TRACE_FREE;
            unsigned op = kind == TRACE_FREE_INFERRED ? 0
                          : resize                    ? MLW_OP_REALLOC_OLD
                                                      : MLW_OP_FREE;
            l->died = (uint32_t)p->n;
            l->died_ns = now;
            l->died_kind = (uint8_t)kind;
            l->died_op = (uint8_t)op;
            l->died_thread = thread;
            put(p, kind, op, slot, thread, 0, 0, now, 0);
            p->block[p->n - 1] = owner[slot];
            begin = resize;
            now += resize ? rnd(20) : 0;
        }
        if (begin) {
            uint32_t slot = spare[--spare_count];
            unsigned op = resize ? MLW_OP_REALLOC : rnd(4) ? MLW_OP_MALLOC : MLW_OP_CALLOC;
            live[live_count++] = slot;
            put(p, TRACE_ALLOC, op, slot, thread, size, stack, now, path);
            size_t i = p->n - 1;
            owner[slot] = p->block[i] = (uint32_t)p->life_count;
            p->lives[p->life_count++] = (struct life){.size = size,
                                                      .usable = p->usable[i],
                                                      .born_ns = now,
                                                      .died_ns = UINT64_MAX,
                                                      .stack = stack,
                                                      .thread = thread,
                                                      .born = (uint32_t)i,
                                                      .died = EVENTS,
                                                      .op = (uint8_t)op,
                                                      .path = (uint8_t)path,
                                                      .inherited = carried};
        }
    }
    p->image.end_ns = now + 5;
    for (unsigned i = 0; i < 7; i++)
        p->splits[i].clock = 1000 + (now - 1000) * i / 6;
    return p;
}

struct reference {
    struct model_totals totals;
    uint64_t lifetimes[MODEL_LIFETIMES + 1];
    uint64_t peak[STACKS + 1], end[STACKS + 1], calls[STACKS + 1], allocated[STACKS + 1],
        temporary[STACKS + 1];
    uint64_t thread_live[8], thread_calls[8];
};

struct change { /* of the live bytes, in order of time then of cause */
    uint64_t time_ns, order;
    uint32_t life;
    bool add;
};

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Everything again, the slow way. */
static struct reference *judge(const struct program *p, const struct model_filter *f)
{
    struct reference *r = calloc(1, sizeof *r);
    struct change *changes = calloc(2 * p->life_count + 1, sizeof *changes);
    size_t n = 0;
    uint64_t to = f->to_ns ? f->to_ns : UINT64_MAX;
    bool sized = f->min_bytes || f->below_bytes;
    for (size_t i = 0; i < p->life_count; i++) {
        const struct life *l = &p->lives[i];
        bool fits = l->size >= f->min_bytes && (!f->below_bytes || l->size < f->below_bytes) &&
                    (!f->stack_pass || f->stack_pass[l->stack]);
        bool own = !f->thread_pass || (!l->inherited && f->thread_pass[l->thread]);
        bool carried = l->inherited || l->born_ns < f->from_ns;
        uint64_t counts_ns = l->born_ns + f->min_lifetime_ns;
        /* a block that dies at the very moment at which it is old enough has lived long enough */
        bool old = counts_ns < to && counts_ns <= p->image.end_ns && counts_ns <= l->died_ns;
        if (f->min_lifetime_ns && f->to_ns && counts_ns == to && counts_ns <= l->died_ns)
            old = true;
        bool counts = fits && own && old && l->born_ns < to && !(carried && f->only_new);
        bool dies = l->died_ns < to && l->died != EVENTS;
        bool release_call = dies && l->died_ns >= f->from_ns && fits &&
                            (!f->thread_pass || f->thread_pass[l->died_thread]) &&
                            (!f->min_lifetime_ns || counts) &&
                            !(carried && f->only_new && !l->inherited) &&
                            !(f->only_new && l->inherited && l->born_ns < f->from_ns);
        if (release_call) {
            r->totals.calls[l->died_op]++;
            r->totals.inferred_frees += l->died_kind == TRACE_FREE_INFERRED;
            r->thread_calls[l->died_thread] += l->died_op == MLW_OP_FREE;
        }
        if (!counts)
            continue;
        changes[n++] =
            (struct change){counts_ns, f->min_lifetime_ns ? 0 : l->born, (uint32_t)i, true};
        if (dies)
            changes[n++] = (struct change){l->died_ns, l->died, (uint32_t)i, false};
        if (!carried) {
            r->totals.calls[l->op]++;
            r->totals.allocations++;
            r->totals.requested_bytes += l->size;
            r->totals.usable_bytes += l->usable;
            r->calls[l->stack]++;
            r->allocated[l->stack] += l->size;
            r->thread_calls[l->thread]++;
        } else if (l->died_ns >= f->from_ns || counts_ns > f->from_ns) {
            r->totals.carried_blocks++;
            r->totals.carried_bytes += l->size;
        }
        if (!dies) {
            r->lifetimes[MODEL_LIFETIMES]++;
            r->end[l->stack] += l->size;
            if (!l->inherited)
                r->thread_live[l->thread] += l->size;
        }
        if (release_call) {
            unsigned c = 0;
            while (c + 1 < MODEL_LIFETIMES &&
                   l->died_ns - l->born_ns >= model_lifetime_min_ns(c + 1))
                c++;
            r->lifetimes[c]++;
            r->totals.releases++;
            r->totals.temporary += l->died_kind == TRACE_FREE_TEMP;
            r->temporary[l->stack] += l->died_kind == TRACE_FREE_TEMP;
            r->totals.cross_thread_frees +=
                !l->inherited && l->died_thread != l->thread && l->died_kind != TRACE_FREE_INFERRED;
        }
    }
    for (size_t i = 0; i < p->n; i++) {
        if (p->kind[i] != TRACE_OTHER && p->kind[i] != TRACE_FREE_UNKNOWN)
            continue;
        unsigned op = p->op[i];
        bool has_size = op != MLW_OP_FREE, has_stack = op != MLW_OP_FREE && op != MLW_OP_MUNMAP;
        if (p->time_ns[i] < f->from_ns || p->time_ns[i] >= to || f->min_lifetime_ns ||
            (f->thread_pass && !f->thread_pass[p->thread[i]]) || (sized && !has_size) ||
            (f->stack_pass && (!has_stack || !f->stack_pass[p->stack[i]])) ||
            (sized &&
             (p->size[i] < f->min_bytes || (f->below_bytes && p->size[i] >= f->below_bytes))))
            continue;
        r->totals.calls[op]++;
        r->thread_calls[p->thread[i]]++;
        r->totals.unknown_frees += p->kind[i] == TRACE_FREE_UNKNOWN;
        r->totals.failed_calls += p->path[i] & MLW_PATH_FAILED;
    }
    r->totals.calls[MLW_OP_REALLOC_OLD] = r->totals.calls[0] = 0;
    for (unsigned op = 0; op < MLW_OP_COUNT; op++)
        r->totals.events += r->totals.calls[op];

    qsort(changes, n, sizeof *changes, by_time);
    uint64_t live = 0, blocks = 0, best = 0;
    size_t best_n = 0;
    bool open = f->from_ns == 0;
    for (size_t i = 0; i <= n; i++) {
        if (!open && (i == n || changes[i].time_ns >= f->from_ns)) {
            open = true;
            best = live;
            best_n = i;
            r->totals.peak_blocks = blocks;
            r->totals.peak_time_ns = f->from_ns;
        }
        if (i == n)
            break;
        const struct life *l = &p->lives[changes[i].life];
        live += changes[i].add ? l->size : -l->size;
        blocks += changes[i].add ? 1u : -(uint64_t)1;
        if (open && live > best) {
            best = live;
            best_n = i + 1;
            r->totals.peak_blocks = blocks;
            r->totals.peak_time_ns = changes[i].time_ns;
        }
    }
    r->totals.peak_bytes = best;
    r->totals.live_bytes = live;
    r->totals.live_blocks = blocks;
    for (size_t i = 0; i < best_n; i++) {
        const struct life *l = &p->lives[changes[i].life];
        r->peak[l->stack] += changes[i].add ? l->size : -l->size;
    }
    free(changes);
    return r;
}

static struct model *replay(const struct program *p, const struct model_filter *f, size_t step)
{
    struct error err = {0};
    struct model *m = model_new(&p->image, f, &err);
    assert_non_null(m);
    for (size_t i = 0; i < p->n; i += step) {
        struct trace_batch b = {.n = p->n - i < step ? p->n - i : step,
                                .first_event = i,
                                .kind = p->kind + i,
                                .op = p->op + i,
                                .slot = p->slot + i,
                                .thread = p->thread + i,
                                .size = p->size + i,
                                .stack = p->stack + i,
                                .time_ns = p->time_ns + i,
                                .usable = p->usable + i,
                                .path = p->path + i};
        if (model_add(m, &b, &err))
            fail_msg("%s", err.text);
    }
    if (model_finish(m, &err))
        fail_msg("%s", err.text);
    return m;
}

static void compare(const struct program *p, const struct model_filter *f, size_t step)
{
    struct model *m = replay(p, f, step);
    static const struct model_filter none;
    struct reference *r = judge(p, f ? f : &none);
    const struct model_totals *t = model_totals(m);
    for (unsigned op = 0; op < MLW_OP_COUNT; op++)
        assert_int_equal(t->calls[op], r->totals.calls[op]);
    assert_int_equal(t->events, r->totals.events);
    assert_int_equal(t->failed_calls, r->totals.failed_calls);
    assert_int_equal(t->allocations, r->totals.allocations);
    assert_int_equal(t->requested_bytes, r->totals.requested_bytes);
    assert_int_equal(t->usable_bytes, r->totals.usable_bytes);
    assert_int_equal(t->releases, r->totals.releases);
    assert_int_equal(t->live_bytes, r->totals.live_bytes);
    assert_int_equal(t->live_blocks, r->totals.live_blocks);
    assert_int_equal(t->carried_blocks, r->totals.carried_blocks);
    assert_int_equal(t->carried_bytes, r->totals.carried_bytes);
    assert_int_equal(t->peak_bytes, r->totals.peak_bytes);
    assert_int_equal(t->peak_blocks, r->totals.peak_blocks);
    assert_int_equal(t->peak_time_ns, r->totals.peak_time_ns);
    assert_int_equal(t->temporary, r->totals.temporary);
    if (p->image.thread_count > 1)
        assert_int_equal(t->cross_thread_frees, r->totals.cross_thread_frees);
    assert_int_equal(t->unknown_frees, r->totals.unknown_frees);
    assert_int_equal(t->inferred_frees, r->totals.inferred_frees);
    for (unsigned i = 0; i <= STACKS; i++) {
        const struct model_stack *s = model_stack_of(model_stacks(m), i);
        assert_int_equal(s->peak_bytes, r->peak[i]);
        assert_int_equal(s->live_bytes, r->end[i]);
        assert_int_equal(s->calls, r->calls[i]);
        assert_int_equal(s->allocated_bytes, r->allocated[i]);
        assert_int_equal(s->temporary, r->temporary[i]);
    }
    const struct model_count *l = model_lifetimes(m);
    for (unsigned i = 0; i <= MODEL_LIFETIMES; i++)
        assert_int_equal(l[i].count, r->lifetimes[i]);
    const struct model_thread *th = model_threads(m);
    for (unsigned i = 0; i < p->image.thread_count; i++) {
        assert_int_equal(th[i].live_bytes, r->thread_live[i]);
        assert_int_equal(th[i].calls, r->thread_calls[i]);
    }
    uint64_t sized = 0, usable = 0, highest = 0, events = 0;
    for (unsigned i = 0; i < MODEL_SIZE_COUNTS; i++)
        sized += model_sizes(m)[i].bytes;
    assert_int_equal(sized, t->requested_bytes);
    uint64_t start, width;
    size_t bins;
    const struct model_bin *bin = model_timeline(m, &start, &width, &bins);
    for (size_t i = 0; i < bins; i++) {
        highest = bin[i].max_live_bytes > highest ? bin[i].max_live_bytes : highest;
        events += bin[i].events;
    }
    assert_int_equal(highest, t->peak_bytes);
    if (!f || (!f->from_ns && !f->to_ns && !f->min_lifetime_ns))
        assert_int_equal(events, p->n);
    assert_int_equal(bin[bins - 1].live_bytes, t->live_bytes);
    for (unsigned i = 0; i < MODEL_PLACES; i++)
        usable += t->peak_usable[i];
    assert_true(usable >= t->peak_bytes);
    model_free(m);
    free(r);
}

static void test_unfiltered(void **state)
{
    (void)state;
    struct model_filter all = {.to_ns = UINT64_MAX}; /* the careful loop, nothing filtered */
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct program *p =
            make_program(seed, seed % 3 ? 1 + (uint32_t)(seed % 5) : 1, seed % 4 ? 0 : 100);
        compare(p, NULL, seed % 2 ? 777 : EVENTS);
        compare(p, &all, 777);
        free(p);
    }
}

static void test_filtered(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 400; seed++) {
        uint32_t threads = 1 + (uint32_t)(seed % 5);
        struct program *p = make_program(seed, threads, seed % 3 ? 0 : 100);
        uint8_t thread_pass[8], stack_pass[STACKS + 1];
        uint64_t length = p->image.end_ns - p->image.start_ns;
        struct model_filter f = {0};
        for (unsigned i = 0; i < 8; i++)
            thread_pass[i] = (uint8_t)rnd(2);
        for (unsigned i = 0; i <= STACKS; i++)
            stack_pass[i] = (uint8_t)rnd(2);
        if (rnd(2)) {
            f.from_ns = p->image.start_ns + rnd(length);
            f.only_new = rnd(3) == 0;
        }
        if (rnd(2))
            f.to_ns = p->image.start_ns + 1 + rnd(length);
        if (f.to_ns && f.to_ns <= f.from_ns)
            f.to_ns = f.from_ns + 1;
        if (rnd(3) == 0)
            f.min_bytes = rnd(1000);
        if (rnd(3) == 0)
            f.below_bytes = f.min_bytes + rnd(3000) + 1;
        if (rnd(3) == 0)
            f.thread_pass = thread_pass;
        if (rnd(3) == 0)
            f.stack_pass = stack_pass;
        if (rnd(3) == 0)
            f.min_lifetime_ns = 1 + rnd(length / 4);
        compare(p, &f, 1 + rnd(EVENTS));
        free(p);
    }
}

static void test_decades(void **state)
{
    (void)state;
    for (unsigned c = 0; c < MODEL_LIFETIMES; c++) {
        uint64_t at = model_lifetime_min_ns(c);
        assert_int_equal(model_lifetime_class(at), c);
        if (c)
            assert_int_equal(model_lifetime_class(at - 1), c - 1);
        if (c + 1 < MODEL_LIFETIMES)
            assert_true(model_lifetime_min_ns(c + 1) > at);
    }
    for (unsigned bit = 0; bit < 63; bit++) {
        uint64_t age = (uint64_t)1 << bit;
        unsigned c = model_lifetime_class(age);
        assert_true(age >= model_lifetime_min_ns(c));
        assert_true(c + 1 == MODEL_LIFETIMES || age < model_lifetime_min_ns(c + 1));
    }
}

static void test_moments(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed++) {
        struct program *p = make_program(seed, 2, 0);
        struct model *m = replay(p, NULL, 1000);
        size_t count;
        const struct model_moment *o = model_moments(m, &count);
        assert_int_equal(count, 7);
        for (size_t k = 0; k < count; k++) {
            uint64_t live = 0, usable[MODEL_PLACES] = {0}, blocks = 0;
            for (size_t i = 0; i < p->n; i++) {
                const struct life *l = &p->lives[p->block[i] == UINT32_MAX ? 0 : p->block[i]];
                if (p->block[i] == UINT32_MAX || p->time_ns[i] >= o[k].time_ns)
                    continue;
                uint64_t sign = p->kind[i] == TRACE_ALLOC ? 1 : -(uint64_t)1;
                live += sign * l->size;
                blocks += sign;
                usable[model_place_of(l->path)] += sign * l->usable;
            }
            assert_int_equal(o[k].live_bytes, live);
            assert_int_equal(o[k].live_blocks, blocks);
            assert_memory_equal(o[k].live_usable, usable, sizeof usable);
        }
        model_free(m);
        free(p);
    }
}

static void test_reset(void **state)
{
    (void)state;
    struct program *p = make_program(5, 3, 0);
    uint64_t at = p->time_ns[p->n / 2];
    p->notes[0] = (struct trace_event_note){.time_ns = at, .control = MLW_CONTROL_RESET};
    struct model_filter new_only = {.from_ns = at, .only_new = true};
    struct model *plain = replay(p, &new_only, 500);
    p->image.note_count = 1;
    struct model *reset = replay(p, NULL, 500);
    const struct model_totals *a = model_totals(plain), *b = model_totals(reset);
    assert_int_equal(b->resets, 1);
    assert_int_equal(a->live_bytes, b->live_bytes);
    assert_int_equal(a->live_blocks, b->live_blocks);
    assert_int_equal(a->peak_bytes, b->peak_bytes);
    assert_int_equal(a->requested_bytes, b->requested_bytes);
    assert_int_equal(a->allocations, b->allocations);
    assert_int_equal(a->temporary, b->temporary);
    model_free(plain);
    model_free(reset);
    free(p);
}

static void test_reallocs(void **state)
{
    (void)state;
    struct program *p = calloc(1, sizeof *p);
    p->image = (struct trace_image){.max_slots = 4, .stacks = 3, .thread_count = 2, .end_ns = 100};
    put(p, TRACE_ALLOC, MLW_OP_REALLOC, 0, 0, 10, 1, 1, 0); /* realloc(NULL, 10) */
    for (uint64_t i = 1; i <= 5; i++) {
        put(p, TRACE_FREE, MLW_OP_REALLOC_OLD, 0, 0, 0, 0, 2 * i, 0);
        put(p, TRACE_ALLOC, MLW_OP_MALLOC, 1, 1, 7, 3, 2 * i, 0); /* another thread between */
        put(p, TRACE_FREE, MLW_OP_FREE, 1, 1, 0, 0, 2 * i, 0);
        put(p, TRACE_ALLOC, MLW_OP_REALLOC, 0, 0, i == 5 ? 20 : 10 + i, 2, 2 * i + 1, 0);
    }
    put(p, TRACE_FREE, MLW_OP_REALLOC_OLD, 0, 0, 0, 0, 20, 0);
    put(p, TRACE_ALLOC, MLW_OP_REALLOC, 0, 0, 3, 2, 21, 0);
    put(p, TRACE_FREE, MLW_OP_FREE, 0, 0, 0, 0, 30, 0);
    struct model *m = replay(p, NULL, 1000);
    const struct model_reallocs *r = model_reallocs(m);
    assert_int_equal(model_totals(m)->calls[MLW_OP_REALLOC], 7);
    assert_int_equal(r->resized, 6);
    assert_int_equal(r->grown, 5);
    assert_int_equal(r->shrunk, 1);
    assert_int_equal(r->kept_bytes, 10 + 11 + 12 + 13 + 14 + 3);
    assert_int_equal(r->chains, 1);
    assert_int_equal(r->longest[0].resizes, 6);
    assert_int_equal(r->longest[0].stack, 2);
    assert_int_equal(r->longest[0].last_bytes, 3);
    assert_int_equal(r->longest[1].resizes, 0);
    model_free(m);
    free(p);
}

/* Times of a damaged file: the latest that there is comes to an end, too. */
static void test_end_of_time(void **state)
{
    (void)state;
    struct program *p = calloc(1, sizeof *p);
    p->image = (struct trace_image){.max_slots = 1,
                                    .stacks = 1,
                                    .thread_count = 1,
                                    .end_ns = UINT64_MAX,
                                    .splits = p->splits,
                                    .split_count = 2,
                                    .event_notes = p->notes,
                                    .note_count = 1};
    p->splits[1].clock = UINT64_MAX;
    for (int resets = 0; resets < 2; resets++) {
        p->notes[0] = (struct trace_event_note){.time_ns = resets ? UINT64_MAX : 7,
                                                .control = MLW_CONTROL_RESET};
        p->n = 0;
        put(p, TRACE_ALLOC, MLW_OP_MALLOC, 0, 0, 10, 1, 9, 0);
        put(p, TRACE_FREE, MLW_OP_FREE, 0, 0, 0, 0, UINT64_MAX, 0);
        struct model *m = replay(p, NULL, 1000);
        assert_int_equal(model_totals(m)->calls[MLW_OP_MALLOC], 1);
        assert_int_equal(model_totals(m)->live_blocks, 0);
        model_free(m);
    }
    free(p);
}

static void test_nonsense(void **state)
{
    (void)state;
    struct program *p = make_program(9, 2, 0);
    const struct {
        uint32_t slot, stack, thread;
        uint8_t kind, op;
    } bad[] = {{SLOTS, 0, 0, TRACE_ALLOC, MLW_OP_MALLOC},
               {TRACE_NO_SLOT, 0, 0, TRACE_FREE, MLW_OP_FREE},
               {0, STACKS + 1, 0, TRACE_ALLOC, MLW_OP_MALLOC},
               {0, 0, 2, TRACE_ALLOC, MLW_OP_MALLOC},
               {0, 0, 0, TRACE_OTHER + 1, MLW_OP_MALLOC},
               {0, 0, 0, TRACE_ALLOC, 32}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err = {0};
        struct model *m = model_new(&p->image, NULL, &err);
        uint64_t zero = 0;
        uint8_t path = 0;
        struct trace_batch b = {.n = 1,
                                .kind = &bad[i].kind,
                                .op = &bad[i].op,
                                .slot = &bad[i].slot,
                                .thread = &bad[i].thread,
                                .size = &zero,
                                .stack = &bad[i].stack,
                                .time_ns = &zero,
                                .usable = &zero,
                                .path = &path};
        assert_int_equal(model_add(m, &b, &err), -1);
        assert_int_equal(err.kind, ERROR_FORMAT);
        model_free(m);
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unfiltered), cmocka_unit_test(test_filtered),
        cmocka_unit_test(test_decades),    cmocka_unit_test(test_moments),
        cmocka_unit_test(test_reset),      cmocka_unit_test(test_reallocs),
        cmocka_unit_test(test_nonsense),   cmocka_unit_test(test_end_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
