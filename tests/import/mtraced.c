/* A program that traces its calls by mtrace(3): 2 blocks of 100 and 200 bytes, the second moved to
 * 300, one of calloc that is freed, one of 1 MB that stays. */
#include <mcheck.h>
#include <stdlib.h>

void *volatile kept[4];
void *made(size_t n);

__attribute__((noinline)) void *made(size_t n) { return kept[3] = malloc(n); }

int main(void)
{
    mtrace();
    kept[0] = made(100);
    kept[1] = made(200);
    kept[1] = realloc(kept[1], 300);
    kept[2] = calloc(3, 5);
    free(kept[2]);
    kept[2] = malloc(1000000);
    muntrace();
    return 0;
}
