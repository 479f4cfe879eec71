/* cmd_doctor.c - `mallow doctor`: prints what inspect/ finds of this machine and of a program. */
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/human.h"
#include "base/text.h"
#include "cli/command.h"
#include "heap/heap.h"
#include "inject/inject.h"
#include "inspect/inspect.h"
#include "inspect/library.h"
#include "inspect/machine.h"
#include "probe/caps.h"
#include "push/push.h"
#include "show/document.h"
#include "show/json_document.h"
#include "watch/left.h"

/* The findings of `mallow doctor`, as text and as JSON. */

enum { DOCTOR_REASONS = 12 };

/* All that was found, so that text and JSON say the same. */
struct doctor_findings {
    struct machine_fact facts[MACHINE_FACTS_MAX + PROBE_CAPS_MAX + 3];
    size_t fact_count;
    bool works; /* nothing essential is missing */
    bool has_program;
    struct inspect program;
    enum inspect_verdict verdict;
    struct inspect_reason reasons[DOCTOR_REASONS];
    size_t reason_count;
};

static const char *const status_names[] = {"ok", "limited", "missing"};
static const char *const weight_names[] = {"essential", "useful", "optional"};
static const char *const verdict_names[] = {"recordable", "limited", "impossible"};

/* ---- text ---- */

/* Ends a line from column `at` on, broken at blanks where the terminal ends. */
static void print_rest(unsigned at, const char *text)
{
    unsigned columns = terminal_columns(STDOUT_FILENO, 0), column = at;
    while (*text) {
        size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " ");
        if (columns && column > at && column + blanks + word > columns) {
            text_printf(stdout, "\n%*s", (int)at, "");
            column = at;
            text += blanks;
            blanks = 0;
        }
        text_printf(stdout, "%.*s", (int)(blanks + word), text);
        column += (unsigned)(blanks + word);
        text += blanks + word;
    }
    putchar('\n');
}

static void print_fact(const struct machine_fact *f, bool color)
{
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31m"};
    /* Optional parts raise no alarm. */
    const char *on =
        f->weight == MACHINE_OPTIONAL && f->status != MACHINE_OK ? "\033[2m" : colors[f->status];
    fputs(color ? on : "", stdout);
    text_printf(stdout, "%-8s", status_names[f->status]);
    fputs(color ? "\033[0m " : " ", stdout);
    text_printf(stdout, "%-15s ", f->name);
    print_rest(25, f->detail);
    if (*f->why) {
        text_printf(stdout, "%25s", "");
        print_rest(25, f->why);
    }
    if (*f->remedy) /* in one piece, to be copied */
        text_printf(stdout, "%25sto fix it: %s\n", "", f->remedy);
}

static void print_program(const struct doctor_findings *s)
{
    const struct inspect *p = &s->program;
    text_printf(stdout, "\n%s: ", p->path);
    if (*p->script)
        text_printf(stdout, "runs the script %s; ", p->script);
    puts(s->verdict == INSPECT_RECORDABLE ? "can be recorded"
         : s->verdict == INSPECT_LIMITED  ? "can be recorded in part"
                                          : "cannot be recorded");
    for (size_t i = 0; i < s->reason_count; i++) {
        fputs("    ", stdout);
        print_rest(4, s->reasons[i].what);
        if (*s->reasons[i].remedy)
            text_printf(stdout, "    to fix it: %s\n", s->reasons[i].remedy);
    }
    if (*p->linked_allocator)
        text_printf(stdout,
                    "    it is linked with %s, which is recorded like the C library's malloc\n",
                    p->linked_allocator);
    if (*p->linked_sanitizer && !inspect_must_be_first(p))
        text_printf(stdout, "    it is linked with %s, whose malloc is recorded\n",
                    p->linked_sanitizer);
}

/* Print to standard output. */
static void doctor_print_text(const struct doctor_findings *s)
{
    bool color = terminal_color(STDOUT_FILENO);
    static const char *const titles[] = {"Essential", "Useful",
                                         "Optional (for 'probe', 'record --with', 'record -p')"};
    for (int weight = MACHINE_ESSENTIAL; weight <= MACHINE_OPTIONAL; weight++) {
        if (weight)
            text_printf(stdout, "\n");
        text_printf(stdout, "%s:\n", titles[weight]);
        for (size_t i = 0; i < s->fact_count; i++)
            if ((int)s->facts[i].weight == weight)
                print_fact(&s->facts[i], color);
    }
    puts(s->works ? "\nmallow can record on this machine."
                  : "\nmallow cannot record on this machine: see the missing parts above.");
    if (s->has_program)
        print_program(s);
}

/* ---- JSON ---- */

static void add_json_text(struct json_object *to, const char *key, const char *text)
{
    json_object_object_add(to, key, json_object_new_string(text));
}

