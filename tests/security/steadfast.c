/* steadfast.c - a program of root's (setuid) that another user's process becomes while it is looked
 * at. For a tenth of a second it computes, and then says what became of it: "whole", or "touched"
 * with what changed. A signal that hits it: "hit". */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CODES_MOST = 64 };

static struct code {
    const unsigned char *at;
    size_t bytes;
    uint64_t sum;
} codes[CODES_MOST];
static size_t code_count;
static volatile uint64_t constant = 0x0123456789abcdef;

static void hit(int number)
{
    char text[] = "hit 00\n";
    text[4] = (char)('0' + number / 10);
    text[5] = (char)('0' + number % 10);
    if (write(1, text, sizeof text - 1) < 0)
        _exit(98);
    _exit(99);
}

static uint64_t sum_of(const unsigned char *at, size_t bytes)
{
    uint64_t sum = 14695981039346656037ULL;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 1099511628211ULL;
    return sum;
}

/* True: a library of ours is there. */
static int look(int first)
{
    static char line[8192];
    int ours = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long start, end;
        ours |= strstr(line, "libmallow") != NULL;
        if (first && strstr(line, " r-xp ") && !strchr(line, '[') && code_count < CODES_MOST &&
            sscanf(line, "%llx-%llx", &start, &end) == 2)
            codes[code_count++] =
                (struct code){(const unsigned char *)start, end - start, 0}; // NOLINT
    }
    if (f)
        fclose(f);
    return ours;
}

int main(void)
{
    struct timespec begun, now;
    uint64_t state = constant, rounds = 0, again;
    for (int s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD && s != SIGCONT && s != SIGALRM)
            signal(s, hit);
    look(1);
    for (size_t i = 0; i < code_count; i++)
        codes[i].sum = sum_of(codes[i].at, codes[i].bytes);
    if (write(1, "steadfast\n", 10) != 10)
        return 98;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        for (int i = 0; i < 10000; i++, rounds++)
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        free(malloc(100 + state % 1000));
        if (rounds % 50000 == 0)
            usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000000000LL + now.tv_nsec - begun.tv_nsec < 100000000);
    again = constant;
    for (uint64_t i = 0; i < rounds; i++)
        again = again * 6364136223846793005ULL + 1442695040888963407ULL;
    const char *what = again != state ? "touched registers\n"
                       : look(0)      ? "touched mappings\n"
                                      : NULL;
    for (size_t i = 0; i < code_count && !what; i++)
        if (sum_of(codes[i].at, codes[i].bytes) != codes[i].sum)
            what = "touched code\n";
    if (!what)
        what = "whole\n";
    return write(1, what, strlen(what)) < 0 ? 98 : 0;
}
