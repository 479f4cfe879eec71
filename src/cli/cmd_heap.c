/* cmd_heap.c - `mallow heap`: who keeps the blocks of a program alive. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/plural.h"
#include "cli/command.h"
#include "cli/gate.h"
#include "cli/view.h"
#include "heap/heap.h"
#include "heap/show/diff.h"
#include "heap/show/sampled.h"
#include "heap/show/show.h"
#include "limit/groups.h"
#include "record/control.h"
#include "show/output.h"

/* The recording that a heap is joined with. Owns: the recording while the heap
 * is read and shown, and the names of its process. One thread. */

struct heap_recording {
    const char *path; /* NULL: there is none, and nothing is opened */
    const struct view_options *view;
    struct trace *trace;
    struct heap_samples samples; /* without a recording, of a process that is sampled */
    struct symbols *symbols;
    struct names *names; /* NULL without a recording */
};

/* As heap_options.recording wants it, `arg` a struct heap_recording: opens the recording of process
 * `pid`, after a process that runs has written what it has. NULL with *err. */
static struct trace *heap_recording_open(void *arg, uint32_t pid, bool live, struct error *err)
{
    struct heap_recording *o = arg;
    struct error ignored; /* its recorder may have ended: then all is in the file */
    if (live && pid)
        control_run((pid_t)pid, CONTROL_SYNC, NULL, NULL, &ignored);
    o->trace = view_open(o->path, 0, 0, 0, err);
    return o->trace;
}

/* Makes the names of the process that `h` was read from. -1 with *err. */
static int heap_recording_names(struct heap_recording *o, const struct heap *h, struct error *err)
{
    const struct trace_image *image = o->trace ? &trace_info(o->trace)->images[heap_facts(h)->image]
                                               : heap_samples_image(&o->samples);
    if (!image)
        return 0;
    o->symbols = view_symbols(o->view, err);
    if (o->symbols)
        o->names = names_new(o->symbols, image, err);
    if (o->names)
        names_set_look(o->names, &o->view->look);
    return o->names ? 0 : -1;
}

static void heap_recording_close(struct heap_recording *o)
{
    names_free(o->names);
    symbols_free(o->symbols);
    trace_close(o->trace);
    heap_samples_release(&o->samples);
}

/* `mallow heap --fail-above`: whether too much of a heap is unreachable. */

/* The limit of `unreachable=SIZE`; false: the text is none. */
static bool heap_gate_limit(const char *text, uint64_t *limit)
{
    static const char figure[] = "unreachable=";
    return !strncmp(text, figure, sizeof figure - 1) &&
           human_parse_size(text + sizeof figure - 1, limit);
}

/* Says when there is too much, or that it cannot be known. Returns the exit status. */
static int heap_gate_judge(const struct command *self, const struct gate_options *options,
                           const char *text, const struct heap_facts *f, uint64_t limit,
                           const char *target)
{
    char may[HUMAN_TEXT_BYTES];
    struct gate g = {.self = self, .options = options};
    const bool above = f->unreachable_bytes > limit;
    human_size(may, limit);
    if (!f->verified)
        gate_judge(&g, GATE_UNKNOWN, text, NULL, 0,
                   "unreachable: not known whether it is more than %s: %s", may, f->reason);
    else
        gate_judge(&g, above ? GATE_ABOVE : GATE_BELOW, text, NULL, 0,
                   "unreachable: %s in %s %s, %s than %s", SIZE(f->unreachable_bytes),
                   COUNT(f->unreachable_blocks), plural(f->unreachable_blocks, "block", "blocks"),
                   above ? "more" : "not more", may);
    return gate_finish(&g, target);
}

#define TOP_NOT_GIVEN UINT64_MAX
enum { TOP_DEFAULT = 20, MEMORY_LEAST = 16 << 20 };

struct heap_cli {
    bool json, leaks, free, diff;
    int by; /* enum heap_view less one; -1: not given */
    uint64_t top, cold_ns, memory_bytes;
    const char *why, *who, *fail_above, *recording, *output, *html;
    struct view_options view; /* the looks of names */
    struct gate_options gate;
};

#define AT(field) offsetof(struct heap_cli, field)

