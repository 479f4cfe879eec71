/* past.c - calls of the allocator that go past the program's own symbols, on blocks that cross in
 * both directions. argv: WAY [PLUGIN]. Prints what it has done, and ends with 0. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 4000

static void (*release)(void *);
static void *(*make)(size_t), *(*resize)(void *, size_t);
static size_t (*usable)(void *);

extern void __libc_free(void *) __attribute__((weak));
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));

static void *function(void *handle, const char *name)
{
    void *f = dlsym(handle, name);
    if (!f) {
        puts(name);
        exit(3);
    }
    return f;
}

/* What an FFI does: P/Invoke, JNA, ctypes, Fiddle, LuaJIT. */
static void by_handle(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        exit(4);
    release = (void (*)(void *))function(handle, "free");
    make = (void *(*)(size_t))function(handle, "malloc");
    resize = (void *(*)(void *, size_t))function(handle, "realloc");
    usable = (size_t(*)(void *))function(handle, "malloc_usable_size");
}

/* As PHP and Apache load their modules. */
static void by_plugin(const char *path, int flags)
{
    void *handle = dlopen(path, flags);
    if (!handle) {
        puts(dlerror());
        exit(4);
    }
    release = (void (*)(void *))function(handle, "plugin_drop");
    make = (void *(*)(size_t))function(handle, "plugin_make");
    resize = (void *(*)(void *, size_t))function(handle, "plugin_grow");
    usable = 0;
}

/* A few small blocks that are made here are released there, which glibc bears. */
static int in_namespace(const char *path)
{
    void *first = malloc(700), *handle = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
    if (!handle)
        return puts(dlerror()), 4;
    release = (void (*)(void *))function(handle, "plugin_drop");
    make = (void *(*)(size_t))function(handle, "plugin_make");
    for (int i = 0; i < ROUNDS; i++) {
        release(make(3000));
        free(malloc(700));
        if (i % 1000 == 0)
            release(malloc(100));
    }
    free(first);
    puts("done");
    return 0;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    unsigned long sum = 0;
    if (!strcmp(way, "handle"))
        by_handle("libc.so.6");
    else if (!strcmp(way, "deepbind") && argc > 2)
        by_plugin(argv[2], RTLD_NOW | RTLD_DEEPBIND);
    else if (!strcmp(way, "plugin") && argc > 2)
        by_plugin(argv[2], RTLD_NOW);
    else if (!strcmp(way, "namespace") && argc > 2)
        return in_namespace(argv[2]);
    else if (!strcmp(way, "names") && __libc_free && __libc_malloc && __libc_realloc)
        release = __libc_free, make = __libc_malloc, resize = __libc_realloc;
    else
        return 2;
    for (int i = 0; i < ROUNDS; i++) {
        char *p = strdup("some text of a library"); /* libc's own call of malloc */
        release(p);
        p = malloc(3000);
        memset(p, 2, 3000);
        if (usable && usable(p) < 3000)
            return 5;
        release(p);
        p = make(500);
        memset(p, 3, 500);
        free(p);
        p = malloc(700);
        memset(p, 4, 700);
        p = resize(p, 9000);
        sum += (unsigned char)p[699];
        free(p);
        p = make(100);
        p[99] = 5;
        p = realloc(p, 2000);
        sum += (unsigned char)p[99];
        release(p);
    }
    printf("%lu\n", sum);
    return 0;
}
