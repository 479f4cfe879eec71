/* server.c - answers requests for a few seconds; its cache of answers is never emptied. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    struct entry *next;
    char answer[2000];
};

static struct entry *cache;

static void remember(int request)
{
    struct entry *e = malloc(sizeof *e);
    if (!e)
        exit(1);
    snprintf(e->answer, sizeof e->answer, "answer to %d", request);
    e->next = cache;
    cache = e;
}

static void answer(int request)
{
    char *work = malloc(10000);
    if (work)
        memset(work, request, 10000);
    if (request % 2)
        remember(request);
    free(work);
}

int main(int argc, char **argv)
{
    const int requests = argc > 1 ? atoi(argv[1]) : 60000;
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < requests; i++) {
        answer(i);
        if (i % 200 == 0)
            usleep(10000);
    }
    if (argc > 2)
        getchar();
    return cache == NULL;
}
