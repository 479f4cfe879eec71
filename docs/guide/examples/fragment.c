/* fragment.c - reads many records, keeps one in 37, and waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS = 400000 };

static char *parse(int i)
{
    char *record = malloc(96);
    if (record)
        memset(record, i, 96);
    return record;
}

static char *kept[RECORDS / 37 + 1];

static void load(void)
{
    char **all = calloc(RECORDS, sizeof *all);
    if (!all)
        exit(1);
    for (int i = 0; i < RECORDS; i++)
        all[i] = parse(i);
    for (int i = 0; i < RECORDS; i++)
        if (i % 37)
            free(all[i]);
        else
            kept[i / 37] = all[i];
    free(all);
}

int main(void)
{
    load();
    printf("serving\n");
    fflush(stdout);
    getchar();
    return kept[1] == NULL;
}
