/* fragment.c - parses many records, keeps what it has learned from one in 16, and serves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 160000, RECORD_BYTES = 200, KEPT_OF = 16 };

static char *kept[RECORDS];

__attribute__((noinline)) static void *parse(void) { return malloc(RECORD_BYTES); }
__attribute__((noinline)) static void *remember(void) { return malloc(RECORD_BYTES); }

static void load(void)
{
    for (int i = 0; i < RECORDS; i++)
        if ((kept[i] = i % KEPT_OF ? parse() : remember()))
            memset(kept[i], i, RECORD_BYTES);
    for (int i = 0; i < RECORDS; i++)
        if (i % KEPT_OF)
            free(kept[i]);
}

int main(void)
{
    load();
    puts("serving");
    fflush(stdout);
    sleep(1);
    return kept[0] == NULL;
}
