/* without.c - push.h of a build without libcurl: says so. */
#include "push/http.h"
#include "push/objects.h"
#include "push/push.h"
#include "push/sender.h"

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

struct sender *sender_open(const struct sender_options *o, struct error *err)
{
    push_check(o->url, NULL, err);
    return NULL;
}

int sender_begin(struct sender *s, struct error *err)
{
    (void)s;
    return push_check("", NULL, err);
}

bool sender_begun(const struct sender *s) { return s != NULL; }

void sender_give(struct sender *s, struct buffer *letter)
{
    (void)s;
    buffer_release(letter);
}

bool sender_news(struct sender *s, char line[512], bool *wrong)
{
    (void)s, (void)line;
    *wrong = false;
    return false;
}

void sender_end(struct sender *s, uint64_t most_ns, struct sender_counts *counts)
{
    (void)s, (void)most_ns;
    *counts = (struct sender_counts){0};
}

void sender_close(struct sender *s) { (void)s; }

struct objects *objects_open(const struct objects_options *o, struct error *err)
{
    push_check(o->url, NULL, err);
    return NULL;
}

void objects_close(struct objects *s) { (void)s; }
const char *objects_url(const struct objects *s) { return (void)s, ""; }

enum objects_status objects_put(struct objects *s, const char *name, const void *data, size_t bytes,
                                struct error *err)
{
    (void)s, (void)name, (void)data, (void)bytes;
    return push_check("", NULL, err) ? OBJECTS_FAILED : OBJECTS_DONE;
}

enum objects_status objects_get(struct objects *s, const char *name, struct buffer *to, size_t most,
                                struct error *err)
{
    (void)s, (void)name, (void)to, (void)most;
    return push_check("", NULL, err) ? OBJECTS_FAILED : OBJECTS_DONE;
}

enum objects_status objects_look(struct objects *s, const char *name, uint64_t *bytes,
                                 struct error *err)
{
    (void)s, (void)name, (void)bytes;
    return push_check("", NULL, err) ? OBJECTS_FAILED : OBJECTS_DONE;
}

enum objects_status objects_delete(struct objects *s, const char *name, struct error *err)
{
    (void)s, (void)name;
    return push_check("", NULL, err) ? OBJECTS_FAILED : OBJECTS_DONE;
}
