/* cmd_record.c - `mallow record`: checks that PROGRAM can be recorded, runs it, says what became of
 * the recording. Everything is said on stderr; the program's streams are its own. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/preflight.h"
#include "cli/record_upload.h"
#include "cli/upload_options.h"
#include "inspect/inspect.h"
#include "inspect/library.h"
#include "push/manifest.h"
#include "record/attach.h"
#include "record/record.h"
#include "record/result_text.h"
#include "record/save_heap.h"
#include "show/output.h"

/* `mallow record -p`, one way or the other. */

enum how { HOW_AUTO, HOW_INJECT, HOW_PROBE };

/* The options of `mallow record`. */
struct record_cli {
    const char *output, *with, *last, *when;
    uint64_t pid, duration_ns;
    int stacks; /* enum mlw_stack_mode, in the order of the choices */
    int how;    /* enum how */
    bool paths, paused, no_follow, environment, keep_raw, force, quiet, heap;
    uint64_t sample_interval_ns;
    struct record_upload_options upload;
};

/* Says where the recording and the saved heaps are, and what they lack. up: NULL without --to. */
static void say_result(const struct command *self, const struct record_cli *o,
                       struct record_heap *heap, const struct record_result *r,
                       const struct record_upload *up)
{
    const struct note note = command_note(self);
    if (o->heap && heap)
        record_heap_finish(heap, &note, o->quiet);
    record_note_losses(&note, r);
    if (!o->quiet)
        record_note_result(&note, r);
    if (!o->quiet && up)
        record_upload_say(up);
}

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
    say_result(self, o, NULL, &result, NULL);
    return result.seal_error.kind ? EXIT_FAILED : EXIT_DONE;
}

/* The needs of a flight recorder alone; all 0: everything is kept, and nothing dumped. */
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
                                          .routes = o->paths,
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
    result.left_running = 0;
    say_result(self, o, &heap, &result, up);
    return result.seal_error.kind || result.not_left || (o->upload.to.url && !up->done)
               ? EXIT_FAILED
               : EXIT_DONE;
}

/* An exit status. */
static int record_attached(const struct command *self, const struct record_cli *o,
                           int operand_count)
{
    if (operand_count)
        return command_usage(self, "-p PID and a PROGRAM exclude each other");
    struct kept kept = {0};
    struct error err = {0};
    if (o->last && flight_parse(&kept.last, o->last, &err))
        return command_usage(self, "--last: %s", err.text);
    if (o->when && pressure_parse(&kept.when, o->when, &err))
        return command_usage(self, "--dump-when: %s", err.text);
    if ((o->last || o->when || o->paths) && o->how == HOW_PROBE)
        return command_usage(
            self, "--%s does not work with --how probe: it needs the library in the process",
            o->last   ? "last"
            : o->when ? "dump-when"
                      : "paths");
    if (o->heap && o->how == HOW_PROBE)
        return command_usage(
            self, "--snapshot-heap does not work with --how probe; use 'mallow heap -o FILE PID'");
    if (kill((pid_t)o->pid, 0) && errno == ESRCH) {
        command_warn(self, "there is no process %llu", (unsigned long long)o->pid);
        return EXIT_FAILED;
    }
    struct record_speaker speaker = {.command = self, .quiet = o->quiet};
    bool refused = true;
    struct record_upload up;
    if (record_upload_prepare(&up, &o->upload, &speaker, &err) ||
        (o->upload.to.url && o->how == HOW_PROBE)) {
        record_upload_release(&up);
        return err.kind ? command_fail(self, &err)
                        : command_usage(self, "--to does not work with --how probe; 'mallow push "
                                              "--segments' sends the file afterwards");
    }
    if (o->how != HOW_PROBE) {
        const int status = run_inject(self, o, &kept, &speaker, &up, &refused, &err);
        record_upload_release(&up);
        if (!refused)
            return status;
        if (o->how == HOW_INJECT || o->upload.to.url || o->last || o->when || o->heap || o->paths)
            return command_fail(self, &err);
        if (!o->quiet)
            command_warn(self, "%s; recording it from the kernel's side instead", err.text);
    }
    return run_probe(self, o, &speaker);
}

#define AT(field)    offsetof(struct record_cli, field)
#define TO_AT(field) offsetof(struct record_cli, upload.to.field)

