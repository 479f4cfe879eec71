/* late.c - linked statically, so that no library is told of it: waits for some seconds where the
 * kernel lets nothing wake it (as the parent of a vfork, which has not run much by then), and
 * becomes a program.
 *   late_static SECONDS PROGRAM ARGUMENTS... */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const struct timespec t = {.tv_sec = atol(argv[1])};
    const pid_t child = vfork();
    if (child == 0) {
        nanosleep(&t, NULL);
        _exit(0);
    }
    execv(argv[2], argv + 2);
    return 1;
}
