/* without.c - push.h of a build without libcurl: says so. */
#include "push/http.h"
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

struct http_server *http_open(const char *url, const char *authorities, const char **user,
                              const char **name, struct error *err)
{
    (void)authorities, (void)user, (void)name;
    push_check(url, NULL, err);
    return NULL;
}

void http_close(struct http_server *h) { (void)h; }

int http_header(struct http_server *h, const char *name, const char *value, struct error *err)
{
    (void)h, (void)name, (void)value;
    return push_check("", NULL, err);
}

int http_post(struct http_server *h, const char *query, const void *body, size_t bytes,
              struct buffer *answer, size_t most, struct error *err)
{
    (void)h, (void)query, (void)body, (void)bytes, (void)answer, (void)most;
    return push_check("", NULL, err);
}

void http_escape(struct buffer *to, const char *text) { (void)to, (void)text; }
