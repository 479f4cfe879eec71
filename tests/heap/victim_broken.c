/* victim_broken.c - writes over the header of one of its blocks, and stands still. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept[1000];

int main(void)
{
    for (int i = 0; i < 1000; i++)
        kept[i] = malloc(100);
    char *volatile victim = kept[500];
    memset(victim, 'x', 120);
    if (write(1, "ready\n", 6) < 0)
        return 1;
    for (;;)
        pause();
}
