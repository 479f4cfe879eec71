/* record_upload.h - `mallow record --to`: the recording leaves while it is written.
 *
 * Owns: the options for it, and the lines about how it went. One thread. */
#ifndef MALLOW_CLI_RECORD_UPLOAD_H
#define MALLOW_CLI_RECORD_UPLOAD_H

#include "cli/command.h"
#include "push/segments.h"
#include "push/uploader.h"
#include "push/uploading.h"
#include "record/record.h"

/* For the lines that are said while it is recorded, and while it is sealed. */
struct record_speaker {
    const struct command *command;
    struct progress progress;
    bool quiet;
};
/* arg: a struct record_speaker; as the callbacks of struct record_options. */
void record_say(void *arg, bool wrong, const char *line);
void record_progress(void *arg, uint64_t done, uint64_t total);

struct record_upload_options {
    struct uploading_options to;
    uint64_t segment_bytes;
    bool removed;
};

struct record_upload {
    const struct record_upload_options *o;
    struct record_speaker *speaker;
    struct uploading to;
    struct uploader *uploader;
    struct record_beside beside; /* for record_options */
    char name[512]; /* name of the recording at the store, when the URL ends in a slash */
    char *url;      /* where it is, without secrets */
    struct segments_result result;
    bool done;
};

/* Checks the options of --to. 0, or -1 with *err; to be released in any case. */
int record_upload_prepare(struct record_upload *u, const struct record_upload_options *o,
                          struct record_speaker *speaker, struct error *err);
/* NULL without --to. */
const struct record_beside *record_upload_beside(const struct record_upload *u);
/* Where the recording is, behind record_note_result. */
void record_upload_say(const struct record_upload *u);
void record_upload_release(struct record_upload *u);

#endif
