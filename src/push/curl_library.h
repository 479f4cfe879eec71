/* curl_library.h - libcurl, loaded by the one command that wants it: with what it depends on it is
 * thirty libraries, which every other start of mallow would wait for.
 *
 * Owns: which names it has, and which of its functions are used. */
#ifndef MALLOW_PUSH_CURL_LIBRARY_H
#define MALLOW_PUSH_CURL_LIBRARY_H

#include <curl/curl.h>

/* X(name): what push calls; the library puts curl_ before the name. */
#define CURL_FUNCTIONS(X)                                                                          \
    X(version_info)                                                                                \
    X(free)                                                                                        \
    X(url)                                                                                         \
    X(url_cleanup)                                                                                 \
    X(url_get)                                                                                     \
    X(url_set)                                                                                     \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_cleanup)                                                                                \
    X(easy_setopt)                                                                                 \
    X(easy_perform)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_escape)                                                                                 \
    X(multi_init)                                                                                  \
    X(multi_cleanup)                                                                               \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_perform)                                                                               \
    X(multi_wait)                                                                                  \
    X(multi_info_read)

struct curl_functions {
#define FUNCTION(name) __typeof__(curl_##name) *name;
    CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
extern struct curl_functions curl; /* set by curl_load */

/* NULL when it is loaded, else why it cannot be; may be asked again. One thread. */
const char *curl_load(void);

/* A part of a URL, to be freed with free; NULL: it has none. */
char *curl_part(CURLU *u, CURLUPart which, unsigned flags);

#endif
