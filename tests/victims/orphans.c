/* orphans.c - three processes that die with the first one of their pid namespace. Each holds a
 * block of 48 MiB, and says so to the first, which ends then; this one waits for that. Exits with
 * 77 where no namespace can be made. */
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORPHANS = 3 };

static void *volatile sink;

static void first(void)
{
    int ready[2];
    char said[ORPHANS];
    if (pipe(ready))
        _exit(1);
    for (int i = 0; i < ORPHANS; i++)
        if (!fork()) {
            sink = malloc((size_t)48 << 20);
            if (write(ready[1], "x", 1) == 1)
                pause();
            _exit(1);
        }
    for (int i = 0; i < ORPHANS; i++)
        if (read(ready[0], said, 1) != 1)
            _exit(1);
    exit(0);
}

int main(void)
{
    int status;
    sink = malloc(100);
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
        return 77;
    const pid_t child = fork();
    if (!child)
        first();
    return child < 0 || waitpid(child, &status, 0) != child || status ? 1 : 0;
}
