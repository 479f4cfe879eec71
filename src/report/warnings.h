/* warnings.h - what the reader of a report must know before he believes it: losses, damage, ends
 * that were not seen, stacks that were cut, limits of the recording. Always said, at the top. */
#ifndef MALLOW_REPORT_WARNINGS_H
#define MALLOW_REPORT_WARNINGS_H

#include "base/buffer.h"
#include "model/model.h"
#include "trace/trace.h"

struct warnings {
    struct buffer text; /* each ended by NUL */
    size_t count;
};

void warn_about_file(struct warnings *w, const struct trace_info *info);
/* Adds warnings that follow from the facts of an image. named: begin with the process. */
void warn_about_image(struct warnings *w, const struct trace_image *image, bool named);
/* Adds warnings that follow from the events of an image. cut: see names_cut_stacks. */
void warn_about_model(struct warnings *w, const struct model *m, const uint8_t *cut, bool named);
void warnings_release(struct warnings *w);

/* "exited with status 1", "killed by signal 9 (Killed)", ... */
void describe_end(const struct trace_image *image, struct buffer *b);

#endif