static const struct option_spec specs[] = {
    {'o', "output", OPTION_TEXT, AT(output), "FILE",
     "write the recording to FILE; %p in it is the process id (default mallow.PROGRAM.%p.mlw)",
     .completion = VALUE_FILE},
    {0, "stacks", OPTION_CHOICE, AT(stacks), "full|caller|none",
     "which part of the call stack of each call to keep (default full)"},
    {0, "paths", OPTION_FLAG, AT(paths), NULL,
     "record which way each call takes inside glibc's allocator (thread's cache, bin, top, brk, "
     "mmap)"},
    {0, "paused", OPTION_FLAG, AT(paused), NULL,
     "record nothing until 'mallow control PID unpause' or mallow_unpause()", .not_with = "p"},
    {0, "no-follow", OPTION_FLAG, AT(no_follow), NULL,
     "do not record the program's children, or with -p the process's"},
    {0, "env", OPTION_FLAG, AT(environment), NULL, "keep the program's environment in the file",
     .not_with = "p"},
    {0, "sample-interval", OPTION_DURATION, AT(sample_interval_ns), "DURATION",
     "sample the resident size every DURATION (default 10ms, less often when idle)", 1000000,
     3600ull * 1000000000},
    {0, "keep-raw", OPTION_FLAG, AT(keep_raw), NULL,
     "do not seal the file: it stays larger, and the first reader seals it"},
    {0, "force", OPTION_FLAG, AT(force), NULL, "run PROGRAM even when it cannot be recorded",
     .not_with = "p"},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL, "say nothing unless something is wrong"},
    {'p', "pid", OPTION_COUNT, AT(pid), "PID",
     "record a process that runs already, with its children; see --how", 1, INT32_MAX,
     .completion = VALUE_PID},
    {0, "how", OPTION_CHOICE, AT(how), "auto|inject|probe",
     "how -p sees the calls: inject puts the library into the process; probe uses probes of the "
     "kernel, which also record a static or setuid program and need the rights of 'mallow probe'; "
     "auto is the first of them that works (default auto)",
     .with = "p"},
    {'d', "duration", OPTION_DURATION, AT(duration_ns), "DURATION",
     "end after DURATION (default: when the process ends, or at Ctrl-C)", 1000000,
     31ull * 86400 * 1000000000, .with = "p"},
    {0, "last", OPTION_TEXT, AT(last), "DURATION|SIZE",
     "a flight recorder: keep the calls of the last DURATION (5m), or as many as fit SIZE (2G, or "
     "5m,2G); of earlier calls, keep the live blocks with their stacks, and sums"},
    {0, "dump-when", OPTION_TEXT, AT(when), "EXPR",
     "write the recording so far beside FILE (FILE.1.mlw) when rss>SIZE, rss>P% of the control "
     "group's limit, or psi>P%; several with commas"},
    {0, "snapshot-heap", OPTION_FLAG, AT(heap), NULL,
     "also save the heaps whenever they have grown by a quarter: FILE.mlh, of children "
     "FILE.PID.mlh, for 'mallow heap'"},
    {0, "with", OPTION_TEXT, AT(with), "KINDS",
     "the kernel's events beside the calls, with commas: arenas, faults, swapin, reclaim, rss; "
     "needs the rights of 'mallow probe'",
     .not_with = "p"},
    {0, "to", OPTION_TEXT, TO_AT(url), "URL",
     "send the recording there while it is written, in segments; 'mallow pull' puts it together",
     .not_with = "last"},
    {0, "remove", OPTION_FLAG, AT(upload.removed), NULL,
     "remove the local file once the store is known to have all of it", .with = "to"},
    {0, "segment-size", OPTION_SIZE, AT(upload.segment_bytes), "SIZE",
     "the size of a segment (default 16M)", SEGMENT_BYTES_LEAST, SEGMENT_BYTES_MOST, .with = "to"},
    UPLOADING_HEADER(TO_AT, "to"),
    UPLOADING_CA(TO_AT, "to"),
    UPLOADING_S3(TO_AT, "to"),
    UPLOADING_REGION(TO_AT),
    OPTION_END,
};

enum { WITH_MAX = 16 };

/* The options that have a form of their own. */
struct forms {
    struct flight_window last;
    struct pressure when;
    const struct probe_kind *with[WITH_MAX];
    int with_count;
};

