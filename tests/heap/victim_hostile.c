/* victim_hostile.c - a process whose heap lies: words of it, and of libc's data, are overwritten.
 *
 * Usage: victim_hostile SEED. Makes blocks of many sizes, in two threads, frees some, and then
 * overwrites up to 60 words: headers, lists, arenas, thread caches, by pointers to elsewhere,
 * sizes, cycles and garbage. From then on it makes system calls only: it says "ready" and waits for
 * the end of its input. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 3000, RANGES_MAX = 16, WORD = sizeof(uint64_t) };

struct range {
    uint64_t *words;
    size_t count;
};

void **kept[2];
static struct range ranges[RANGES_MAX];
static size_t range_count;
static uint64_t state;
static pthread_barrier_t made;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fill(size_t number)
{
    void **block = kept[number] = calloc(BLOCKS, sizeof *block);
    uint64_t mine = 88172645463325252ULL + number;
    for (size_t i = 0; i < BLOCKS; i++) {
        mine ^= mine << 13;
        mine ^= mine >> 7;
        mine ^= mine << 17;
        const size_t bytes = mine % 300 ? 1 + mine % 700 : 150000;
        block[i] = calloc(1, bytes < WORD ? WORD : bytes);
        if (!block[i])
            abort();
        memcpy(block[i], &block[i ? i - 1 : 0], WORD);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (i / 7 % 3 == 0 || i % 11 == 0) {
            free(block[i]);
            block[i] = NULL;
        }
}

static void *work(void *arg)
{
    (void)arg;
    fill(1);
    pthread_barrier_wait(&made);
    for (;;)
        pause();
    return NULL;
}

/* The heaps, and libc's own variables, which hold the main arena. */
static void find_ranges(void)
{
    static char text[1 << 16];
    const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t more;
    while (n < sizeof text - 1 && (more = read(fd, text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)more;
    close(fd);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        char *next;
        const uint64_t start = strtoull(line, &next, 16), stop = strtoull(next + 1, &next, 16);
        const uint64_t second = (uint64_t)(uintptr_t)kept[1];
        const int ours =
            strstr(line, "[heap]") || strstr(line, "libc.so") || (second >= start && second < stop);
        if (strncmp(next + 1, "rw-p", 4) || !ours || range_count == RANGES_MAX)
            continue;
        ranges[range_count].words = (uint64_t *)start; // NOLINT(performance-no-int-to-ptr)
        ranges[range_count++].count = (size_t)(stop - start) / WORD;
    }
}

static uint64_t *any_word(void)
{
    const struct range *r = &ranges[draw() % range_count];
    uint64_t *word = r->words;
    for (int tries = 0; tries < 50; tries++) { /* mostly where something is */
        word = &r->words[draw() % r->count];
        if (*word)
            break;
    }
    return word;
}

static void damage(void)
{
    for (unsigned k = 1 + (unsigned)(draw() % 60); k > 0; k--) {
        uint64_t *word = any_word();
        switch (draw() % 7) {
        case 0: *word = 0; break;
        case 1: *word = UINT64_MAX; break;
        case 2: *word = *any_word(); break;
        case 3: *word ^= (uint64_t)1 << draw() % 64; break;
        case 4: *word = (uint64_t)(uintptr_t)any_word(); break;
        case 5: *word = draw() % 4096 * 16 | 1; break;
        default: *word = (uint64_t)(uintptr_t)word - 16; break; /* a ring of one */
        }
    }
}

int main(int argc, char **argv)
{
    pthread_t id;
    char byte;
    if (argc != 2)
        return 2;
    state = strtoull(argv[1], NULL, 10) * 2654435761U + 1;
    pthread_barrier_init(&made, NULL, 2);
    if (pthread_create(&id, NULL, work, NULL))
        return 1;
    fill(0);
    pthread_barrier_wait(&made);
    find_ranges();
    if (!range_count)
        return 1;
    damage();
    if (syscall(SYS_write, 1, "ready\n", 6) < 0)
        syscall(SYS_exit_group, 1);
    while (syscall(SYS_read, 0, &byte, 1) > 0)
        ;
    syscall(SYS_exit_group, 0);
    return 0;
}
