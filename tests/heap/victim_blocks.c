/* victim_blocks.c - writes down its own live blocks and mallinfo2, then stands still or goes on.
 *
 * Usage: victim_blocks FILE THREADS BLOCKS [churn|small]
 * Every thread makes BLOCKS blocks of all sizes, some aligned, some with mappings of their own,
 * frees about half and gives some to other threads to free, so that caches, fast lists, bins and
 * arenas are all in use. FILE gets a line "ADDRESS USABLE" a live block and one
 * "mallinfo UORDBLKS FORDBLKS HBLKS HBLKHD"; "ready" is printed when it is complete. All blocks
 * are referred to from the variable `ledger`. churn: the threads go on allocating and freeing.
 * small: no large ones. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct share {
    void **block;
    size_t count;
    unsigned number;
};

struct share *ledger;
static pthread_t *ids;
static size_t threads, each;
static pthread_barrier_t made, given, noted;
static int churn, small;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void *make_one(uint64_t *state)
{
    uint64_t kind = small ? 0 : next_random(state) % 1000;
    size_t size = next_random(state) % (small ? 100 : kind < 900 ? 512 : kind < 990 ? 8192 : 60000);
    void *p = NULL;
    if (kind == 999)
        p = malloc(150000 + size * 4);
    else if (kind == 998)
        p = memalign((size_t)32 << next_random(state) % 14, 140000 + size);
    else if (kind >= 980)
        p = memalign((size_t)32 << next_random(state) % 8, size + 1);
    else if (kind >= 900)
        p = calloc(1, size + 1);
    else
        p = malloc(size + 1);
    if (!p)
        abort();
    return p;
}

static void *work(void *arg)
{
    struct share *mine = arg;
    uint64_t state = 88172645463325252ULL + mine->number * 7919;
    for (size_t i = 0; i < each; i++)
        mine->block[mine->count++] = make_one(&state);
    pthread_barrier_wait(&made);
    /* Half of the neighbour's are freed here: into this thread's cache, of its arena. */
    struct share *other = &ledger[(mine->number + 1) % threads];
    size_t kept = 0;
    for (size_t i = 0; i < other->count; i++)
        if (next_random(&state) % 2)
            free(other->block[i]);
        else
            other->block[kept++] = other->block[i];
    pthread_barrier_wait(&given);
    other->count = kept;
    free(malloc(24)); /* so that every thread has a cache */
    pthread_barrier_wait(&noted);
    pthread_barrier_wait(&noted);
    while (churn) {
        size_t i = next_random(&state) % (mine->count ? mine->count : 1);
        if (mine->count) {
            free(mine->block[i]);
            mine->block[i] = make_one(&state);
        }
    }
    for (;;)
        pause();
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    threads = strtoul(argv[2], NULL, 10);
    each = strtoul(argv[3], NULL, 10);
    churn = argc > 4 && !strcmp(argv[4], "churn");
    small = argc > 4 && !strcmp(argv[4], "small");
    ledger = calloc(threads, sizeof *ledger);
    pthread_barrier_init(&made, NULL, (unsigned)threads);
    pthread_barrier_init(&given, NULL, (unsigned)threads);
    pthread_barrier_init(&noted, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < threads; i++) {
        ledger[i].number = (unsigned)i;
        ledger[i].block = calloc(each ? each : 1, sizeof(void *));
    }
    ids = calloc(threads, sizeof *ids);
    FILE *f = fopen(argv[1], "w");
    static char room[1 << 16];
    setvbuf(f, room, _IOFBF, sizeof room);
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &ledger[i]))
            return 1;
    pthread_barrier_wait(&noted);
    fprintf(f, "%p %zu\n", (void *)ledger, malloc_usable_size(ledger));
    fprintf(f, "%p %zu\n", (void *)ids, malloc_usable_size(ids));
    for (size_t i = 0; i < threads; i++) {
        fprintf(f, "%p %zu\n", (void *)ledger[i].block, malloc_usable_size(ledger[i].block));
        for (size_t k = 0; k < ledger[i].count; k++)
            fprintf(f, "%p %zu\n", ledger[i].block[k], malloc_usable_size(ledger[i].block[k]));
    }
    struct mallinfo2 m = mallinfo2();
    fprintf(f, "mallinfo %zu %zu %zu %zu\n", m.uordblks, m.fordblks, m.hblks, m.hblkhd);
    fflush(f);
    if (write(1, "ready\n", 6) < 0)
        return 1;
    pthread_barrier_wait(&noted);
    for (;;)
        pause();
}
