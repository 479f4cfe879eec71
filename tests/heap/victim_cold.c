/* victim_cold.c - writes some of its blocks when it is asked to, and others never again.
 *
 * Usage: victim_cold [seccomp]. 200 blocks of 64 KB that are only read hang from cold_table, 100
 * that are written hang from hot_table, and large_block is one of 1 MB that nothing touches. A
 * block of 4 MB, unused_block, was never written, so it is not in memory. Prints "ready"; then, for
 * each byte of its input, reads and writes what it is to, and answers "done". With `seccomp` it is
 * behind a filter that allows everything. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { COLD = 200, HOT = 100, BYTES = 64 << 10, SPACE = 16 << 10 };

char *cold_table[COLD], *hot_table[HOT], *large_block, *unused_block, *between[3];
volatile unsigned long sum;

static void fill(char **table, int count)
{
    for (int i = 0; i < count; i++) {
        table[i] = malloc(BYTES);
        memset(table[i], i + 1, BYTES);
    }
}

static void confine(void)
{
    struct sock_filter all = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
    struct sock_fprog program = {.len = 1, .filter = &all};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(3);
}

int main(int argc, char **argv)
{
    char byte;
    between[0] = malloc(SPACE);
    fill(cold_table, COLD);
    between[1] = malloc(SPACE);
    fill(hot_table, HOT);
    between[2] = malloc(SPACE);
    large_block = malloc(1 << 20);
    memset(large_block, 1, 1 << 20);
    unused_block = malloc(4 << 20);
    if (argc > 1 && !strcmp(argv[1], "seccomp"))
        confine();
    if (write(1, "ready\n", 6) != 6)
        return 1;
    while (read(0, &byte, 1) == 1) {
        for (int i = 0; i < COLD; i++)
            for (int k = 0; k < BYTES; k += 64)
                sum += (unsigned long)cold_table[i][k];
        for (int i = 0; i < HOT; i++)
            memset(hot_table[i], byte, BYTES);
        if (write(1, "done\n", 5) != 5)
            return 1;
    }
    return 0;
}