/* Checks the options for a PROGRAM. 0, or an exit status. */
static int check_record_options(const struct command *self, const struct record_cli *o,
                                int operand_count, struct forms *f)
{
    struct error err = {0};
    *f = (struct forms){.with_count = 0};
    if (o->last && flight_parse(&f->last, o->last, &err))
        return command_usage(self, "--last: %s", err.text);
    if (o->when && pressure_parse(&f->when, o->when, &err))
        return command_usage(self, "--dump-when: %s", err.text);
    f->with_count = o->with ? probe_streams_parse(o->with, f->with, WITH_MAX, &err) : 0;
    if (f->with_count < 0)
        return command_usage(self, "--with%s", err.text);
    if (operand_count == 0)
        return command_usage(self, "no program given; 'mallow record [OPTIONS] [--] PROGRAM "
                                   "[ARGS...]'");
    return 0;
}

/* Records, and says how it went. The exit status. */
static int record(const struct record_cli *o, struct record_options *options,
                  struct record_speaker *speaker, struct record_upload *up)
{
    const struct command *self = speaker->command;
    static struct record_heap heap;
    static struct record_result result;
    struct error err = {0};
    options->size = o->heap ? record_heap_size : NULL;
    options->size_arg = &heap;
    progress_begin(&speaker->progress, "sealing");
    const int failed = record_run(options, &result, &err);
    progress_end(&speaker->progress);
    if (failed) {
        command_warn(self, "%s", err.text);
        return result.exit_status;
    }
    say_result(self, o, &heap, &result, up);
    return result.exit_status;
}

static int run_record(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    const struct record_cli *o = options;
    struct forms f;
    struct error err = {0};
    char library[PATH_MAX];
    static struct inspect found;
    if (o->output && !output_named(o->output))
        return command_usage(self,
                             "-o - is standard output, which belongs to the program; use a file");
    if (o->pid)
        return record_attached(self, o, operand_count);
    int status = check_record_options(self, o, operand_count, &f);
    if (status)
        return status;
    if (inspect_find_library("libmallow-record.so", library, &err)) {
        command_warn(self, "%s", err.text);
        return EXIT_MALLOW_FAILED;
    }
    if ((status = preflight(self, operands, o->force)))
        return status;
    if (f.with_count && inspect_program(operands[0], &found, &err)) {
        command_warn(self, "%s", err.text);
        return EXIT_MALLOW_FAILED;
    }
    struct record_speaker speaker = {.command = self, .quiet = o->quiet};
    struct record_upload up;
    if (record_upload_prepare(&up, &o->upload, &speaker, &err)) {
        status = command_fail(self, &err);
        status = err.kind == ERROR_USAGE ? status : EXIT_MALLOW_FAILED;
    } else {
        struct record_options all = {.output = o->output,
                                     .library = library,
                                     .argv = operands,
                                     .stacks = (enum mlw_stack_mode)o->stacks,
                                     .routes = o->paths,
                                     .paused = o->paused,
                                     .no_follow = o->no_follow,
                                     .environment = o->environment,
                                     .keep_raw = o->keep_raw,
                                     .last = f.last,
                                     .when = f.when,
                                     .sample_interval_ns = o->sample_interval_ns,
                                     .with = f.with,
                                     .with_count = (size_t)f.with_count,
                                     .program = found.path,
                                     .say = record_say,
                                     .progress = record_progress,
                                     .arg = &speaker,
                                     .beside = record_upload_beside(&up)};
        status = record(o, &all, &speaker, &up);
    }
    record_upload_release(&up);
    return status;
}

const struct command command_record = {
    .name = "record",
    .summary = "run a program and record its allocation calls and its children's",
    .operands = "(-p PID | [--] PROGRAM [ARGS...])",
    .description =
        "Runs PROGRAM and records each of its calls to malloc, free and their like, with\n"
        "call stacks, and those of its children, into one file. The program's output,\n"
        "input and exit status are its own.\n"
        "\n"
        "Afterwards 'mallow report FILE' says where the memory went. While the program\n"
        "runs, 'mallow control PID' pauses and resumes the recording, and 'mallow report'\n"
        "reads the part recorded so far.\n"
        "\n"
        "With -p, a process that runs already is recorded, with its children, until the\n"
        "end, Ctrl-C or --duration: the library is put into it and its calls lead there\n"
        "meanwhile. Releases of blocks from before are counted as such. Where that cannot\n"
        "be, or with --how probe, it is recorded from outside, by probes of the kernel:\n"
        "each call then takes 1 to 12 us longer.\n",
    .options = specs,
    .options_bytes = sizeof(struct record_cli),
    .min_operands = 0,
    .max_operands = -1,
    .flags = COMMAND_PROGRAM,
    .run = run_record,
};
