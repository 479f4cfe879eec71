/* timer.c - runs a program and says what it took: wall time, its CPU time and its largest resident
 * size, of it and of the children that it waited for. Allocates nothing, so that it may itself run
 * under a recorder.
 *
 * timer OUT [NAME=VALUE...] -- PROGRAM ARGS: OUT gets one line
 *   wall_ns user_ns system_ns max_rss_kb status
 * NAME=VALUE is put into the program's environment only. Standard output goes to /dev/null. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static long long ns(struct timeval t) { return t.tv_sec * 1000000000ll + t.tv_usec * 1000ll; }

int main(int argc, char **argv)
{
    int at = 2;
    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    if (at + 1 >= argc)
        return 125;
    int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        return 125;
    long long start = now_ns();
    pid_t p = fork();
    if (p == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, 1);
        for (int i = 2; i < at; i++)
            putenv(argv[i]);
        execvp(argv[at + 1], argv + at + 1);
        _exit(127);
    }
    int status = 0;
    struct rusage u;
    if (p < 0 || wait4(p, &status, 0, &u) != p)
        return 125;
    long long wall = now_ns() - start;
    char line[160];
    int n = snprintf(line, sizeof line, "%lld %lld %lld %ld %d\n", wall, ns(u.ru_utime),
                     ns(u.ru_stime), u.ru_maxrss, status);
    return write(out, line, (size_t)n) == n ? 0 : 125;
}
