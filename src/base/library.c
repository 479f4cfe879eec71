/* library.c - Loads a shared library with dlopen and fills the caller's table of functions with
 * dlsym. The first name's error is the one that is kept, because the other names are fallbacks. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void open_any(struct library *l)
{
    for (size_t i = 0; !l->handle && l->names[i]; i++) {
        l->handle = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
        if (!l->handle && i == 0) /* functions that the usual name lacks */
            snprintf(l->why, sizeof l->why, "%s", dlerror());
    }
}

void *library_symbol(struct library *l, const char *name)
{
    void *symbol = dlsym(l->handle, name);
    if (!symbol)
        snprintf(l->why, sizeof l->why, "%s has no %s%s", l->title, name, l->hint ? l->hint : "");
    return symbol;
}

const char *library_load(struct library *l)
{
    open_any(l);
    if (!l->handle)
        return l->why;
    for (size_t i = 0; i < l->symbol_count; i++) {
        void *symbol = library_symbol(l, l->symbols[i].name);
        if (!symbol)
            return l->why;
        memcpy((char *)l->table + l->symbols[i].at, &symbol, sizeof symbol);
    }
    return NULL;
}
