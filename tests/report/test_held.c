/* test_held.c - what a thread's cache keeps below it since glibc 2.43, which makes it at the first
 * free of a chunk that it takes: above all blocks there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyse/pinned.h"
#include "glibc/versions.h"

#define PAGE  4096ul
#define KB    1024ul
#define MAIN  0x10000000ul /* where the break's heap begins */
#define PART  0x20000000ul /* mapped memory of the main arena, which is not contiguous then */
#define HEAP  (16 * GLIBC_HEAP_BYTES) /* a heap of another arena */
#define HEAD  (HEAP + PAGE)           /* its first block */
#define PAGES 16                      /* a block and its header */

enum { STEPS = 10, THREADS = 2 };
enum what { END, MAKE, DROP };

struct step {
    enum what what;
    unsigned thread, block;            /* to drop, by the order of their making */
    uint64_t address, bytes, argument; /* of a chunk; not 0: with MLW_PATH_HEAP_NEW */
};
#define LARGE(thread, at)                                                                          \
    {                                                                                              \
        MAKE, thread, 0, at, PAGES *PAGE, 0                                                        \
    }
#define FIRST(thread, at, said)                                                                    \
    {                                                                                              \
        MAKE, thread, 0, at, PAGES *PAGE, said                                                     \
    }
#define SMALL(thread, at)                                                                          \
    {                                                                                              \
        MAKE, thread, 0, at, 112, 0                                                                \
    }
#define FREE(thread, block)                                                                        \
    {                                                                                              \
        DROP, thread, block, 0, 0, 0                                                               \
    }
#define SAID (HEAP | (uint64_t)26 << 56) /* its arena, and heaps of 64 MiB */

struct events {
    uint8_t kind[STEPS], op[STEPS], path[STEPS];
    uint32_t slot[STEPS], thread[STEPS], stack[STEPS], begun_stack[STEPS];
    uint64_t size[STEPS], time_ns[STEPS], address[STEPS], usable[STEPS], argument[STEPS];
    uint64_t begun_size[STEPS], begun_address[STEPS];
    size_t n, begun;
};

static void add_made(struct events *e, const struct step *s)
{
    const size_t i = e->n, made = e->begun++;
    e->kind[i] = TRACE_ALLOC;
    e->op[i] = MLW_OP_MALLOC;
    e->slot[i] = (uint32_t)made;
    e->path[i] = (uint8_t)((s->address >= HEAP ? MLW_PATH_NON_MAIN : 0) |
                           (s->argument ? MLW_PATH_HEAP_NEW : 0));
    e->argument[i] = s->argument;
    e->size[i] = e->usable[i] = e->begun_size[made] = s->bytes - PINNED_HEADER_BYTES;
    e->address[i] = e->begun_address[made] = s->address + 2 * PINNED_HEADER_BYTES;
    e->stack[i] = e->begun_stack[made] = 1;
}

static void add_step(struct events *e, const struct step *s)
{
    e->thread[e->n] = s->thread;
    if (s->what == MAKE) {
        add_made(e, s);
    } else {
        e->kind[e->n] = TRACE_FREE;
        e->op[e->n] = MLW_OP_FREE;
        e->slot[e->n] = s->block;
    }
    e->n++;
}

/* The heaps after all steps. */
static struct pinned state_after(const struct trace_image *image, const struct step *steps)
{
    static const uint64_t time_ns = UINT64_MAX;
    struct events e = {.n = 0};
    for (size_t i = 0; i < STEPS && steps[i].what; i++)
        add_step(&e, &steps[i]);
    const struct trace_batch batch = {.n = e.n,
                                      .kind = e.kind,
                                      .op = e.op,
                                      .slot = e.slot,
                                      .thread = e.thread,
                                      .size = e.size,
                                      .stack = e.stack,
                                      .time_ns = e.time_ns,
                                      .address = e.address,
                                      .usable = e.usable,
                                      .path = e.path,
                                      .argument = e.argument,
                                      .begun = e.begun,
                                      .begun_size = e.begun_size,
                                      .begun_usable = e.begun_size,
                                      .begun_address = e.begun_address,
                                      .begun_stack = e.begun_stack};
    struct error err = {0};
    struct pinned p;
    struct pinned_reader *r = pinned_new(image, &time_ns, &p, 1, false, &err);
    assert_non_null(r);
    assert_int_equal(pinned_add(r, &batch, &err), 1);
    assert_int_equal(pinned_finish(r, &err), 0);
    return p;
}