static const struct option_spec specs[] = {
    {0, "by", OPTION_CHOICE, AT(by), "type|root|site|size|arena",
     "print only the table by this key (default: roots and types)"},
    {0, "leaks", OPTION_FLAG, AT(leaks), NULL, "list the blocks that nothing refers to any more"},
    {0, "free", OPTION_FLAG, AT(free), NULL,
     "list the types that keep free memory from being returned to the system"},
    {0, "cold", OPTION_DURATION, AT(cold_ns), "DURATION",
     "wait DURATION, then list the types, roots and call sites of blocks that were not written "
     "meanwhile",
     1000000, 30ull * 86400 * 1000000000, .not_with = "why|who|leaks|free"},
    {0, "why", OPTION_TEXT, AT(why), "ADDR",
     "print the way from a root to the block at this address", .not_with = "who"},
    {0, "who", OPTION_TEXT, AT(who), "ADDR", "print what refers to the block at this address"},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "unreachable=SIZE",
     "exit 1 when unreachable blocks hold more than this, 3 when that is not known"},
    GATE_SPECS(struct heap_cli, gate),
    {'o', "output", OPTION_TEXT, AT(output), "FILE",
     "also save the heap: sizes, references and types, no contents; FILE.mlh can be read anywhere",
     .completion = VALUE_FILE},
    {0, "diff", OPTION_FLAG, AT(diff), NULL,
     "compare two heaps (OLD NEW: saved heaps, cores or processes)",
     .not_with = "why|who|cold|by|leaks|free|recording|output"},
    {0, "recording", OPTION_TEXT, AT(recording), "FILE",
     "use a recording of the process, which knows who allocated the blocks (--by site)",
     .completion = VALUE_FILE},
    {0, "debug-path", OPTION_TEXTS, AT(view.debug_paths), "DIR",
     "also look for separate debug files here; may be repeated", .completion = VALUE_DIRECTORY},
    {0, "memory", OPTION_SIZE, AT(memory_bytes), "SIZE",
     "use at most SIZE of memory for tables, and temporary files for the rest (default: half of "
     "the memory)",
     MEMORY_LEAST, 0},
    {'n', NULL, OPTION_COUNT, AT(top), "N",
     "show N rows of a table, 0 for all (default 20; all in JSON)", 0, UINT32_MAX},
    {0, "html", OPTION_TEXT, AT(html), "OUT", "write a page for a browser to this file",
     .completion = VALUE_FILE},
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    OPTION_END,
};

static bool parse_address(const char *text, uint64_t *address)
{
    char *end;
    errno = 0;
    *address = strtoull(text, &end, 16);
    return *text && *text != '-' && !*end && !errno;
}

/* Rows of a table; `otherwise`: when -n was not given. */
static uint64_t top_of(const struct heap_cli *cli, uint64_t otherwise)
{
    return cli->top == TOP_NOT_GIVEN ? otherwise : cli->top ? cli->top : UINT64_MAX;
}

static int show_one(struct heap *h, const struct heap_cli *cli, uint64_t address, struct error *err)
{
    struct heap_step *steps;
    size_t count;
    enum heap_found found;
    int status = 0;
    bool why = cli->why != NULL;
    if ((why ? heap_why : heap_who)(h, address, &steps, &count, &found))
        return error_memory(err);
    if (cli->json)
        status = heap_show_steps_json(h, steps, count, found, address, why, err);
    else
        heap_show_steps(steps, count, found, address, why, top_of(cli, TOP_DEFAULT));
    free(steps);
    return status;
}

/* The bytes that the tables may take: the rest of the machine's memory is for other programs. */
static uint64_t memory_of(const struct heap_cli *cli)
{
    const uint64_t half = limit_available() / 2;
    return cli->memory_bytes ? cli->memory_bytes : half < MEMORY_LEAST ? MEMORY_LEAST : half;
}

static struct heap *read_heap(const struct heap_cli *cli, const char *target, FILE *save,
                              struct heap_recording *opened, struct error *err)
{
    struct progress progress;
    progress_begin(&progress, "reading the heap");
    const struct heap_options how = {.progress = progress_update,
                                     .progress_arg = &progress,
                                     .debug_dirs = (const char *const *)cli->view.debug_paths.items,
                                     .debug_dir_count = cli->view.debug_paths.count,
                                     .cold_ns = cli->cold_ns,
                                     .memory_bytes = memory_of(cli),
                                     .recording = cli->recording ? heap_recording_open : NULL,
                                     .recording_arg = opened,
                                     .sampled = cli->diff ? NULL : heap_samples_read,
                                     .sampled_arg = &opened->samples,
                                     .save = save};
    struct heap *h = heap_read(target, &how, err);
    progress_end(&progress);
    return h;
}

static int show_diff(const struct heap_cli *cli, struct heap *h, char **operands,
                     struct heap_recording *opened, struct error *err)
{
    const uint64_t top = top_of(cli, cli->json || cli->html ? UINT64_MAX : TOP_DEFAULT);
    struct heap *old = read_heap(cli, operands[0], NULL, opened, err);
    int status = old ? 0 : -1;
    if (!status && cli->html)
        status = heap_diff_page(old, h, operands, top, cli->html, err);
    if (!status && (cli->json || !cli->html))
        status = (cli->json ? heap_diff_json : heap_diff_text)(old, h, top, err);
    heap_free(old);
    return status;
}