static void add_bool(struct json_object *to, const char *key, bool value)
{
    json_object_object_add(to, key, json_object_new_boolean(value));
}

static struct json_object *json_of_program(const struct doctor_findings *s)
{
    const struct inspect *p = &s->program;
    struct json_object *o = json_object_new_object();
    add_json_text(o, "path", p->path);
    add_json_text(o, "script", p->script);
    add_json_text(o, "verdict", verdict_names[s->verdict]);
    json_object_object_add(o, "bits", json_object_new_int((int)p->bits));
    add_bool(o, "elf", p->is_elf);
    add_bool(o, "static", p->is_static);
    add_bool(o, "secure", p->is_secure);
    add_bool(o, "musl", p->is_musl);
    add_bool(o, "go", p->is_go);
    add_bool(o, "own_malloc", p->defines_malloc);
    add_bool(o, "symbols", p->has_symbols);
    add_json_text(o, "own_allocator", p->own_allocator);
    add_json_text(o, "linked_allocator", p->linked_allocator);
    add_json_text(o, "linked_sanitizer", p->linked_sanitizer);
    struct json_object *reasons = json_object_new_array();
    for (size_t i = 0; i < s->reason_count; i++) {
        struct json_object *r = json_object_new_object();
        add_json_text(r, "verdict", verdict_names[s->reasons[i].verdict]);
        add_json_text(r, "what", s->reasons[i].what);
        add_json_text(r, "remedy", s->reasons[i].remedy);
        json_object_array_add(reasons, r);
    }
    json_object_object_add(o, "reasons", reasons);
    return o;
}

static void doctor_print_json(const struct doctor_findings *s)
{
    struct json_object *o = document_new();
    add_json_text(o, "version", MALLOW_VERSION);
    add_bool(o, "works", s->works);
    struct json_object *checks = json_object_new_array();
    for (size_t i = 0; i < s->fact_count; i++) {
        const struct machine_fact *f = &s->facts[i];
        struct json_object *c = json_object_new_object();
        add_json_text(c, "name", f->name);
        add_json_text(c, "status", status_names[f->status]);
        add_json_text(c, "weight", weight_names[f->weight]);
        add_json_text(c, "detail", f->detail);
        add_json_text(c, "why", f->why);
        add_json_text(c, "remedy", f->remedy);
        json_object_array_add(checks, c);
    }
    json_object_object_add(o, "checks", checks);
    if (s->has_program)
        json_object_object_add(o, "program", json_of_program(s));
    document_print_indented(o);
    json_object_put(o);
}

struct doctor_options {
    bool json;
};

static const struct option_spec specs[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct doctor_options, json),
     .help = "one JSON document instead of text"},
    OPTION_END,
};

/* True: a process of this user's could get the library. It is asked of one made for that. */
static bool injects(struct error *err)
{
    char library[PATH_MAX];
    if (inspect_find_library("libmallow-attach-record.so", library, err))
        return false;
    const struct inject_options o = {.library = library};
    const pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    const bool can =
        child > 0 ? !inject_check(child, &o, err) : error_system(err, "cannot fork") == 0;
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    return can;
}

/* A process that runs is recorded by the library or from the kernel's side: where one cannot be,
 * the reason is said, and the other one works. */
static void add_injection(struct probe_cap *c)
{
    struct error err = {0};
    char was[sizeof c->why];
    const bool can = injects(&err);
    snprintf(was, sizeof was, "%s", c->why);
    if (can && c->works)
        return;
    if (can) {
        c->works = c->partly = true;
        snprintf(c->detail, sizeof c->detail,
                 "a process of this user that runs already can be recorded, by the library in it");
        snprintf(c->why, sizeof c->why, "not from the kernel's side (--how probe): %.270s", was);
    } else if (c->works) {
        c->partly = true;
        snprintf(c->why, sizeof c->why, "from the kernel's side alone: %.140s%s%.120s", err.text,
                 *was ? "; " : "", was);
    }
}

/* Adds the needs of the probes, behind the other facts. */
static void add_probe_facts(struct doctor_findings *s, bool recordings)
{
    struct probe_cap caps[PROBE_CAPS_MAX];
    size_t n = probe_caps(caps, PROBE_CAPS_MAX);
    if (recordings)
        n += probe_caps_recording(caps + n, PROBE_CAPS_MAX - n);
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(caps[i].name, "record-p"))
            add_injection(&caps[i]);
        struct machine_fact *f = &s->facts[s->fact_count++];
        *f = (struct machine_fact){.name = caps[i].name,
                                   .status = caps[i].partly  ? MACHINE_LIMITED
                                             : caps[i].works ? MACHINE_OK
                                                             : MACHINE_MISSING,
                                   .weight = MACHINE_OPTIONAL};
        snprintf(f->detail, sizeof f->detail, "%s", caps[i].detail);
        snprintf(f->why, sizeof f->why, "%s", caps[i].why);
        snprintf(f->remedy, sizeof f->remedy, "%s", caps[i].remedy);
    }
}

