#include "cli/record_attached.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>

#include "show/output.h"
#include "cli/record_heap.h"
#include "cli/record_show.h"
#include "cli/record_upload.h"
#include "inspect/library.h"
#include "record/attach.h"
#include "record/record.h"

/* -p PID, from the kernel's side. */
static int run_probe(const struct command *self, const struct record_cli *o,
                     struct record_speaker *speaker)
{
    const struct attach_options attach = {.pid = (uint32_t)o->pid,
                                          .output = o->output,
                                          .stacks = (enum mlw_stack_mode)o->stacks,
                                          .duration_ns = o->duration_ns,
                                          .sample_interval_ns = o->sample_interval_ns,
                                          .keep_raw = o->keep_raw,
                                          .no_follow = o->no_follow,
                                          .say = record_say,
                                          .arg = speaker};
    static struct record_result result;
    struct error err = {0};
    if (record_attach(&attach, &result, &err))
        return command_fail(self, &err);
    result.left_running = 0; /* as they should be */
    record_say_losses(self, &result);
    if (!o->quiet)
        record_say_result(self, &result);
    return result.seal_error.kind ? EXIT_FAILED : EXIT_DONE;
}

/* What only a flight recorder needs; all 0: everything is kept, and nothing dumped. */
struct kept {
    struct flight_window last;
    struct pressure when;
};

/* -p PID, by the library. *refused: nothing was changed, and the other way may work. */
static int run_inject(const struct command *self, const struct record_cli *o,
                      const struct kept *kept, struct record_speaker *speaker,
                      const struct record_upload *up, bool *refused, struct error *err)
{
    char library[PATH_MAX], attached[PATH_MAX];
    static struct record_result result;
    static struct record_heap heap;
    *refused = inspect_find_library("libmallow-record.so", library, err) ||
               inspect_find_library("libmallow-attach-record.so", attached, err);
    if (*refused)
        return EXIT_FAILED;
    const struct record_options record = {.output = o->output,
                                          .library = library,
                                          .pid = (pid_t)o->pid,
                                          .attached = attached,
                                          .duration_ns = o->duration_ns,
                                          .stacks = (enum mlw_stack_mode)o->stacks,
                                          .no_follow = o->no_follow,
                                          .keep_raw = o->keep_raw,
                                          .last = kept->last,
                                          .when = kept->when,
                                          .sample_interval_ns = o->sample_interval_ns,
                                          .say = record_say,
                                          .progress = record_progress,
                                          .size = o->heap ? record_heap_size : NULL,
                                          .size_arg = &heap,
                                          .arg = speaker,
                                          .beside = record_upload_beside(up)};
    progress_begin(&speaker->progress, "sealing");
    *refused = record_run(&record, &result, err) != 0;
    progress_end(&speaker->progress);
    if (*refused)
        return EXIT_FAILED;
    if (o->heap)
        record_heap_finish(&heap, self, o->quiet);
    result.left_running = 0;
    record_say_losses(self, &result);
    if (!o->quiet) {
        record_say_result(self, &result);
        record_upload_say(up);
    }
    return result.seal_error.kind || result.not_left || (o->upload.to.url && !up->done)
               ? EXIT_FAILED
               : EXIT_DONE;
}

int record_attached(const struct command *self, const struct record_cli *o, int operand_count)
{
    static const char *const why = "the process runs already";
    if (operand_count)
        return command_usage(self, "say one of -p PID and a PROGRAM");
    struct kept kept = {0};
    struct error err = {0};
    if (o->last && flight_parse(&kept.last, o->last, &err))
        return command_usage(self, "--last: %s", err.text);
    if (o->when && pressure_parse(&kept.when, o->when, &err))
        return command_usage(self, "--dump-when: %s", err.text);
    if ((o->last || o->when) && o->how == HOW_PROBE)
        return command_usage(self,
                             "--%s is not for --how probe: the library in the process keeps "
                             "the calls",
                             o->last ? "last" : "dump-when");
    if (o->heap && o->how == HOW_PROBE)
        return command_usage(self, "--snapshot-heap is not for --how probe: use 'mallow heap -o "
                                   "FILE PID'");
    if (o->paused || o->environment || o->force || o->with)
        return command_usage(self, "--%s is not for -p: %s",
                             o->paused        ? "paused"
                             : o->environment ? "env"
                             : o->force       ? "force"
                                              : "with",
                             o->with ? "use 'mallow probe' beside it" : why);
    if (kill((pid_t)o->pid, 0) && errno == ESRCH) {
        command_warn(self, "there is no process %llu", (unsigned long long)o->pid);
        return EXIT_FAILED;
    }
    struct record_speaker speaker = {.command = self, .quiet = o->quiet};
    bool refused = true;
    struct record_upload up;
    if (record_upload_prepare(&up, &o->upload, o->last != NULL, &speaker, &err) ||
        (o->upload.to.url && o->how == HOW_PROBE)) {
        record_upload_release(&up);
        return err.kind ? command_fail(self, &err)
                        : command_usage(self, "--to is not for --how probe: 'mallow push "
                                              "--segments' sends the file afterwards");
    }
    if (o->how != HOW_PROBE) {
        const int status = run_inject(self, o, &kept, &speaker, &up, &refused, &err);
        record_upload_release(&up);
        if (!refused)
            return status;
        if (o->how == HOW_INJECT || o->upload.to.url || o->last || o->when || o->heap)
            return command_fail(self, &err);
        if (!o->quiet)
            command_warn(self, "%s; so it is recorded from the kernel's side", err.text);
    }
    return run_probe(self, o, &speaker);
}
