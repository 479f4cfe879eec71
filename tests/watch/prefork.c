/* A pre-forking server: 40 MiB, which six children share with their parent. The parent then takes
 * as many MiB more as each line of its standard input says; at its end all end. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static void grow(size_t mib)
{
    kept = malloc(mib << 20);
    memset(kept, 1, mib << 20);
}

int main(void)
{
    char line[32];
    int stay[2], ready[2];
    grow(40);
    if (pipe(stay) || pipe(ready))
        return 1;
    for (int i = 0; i < 6; i++)
        if (!fork()) {
            for (int k = 0; k < 3000; k++) { /* so that a watch hears of it */
                void *volatile block = malloc(2000);
                free(block);
            }
            close(stay[1]);
            const bool done = write(ready[1], "", 1) == 1;
            _exit(read(stay[0], line, 1) || !done);
        }
    for (int i = 0; i < 6; i++)
        if (read(ready[0], line, 1) != 1)
            return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        grow(strtoul(line, NULL, 10));
        puts("grown");
        fflush(stdout);
    }
    close(stay[1]);
    while (wait(NULL) > 0)
        ;
    return 0;
}
