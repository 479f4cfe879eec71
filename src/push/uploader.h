/* uploader.h - a process that sends a recording to a store while it is written.
 *
 * Owns: that process: what it does when the server is away (it goes on trying, the recording waits
 * for nothing), that it is started again when it was killed, and its end with the process that
 * started it. It reads the file, and nothing else of the recording. Functions return 0, or -1 with
 * *err. One thread. */
#ifndef MALLOW_PUSH_UPLOADER_H
#define MALLOW_PUSH_UPLOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "push/objects.h"
#include "push/segments.h"

struct uploader;

struct uploader_options {
    struct objects_options objects; /* its texts are borrowed until uploader_end */
    uint64_t segment_bytes;         /* 0: the usual */
    bool must_look;                 /* as segments_finish wants it */
    /* Something that passes, or does not; said once for each. */
    void (*say)(void *arg, const char *line);
    void (*progress)(void *arg, uint64_t done_bytes, uint64_t bytes); /* at the end; NULL: none */
    void *arg;
};

/* fd: the recording. NULL with *err. */
struct uploader *uploader_start(const struct uploader_options *o, int fd, struct error *err);
/* Now and then, from the process that started it. */
void uploader_look(struct uploader *u);
/* The recording has `bytes` and stays like that: waits until all is there, or the server was away
 * for too long. Frees u. */
int uploader_end(struct uploader *u, uint64_t bytes, struct segments_result *result,
                 struct error *err);

#endif