static void add_push_fact(struct doctor_findings *s)
{
    const char *why, *remedy, *library = push_library(&why, &remedy);
    struct machine_fact *f = &s->facts[s->fact_count++];
    *f = (struct machine_fact){
        .name = "push", .status = library ? MACHINE_OK : MACHINE_MISSING, .weight = MACHINE_USEFUL};
    snprintf(f->detail, sizeof f->detail, "%s", library ? library : why);
    if (!library) {
        snprintf(f->why, sizeof f->why, "'mallow push' sends nothing");
        snprintf(f->remedy, sizeof f->remedy, "%s", remedy);
    }
}

/* Adds the segments of processes that died under libmallow-watch.so. */
static void add_left_fact(struct doctor_findings *s)
{
    struct left left;
    struct error ignored;
    char size[HUMAN_TEXT_BYTES];
    if (left_find(&left, &ignored))
        return; /* no /dev/shm, which another fact reports */
    struct machine_fact *f = &s->facts[s->fact_count++];
    *f = (struct machine_fact){.name = "watch-left",
                               .status = left.segments ? MACHINE_LIMITED : MACHINE_OK,
                               .weight = MACHINE_USEFUL};
    if (!left.segments) {
        snprintf(f->detail, sizeof f->detail, "no watched process left memory in /dev/shm");
    } else {
        snprintf(f->detail, sizeof f->detail, "%zu watched processes died and left %s in /dev/shm",
                 left.segments, human_size(size, left.bytes));
        snprintf(f->why, sizeof f->why, "'mallow watch -p %d' still reads what the last one held",
                 (int)left.items[left.segments - 1].pid);
        snprintf(f->remedy, sizeof f->remedy, "mallow watch --left clear");
    }
    left_release(&left);
}

/* How `mallow heap --cold` sees what a process touches. */
static void add_cold_fact(struct doctor_findings *s)
{
    struct machine_fact *f = &s->facts[s->fact_count++];
    const char *way = heap_cold_way(f->detail, sizeof f->detail);
    f->name = "heap-cold";
    f->status = way ? MACHINE_OK : MACHINE_MISSING;
    f->weight = MACHINE_OPTIONAL;
    if (way && !strcmp(way, "idle"))
        snprintf(f->detail, sizeof f->detail,
                 "idle page tracking sees reads and writes of a process's memory");
    else if (way)
        snprintf(f->detail, sizeof f->detail,
                 "%s sees which memory a process writes; reads are not seen", way);
    else {
        snprintf(f->why, sizeof f->why,
                 "'mallow heap --cold' cannot say which blocks are not used");
        snprintf(f->remedy, sizeof f->remedy, "run it on Linux 6.7 or later");
    }
}

static int run_doctor(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    const struct doctor_options *o = options;
    static struct doctor_findings s;
    s.fact_count = machine_facts(s.facts, MACHINE_FACTS_MAX);
    add_left_fact(&s);
    add_push_fact(&s);
    add_cold_fact(&s);
    add_probe_facts(&s, !operand_count); /* to begin them all takes a while */
    s.works = true;
    for (size_t i = 0; i < s.fact_count; i++)
        if (s.facts[i].weight == MACHINE_ESSENTIAL && s.facts[i].status == MACHINE_MISSING)
            s.works = false;
    if (operand_count) {
        struct error err;
        if (inspect_program(operands[0], &s.program, &err))
            return command_fail(self, &err);
        s.has_program = true;
        s.verdict = inspect_judge(&s.program, s.reasons, DOCTOR_REASONS, &s.reason_count);
    }
    if (o->json)
        doctor_print_json(&s);
    else
        doctor_print_text(&s);
    int status = command_finish(self);
    if (!s.works || (s.has_program && s.verdict == INSPECT_IMPOSSIBLE))
        return EXIT_FAILED;
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "what works on this machine, and the commands that fix what does not",
    .operands = "[PROGRAM]",
    .description =
        "Looks at what recording and reading need of this machine and says for each\n"
        "thing how it is, the effect without it, and the command that fixes it. With\n"
        "PROGRAM, also says whether that program can be recorded: a static, setuid or\n"
        "32-bit program, or one that brings its own malloc, cannot, or only in part.\n"
        "\n"
        "Exit status: 0 when recording works here (and for PROGRAM), 1 when it does not.",
    .options = specs,
    .options_bytes = sizeof(struct doctor_options),
    .max_operands = 1,
    .flags = COMMAND_PROGRAM,
    .run = run_doctor,
};
