/* without.c - push.h of a build without libcurl: says so. */
#include "push/push.h"

const char *push_library(const char **why, const char **remedy)
{
    *why = "built without libcurl";
    *remedy = "apt-get install libcurl4-openssl-dev, and build mallow again";
    return NULL;
}

const char *push_header_fault(const char *header)
{
    (void)header;
    return NULL;
}

int push_check(const char *url, const char *name, struct error *err)
{
    (void)url, (void)name;
    return error_set(err, ERROR_UNSUPPORTED,
                     "this mallow was built without libcurl; 'apt-get install "
                     "libcurl4-openssl-dev', and build it again");
}

int push_file(int fd, const char *name, const struct push_options *o, struct push_result *result,
              struct error *err)
{
    (void)fd;
    *result = (struct push_result){0};
    return push_check(o->url, name, err);
}
