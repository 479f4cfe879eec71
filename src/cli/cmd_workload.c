/* cmd_workload.c - `mallow workload`: makes a replayable workload of one process of a recording. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/text.h"
#include "cli/command.h"
#include "show/output.h"
#include "cli/recorded.h"
#include "trust/file.h"
#include "workload/convert.h"
#include "workload/djmalloc.h"
#include "workload/gather.h"
#include "workload/pack.h"

struct workload_cli {
    const char *output;
    uint64_t pid, threads;
    int unknown, format;
    bool lossy, quiet;
};

#define AT(field) offsetof(struct workload_cli, field)

static const struct option_spec specs[] = {
    {'o', "output", OPTION_TEXT, AT(output), "FILE", "write the workload to FILE (required)",
     .completion = VALUE_FILE},
    {0, "format", OPTION_CHOICE, AT(format), "auto|mwl|wl|mtrace",
     "what to write: mallow's own, or dj/malloc's workload or raw trace (default auto: by the end "
     "of "
     "the output's name, .wl or .mtrace, else mwl)"},
    {'p', "pid", OPTION_COUNT, AT(pid), "PID",
     "use process PID (required if several processes of the recording allocated)", 1, INT32_MAX},
    {0, "unknown", OPTION_CHOICE, AT(unknown), "drop|synthesise",
     "frees of blocks whose allocation was not recorded: drop them, or synthesise a block for each "
     "(default drop)"},
    {0, "lossy", OPTION_FLAG, AT(lossy), NULL, "accept a recording that lost calls"},
    {0, "threads", OPTION_COUNT, AT(threads), "N",
     "read with N threads at most (default: as many as there are processors); the result is the "
     "same",
     1, 1024},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL, "say nothing unless something is wrong"},
    OPTION_END,
};

static void report_workload(const struct workload_written *w, const char *path)
{
    uint64_t calls = w->facts[WORKLOAD_FACT_OPERATIONS];
    text_printf(stdout,
                "%s: %s operations of %u thread%s on %" PRIu64
                " slots, peak %s live; %s, %.2f bytes an "
                "operation\n",
                path, COUNT(calls), w->threads, w->threads == 1 ? "" : "s",
                w->facts[WORKLOAD_FACT_SLOTS], SIZE(w->facts[WORKLOAD_FACT_PEAK_BYTES]),
                SIZE(w->file_bytes), calls ? (double)w->file_bytes / (double)calls : 0.0);
}

/* A trace or workload of dj/malloc into `target`, a workload of ours. */
static int convert_foreign(const struct command *self, const struct workload_cli *o,
                           const char *path, enum djmalloc_kind kind, const char *target)
{
    struct error err = {0};
    struct workload_written written;
    struct djmalloc_result result;
    if (o->pid)
        return command_usage(
            self, "%s is a trace of dj/malloc, which holds one process; --pid does not apply",
            path);
    if (djmalloc_convert(path, kind, target, &written, &result, &err))
        return command_fail(self, &err);
    if (written.facts[WORKLOAD_FACT_UNKNOWN_FREES])
        command_warn(self, "%s frees of blocks whose allocation was not recorded were left out",
                     COUNT(written.facts[WORKLOAD_FACT_UNKNOWN_FREES]));
    if (result.reordered && !o->quiet)
        command_warn(self, "%s records were out of order and were sorted", COUNT(result.reordered));
    if (result.forced)
        command_warn(self,
                     "%s addresses were allocated again without a free in between; a free that "
                     "does not count was inserted",
                     COUNT(result.forced));
    if (!o->quiet)
        report_workload(&written, o->output);
    return command_finish(self);
}

/* A process of a recording into `target`, a workload of ours. */
static int convert_recording(const struct command *self, const struct workload_cli *o,
                             const char *path, const char *target)
{
    const struct recorded how = {.pid = o->pid,
                                 .threads = o->threads,
                                 .workload = {.synthesise = o->unknown == 1, .lossy = o->lossy},
                                 .quiet = o->quiet};
    struct workload_written written;
    const int status = recorded_workload(self, &how, path, target, &written);
    if (status)
        return status;
    if (!o->quiet)
        report_workload(&written, o->output);
    return command_finish(self);
}

/* One of dj/malloc's formats from a workload of ours. */
static int write_foreign(const struct command *self, const struct workload_cli *o, const char *path,
                         enum djmalloc_kind kind)
{
    struct error err = {0};
    uint64_t changed;
    if (djmalloc_write(path, kind, o->output, &changed, &err))
        return command_fail(self, &err);
    if (changed)
        command_warn(self,
                     "%s operations cannot be expressed in that format and became the nearest ones "
                     "(aligned_alloc, and in a workload posix_memalign, valloc and pvalloc, "
                     "memalign; reallocarray realloc, sized frees free)",
                     COUNT(changed));
    return command_finish(self);
}

