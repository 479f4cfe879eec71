/* warnings.c - Collects the warnings that a reader needs before the figures: damage, losses,
 * ends, pauses and incomplete stacks. */
#include "report/warnings.h"

#include <string.h>
#include <sys/wait.h>

#include "base/cmdline.h"
#include "base/human.h"
#include "base/plural.h"

typedef unsigned long long ull;

static void finish(struct warnings *w)
{
    buffer_append_char(&w->text, 0);
    w->count++;
}

static void name(struct warnings *w, const struct trace_image *image, bool named)
{
    if (!named)
        return;
    buffer_printf(&w->text, "process %u", image->pid);
    const char *program = cmdline_name(image->exe, image->command);
    if (strcmp(program, "?") != 0)
        buffer_printf(&w->text, " (%.60s)", program);
    buffer_append_text(&w->text, ": ");
}

void warn_about_file(struct warnings *w, const struct trace_info *info)
{
    if (info->torn) {
        buffer_append_text(&w->text, "the file is damaged: its end is missing, and perhaps more");
        finish(w);
    }
    if (info->damaged_bytes) {
        buffer_printf(&w->text, "the file is damaged: %s of it could not be read and were skipped",
                      SIZE(info->damaged_bytes));
        finish(w);
    }
    if (info->damaged_runs) {
        buffer_printf(&w->text,
                      "the file is damaged: %s block%s of events failed the checksum; their "
                      "events count as lost",
                      COUNT(info->damaged_runs), info->damaged_runs == 1 ? "" : "s");
        finish(w);
    }
    if (info->lost_kernel_events) {
        buffer_printf(&w->text, "%s event%s of the kernel %s lost; its figures are too low",
                      COUNT(info->lost_kernel_events), info->lost_kernel_events == 1 ? "" : "s",
                      info->lost_kernel_events == 1 ? "was" : "were");
        finish(w);
    }
}

void describe_end(const struct trace_image *image, struct buffer *b)
{
    int status = (int)image->end_status;
    switch (image->end_how) {
    case MLW_END_EXIT:
        if (WIFSIGNALED(status))
            buffer_printf(b, "killed by signal %d (%s)", WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
        else
            buffer_printf(b, "exit status %d", WEXITSTATUS(status));
        break;
    case MLW_END_EXEC: buffer_append_text(b, "became another program by exec"); break;
    case MLW_END_KILLED:
        if (WIFSIGNALED(status))
            buffer_printf(b, "killed by signal %d (%s)", WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
        else
            buffer_append_text(b, "killed by a signal");
        break;
    default: buffer_append_text(b, "its end was not seen"); break;
    }
}

void warn_about_image(struct warnings *w, const struct trace_image *image, bool named)
{
    if (image->lost_calls) {
        name(w, image, named);
        buffer_printf(&w->text,
                      "%s call%s could not be recorded; live, peak and end may be too high or too "
                      "low by their bytes",
                      COUNT(image->lost_calls), image->lost_calls == 1 ? "" : "s");
        finish(w);
    }
    const bool killed = image->end_how == MLW_END_KILLED ||
                        (image->end_how == MLW_END_EXIT && WIFSIGNALED((int)image->end_status));
    if (!image->complete && image->end_how == MLW_END_UNKNOWN) {
        name(w, image, named);
        buffer_append_text(&w->text, "the end of the process was not seen: it still ran, or the "
                                     "recording stopped first");
        finish(w);
    } else if (!image->complete && killed) {
        name(w, image, named);
        buffer_append_text(&w->text, "the process did not end by itself: it was ");
        describe_end(image, &w->text);
        finish(w);
    } else if (!image->complete && !image->lost_calls) {
        name(w, image, named);
        buffer_append_text(&w->text, "the file does not hold all that the process did");
        finish(w);
    }
    if (image->attached && image->forked_from == UINT32_MAX) {
        name(w, image, named);
        buffer_append_text(&w->text, "it was already running when the recording began");
        if (image->before_bytes != UINT64_MAX)
            buffer_printf(&w->text, ": %s of its allocator's memory were in use then",
                          SIZE(image->before_bytes));
        if (image->before_blocks != UINT64_MAX)
            buffer_printf(&w->text, ", in %s %s", COUNT(image->before_blocks),
                          plural(image->before_blocks, "block", "blocks"));
        buffer_append_text(&w->text, "; the report does not show these blocks");
        finish(w);
    }
    for (const char *const *note = image->notes; note && *note; note++) {
        const char *reason, *module;
        char text[TRACE_UNSEEN_BYTES];
        name(w, image, named);
        buffer_append_text(&w->text,
                           trace_unseen_read(*note, &reason, &module, text) ? text : *note);
        finish(w);
    }
    uint64_t paused = 0, since = 0, times = 0;
    bool off = false;
    for (uint32_t i = 0; i < image->note_count; i++) {
        const struct trace_event_note *e = &image->event_notes[i];
        if (e->control == MLW_CONTROL_PAUSE || e->control == MLW_CONTROL_STOP) {
            times += !off;
            since = off ? since : e->time_ns;
            off = true;
        } else if (off && (e->control == MLW_CONTROL_UNPAUSE || e->control == MLW_CONTROL_START)) {
            paused += e->time_ns - since;
            off = false;
        }
    }
    if (off && image->end_ns > since)
        paused += image->end_ns - since;
    if (times) {
        name(w, image, named);
        buffer_printf(&w->text,
                      "recording was paused %s time%s, %s in all: allocations and frees of that "
                      "time are missing",
                      COUNT(times), times == 1 ? "" : "s", TIME(paused));
        finish(w);
    }
}

void warn_about_model(struct warnings *w, const struct model *m, const uint8_t *cut, bool named)
{
    const struct model_totals *t = model_totals(m);
    const struct model_stacks stacks = model_stacks(m);
    const struct trace_image *image = model_image(m);
    uint64_t cut_calls = 0;
    for (uint32_t i = 1; cut && stacks.of && i <= image->stacks; i++)
        cut_calls += cut[i] ? model_stack_of(stacks, i)->calls : 0;
    if (cut_calls) {
        name(w, image, named);
        buffer_printf(&w->text,
                      "the stack%s of %s allocation%s (%.1f %%) could not be unwound to the end",
                      cut_calls == 1 ? "" : "s", COUNT(cut_calls), cut_calls == 1 ? "" : "s",
                      100.0 * (double)cut_calls / (double)t->allocations);
        finish(w);
    }
    if (t->inferred_frees) {
        name(w, image, named);
        buffer_printf(&w->text,
                      "%s block%s freed unseen: the address was allocated again, and the block "
                      "counts as live until then. Other blocks may have been freed unseen, too, so "
                      "blocks that are live at the end are not certain leaks",
                      COUNT(t->inferred_frees), t->inferred_frees == 1 ? " was" : "s were");
        finish(w);
    }
    if (t->resets) {
        name(w, image, named);
        buffer_printf(&w->text, "the program reset the recording %s time%s; figures begin there",
                      COUNT(t->resets), t->resets == 1 ? "" : "s");
        finish(w);
    }
}

void warnings_release(struct warnings *w)
{
    buffer_release(&w->text);
    w->count = 0;
}
