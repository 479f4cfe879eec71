/* httpd_library.c - see httpd_library.h. */
#include "httpd_library.h"

#include <stddef.h>

#include "base/library.h"

struct microhttpd mhd;

static const char *const names[] = {"libmicrohttpd.so.12", NULL};

static const struct library_symbol functions[] = {
#define FUNCTION(name, result, parameters) {"MHD_" #name, offsetof(struct microhttpd, name)},
    MHD_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

const char *microhttpd_load(void)
{
    static struct library library = {.title = "libmicrohttpd",
                                     .names = names,
                                     .symbols = functions,
                                     .symbol_count = sizeof functions / sizeof *functions,
                                     .table = &mhd};
    return library_load(&library);
}
