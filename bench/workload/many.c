/* many.c - runs a program many times, one after the other, and says what they took together.
 * Allocates nothing while they run, so that it may itself run under a recorder.
 *
 * many OUT COUNT [NAME=VALUE...] -- PROGRAM ARGS: OUT gets one line
 *   user_ns system_ns minor_faults
 * of the COUNT programs, without what this one took. They are spawned as make and compilers do it
 * (posix_spawn). NAME=VALUE is put into the programs' environment only. Their standard output goes
 * to /dev/null. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long long ns(struct timeval t) { return t.tv_sec * 1000000000ll + t.tv_usec * 1000ll; }

int main(int argc, char **argv)
{
    int at = 3;
    while (at < argc && strcmp(argv[at], "--") != 0)
        at++;
    if (at + 1 >= argc)
        return 125;
    const int null = open("/dev/null", O_WRONLY);
    if (null < 0 || dup2(null, 1) != 1)
        return 125;
    for (int i = 3; i < at; i++)
        putenv(argv[i]);
    long long user = 0, kernel = 0;
    long faults = 0;
    for (long i = atol(argv[2]); i > 0; i--) {
        pid_t p;
        int status;
        struct rusage u;
        if (posix_spawn(&p, argv[at + 1], 0, 0, argv + at + 1, environ) ||
            wait4(p, &status, 0, &u) != p || status)
            return 125;
        user += ns(u.ru_utime);
        kernel += ns(u.ru_stime);
        faults += u.ru_minflt;
    }
    char line[160];
    const int n = snprintf(line, sizeof line, "%lld %lld %ld\n", user, kernel, faults);
    const int out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return out >= 0 && write(out, line, (size_t)n) == n ? 0 : 125;
}
