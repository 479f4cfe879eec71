/* dl.c - loads plug-in a, lets it allocate, unloads it, the same with b, n times: names must stay
 * right although both had the same addresses. argv: FOLDER N. Exits 4 when they never had. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile keep[10000];
static int kept;

static uintptr_t use(const char *folder, const char *name, size_t n)
{
    char path[4096], function[64];
    snprintf(path, sizeof path, "%s/plug_%s.so", folder, name);
    snprintf(function, sizeof function, "alloc_in_plug_%s", name);
    void *h = dlopen(path, RTLD_NOW);
    if (!h) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    void *(*f)(size_t) = (void *(*)(size_t))dlsym(h, function);
    for (int i = 0; i < 3; i++)
        keep[kept++] = f(n);
    dlclose(h);
    return (uintptr_t)f;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[2]) : 10, same = 0;
    for (int i = 0; i < n; i++)
        same += use(argv[1], "a", 1001) == use(argv[1], "b", 2002);
    return same ? 0 : 4;
}
