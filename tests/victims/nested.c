/* nested.c - a program that is started in namespaces of all kinds, or makes its own.
 *
 *   nested [own] [leader]
 *
 * It makes 64 MiB resident and forks, so that the child is as large from its beginning on. The
 * child allocates 1 MiB, says "ready N", N the number of mallow's files that it sees in /dev/shm,
 * waits until its standard input ends, and exits with status 7. The parent waits, and ends as the
 * child did. own: the child is in new user and pid namespaces. leader: the child's first thread
 * ends before; another does it. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESIDENT ((size_t)64 << 20)

static void *volatile sink;

static unsigned entries(void)
{
    unsigned n = 0;
    DIR *d = opendir("/dev/shm");
    for (struct dirent *e; d && (e = readdir(d));)
        n += !strncmp(e->d_name, "mallow-", 7);
    if (d)
        closedir(d);
    return n;
}

static void *work(void *arg)
{
    char line[64], stat[256];
    while (arg) {
        snprintf(line, sizeof line, "/proc/self/task/%d/stat", getpid());
        int fd = open(line, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, stat, sizeof stat - 1);
        if (fd >= 0)
            close(fd);
        stat[n > 0 ? n : 0] = 0;
        const char *end = strrchr(stat, ')');
        if (!end || end[2] == 'Z')
            break;
        usleep(1000);
    }
    sink = malloc((size_t)1 << 20);
    int n = snprintf(line, sizeof line, "ready %u\n", entries());
    if (write(1, line, (size_t)n) != n)
        _exit(1);
    while (read(0, line, sizeof line) > 0)
        ;
    exit(7);
}

int main(int argc, char **argv)
{
    int own = argc > 1 && !strcmp(argv[1], "own");
    char *p = malloc(RESIDENT);
    sink = memset(p, 1, RESIDENT);
    if (own && unshare(CLONE_NEWUSER | CLONE_NEWPID))
        return 77;
    pid_t child = fork();
    if (child) {
        int status;
        if (waitpid(child, &status, 0) != child)
            return 1;
        if (!WIFSIGNALED(status))
            return WEXITSTATUS(status);
        raise(WTERMSIG(status)); /* which the first process of a pid namespace survives */
        return 128 + WTERMSIG(status);
    }
    if (argc <= 1 + own)
        work(0);
    pthread_t t;
    if (pthread_create(&t, 0, work, "leader"))
        return 1;
    pthread_exit(0);
}
