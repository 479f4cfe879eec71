/* test_graph.c - dominators, retained sizes and unreachable groups of random graphs, with weak
 * references, against a reference that takes nodes away and looks what is still reached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "heap/graph.h"

enum { NODES = 40, EDGES = 160, ROUNDS = 6000, WEAKLY = 3, KINDS = 4 };

static uint64_t state = 88172645463325252ULL;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % below);
}

struct sample {
    uint32_t blocks, roots, first[NODES + 1], target[EDGES], kept[EDGES];
    uint32_t root_first[NODES + 1], root_target[EDGES];
    uint64_t weak[EDGES / 64 + 1]; /* of target */
    bool any_weak;
    uint8_t kind[NODES + 1];
    uint64_t bytes[NODES];
    int of[NODES]; /* the kind that a block belongs to; WEAKLY, KINDS: no kind, nothing reaches it
                    */
};

static uint64_t sample_bytes(const void *arg, uint32_t block)
{
    return ((const struct sample *)arg)->bytes[block];
}

static bool is_weak(const struct sample *s, uint32_t k)
{
    return s->any_weak && s->weak[k / 64] >> k % 64 & 1;
}

static bool all_count(const void *arg, uint32_t block)
{
    (void)arg;
    (void)block;
    return true;
}

/* Marks what a block reaches without passing `gone`, through blocks of one kind only (-1: any, by
 * strong references only; -2: any). */
static void reach(const struct sample *s, uint32_t block, uint32_t gone, int kind, bool *seen)
{
    if (block == gone || seen[block] || (kind >= 0 && s->of[block] != kind))
        return;
    seen[block] = true;
    for (uint32_t k = s->first[block]; k < s->first[block + 1]; k++)
        if (kind == -2 || !is_weak(s, k) || (kind >= 0 && s->of[s->kept[k]] >= WEAKLY))
            reach(s, s->kept[k], gone, kind, seen);
}

/* What is still reached without a block or a root. */
static void reach_without(const struct sample *s, uint32_t gone, uint32_t gone_root, bool *seen)
{
    for (uint32_t r = 0; r < s->roots; r++)
        for (uint32_t k = s->root_first[r]; r != gone_root && k < s->root_first[r + 1]; k++)
            reach(s, s->root_target[k], gone, s->kind[r], seen);
    for (uint32_t b = 0; b < s->blocks; b++) /* what weak references reach, nobody holds */
        for (uint32_t k = s->first[b]; s->of[b] < WEAKLY && k < s->first[b + 1]; k++)
            reach(s, s->kept[k], gone, WEAKLY, seen);
}

/* The strongest kind of root that reaches each block. */
static void find_kinds(struct sample *s)
{
    bool seen[NODES] = {false};
    for (uint32_t b = 0; b < s->blocks; b++)
        s->of[b] = KINDS;
    for (int kind = 0; kind < KINDS; kind++) {
        bool before[NODES];
        memcpy(before, seen, sizeof before);
        if (kind == WEAKLY)
            memset(seen, 0, sizeof seen);
        for (uint32_t r = 0; r < s->roots; r++)
            for (uint32_t k = s->root_first[r];
                 (kind == WEAKLY || s->kind[r] == kind) && k < s->root_first[r + 1]; k++)
                reach(s, s->root_target[k], UINT32_MAX, kind == WEAKLY ? -2 : -1, seen);
        for (uint32_t b = 0; b < s->blocks; b++)
            if (seen[b] && !before[b])
                s->of[b] = kind;
    }
}

static void make_sample(struct sample *s)
{
    memset(s, 0, sizeof *s);
    s->blocks = 1 + draw(NODES);
    s->roots = draw(8);
    uint32_t n = 0, dense = 1 + draw(4);
    for (uint32_t b = 0; b < s->blocks; b++) {
        s->first[b] = n;
        for (uint32_t k = draw(dense + 1); k > 0 && n < EDGES; k--)
            s->target[n++] = draw(s->blocks);
        s->bytes[b] = 1 + draw(1000);
    }
    s->first[s->blocks] = n;
    memcpy(s->kept, s->target, sizeof s->kept);
    s->any_weak = draw(2);
    for (uint32_t k = 0; k < n; k++)
        s->weak[k / 64] |= (uint64_t)!draw(4) << k % 64;
    n = 0;
    uint8_t kind = 0;
    for (uint32_t r = 0; r < s->roots; r++) {
        s->root_first[r] = n;
        for (uint32_t k = draw(3); k > 0 && n < EDGES; k--)
            s->root_target[n++] = draw(s->blocks);
        if (kind + 1 < WEAKLY && !draw(3))
            kind++;
        s->kind[r] = kind;
    }
    s->root_first[s->roots] = n;
    find_kinds(s);
}

static uint64_t lost(const struct sample *s, const bool *all, const bool *still, uint32_t *blocks)
{
    uint64_t bytes = 0;
    *blocks = 0;
    for (uint32_t b = 0; b < s->blocks; b++)
        if (all[b] && !still[b]) {
            bytes += s->bytes[b];
            ++*blocks;
        }
    return bytes;
}

