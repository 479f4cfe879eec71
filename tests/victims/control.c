/* control.c - a program that controls its own recording. Without the library each control call is
 * nothing. Sizes tell the phases apart. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mallow.h"

static void *volatile keep[100000];
static int kept;
static void blocks(int n, size_t size)
{
    for (int i = 0; i < n; i++)
        keep[kept++] = malloc(size);
}

static volatile int stage;
static void *other(void *arg)
{
    while (stage == 0)
        usleep(100);
    blocks(30, 12); /* while paused by the main thread */
    stage = 2;
    while (stage == 2)
        usleep(100);
    blocks(40, 13); /* after */
    return arg;
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    if (!strcmp(
            m,
            "pause")) { /* 10 x 10 B, (20 x 11 B unseen), 30 x 12 B; one free of an unseen block */
        blocks(10, 10);
        MALLOW_PAUSE();
        blocks(20, 11);
        free(keep[0]); /* unseen: its block stays live for the reader, unless its address returns */
        MALLOW_UNPAUSE();
        free(keep[10]); /* of an unseen block */
        blocks(30, 12);
    } else if (!strcmp(m, "stop")) {
        blocks(10, 10);
        MALLOW_STOP();
        MALLOW_STOP();
        blocks(20, 11);
        MALLOW_START();
        MALLOW_START();
        blocks(30, 12);
    } else if (!strcmp(m, "start")) { /* for record --paused */
        blocks(10, 10);
        MALLOW_START();
        MALLOW_UNPAUSE();
        blocks(30, 12);
    } else if (!strcmp(m, "reset")) {
        blocks(10, 10);
        MALLOW_RESET();
        blocks(30, 12);
        free(keep[0]); /* of a block from before */
    } else if (!strcmp(m, "mark")) {
        blocks(1, 10);
        MALLOW_MARK("first mark");
        blocks(1, 10);
        MALLOW_MARK("second \"mark\"\n");
        MALLOW_MARK("");
        blocks(1, 10);
    } else if (!strcmp(
                   m,
                   "sync")) { /* what is recorded must be in the file now, with the program alive */
        blocks(50, 10);
        MALLOW_SYNC();
        if (write(1, "synced\n", 7) != 7)
            return 3;
        char c;
        if (read(0, &c, 1) != 1)
            blocks(1, 1);
    } else if (!strcmp(m, "threads")) {
        pthread_t t;
        pthread_create(&t, NULL, other, NULL);
        MALLOW_PAUSE();
        stage = 1;
        while (stage == 1)
            usleep(100);
        MALLOW_UNPAUSE();
        stage = 3;
        pthread_join(t, NULL);
    } else if (!strcmp(m, "wait")) { /* controlled from outside: a phase for each byte read */
        char c;
        size_t size = 10;
        while (read(0, &c, 1) == 1) {
            blocks(10, size++);
            if (write(1, &c, 1) != 1)
                return 3;
        }
    } else {
        return 2;
    }
    return 0;
}