/* The workload at `path` as `zstd` packs it. */
static int write_packed(const struct command *self, const struct workload_cli *o, const char *path)
{
    struct error err = {0};
    struct output output;
    int fd = trust_open_any(path, &err), failed = fd < 0 ? -1 : 0;
    if (!failed && !(failed = output_open(&output, o->output, &err))) {
        failed = workload_pack(fd, output.file, &err);
        const off_t bytes = ftello(output.file);
        if (output_close(&output, !failed, &err))
            failed = -1;
        if (!failed && !o->quiet)
            text_printf(stdout, "%s: packed into %s\n", o->output, SIZE((uint64_t)bytes));
    }
    if (fd >= 0)
        close(fd);
    return failed ? command_fail(self, &err) : command_finish(self);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* The kind of file to write; NEITHER: a workload of ours. */
static enum djmalloc_kind target_kind(const struct workload_cli *o)
{
    enum { AUTO, MWL, WL, MTRACE };
    if (o->format == WL || (o->format == AUTO && ends_with(o->output, ".wl")))
        return DJMALLOC_WORKLOAD;
    if (o->format == MTRACE || (o->format == AUTO && ends_with(o->output, ".mtrace")))
        return DJMALLOC_TRACE;
    return DJMALLOC_NEITHER;
}

static int make_workload(const struct command *self, const struct workload_cli *o, const char *path,
                         const char *typed)
{
    enum djmalloc_kind target = target_kind(o), source = djmalloc_kind(path);
    const bool packed = ends_with(o->output, ".zst");
    if (packed && target != DJMALLOC_NEITHER)
        return command_usage(self, "only mallow's own workloads can be packed");
    if (workload_is(path)) {
        if (packed)
            return write_packed(self, o, path);
        if (target == DJMALLOC_NEITHER)
            return command_usage(self, "%s is a workload already; OUT.mwl.zst packs it", typed);
        return write_foreign(self, o, path, target);
    }
    /* other formats are converted on the way, in a file without a name */
    const bool direct = target == DJMALLOC_NEITHER && !packed;
    struct error err = {0};
    int fd = direct ? -1 : workload_unnamed(o->output, &err);
    if (!direct && fd < 0)
        return command_fail(self, &err);
    char unnamed[32];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", fd);
    const char *ours = direct ? o->output : unnamed;
    int status = source == DJMALLOC_NEITHER ? convert_recording(self, o, path, ours)
                                            : convert_foreign(self, o, path, source, ours);
    if (!direct && status == EXIT_DONE)
        status = packed ? write_packed(self, o, ours) : write_foreign(self, o, ours, target);
    if (fd >= 0)
        close(fd);
    return status;
}

static int run_workload(const struct command *self, const void *options, char **operands,
                        int operand_count)
{
    const struct workload_cli *o = options;
    if (!o->output)
        return command_usage(self, "no output given; use -o OUT.mwl");
    for (int i = 0; i < operand_count; i++) {
        if (output_is(o->output, operands[i]))
            return command_usage(self, "the workload would overwrite %s, which it is made from",
                                 operands[i]);
        if (operand_count > 1 && djmalloc_kind(operands[i]) != DJMALLOC_TRACE)
            return command_usage(
                self, "%s is not a raw trace of dj/malloc; only such traces can be combined",
                operands[i]);
    }
    struct error err;
    if (output_must_be_regular(o->output, "a workload", &err))
        return command_fail(self, &err);
    char name[32];
    const char *path = operands[0];
    int gathered = -1;
    if (operand_count > 1 || !strcmp(path, "-")) {
        gathered = workload_gather(o->output, operands, (size_t)operand_count, &err);
        if (gathered < 0)
            return command_fail(self, &err);
        snprintf(name, sizeof name, "/proc/self/fd/%d", gathered);
        path = name;
    }
    struct workload_source source; /* a packed workload is unpacked; all else is as it is */
    int status = workload_source_open(&source, path, &err)
                     ? command_fail(self, &err)
                     : make_workload(self, o, source.path, operands[0]);
    workload_source_close(&source);
    if (gathered >= 0)
        close(gathered);
    return status;
}

const struct command command_workload = {
    .name = "workload",
    .summary = "turn a recording into a workload that can be replayed",
    .operands = "FILE...",
    .description =
        "Turns one process of the recording FILE into a workload: per thread, the\n"
        "allocation calls with their sizes and alignments, on numbered slots, in their\n"
        "order and with their times. No addresses, names or contents are in it, so it can\n"
        "be given away. 'mallow replay' runs it against any allocator.\n"
        "FILE may also be a workload, or a workload (.wl) or raw traces of glibc's branch\n"
        "dj/malloc, and - is standard input. OUT is one of these when its name ends in\n"
        ".wl or .mtrace. An OUT whose name ends in .zst is packed; all commands read it\n"
        "as it is.\n",
    .options = specs,
    .options_bytes = sizeof(struct workload_cli),
    .min_operands = 1,
    .max_operands = -1,
    .flags = COMMAND_FILES,
    .run = run_workload,
};
