/* plugin.c - a plug-in for dl.c, built twice under two names, of equal size, so that the second is
 * loaded where the first was. */
#include <stdlib.h>

void *PLUGIN_FUNCTION(size_t n);
__attribute__((noinline)) static void *PLUGIN_INNER(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
void *PLUGIN_FUNCTION(size_t n)
{
    void *p = PLUGIN_INNER(n);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