static void check_retained(const struct sample *s, const struct graph *g)
{
    bool all[NODES] = {false};
    uint32_t blocks;
    reach_without(s, UINT32_MAX, UINT32_MAX, all);
    for (uint32_t b = 0; b < s->blocks; b++) {
        bool still[NODES] = {false};
        uint32_t n = g->number[b];
        assert_int_not_equal(n, 0);
        assert_int_equal(n < g->reached, all[b]);
        assert_int_equal(n < g->held, s->of[b] < WEAKLY);
        assert_int_equal(graph_own(g, n), s->bytes[b]);
        if (!all[b])
            continue;
        reach_without(s, b, UINT32_MAX, still);
        assert_int_equal(g->retained[n], lost(s, all, still, &blocks));
        assert_int_equal(graph_retained_blocks(g, n), blocks);
    }
    for (uint32_t r = 0; r < s->roots; r++) {
        bool still[NODES] = {false};
        reach_without(s, UINT32_MAX, r, still);
        assert_int_equal(g->retained[g->number[s->blocks + r]], lost(s, all, still, &blocks));
    }
}

static void check_unreachable(const struct sample *s, const struct graph *g)
{
    bool all[NODES] = {false}, led[NODES] = {false};
    uint64_t bytes = 0, sum = 0;
    uint32_t blocks = 0;
    reach_without(s, UINT32_MAX, UINT32_MAX, all);
    for (uint32_t b = 0; b < s->blocks; b++)
        if (!all[b]) {
            bytes += s->bytes[b];
            blocks++;
        }
    assert_int_equal(g->unreachable_bytes, bytes);
    assert_int_equal(g->unreachable_blocks, blocks);
    for (uint32_t i = 0; i < g->leak_count; i++) {
        sum += g->leaks[i].bytes;
        /* No other unreachable block leads to a group's first, but those it leads to itself. */
        bool mine[NODES] = {false};
        reach(s, g->leaks[i].block, UINT32_MAX, KINDS, mine);
        for (uint32_t b = 0; b < s->blocks; b++) {
            bool from[NODES] = {false};
            if (all[b] || mine[b])
                continue;
            reach(s, b, UINT32_MAX, KINDS, from);
            assert_false(from[g->leaks[i].block]);
        }
        reach(s, g->leaks[i].block, UINT32_MAX, KINDS, led);
    }
    assert_int_equal(sum, bytes);
    for (uint32_t b = 0; b < s->blocks; b++)
        assert_true(all[b] || led[b]);
}

/* What a number retains stands behind it, and nothing else. */
static void check_places(const struct graph *g)
{
    uint32_t place[NODES * 2] = {0};
    for (uint32_t i = 0; i < g->count; i++)
        place[g->by_place[i]] = i;
    for (uint32_t n = 1; n < g->count; n++)
        for (uint32_t k = 1; k < g->count; k++) {
            uint32_t d = k;
            while (d && d != n)
                d = g->dominator[d];
            bool inside = place[k] >= place[n] && place[k] < place[n] + g->span[n];
            assert_int_equal(d == n, inside);
        }
}

static void test_random(void **unused)
{
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sample s;
        struct graph g;
        struct error err;
        make_sample(&s);
        const struct graph_input in = {.blocks = s.blocks,
                                       .first = s.first,
                                       .target = s.target,
                                       .weak = s.any_weak ? s.weak : NULL,
                                       .bytes_of = sample_bytes,
                                       .unit = 1,
                                       .counts = all_count,
                                       .arg = &s,
                                       .threads = 1 + i % 2,
                                       .roots = s.roots,
                                       .root_first = s.root_first,
                                       .root_target = s.root_target,
                                       .root_kind = s.kind};
        assert_int_equal(graph_make(&g, &in, &err), 0);
        check_retained(&s, &g);
        check_unreachable(&s, &g);
        check_places(&g);
        graph_release(&g);
    }
}

static uint64_t one_byte(const void *arg, uint32_t block)
{
    (void)arg;
    (void)block;
    return 1;
}

/* A list of a million: nothing recurses, and every node retains the rest. */
static void test_list(void **unused)
{
    (void)unused;
    enum { LONG = 1000000 };
    uint32_t *first = calloc(LONG + 1, sizeof *first), *target = calloc(LONG, sizeof *target);
    for (uint32_t i = 0; i < LONG; i++) {
        first[i] = i;
        target[i] = i + 1 < LONG ? i + 1 : 0;
    }
    first[LONG] = LONG;
    for (uint32_t roots = 0; roots < 2; roots++) {
        const uint32_t root_first[2] = {0, 1}, root_target[1] = {0};
        const uint8_t kind[1] = {0};
        struct graph g;
        struct error err;
        const struct graph_input in = {.blocks = LONG,
                                       .first = first,
                                       .target = target,
                                       .bytes_of = one_byte,
                                       .unit = 1,
                                       .counts = all_count,
                                       .threads = 2,
                                       .roots = roots,
                                       .root_first = root_first,
                                       .root_target = root_target,
                                       .root_kind = kind};
        assert_int_equal(graph_make(&g, &in, &err), 0);
        assert_int_equal(g.retained[g.number[0]], LONG);
        assert_int_equal(g.retained[g.number[LONG - 1]], 1);
        assert_int_equal(g.leak_count, roots ? 0 : 1);
        assert_int_equal(g.unreachable_bytes, roots ? 0 : LONG);
        graph_release(&g);
    }
    free(first);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
