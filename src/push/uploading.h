/* uploading.h - where segments go to or come from, as options say: shared by push, pull and record.
 *
 * Owns: the secrets that were read for it. One thread. */
#ifndef MALLOW_PUSH_UPLOADING_H
#define MALLOW_PUSH_UPLOADING_H

#include "base/text_list.h"
#include "push/headers.h"
#include "push/objects.h"

#define UPLOADING_PAUSE_NS   1000000000ull
#define UPLOADING_TIMEOUT_NS 60000000000ull

struct uploading_options {
    const char *url, *ca, *keys, *region;
    struct text_list header;
};

struct uploading {
    struct push_headers headers;
    char *keys;
    struct objects_options objects; /* its retries and callbacks are the caller's */
};

/* Reads the files that the options name, and checks the URL; name: added to one that ends in a
 * slash, borrowed. 0, or -1 with *err; to be released in any case. */
int uploading_prepare(struct uploading *u, const struct uploading_options *o, const char *name,
                      struct error *err);
void uploading_release(struct uploading *u);

#endif
