/* push_segments.h - `mallow push --segments`: a recording in pieces. */
#ifndef MALLOW_CLI_PUSH_SEGMENTS_H
#define MALLOW_CLI_PUSH_SEGMENTS_H

#include "cli/command.h"
#include "cli/uploading.h"

struct push_segments {
    struct uploading_options to;
    uint64_t segment_bytes, retries, timeout_ns;
    bool replace, removed, json, quiet;
};

/* fd: the file of this path, open. An exit status. */
int push_segments(const struct command *self, const struct push_segments *how, const char *path,
                  int fd);

#endif
