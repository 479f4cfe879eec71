/* library.c - see library.h. */
#include "push/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct library curl;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define FUNCTION(name)                                                                             \
    {                                                                                              \
        "curl_" #name, offsetof(struct library, name)                                              \
    }
    FUNCTION(version_info), FUNCTION(free),           FUNCTION(url),
    FUNCTION(url_cleanup),  FUNCTION(url_get),        FUNCTION(url_set),
    FUNCTION(slist_append), FUNCTION(slist_free_all), FUNCTION(easy_init),
    FUNCTION(easy_cleanup), FUNCTION(easy_setopt),    FUNCTION(easy_perform),
    FUNCTION(easy_getinfo), FUNCTION(easy_strerror),  FUNCTION(easy_escape),
#undef FUNCTION
};

const char *library_load(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    static char why[256];
    static void *loaded;
    for (size_t i = 0; !loaded && i < sizeof names / sizeof *names; i++) {
        loaded = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!loaded && i == 0) /* what the name that is usual lacks */
            snprintf(why, sizeof why, "%s", dlerror());
    }
    if (!loaded)
        return why;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(loaded, functions[i].name);
        if (!function) {
            snprintf(why, sizeof why, "libcurl has no function %s", functions[i].name);
            return why;
        }
        memcpy((char *)&curl + functions[i].at, &function, sizeof function);
    }
    return NULL;
}