static int show_heap(const struct heap_cli *cli, struct heap *h, struct heap_recording *opened,
                     uint64_t address, char **operands, struct error *err)
{
    if (cli->diff)
        return show_diff(cli, h, operands, opened, err);
    if (heap_recording_names(opened, h, err))
        return -1;
    if (cli->why || cli->who)
        return show_one(h, cli, address, err);
    const struct heap_show show = {.view =
                                       cli->by < 0 ? HEAP_VIEW_ALL : (enum heap_view)(cli->by + 1),
                                   .top = top_of(cli, TOP_DEFAULT),
                                   .top_given = cli->top != TOP_NOT_GIVEN,
                                   .names = opened->names,
                                   .samples = heap_facts(h)->sampled ? &opened->samples : NULL,
                                   .free = cli->free,
                                   .cold = cli->cold_ns != 0,
                                   .leaks = cli->leaks};
    if (cli->html && heap_show_page(h, &show, operands[0], cli->html, err))
        return -1;
    return cli->html && !cli->json ? 0
                                   : (cli->json ? heap_show_json : heap_show_text)(h, &show, err);
}

/* -1: reported the error. */
static int check_heap_options(const struct command *self, const struct heap_cli *cli,
                              int operand_count, uint64_t *address, uint64_t *limit)
{
    const char *asked = cli->why ? cli->why : cli->who;
    if (asked && !parse_address(asked, address))
        return command_usage(self, "'%s' is not an address like 0x55d0c8a01230", asked);
    if (cli->fail_above && !heap_gate_limit(cli->fail_above, limit))
        return command_usage(self, "--fail-above: '%s' is not like unreachable=1M",
                             cli->fail_above);
    if (cli->diff && operand_count != 2)
        return command_usage(self, "--diff needs two heaps: OLD NEW");
    if (!cli->diff && operand_count != 1)
        return command_usage(self, "one process or file at a time; --diff compares two");
    if (cli->cold_ns && (cli->by == HEAP_VIEW_SIZE - 1 || cli->by == HEAP_VIEW_ARENA - 1))
        return command_usage(self, "--cold needs --by type, root or site");
    return 0;
}

static int run_heap(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    const struct heap_cli *cli = options;
    uint64_t address = 0, limit = 0;
    struct error err;
    struct output output = {0};
    struct heap_recording opened = {.path = cli->recording, .view = &cli->view};
    int status = check_heap_options(self, cli, operand_count, &address, &limit);
    if (status)
        return status;
    if (cli->output && (output_must_be_regular(cli->output, "a heap", &err) ||
                        output_open(&output, cli->output, &err)))
        return command_fail(self, &err);
    struct heap *h = read_heap(cli, operands[operand_count - 1], output.file, &opened, &err);
    status = (output.file && output_close(&output, h != NULL, &err)) || !h ? -1 : 0;
    const bool unknown = !status && cli->by == HEAP_VIEW_SITE - 1 && !heap_facts(h)->recorded;
    if (!status && !unknown)
        status = show_heap(cli, h, &opened, address, operands, &err);
    int judged = EXIT_DONE;
    if (!status && cli->fail_above)
        judged = heap_gate_judge(self, &cli->gate, cli->fail_above, heap_facts(h), limit,
                                 operands[operand_count - 1]);
    if (!status && !unknown && !heap_facts(h)->verified)
        command_warn(self, "the heap could not be verified: %s", heap_facts(h)->reason);
    heap_free(h);
    heap_recording_close(&opened);
    if (status)
        return command_fail(self, &err);
    if (unknown)
        return command_usage(self, "--by site needs --recording, or a process that is sampled");
    status = command_finish(self);
    return status ? status : judged;
}

static const struct heap_cli defaults = {.by = -1, .view = VIEW_DEFAULTS, .top = TOP_NOT_GIVEN};

const struct command command_heap = {
    .name = "heap",
    .summary = "say who keeps the blocks of a running program, or of a core, alive",
    .operands = "(PID | CORE | SAVED | --diff OLD NEW)",
    .description = "Reads the heap of an unprepared process, or of its core file: every\n"
                   "block of glibc's malloc, without symbols. Says which variables, stacks and\n"
                   "other roots hold how much (retained: what would be freed if they let go), of\n"
                   "which types the blocks are, and which blocks nothing refers to any more.\n"
                   "\n"
                   "The process stands still while it is read, and goes on afterwards. Whether\n"
                   "all of the heap was read is verified against the allocator's own counts;\n"
                   "where it was not, no leaks are named.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct heap_cli),
    .min_operands = 1,
    .max_operands = 2,
    .flags = COMMAND_FILES | COMMAND_PIDS,
    .run = run_heap,
};
