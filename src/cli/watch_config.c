/* watch_config.c - Reads the options of --config, combines them with the command line, and
 * applies changes to a running watch. A file with a mistake changes nothing. A file that other
 * users can write is refused. */
#include "cli/watch_config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trust/file.h"
#include "watch/segment.h"

#define MOST_BYTES (64u << 10)

/* ---- the file ---- */

static char *read_text(const struct command *self, const char *path)
{
    const struct trust_rule rule = {
        .what = "the configuration file", .owners = TRUST_CALLER | TRUST_ROOT, .follow = true};
    struct error err = {0};
    struct stat st;
    size_t bytes = 0;
    char *text = NULL;
    const int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, &err);
    if (fd >= 0 && !fstat(fd, &st) && (st.st_mode & (S_IWGRP | S_IWOTH)))
        error_set(&err, ERROR_UNSUPPORTED, "%s can be changed by other users (mode %04o)", path,
                  (unsigned)st.st_mode & 07777u);
    else if (fd >= 0)
        text = trust_read_whole(fd, MOST_BYTES, &bytes, &err);
    if (fd >= 0)
        close(fd);
    if (text && strlen(text) != bytes) {
        error_set(&err, ERROR_FORMAT, "%s contains a NUL byte; it must be text", path);
        free(text);
        text = NULL;
    }
    if (!text)
        command_warn(self, "--config: %s", err.text);
    return text;
}

/* The text without blanks around it. */
static char *trim_blanks(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1]))
        text[--n] = 0;
    return text;
}

/* A line; `place` is for messages. 0, or an exit status. */
static int take_line(const struct command *self, const char *place, char *line, bool *taken,
                     struct watch_cli *into)
{
    static const char *const command_line[] = {"config", "pid", "left", "detach"};
    char *key = trim_blanks(line);
    if (!*key || *key == '#')
        return 0;
    char *equals = strchr(key, '=');
    if (!equals)
        return command_usage(self, "%s: '%s' is not 'key = value'", place, key);
    *equals = 0;
    const char *value = trim_blanks(equals + 1);
    key = trim_blanks(key);
    for (size_t i = 0; i < sizeof command_line / sizeof *command_line; i++)
        if (!strcmp(key, command_line[i]))
            return command_usage(self, "%s: '%s' belongs on the command line", place, key);
    return options_set(self, place, key, value, taken, into);
}

/* All lines of the text, which it changes. 0, or an exit status. */
static int take_text(const struct command *self, const char *path, char *text,
                     struct watch_cli *into)
{
    bool taken[OPTIONS_MOST] = {false};
    unsigned number = 1;
    for (char *line = text, *next; line; line = next, number++) {
        char place[PATH_MAX + 16];
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        snprintf(place, sizeof place, "%s:%u", path, number);
        const int status = take_line(self, place, line, taken, into);
        if (status)
            return status;
    }
    return 0;
}

/* The file's options and the command line's on top. *text: what they point into. */
static int combine(const struct command *self, const struct watch_cli *given,
                   struct watch_cli *into, char **text)
{
    memcpy(into, self->defaults, sizeof *into);
    *text = read_text(self, given->config);
    if (!*text)
        return EXIT_FAILED;
    const int status = take_text(self, given->config, *text, into);
    if (!status)
        options_overlay(self, given, into);
    return status;
}

static void release_config(const struct command *self, const struct watch_cli *given,
                           struct watch_cli *cli, char *text)
{
    options_release_others(self, given, cli);
    free(text);
}

/* Choices that were made nowhere. */
static void choose_usual(struct watch_cli *cli)
{
    cli->by = cli->by < 0 ? 0 : cli->by;
    cli->how = cli->how < 0 ? WATCH_AUTO : cli->how;
}

int watch_config_open(struct watch_config *c, const struct command *self,
                      const struct watch_cli *given)
{
    *c = (struct watch_config){.command = self, .given = given, .now = *given};
    const int status = given->config ? combine(self, given, &c->now, &c->text) : 0;
    choose_usual(&c->now);
    return status;
}

