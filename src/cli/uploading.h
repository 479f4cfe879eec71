/* uploading.h - where segments go to or come from, as options say: shared by push, pull and record.
 *
 * Owns: the secrets that were read for it. One thread. */
#ifndef MALLOW_CLI_UPLOADING_H
#define MALLOW_CLI_UPLOADING_H

#include "cli/command.h"
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

/* The rows of an option table; `at` gives the offset of a field of struct uploading_options. */
#define UPLOADING_HEADER(at, when)                                                                 \
    {                                                                                              \
        0, "header", OPTION_TEXTS, at(header), "HEADER",                                           \
            when "send this header, 'NAME: VALUE', too; @FILE takes a header from each line of "   \
                 "FILE; may be repeated"                                                           \
    }
#define UPLOADING_CA(at, when)                                                                     \
    {                                                                                              \
        0, "ca", OPTION_TEXT, at(ca), "FILE",                                                      \
            when "trust the certificates in FILE (default: the system's)",                         \
            .completion = VALUE_FILE                                                               \
    }
#define UPLOADING_S3(at, when)                                                                     \
    {                                                                                              \
        0, "s3", OPTION_TEXT, at(keys), "FILE",                                                    \
            when "sign the requests for a store that speaks S3's protocol; the first line of "     \
                 "FILE is ACCESS:SECRET or ACCESS:SECRET:TOKEN",                                   \
            .completion = VALUE_FILE                                                               \
    }
#define UPLOADING_REGION(at)                                                                       \
    {                                                                                              \
        0, "region", OPTION_TEXT, at(region), "REGION",                                            \
            "with --s3: the region that is signed for (default us-east-1)"                         \
    }

#endif
