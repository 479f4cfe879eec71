/* arenas_harsh.c - what a library inside must bear: errno is the program's, threads come and go, a
 * child is made by a thread while others allocate, and in the end no system call is allowed but
 * read, write and exit. Prints "ok". */
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 200, ODD = 77 };

static void *volatile sink;

static void *thread(void *arg)
{
    errno = ODD;
    for (size_t bytes = 16; bytes < 400000; bytes *= 3) {
        sink = malloc(bytes);
        sink = realloc(sink, bytes * 2);
        free(sink);
    }
    return errno == ODD ? NULL : arg;
}

static void *busy(void *arg)
{
    while (!*(volatile int *)arg) {
        sink = malloc(2000), free(sink);
        free(malloc(200000));
    }
    return NULL;
}

int main(void)
{
    pthread_t t, other;
    int over = 0, status = 1;
    void *failed = NULL;
    for (int i = 0; i < THREADS && !failed; i++)
        if (pthread_create(&t, NULL, thread, &over) || pthread_join(t, &failed))
            return 2;
    if (failed || pthread_create(&other, NULL, busy, &over))
        return 3;
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(thread(&over) != NULL);
        if (waitpid(pid, &status, 0) != pid || status)
            return 4;
    }
    over = 1;
    pthread_join(other, NULL);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        return 5;
    for (size_t i = 0; i < 1000; i++) /* what is at hand: no more may be asked for */
        free(malloc(100));
    if (write(1, "ok\n", 3) != 3)
        return 6;
    syscall(SYS_exit, 0);
}
