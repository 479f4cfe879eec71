/* calls_victim.c - calls of the allocator in known numbers: from an ELF constructor on, in threads,
 * in a child, after an exec. With the argument "leaf" it does its part as the program that was
 * executed; with "wait", it goes on when it can read a byte. No stdio, whose buffers are allocated.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONSTRUCTOR = 12345, MAIN = 655, THREADS = 4, EACH = 250, CHILD = 500, LEAF = 77 };

static void *volatile sink;

static void some(int n, size_t size)
{
    for (int i = 0; i < n; i++) {
        void *p = malloc(size);
        __asm__ volatile("" : "+r"(p)); /* sink would be shared by the threads */
        free(p);
    }
}

__attribute__((constructor)) static void before_main(void) { some(CONSTRUCTOR, 24); }

static void *thread(void *arg)
{
    some(EACH, 1000);
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "leaf")) {
        some(LEAF, 40);
        return 3;
    }
    char word;
    if (argc > 1 && !strcmp(argv[1], "wait") && read(STDIN_FILENO, &word, 1) != 1)
        return 1;
    some(MAIN, 100);
    /* The rest of the family: 10 of each. */
    for (int i = 0; i < 10; i++) {
        void *p = NULL;
        sink = calloc(10, 300); /* 3000 */
        free(sink);
        sink = realloc(NULL, 200000);
        sink = realloc(sink, 400000);
        free(sink);
        sink = aligned_alloc(64, 64 * 1024);
        free(sink);
        if (posix_memalign(&p, 4096, 70000))
            return 1;
        free(p);
        sink = reallocarray(NULL, 100, 5000); /* 500000 */
        free(sink);
        free(NULL);
    }
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, thread, NULL))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        some(CHILD, 5000);
        char *arguments[] = {argv[0], "leaf", NULL};
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 3 ? 0 : 1;
}
