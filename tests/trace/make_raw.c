/* make_raw.c - makes raw recordings of workloads.
 *   make_raw churn|pairs|xthread|grow|same|stacks EVENTS OUT
 * In the first four each call is really made, timed with the processor's counter, and written as
 * rows; stacks are made up: 80 of them, 12 to 20 deep. In `same` and `stacks` addresses and times
 * are made up as well, so every run on every machine writes the same bytes; in `stacks` every 16th
 * allocation has a stack that was never seen before. */
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "gen.h"

static uint64_t state = 88172645463325252u;
static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct gen g;
static struct gen_stream s[2];
static uint64_t skipped, left_at; /* time spent writing, cut out of the clock */

static uint64_t clock_now(void) { return __rdtsc() - skipped; }

/* As a recorder would: a clock after an allocation, before a release. Writing costs what it costs,
 * and is taken out of the clock but for 40 ticks, the cost of a real recorder. */
static void enter(void) { left_at = __rdtsc(); }
static void leave(void) { skipped += __rdtsc() - left_at - 40; }

static void *do_malloc(int t, size_t n, uint32_t stack)
{
    void *p = malloc(n);
    uint64_t c = clock_now();
    enter();
    gen_call(&g, &s[t], MLW_OP_MALLOC, c, (uint64_t)p, n, stack, malloc_usable_size(p), 0, 0);
    leave();
    return p;
}

static void do_free(int t, void *p)
{
    uint64_t c = clock_now();
    enter();
    gen_call(&g, &s[t], MLW_OP_FREE, c, (uint64_t)p, 0, 0, UINT64_MAX, 0, 0);
    leave();
    free(p);
}

static uint32_t stacks[80];
static void make_stacks(void)
{
    uint32_t id = 0;
    gen_module(&g, &s[0], 1, 0x400000, 0x480000, 0, "/made/up");
    for (unsigned k = 0; k < 80; k++) {
        uint32_t parent = 0;
        unsigned depth = 12 + k / 8 % 9;
        for (unsigned d = 0; d < depth; d++) {
            id++;
            gen_node(&g, &s[0], id, parent, 0x401000 + d * 64 + (d + 1 == depth) * k * 16, 1, 0);
            parent = id;
        }
        stacks[k] = id;
    }
}

/* An allocator without memory: what was freed last of a size comes back first. */
enum { CLASSES = 32, CLASS_BYTES = 16, LIVE = 2000 };
struct block {
    uint64_t address;
    size_t class;
};
static struct {
    uint64_t *address;
    size_t n;
} freed[CLASSES];
static uint64_t made_clock = 1000000, made_end = 0x550000000000u;

static void make_malloc(struct block *b, size_t size, uint32_t stack)
{
    b->class = (size + CLASS_BYTES + 7) / CLASS_BYTES;
    if (freed[b->class].n) {
        b->address = freed[b->class].address[--freed[b->class].n];
    } else {
        b->address = made_end;
        made_end += b->class * CLASS_BYTES;
    }
    made_clock += 40 + next_random() % 64;
    gen_call(&g, &s[0], MLW_OP_MALLOC, made_clock, b->address, size, stack,
             b->class * CLASS_BYTES - 8, 0, 0);
}

static int make_free(const struct block *b)
{
    if (!freed[b->class].address) /* no more blocks than LIVE are ever free */
        freed[b->class].address = calloc(LIVE, sizeof *freed[b->class].address);
    if (!freed[b->class].address)
        return -1;
    made_clock += 40 + next_random() % 64;
    gen_call(&g, &s[0], MLW_OP_FREE, made_clock, b->address, 0, 0, UINT64_MAX, 0, 0);
    freed[b->class].address[freed[b->class].n++] = b->address;
    return 0;
}

/* The same recording every time. */
static int make_up(FILE *f, uint64_t events, bool many)
{
    static struct block live[LIVE];
    uint32_t nodes;
    gen_open(&g, f, made_clock, 1000000000u);
    gen_process(&g, 1, 4000001, 0, made_clock, 1000000000u);
    gen_stream_begin(&s[0], 1, 4000001, 4000001, 0, made_clock);
    make_stacks();
    nodes = stacks[79];
    for (uint64_t i = 0; i + 1 < events; i += 2) {
        uint64_t r = next_random();
        struct block *b = &live[r % LIVE];
        uint32_t stack = stacks[(r >> 48) % 80];
        if (b->address && make_free(b))
            return 1;
        if (many && i % 32 == 0) { /* two frames further in */
            gen_node(&g, &s[0], nodes + 1, stack, 0x440000 + (i * 64 & 0xffff), 1, 0);
            gen_node(&g, &s[0], nodes + 2, nodes + 1, 0x460000 + (i & 0xfff0), 1, 0);
            stack = nodes += 2;
        }
        make_malloc(b, 16 + (r >> 32) % 257, stack);
    }
    gen_flush(&g, &s[0], 0);
    gen_pair(&g, made_clock, 1000000000u + made_clock / 2);
    gen_end(&g, 1, 4000001, made_clock, 1, 0);
    for (size_t i = 0; i < CLASSES; i++)
        free(freed[i].address);
    return fclose(f) ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    uint64_t events = strtoull(argv[2], NULL, 0);
    FILE *f = fopen(argv[3], "wb");
    if (!f)
        return 1;
    static char buffer[1 << 20];
    setvbuf(f, buffer, _IOFBF, sizeof buffer);
    if (!strcmp(argv[1], "same") || !strcmp(argv[1], "stacks"))
        return make_up(f, events, argv[1][1] == 't');
    uint64_t start_clock = __rdtsc(), start_ns = now_ns();
    gen_open(&g, f, start_clock, start_ns);
    gen_process(&g, 1, 4000001, 0, start_clock, start_ns);
    gen_stream_begin(&s[0], 1, 4000001, 4000001, 0, start_clock);
    gen_stream_begin(&s[1], 1, 4000001, 4000002, 1, start_clock);
    make_stacks();
    if (!strcmp(argv[1], "churn") || !strcmp(argv[1], "grow")) {
        size_t live = argv[1][0] == 'c' ? 2000 : events / 4;
        void **p = calloc(live, sizeof *p);
        for (uint64_t i = 0; i + 1 < events; i += 2) {
            uint64_t r = next_random();
            size_t k = r % live;
            if (p[k])
                do_free(0, p[k]);
            p[k] = do_malloc(0, 16 + (r >> 32) % 257, stacks[(r >> 48) % 80]);
        }
        free(p);
    } else if (!strcmp(argv[1], "pairs")) {
        for (uint64_t i = 0; i < events; i += 2)
            do_free(0, do_malloc(0, 100, stacks[0]));
    } else if (!strcmp(argv[1], "xthread")) {
        enum { QUEUE = 1024 };
        void *q[QUEUE] = {0};
        for (uint64_t i = 0; i < events / 2; i++) {
            if (q[i % QUEUE])
                do_free(1, q[i % QUEUE]);
            q[i % QUEUE] = do_malloc(0, 16 + next_random() % 100, stacks[i % 8]);
        }
    }
    gen_flush(&g, &s[0], 0);
    gen_flush(&g, &s[1], 0);
    uint64_t end = __rdtsc();
    gen_pair(&g, end, now_ns());
    gen_end(&g, 1, 4000001, end - skipped, 1, 0);
    return fclose(f) ? 1 : 0;
}
