/* result_text.h - the lines about a finished recording. One thread. */
#ifndef MALLOW_RECORD_RESULT_TEXT_H
#define MALLOW_RECORD_RESULT_TEXT_H

#include "base/note.h"
#include "record/record.h"

/* A line for each thing that the recording lacks or holds only in part. */
void record_note_losses(const struct note *note, const struct record_result *r);

/* Where the recording is, and the command that reads it. */
void record_note_result(const struct note *note, const struct record_result *r);

#endif
