/* result_text.c - words the lines about a finished recording. */
#include "record/result_text.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/plural.h"

/* The path as the user would type it here. */
static const char *near_path(const char *path)
{
    static char here[PATH_MAX];
    size_t n;
    if (getcwd(here, sizeof here) && (n = strlen(here)) > 1 && !strncmp(path, here, n) &&
        path[n] == '/')
        return path + n + 1;
    return path;
}

void record_note_losses(const struct note *note, const struct record_result *r)
{
    char lost[HUMAN_TEXT_BYTES];
    if (r->lost_calls)
        note_line(note, "%s call%s could not be recorded%s%s", human_count(lost, r->lost_calls),
                  r->lost_calls == 1 ? "" : "s", r->unwritten_errno ? ": " : "",
                  r->unwritten_errno ? strerror(r->unwritten_errno) : "");
    else if (r->unwritten_errno)
        note_line(note, "part of the recording could not be written: %s",
                  strerror(r->unwritten_errno));
    if (r->lost_kernel_events)
        note_line(note, "%s event%s of the kernel %s lost",
                  human_count(lost, r->lost_kernel_events), r->lost_kernel_events == 1 ? "" : "s",
                  r->lost_kernel_events == 1 ? "was" : "were");
    if (r->lost_stacks)
        note_line(note, "%s call%s recorded without a stack: there was no room for more of them",
                  human_count(lost, r->lost_stacks), r->lost_stacks == 1 ? " is" : "s are");
    if (r->unrecorded)
        note_line(note, "%u %s could not be recorded", r->unrecorded,
                  plural(r->unrecorded, "process", "processes"));
    if (r->unjoined)
        note_line(note,
                  "%u program%s did not load the recorder and %s not recorded: %s; 'mallow "
                  "record -p PID' "
                  "records such a process from outside",
                  r->unjoined, r->unjoined == 1 ? "" : "s", r->unjoined == 1 ? "is" : "are",
                  r->unjoined_names);
    for (uint32_t i = 0; i < r->unseen.count; i++) {
        const char *reason, *module;
        char text[TRACE_UNSEEN_BYTES];
        if (trace_unseen_read(r->unseen.note[i], &reason, &module, text))
            note_line(note, "%s", text);
    }
    if (r->left_running)
        note_line(note, "%u %s no longer recorded", r->left_running,
                  plural(r->left_running, "process is still running; it is",
                         "processes are still running; they are"));
    if (!r->images)
        note_line(note, "no process loaded the recording library: nothing was recorded");
    if (r->seal_error.kind)
        note_line(note, "the file could not be sealed and stays as it was written: %s",
                  r->seal_error.text);
}

void record_note_result(const struct note *note, const struct record_result *r)
{
    char calls[HUMAN_TEXT_BYTES], size[HUMAN_TEXT_BYTES], images[HUMAN_TEXT_BYTES];
    const char *path = near_path(r->output);
    human_size(size, r->file_bytes);
    human_count(images, r->images);
    human_count(calls, r->calls);
    if (r->removed) {
        note_line(note, "recorded %s program%s (%s)", images, r->images == 1 ? "" : "s", size);
        return;
    }
    note_line(note, "recorded %s%s%s program%s into %s (%s)", r->sealed ? calls : "",
              r->sealed ? " calls of " : "", images, r->images == 1 ? "" : "s", path, size);
    note_line(note, "next: mallow report %s", path);
}
