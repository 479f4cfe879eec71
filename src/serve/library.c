/* library.c - see library.h. */
#include "serve/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct microhttpd mhd;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define FUNCTION(name)                                                                             \
    {                                                                                              \
        "MHD_" #name, offsetof(struct microhttpd, name)                                            \
    }
    FUNCTION(start_daemon),
    FUNCTION(stop_daemon),
    FUNCTION(run),
    FUNCTION(get_timeout),
    FUNCTION(get_daemon_info),
    FUNCTION(get_connection_info),
    FUNCTION(get_connection_values),
    FUNCTION(lookup_connection_value),
    FUNCTION(suspend_connection),
    FUNCTION(resume_connection),
    FUNCTION(create_response_from_buffer),
    FUNCTION(add_response_header),
    FUNCTION(queue_response),
    FUNCTION(destroy_response),
#undef FUNCTION
};

const char *microhttpd_load(void)
{
    static char why[256];
    static void *loaded;
    if (!loaded)
        loaded = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!loaded) {
        snprintf(why, sizeof why, "%s", dlerror());
        return why;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(loaded, functions[i].name);
        if (!function) {
            snprintf(why, sizeof why, "libmicrohttpd has no function %s", functions[i].name);
            return why;
        }
        memcpy((char *)&mhd + functions[i].at, &function, sizeof function);
    }
    return NULL;
}