void watch_config_release(struct watch_config *c)
{
    if (c->given->config)
        release_config(c->command, c->given, &c->now, c->text);
}

/* ---- settings ---- */

static int put_settings(struct watch_config *c, struct watch_options *options)
{
    const struct watch_cli *o = &c->now;
    if (o->guard && !segment_parse_share(o->guard, &c->guard))
        return command_usage(
            c->command, "--guard: '%s' is not off, all, or a share such as 0.1 or 10%%", o->guard);
    /* To guard all blocks means all blocks, not all of the few that are sampled. */
    c->period = o->period || !o->guard || strcmp(o->guard, "all") != 0 ? o->period : 1;
    c->on_error = (uint32_t)o->on_error;
    c->guard_side = (uint32_t)o->guard_side;
    options->every_ns = o->every_ns;
    options->old_ns = o->old_ns;
    options->high_water = o->high_water || o->high_water_min;
    options->high_water_bytes = o->high_water_min;
    options->period_bytes = c->period ? &c->period : NULL;
    options->guard_share = o->guard ? &c->guard : NULL;
    options->on_error = o->on_error < 0 ? NULL : &c->on_error;
    options->guard_side = o->guard_side < 0 ? NULL : &c->guard_side;
    return 0;
}

int watch_config_check(const struct command *self, const struct watch_cli *o)
{
    struct error err = {0};
    const bool settings = o->period || o->guard || o->guard_side >= 0 || o->on_error >= 0;
    return watch_all_check(o->all, o->how == WATCH_AUTO, o->how == WATCH_INJECT, settings, &err)
               ? command_fail(self, &err)
               : 0;
}

static bool may_change(const struct option_spec *o)
{
    static const char *const names[] = {"period", "guard", "guard-side", "on-error",
                                        "every",  "old",   "high-water", "high-water-min"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (o->name && !strcmp(o->name, names[i]))
            return true;
    return false;
}

/* Says which of the others are different in the file now. */
static void complain(const struct watch_config *c, const struct watch_cli *next)
{
    for (const struct option_spec *o = c->command->options; o->letter || o->name; o++)
        if (!may_change(o) && !options_same(o, &c->now, next))
            command_warn(c->command, "%s: '%s' cannot change while the watch runs; restart it",
                         c->given->config, o->name ? o->name : "n");
}

static void reload(void *arg)
{
    struct watch_config *c = arg, next = *c;
    struct watch_options options = *c->options;
    next.text = NULL;
    int status = combine(c->command, c->given, &next.now, &next.text);
    choose_usual(&next.now);
    if (!status)
        status = watch_config_check(c->command, &next.now);
    if (!status)
        status = put_settings(&next, &options);
    if (status) {
        command_warn(c->command, "%s: nothing was changed", c->given->config);
    } else {
        complain(c, &next.now);
        c->period = next.period;
        c->guard = next.guard;
        c->on_error = next.on_error;
        c->guard_side = next.guard_side;
        options.period_bytes = options.period_bytes ? &c->period : NULL;
        options.guard_share = options.guard_share ? &c->guard : NULL;
        options.on_error = options.on_error ? &c->on_error : NULL;
        options.guard_side = options.guard_side ? &c->guard_side : NULL;
        *c->options = options;
        watch_run_change(*c->run, &options);
        if (!c->now.quiet)
            command_warn(c->command, "%s was read again", c->given->config);
    }
    release_config(c->command, c->given, &next.now, next.text);
}

int watch_config_settings(struct watch_config *c, struct watch_options *options,
                          struct watch_run *const *run)
{
    c->options = options;
    c->run = run;
    if (c->given->config) {
        options->listener.reload = reload;
        options->listener.reload_arg = c;
    }
    return put_settings(c, options);
}
