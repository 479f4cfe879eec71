/* upload_options.h - the options that push, pull and record share: where segments go to or come
 * from. */
#ifndef MALLOW_CLI_UPLOAD_OPTIONS_H
#define MALLOW_CLI_UPLOAD_OPTIONS_H

#include "cli/options.h"
#include "push/uploading.h"

/* The rows of an option table. needed: option_spec.with. `at` gives the offset of a field of struct
 * uploading_options. */
#define UPLOADING_HEADER(at, needed)                                                               \
    {                                                                                              \
        0, "header", OPTION_TEXTS, at(header), "HEADER",                                           \
            "also send this header, 'NAME: VALUE'; @FILE takes a header from each line of "        \
            "FILE; may be repeated",                                                               \
            .with = needed                                                                         \
    }
#define UPLOADING_CA(at, needed)                                                                   \
    {                                                                                              \
        0, "ca", OPTION_TEXT, at(ca), "FILE",                                                      \
            "trust the certificates in FILE (default: the system's)", .completion = VALUE_FILE,    \
                                                                      .with = needed               \
    }
#define UPLOADING_S3(at, needed)                                                                   \
    {                                                                                              \
        0, "s3", OPTION_TEXT, at(keys), "FILE",                                                    \
            "sign the requests for a store that speaks S3's protocol; the first line of "          \
            "FILE is ACCESS:SECRET or ACCESS:SECRET:TOKEN",                                        \
            .completion = VALUE_FILE, .with = needed                                               \
    }
#define UPLOADING_REGION(at)                                                                       \
    {                                                                                              \
        0, "region", OPTION_TEXT, at(region), "REGION",                                            \
            "the region that is signed for (default us-east-1)", .with = "s3"                      \
    }

#endif
