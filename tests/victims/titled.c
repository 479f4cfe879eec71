/* Allocates, then obeys lines of standard input: `title TEXT` writes over the arguments, as
 * setproctitle does, `name TEXT` names the process for the kernel; each is answered by an empty
 * line. Ends at the end of input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    char line[256];
    char *end = argv[argc - 1] + strlen(argv[argc - 1]);
    static void *volatile kept;
    kept = malloc(100000);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "title ", 6)) {
            memset(argv[0], 0, (size_t)(end - argv[0]));
            strncpy(argv[0], line + 6, (size_t)(end - argv[0]) - 1);
        } else if (!strncmp(line, "name ", 5)) {
            prctl(PR_SET_NAME, line + 5);
        }
        puts("");
        fflush(stdout);
    }
    free(kept);
    return 0;
}