/* Pages of all heaps above their highest blocks, and those of them below a cache. */
static const struct {
    const char *name, *allocator, *tunables;
    bool attached;
    uint64_t above, held;
    struct step steps[STEPS];
} cases[] = {
    {"above all",
     "glibc 2.43",
     NULL,
     false,
     16,
     16,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1)}},
    {"of a version that makes it at the first call",
     "glibc 2.42",
     NULL,
     false,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1)}},
    {"of a version that is not known",
     "glibc 2.44",
     NULL,
     false,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1)}},
    {"made before the recording, maybe",
     "glibc 2.43",
     NULL,
     true,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1)}},
    {"none by the tunables",
     "glibc 2.43",
     "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
     false,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1)}},
    {"for less than what is freed",
     "glibc 2.43",
     "GLIBC_TUNABLES=glibc.malloc.tcache_max=64",
     false,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1)}},
    {"not made by the free of a large block",
     "glibc 2.43",
     NULL,
     false,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), FREE(0, 1)}},
    {"below what was made later",
     "glibc 2.43",
     NULL,
     false,
     48,
     16,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1),
      LARGE(0, MAIN + 192 * KB), FREE(0, 3)}},
    {"made once by a thread",
     "glibc 2.43",
     NULL,
     false,
     32,
     0,
     {LARGE(0, MAIN), SMALL(0, MAIN + 64 * KB), FREE(0, 1), LARGE(1, MAIN + 128 * KB),
      SMALL(1, MAIN + 192 * KB), FREE(0, 3), FREE(0, 2)}},
    {"made by each thread",
     "glibc 2.43",
     NULL,
     false,
     32,
     32,
     {LARGE(0, MAIN), SMALL(0, MAIN + 64 * KB), FREE(0, 1), LARGE(1, MAIN + 128 * KB),
      SMALL(1, MAIN + 192 * KB), FREE(1, 3), FREE(1, 2)}},
    {"above a heap without blocks",
     "glibc 2.43",
     NULL,
     false,
     16,
     16,
     {LARGE(0, MAIN), SMALL(0, MAIN + 64 * KB), FREE(0, 1), FREE(0, 0)}},
    {"in another arena",
     "glibc 2.43",
     NULL,
     false,
     16,
     16,
     {FIRST(1, HEAD, SAID), LARGE(1, HEAD + 64 * KB), SMALL(1, HEAD + 128 * KB), FREE(1, 2),
      FREE(1, 1)}},
    {"above another arena's heap without blocks",
     "glibc 2.43",
     NULL,
     false,
     16,
     16,
     {FIRST(1, HEAD, SAID), SMALL(1, HEAD + 64 * KB), FREE(1, 1), FREE(1, 0)}},
    {"of another arena, below what was made later",
     "glibc 2.43",
     NULL,
     false,
     48,
     16,
     {FIRST(1, HEAD, SAID), SMALL(1, HEAD + 64 * KB), FREE(1, 1), LARGE(1, HEAD + 128 * KB),
      FREE(1, 2), FREE(1, 0)}},
    {"of the thread that frees",
     "glibc 2.43",
     NULL,
     false,
     16,
     0,
     {FIRST(1, HEAD, SAID), LARGE(1, HEAD + 64 * KB), SMALL(1, HEAD + 128 * KB), FREE(0, 2),
      FREE(1, 1)}},
    {"in a main arena that is not contiguous: where, is not known",
     "glibc 2.43",
     NULL,
     false,
     16,
     0,
     {FIRST(0, PART, PART + 1024 * KB), LARGE(0, PART + 64 * KB), SMALL(0, PART + 128 * KB),
      FREE(0, 2), FREE(0, 1)}},
    {"the same without blocks",
     "glibc 2.43",
     NULL,
     false,
     17,
     0,
     {FIRST(0, PART, PART + 1024 * KB), SMALL(0, PART + 64 * KB), FREE(0, 1), FREE(0, 0)}},
    {"in the break's memory before the arena was not contiguous",
     "glibc 2.43",
     NULL,
     false,
     32,
     16,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), SMALL(0, MAIN + 128 * KB), FREE(0, 2), FREE(0, 1),
      FIRST(0, PART, PART + 1024 * KB), LARGE(0, PART + 64 * KB), FREE(0, 4)}},
    {"made when the arena was not contiguous any more",
     "glibc 2.43",
     NULL,
     false,
     16,
     0,
     {LARGE(0, MAIN), LARGE(0, MAIN + 64 * KB), FIRST(0, PART, PART + 1024 * KB),
      SMALL(0, PART + 64 * KB), FREE(0, 3), FREE(0, 1)}},
    {"two, of which one heap is not contiguous",
     "glibc 2.43",
     NULL,
     false,
     32,
     16,
     {FIRST(0, PART, PART + 1024 * KB), LARGE(0, PART + 64 * KB), FREE(0, 1), FIRST(1, HEAD, SAID),
      LARGE(1, HEAD + 64 * KB), SMALL(1, HEAD + 128 * KB), FREE(1, 4), FREE(1, 3)}},
};

static void test_held(void **state)
{
    (void)state;
    static const struct trace_frame_node nodes[2];
    static const struct trace_thread threads[THREADS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const settings[] = {cases[i].tunables, NULL};
        const struct trace_image image = {.allocator = cases[i].allocator,
                                          .settings = settings,
                                          .attached = cases[i].attached,
                                          .threads = threads,
                                          .thread_count = THREADS,
                                          .nodes = nodes,
                                          .stacks = 1,
                                          .max_slots = STEPS};
        struct pinned p = state_after(&image, cases[i].steps);
        const struct pinned_heap *const of = p.sum;
        const uint64_t above = of[PINNED_MAIN].above_bytes + of[PINNED_ARENA].above_bytes,
                       held = of[PINNED_MAIN].held_bytes + of[PINNED_ARENA].held_bytes;
        if (above != cases[i].above * PAGE || held != cases[i].held * PAGE)
            fail_msg("%s: %lu pages above, %lu of them held", cases[i].name, above / PAGE,
                     held / PAGE);
        pinned_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_held)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
