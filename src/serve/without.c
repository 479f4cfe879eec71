/* without.c - serve.h of a build with -Dlisten=disabled: says so. */
#include <stddef.h>

#include "serve/serve.h"

struct serve *serve_open(const char *address, const struct serve_guard *guard,
                         const struct serve_owner *owner, struct error *err)
{
    (void)address, (void)guard, (void)owner;
    error_set(err, ERROR_UNSUPPORTED,
              "this mallow was built without libmicrohttpd (-Dlisten=disabled)");
    return NULL;
}

void serve_close(struct serve *s) { (void)s; }

const char *serve_scheme(const struct serve *s)
{
    (void)s;
    return "";
}

const char *serve_address(const struct serve *s)
{
    (void)s;
    return "";
}

int serve_descriptor(const struct serve *s)
{
    (void)s;
    return -1;
}

void serve_round(struct serve *s) { (void)s; }

const char *serve_argument(const struct serve_request *request, const char *name)
{
    (void)request, (void)name;
    return NULL;
}

const char *serve_header(const struct serve_request *request, const char *name)
{
    (void)request, (void)name;
    return NULL;
}
