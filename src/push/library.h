/* library.h - libcurl, loaded by the one command that wants it: with what it depends on it is
 * thirty libraries, which every other start of mallow would wait for.
 *
 * Owns: which names it has, and which of its functions are used. */
#ifndef MALLOW_PUSH_LIBRARY_H
#define MALLOW_PUSH_LIBRARY_H

#include <curl/curl.h>

/* What push calls of it; set by library_load. */
struct library {
    __typeof__(curl_version_info) *version_info;
    __typeof__(curl_free) *free;
    __typeof__(curl_url) *url;
    __typeof__(curl_url_cleanup) *url_cleanup;
    __typeof__(curl_url_get) *url_get;
    __typeof__(curl_url_set) *url_set;
    __typeof__(curl_slist_append) *slist_append;
    __typeof__(curl_slist_free_all) *slist_free_all;
    __typeof__(curl_easy_init) *easy_init;
    __typeof__(curl_easy_cleanup) *easy_cleanup;
    __typeof__(curl_easy_setopt) *easy_setopt;
    __typeof__(curl_easy_perform) *easy_perform;
    __typeof__(curl_easy_getinfo) *easy_getinfo;
    __typeof__(curl_easy_strerror) *easy_strerror;
    __typeof__(curl_easy_escape) *easy_escape;
};
extern struct library curl;

/* NULL when it is loaded, else why it cannot be; may be asked again. One thread. */
const char *library_load(void);

#endif
