/* victim_breaks.c - moves the break itself between allocations, so that the main heap lies in
 * parts. Usage: victim_breaks FILE [maze|wall|walled|rests]; FILE as of victim_blocks. maze: what
 * lies between two of the parts looks like blocks from every address on, and leads nowhere. wall: a
 * page comes to lie in the way of the break, so that glibc maps further parts; walled: from the
 * start, and the program moves no break. rests: the top has each small size once when its part
 * ends. */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 8, EACH = 300, MAZE_BYTES = 64 << 20 };

static void *kept[ROUNDS * EACH];

static void make_maze(void)
{
    uint64_t *words = sbrk(MAZE_BYTES);
    for (size_t i = 0; i < MAZE_BYTES / sizeof *words; i++)
        words[i] = i % 2 ? 32 | 1 : 0;
    words[MAZE_BYTES / sizeof *words - 1] = words[MAZE_BYTES / sizeof *words - 3] = 8;
}

static bool make_wall(void)
{
    const uint64_t at = ((uint64_t)sbrk(0) + 4095) & ~4095ULL;
    return mmap((char *)at + (1 << 20), 4096, PROT_READ, // NOLINT(performance-no-int-to-ptr)
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
}

/* Leaves so many bytes to the top, and needs more. */
static size_t end_part(size_t n, size_t rest)
{
    enum { LARGE = 64 << 10, LEAST = 32, HEADER = 8 };
    for (size_t top; (top = mallinfo2().keepcost) != rest;) {
        size_t bytes = top - rest < LARGE + LEAST ? top - rest : LARGE;
        if (top < rest + LEAST)
            bytes = 3 * (size_t)LARGE / 2; /* another part first */
        kept[n++] = malloc(bytes - HEADER);
    }
    if (sbrk(16) == (void *)-1)
        exit(1);
    kept[n++] = malloc(3 * LARGE / 2);
    return n;
}

int main(int argc, char **argv)
{
    static char room[1 << 16];
    size_t n = 0;
    if (argc < 2)
        return 2;
    const char *how = argc > 2 ? argv[2] : "";
    const bool walled = !strcmp(how, "walled");
    if (walled && !make_wall())
        return 1;
    const bool rests = !strcmp(how, "rests");
    for (size_t rest = 32; rests && rest <= 112; rest += 16)
        n = end_part(n, rest);
    for (int i = 0; !rests && i < ROUNDS; i++) {
        for (int k = 0; k < EACH; k++)
            kept[n++] = malloc((size_t)(k * 7 % 2000 + 1));
        if (!strcmp(how, "maze") && i == ROUNDS / 2)
            make_maze();
        if (!strcmp(how, "wall") && i == ROUNDS / 4 && !make_wall())
            return 1;
        if (!walled && sbrk(i % 2 ? 4096 * (i + 1) : 1008) == (void *)-1)
            return 1;
    }
    for (size_t i = 0; i < n; i += 3) {
        free(kept[i]);
        kept[i] = NULL;
    }
    FILE *f = fopen(argv[1], "w");
    if (!f || setvbuf(f, room, _IOFBF, sizeof room))
        return 1;
    for (size_t i = 0; i < n; i++)
        if (kept[i])
            fprintf(f, "%p %zu\n", kept[i], malloc_usable_size(kept[i]));
    struct mallinfo2 m = mallinfo2();
    fprintf(f, "mallinfo %zu %zu %zu %zu\n", m.uordblks, m.fordblks, m.hblks, m.hblkhd);
    fflush(f);
    if (write(1, "ready\n", 6) < 0)
        return 1;
    for (;;)
        pause();
}
