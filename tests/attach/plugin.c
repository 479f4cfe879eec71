/* plugin.c - a library that comes and goes, and calls malloc through a binding of its own. */
#include <stdlib.h>

void *plugin_make(size_t n);
void *plugin_make(size_t n) { return malloc(n); }
static void *kept;
__attribute__((constructor)) static void begin(void) { kept = malloc(50); }
__attribute__((destructor)) static void end(void) { free(kept); }
