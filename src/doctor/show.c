/* show.c - prints the findings of `mallow doctor`, as text and as JSON. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "doctor/doctor.h"
#include "show/document.h"
#include "show/json_document.h"
#include "show/terminal.h"

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

void doctor_print_text(const struct doctor_findings *s)
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

void doctor_print_json(const struct doctor_findings *s)
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
