/* ways_plugin.c - a plugin of ways.c. OWN: with a malloc of its own inside, hidden as that of a
 * static C library is, or (SHOWN) for others to find. */
#include <stdlib.h>

#ifdef OWN
#ifndef SHOWN
#define SHOWN __attribute__((visibility("hidden")))
#endif
static char memory[64 << 20];
static size_t used;
SHOWN void *malloc(size_t n);
SHOWN void free(void *p);

void *malloc(size_t n)
{
    n = (n + 31) & ~(size_t)15;
    return used + n > sizeof memory ? 0 : memory + (used += n) - n;
}

void free(void *p) { (void)p; }
#endif

void *plugin_make(size_t n);
void plugin_drop(void *p);

void *plugin_make(size_t n) { return malloc(n); }
void plugin_drop(void *p) { free(p); }
