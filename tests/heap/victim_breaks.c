/* victim_breaks.c - moves the break itself between allocations, so that the main heap lies in
 * parts. Usage: victim_breaks FILE [maze]; FILE as of victim_blocks. maze: what lies between two of
 * the parts looks like blocks from every address on, and leads nowhere. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

int main(int argc, char **argv)
{
    static char room[1 << 16];
    size_t n = 0;
    if (argc < 2)
        return 2;
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < EACH; k++)
            kept[n++] = malloc((size_t)(k * 7 % 2000 + 1));
        if (argc > 2 && i == ROUNDS / 2)
            make_maze();
        if (sbrk(i % 2 ? 4096 * (i + 1) : 1008) == (void *)-1)
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
