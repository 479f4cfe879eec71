/* uploading.c - checks the options of an upload and reads their secrets. */
#include "push/uploading.h"

#include <string.h>

#include "push/push.h"
#include "trust/secret.h"

static bool is_region(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const size_t n = strlen(text);
    return n && n < 64 && strspn(text, letters) == n;
}

int uploading_prepare(struct uploading *u, const struct uploading_options *o, const char *name,
                      struct error *err)
{
    *u = (struct uploading){0};
    if (o->region && !is_region(o->region))
        return error_set(err, ERROR_USAGE, "'%.64s' is not a region such as eu-central-1",
                         o->region);
    if (push_check(o->url, name ? name : "x", err) ||
        push_headers_collect(&u->headers, o->header.items, o->header.count, err) ||
        (o->keys && !(u->keys = trust_secret(o->keys, "the file of keys", err))))
        return -1;
    u->objects = (struct objects_options){.url = o->url,
                                          .name = name,
                                          .header = (const char *const *)u->headers.text,
                                          .header_count = u->headers.count,
                                          .authorities = o->ca,
                                          .keys = u->keys,
                                          .region = o->region ? o->region : "us-east-1",
                                          .timeout_ns = UPLOADING_TIMEOUT_NS,
                                          .first_pause_ns = UPLOADING_PAUSE_NS};
    struct objects *tried = objects_open(&u->objects, err);
    objects_close(tried);
    return tried ? 0 : -1;
}

void uploading_release(struct uploading *u)
{
    push_headers_release(&u->headers);
    trust_secret_free(u->keys);
    *u = (struct uploading){0};
}
