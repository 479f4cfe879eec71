/* victim_vforks.c - a thread that waits in the kernel and cannot be stopped: for a child of vfork,
 * which waits for a line of input. At the line it prints "on". */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    char line[16];
    void *volatile block = malloc(1000);
    printf("ready\n");
    fflush(stdout);
    const pid_t child = vfork(); // NOLINT: its parent's wait is what is wanted
    if (!child)
        _exit(read(0, line, sizeof line) < 0);
    printf("on\n");
    fflush(stdout);
    while (read(0, line, sizeof line) > 0)
        ;
    free(block);
    return child < 0;
}
