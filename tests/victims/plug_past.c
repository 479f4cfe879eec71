/* plug_past.c - the plugin of past.c: its allocator is the one that its loader gives it. */
#include <stdlib.h>
#include <string.h>

void *plugin_make(size_t n);
void plugin_drop(void *p);
void *plugin_grow(void *p, size_t n);

void *plugin_make(size_t n)
{
    char *p = malloc(n);
    memset(p, 1, n);
    return p;
}

void plugin_drop(void *p) { free(p); }
void *plugin_grow(void *p, size_t n) { return realloc(p, n); }
