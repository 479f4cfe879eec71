/* curl_library.c - Loads libcurl and fills the table of its functions. It also copies a part of
 * a URL, so that the caller frees it with free. */
#include "curl_library.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

struct curl_functions curl;

static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", NULL};

static const struct library_symbol functions[] = {
#define FUNCTION(name) {"curl_" #name, offsetof(struct curl_functions, name)},
    CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

const char *curl_load(void)
{
    static struct library library = {.title = "libcurl",
                                     .names = names,
                                     .symbols = functions,
                                     .symbol_count = sizeof functions / sizeof *functions,
                                     .table = &curl};
    return library_load(&library);
}

char *curl_part(CURLU *u, CURLUPart which, unsigned flags)
{
    char *text = NULL, *copy = NULL;
    if (!curl.url_get(u, which, &text, flags) && text)
        copy = strdup(text);
    curl.free(text);
    return copy;
}
