/* main.c - finds the command, parses its options, runs it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/command.h"
#include "record/lend.h"

const struct command *command_find(const char *name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (!strcmp((*c)->name, name))
            return *c;
    return NULL;
}

const char *command_suggest(const char *name)
{
    const char *best = NULL;
    unsigned best_distance = 3;
    for (const struct command *const *c = commands; *c; c++) {
        unsigned d = options_distance(name, (*c)->name);
        if (d < best_distance && d < strlen((*c)->name)) {
            best_distance = d;
            best = (*c)->name;
        }
    }
    return best;
}

static void say_command_line(const struct command *c, const char *format, va_list ap)
{
    fflush(stdout);
    text_printf(stderr, "mallow %s: ", c->name);
    text_vprintf(stderr, format, ap);
    fputc('\n', stderr);
}

int command_usage(const struct command *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_command_line(c, format, ap);
    va_end(ap);
    return EXIT_USAGE;
}

void command_warn(const struct command *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    say_command_line(c, format, ap);
    va_end(ap);
}

int command_fail(const struct command *c, const struct error *err)
{
    command_warn(c, "%s", err->text);
    return err->kind == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

static void warn_noted(void *arg, const char *text) { command_warn(arg, "%s", text); }

struct note command_note(const struct command *c)
{
    return (struct note){.line = warn_noted, .arg = (void *)(uintptr_t)c};
}

int command_no_memory(const struct command *c)
{
    struct error err;
    error_memory(&err);
    return command_fail(c, &err);
}

int command_finish(const struct command *c)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    int saved = errno;
    command_warn(c, "cannot write to standard output: %s", strerror(saved));
    return EXIT_FAILED;
}

static int run_command(const struct command *c, int argc, char **argv)
{
    void *options = NULL;
    if (c->options_bytes) {
        options = calloc(1, c->options_bytes);
        if (!options)
            return command_no_memory(c);
        if (c->defaults)
            memcpy(options, c->defaults, c->options_bytes);
    }
    char **operands = NULL;
    int count = 0, status = EXIT_USAGE;
    switch (options_parse(c, argc, argv, options, &operands, &count)) {
    case OPTIONS_OK:
        status = c->flags & COMMAND_CHECKS ? 0 : options_check(c, options);
        if (!status)
            status = c->run(c, options, operands, count);
        break;
    case OPTIONS_HELP:
        options_print_help(c);
        status = command_finish(c);
        break;
    case OPTIONS_BAD: break;
    }
    if (options)
        options_release(c, options);
    free(options);
    return status;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        fputs("mallow: no command given; 'mallow help' lists the commands\n", stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(name, "-h") || !strcmp(name, "--help"))
        name = "help";
    if (!strcmp(name, "-V") || !strcmp(name, "--version")) {
        puts("mallow " MALLOW_VERSION);
        if (!fflush(stdout))
            return EXIT_DONE;
        text_printf(stderr, "mallow: cannot write to standard output: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    if (!strcmp(name, LEND_COMMAND))
        lend_main(); /* this program, executed anew by itself */
    const struct command *c = command_find(name);
    if (c)
        return run_command(c, argc - 1, argv + 1);
    const char *near = command_suggest(name);
    if (name[0] == '-')
        text_printf(stderr,
                    "mallow: unknown option %s; the command comes first, as in 'mallow help'\n",
                    name);
    else if (near)
        text_printf(stderr, "mallow: unknown command '%s'; did you mean '%s'?\n", name, near);
    else
        text_printf(stderr, "mallow: unknown command '%s'; 'mallow help' lists the commands\n",
                    name);
    return EXIT_USAGE;
}
