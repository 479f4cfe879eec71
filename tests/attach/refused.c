/* refused.c - programs that are not attached to. Usage: refused KIND [ARGUMENT]; prints "ready",
 * and waits for the end of its input. With OWN a program that has a malloc of its own, with MARK
 * one that has a text of an allocator in it, as one that is linked statically has. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef MARK
const char *volatile mark = MARK;
#endif
#ifdef OWN
static char pool[1 << 20];
static size_t used;
void *malloc(size_t n)
{
    const size_t at = used;
    used += (n + 15) & ~(size_t)15;
    return used <= sizeof pool ? pool + at : NULL;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n)
{
    void *to = malloc(n);
    return p && to ? memmove(to, p, n) : to;
}
#endif

/* No call but read and exit: also under a filter that allows no more. */
static void wait_for_end(void)
{
    char byte;
    while (syscall(SYS_read, 0, &byte, 1) > 0)
        ;
    syscall(SYS_exit, 0);
}

static void ready(void)
{
    if (write(1, "ready\n", 6) != 6)
        _exit(3);
}

static void on_signal(int number)
{
    (void)number;
    ready();
    wait_for_end();
    _exit(0);
}

static void *other_thread(void *first)
{
    pthread_join(*(pthread_t *)first, NULL);
    ready();
    wait_for_end();
    _exit(0);
}

static int leave_leader(void)
{
    static pthread_t first, other;
    first = pthread_self();
    if (pthread_create(&other, NULL, other_thread, &first))
        return 3;
    pthread_exit(NULL);
}

/* A directory that holds nothing in its place, for this process alone. */
static bool hide(const char *directory)
{
    return !unshare(CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0)) &&
           !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", directory, "tmpfs", 0, NULL);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";
    free(malloc(100));
    if (!strcmp(kind, "leader"))
        return leave_leader();
    if (!strcmp(kind, "handler")) {
        const struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
        sigaction(SIGUSR1, &act, NULL);
        raise(SIGUSR1);
    }
    if (!strcmp(kind, "undumpable"))
        prctl(PR_SET_DUMPABLE, 0);
    if (!strcmp(kind, "container") && !hide(argument)) {
        puts("no namespace");
        return 4;
    }
    for (int i = 2; !strcmp(kind, "libraries") && i < argc; i++)
        if (!dlopen(argv[i], RTLD_NOW))
            break;
    ready();
    if (!strcmp(kind, "strict"))
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    wait_for_end();
    return 0;
}
