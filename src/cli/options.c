/* options.c - see options.h. Prints: the error (one line, stderr) and help (stdout). */
#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "cli/command.h"

/* ---- similarity ---- */

unsigned options_distance(const char *a, const char *b)
{
    enum { MOST = 63 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MOST || m > MOST)
        return MOST;
    /* Optimal string alignment: three rows of the usual table are enough. */
    unsigned rows[3][MOST + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n % 3][m];
}

/* ---- messages about one option ---- */

static const char *elsewhere; /* where an option stands that is not on the command line */

/* "--name" or "-n", into a static buffer; the last answer is valid until the next call. */
static const char *spelling(const struct option_spec *o)
{
    static char text[512];
    if (elsewhere)
        snprintf(text, sizeof text, "%.400s: %s", elsewhere, o->name);
    else if (o->name)
        snprintf(text, sizeof text, "--%s", o->name);
    else
        snprintf(text, sizeof text, "-%c", o->letter);
    return text;
}

static bool is_end(const struct option_spec *o) { return !o->letter && !o->name; }

/* The option of this long name, which need not end there; the table's end: there is none. */
static const struct option_spec *option_by_name(const struct command *c, const char *name,
                                                size_t length)
{
    const struct option_spec *o = c->options;
    while (!is_end(o) && !(o->name && strlen(o->name) == length && !memcmp(o->name, name, length)))
        o++;
    return o;
}

/* The same by its letter. */
static const struct option_spec *option_by_letter(const struct command *c, char letter)
{
    const struct option_spec *o = c->options;
    while (!is_end(o) && o->letter != letter)
        o++;
    return o;
}

static int unknown_option(const struct command *c, const char *given, size_t name_length)
{
    const char *best = NULL;
    unsigned best_distance = 3;
    char name[64] = "";
    if (name_length < sizeof name)
        memcpy(name, given, name_length);
    for (const struct option_spec *o = c->options; *name && !is_end(o); o++) {
        if (!o->name)
            continue;
        unsigned d = strncmp(o->name, name, name_length) ? options_distance(name, o->name) : 1;
        if (d < best_distance) {
            best_distance = d;
            best = o->name;
        }
    }
    if (best)
        return command_usage(c, "unknown option --%.*s; did you mean --%s?", (int)name_length,
                             given, best);
    return command_usage(c, "unknown option --%.*s; 'mallow %s --help' lists the options",
                         (int)name_length, given, c->name);
}

/* ---- one value ---- */

static bool in_bounds(const struct option_spec *o, uint64_t n)
{
    return (!o->minimum && !o->maximum) || (n >= o->minimum && (!o->maximum || n <= o->maximum));
}

static int out_of_bounds(const struct command *c, const struct option_spec *o, const char *text)
{
    char low[HUMAN_TEXT_BYTES], high[HUMAN_TEXT_BYTES];
    if (o->kind == OPTION_SIZE) {
        human_size(low, o->minimum);
        human_size(high, o->maximum);
    } else if (o->kind == OPTION_DURATION) {
        human_duration(low, o->minimum);
        human_duration(high, o->maximum);
    } else {
        human_count(low, o->minimum);
        human_count(high, o->maximum);
    }
    if (!o->maximum)
        return command_usage(c, "%s: '%s' is too small; the least is %s", spelling(o), text, low);
    return command_usage(c, "%s: '%s' is out of range; it must be from %s to %s", spelling(o), text,
                         low, high);
}

/* Index of `text` in "a|b|c", or -1. */
static int choice_index(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int index = 0;
    for (const char *p = choices; length; index++) {
        size_t n = strcspn(p, "|");
        if (n == length && !memcmp(p, text, n))
            return index;
        if (!p[n])
            break;
        p += n + 1;
    }
    return -1;
}

static bool parse_range(const char *text, bool (*parse)(const char *, uint64_t *),
                        struct option_range *range)
{
    const char *dots = strstr(text, "..");
    char from[64];
    if (!dots || (size_t)(dots - text) >= sizeof from || (dots == text && !dots[2]))
        return false;
    memcpy(from, text, (size_t)(dots - text));
    from[dots - text] = 0;
    struct option_range r = {0, UINT64_MAX};
    if ((*from && !parse(from, &r.from)) || (dots[2] && !parse(dots + 2, &r.to)) || r.from > r.to)
        return false;
    *range = r;
    return true;
}

/* A side that is no duration may be a mark, which only the recording knows. */
static bool parse_span(const char *text, struct option_span *span)
{
    const char *dots = strstr(text, "..");
    struct option_span s = {.range = {0, UINT64_MAX}, .text = text};
    char from[64];
    uint64_t ns;
    if (!dots || (dots == text && !dots[2]))
        return false;
    if (!parse_range(text, human_parse_duration, &s.range)) {
        s.marks = true;
        if ((size_t)(dots - text) < sizeof from) {
            memcpy(from, text, (size_t)(dots - text));
            from[dots - text] = 0;
            s.marks = (*from && !human_parse_duration(from, &ns)) ||
                      (dots[2] && !human_parse_duration(dots + 2, &ns));
        }
        if (!s.marks)
            return false; /* backwards */
    }
    *span = s;
    return true;
}

static int add_text(const struct command *c, struct text_list *list, const char *text)
{
    const char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return command_no_memory(c);
    items[list->count++] = text;
    list->items = items;
    return 0;
}

/* Stores the value; returns 0, or EXIT_USAGE with a line on stderr. */
static int store(const struct command *c, const struct option_spec *o, const char *text, void *into)
{
    char *field = (char *)into + o->offset;
    uint64_t n = 0;
    int index;
    switch (o->kind) {
    case OPTION_FLAG: *(bool *)field = true; return 0;
    case OPTION_TEXT:
        if (!*text)
            return command_usage(c, "%s: the %s is empty", spelling(o), o->value);
        *(const char **)field = text;
        return 0;
    case OPTION_TEXTS: return add_text(c, (struct text_list *)field, text);
    case OPTION_COUNT:
        if (!human_parse_count(text, &n))
            return command_usage(c, "%s: '%s' is not a whole number such as 20", spelling(o), text);
        break;
    case OPTION_SIZE:
        if (!human_parse_size(text, &n))
            return command_usage(c, "%s: '%s' is not a size such as 4096, 64K or 1.5M", spelling(o),
                                 text);
        break;
    case OPTION_DURATION:
        if (!human_parse_duration(text, &n))
            return command_usage(c, "%s: '%s' is not a duration such as 10ms, 1.5s or 2m",
                                 spelling(o), text);
        break;
    case OPTION_CHOICE:
        index = choice_index(o->value, text);
        if (index < 0)
            return command_usage(c, "%s: '%s' is not one of %s", spelling(o), text, o->value);
        *(int *)field = index;
        return 0;
    case OPTION_SIZE_RANGE:
        if (!parse_range(text, human_parse_size, (struct option_range *)field))
            return command_usage(c, "%s: '%s' is not a range of sizes such as 64..4K, 1M.. or ..16",
                                 spelling(o), text);
        return 0;
    case OPTION_TIME_RANGE:
        if (!parse_span(text, (struct option_span *)field))
            return command_usage(c,
                                 "%s: '%s' is not a range of time such as 1s..2.5s, 10ms.., ..1m, "
                                 "or START..END with names of marks",
                                 spelling(o), text);
        return 0;
    }
    if (!in_bounds(o, n))
        return out_of_bounds(c, o, text);
    *(uint64_t *)field = n;
    return 0;
}

/* ---- from elsewhere ---- */

static int set_known(const struct command *c, const struct option_spec *o, const char *value,
                     void *into)
{
    if (!*value)
        return command_usage(c, "%s: the value is missing", spelling(o));
    if (o->kind != OPTION_FLAG)
        return store(c, o, value, into);
    if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
        return command_usage(c, "%s: '%s' is neither yes nor no", spelling(o), value);
    *(bool *)((char *)into + o->offset) = *value == 'y';
    return 0;
}

int options_set(const struct command *c, const char *place, const char *name, const char *value,
                bool taken[OPTIONS_MOST], void *into)
{
    const struct option_spec *o = option_by_name(c, name, strlen(name));
    const size_t index = (size_t)(o - c->options);
    if (is_end(o) || index >= OPTIONS_MOST)
        return command_usage(c, "%s: unknown key '%s'; keys are the long names of options", place,
                             name);
    if (taken[index] && o->kind != OPTION_TEXTS)
        return command_usage(c, "%s: '%s' is set twice", place, name);
    taken[index] = true;
    elsewhere = place;
    const int status = set_known(c, o, value, into);
    elsewhere = NULL;
    return status;
}

static size_t field_bytes(const struct option_spec *o)
{
    switch (o->kind) {
    case OPTION_FLAG: return sizeof(bool);
    case OPTION_TEXT: return sizeof(const char *);
    case OPTION_TEXTS: return sizeof(struct text_list);
    case OPTION_CHOICE: return sizeof(int);
    case OPTION_SIZE_RANGE: return sizeof(struct option_range);
    case OPTION_TIME_RANGE: return sizeof(struct option_span);
    case OPTION_COUNT:
    case OPTION_SIZE:
    case OPTION_DURATION: break;
    }
    return sizeof(uint64_t);
}

void options_overlay(const struct command *c, const void *given, void *into)
{
    for (const struct option_spec *o = c->options; !is_end(o); o++) {
        const void *from = (const char *)given + o->offset;
        void *to = (char *)into + o->offset;
        if (!memcmp(from, (const char *)c->defaults + o->offset, field_bytes(o)))
            continue;
        if (o->kind == OPTION_TEXTS)
            free(((struct text_list *)to)->items);
        memcpy(to, from, field_bytes(o));
    }
}

void options_release_others(const struct command *c, const void *given, void *into)
{
    for (const struct option_spec *o = c->options; !is_end(o); o++) {
        struct text_list *list = (void *)((char *)into + o->offset);
        if (o->kind == OPTION_TEXTS &&
            list->items !=
                ((const struct text_list *)(const void *)((const char *)given + o->offset))->items)
            free(list->items);
    }
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

bool options_same(const struct option_spec *o, const void *a, const void *b)
{
    const void *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
    if (o->kind == OPTION_TEXT)
        return same_text(*(const char *const *)x, *(const char *const *)y);
    if (o->kind != OPTION_TEXTS)
        return !memcmp(x, y, field_bytes(o));
    const struct text_list *p = x, *q = y;
    bool same = p->count == q->count;
    for (size_t i = 0; same && i < p->count; i++)
        same = same_text(p->items[i], q->items[i]);
    return same;
}

/* ---- relations ---- */

static bool is_given(const struct command *c, const struct option_spec *o, const void *options)
{
    static const char zeros[sizeof(struct option_span)];
    struct option_spec field = *o;
    if (c->defaults)
        return !options_same(o, options, c->defaults);
    field.offset = 0;
    return !options_same(&field, (const char *)options + o->offset, zeros);
}

/* The first option of "a|b|c" that was given, or NULL. */
static const struct option_spec *first_given(const struct command *c, const char *names,
                                             const void *options)
{
    for (const char *p = names; *p; p += strcspn(p, "|"), p += *p == '|') {
        const size_t n = strcspn(p, "|");
        const struct option_spec *o = n == 1 ? option_by_letter(c, *p) : option_by_name(c, p, n);
        if (!is_end(o) && is_given(c, o, options))
            return o;
    }
    return NULL;
}

/* "a|p" as "--a or -p". */
static void spell_names(const char *names, char *to, size_t room)
{
    size_t used = 0;
    *to = 0;
    for (const char *p = names; *p && used < room; p += strcspn(p, "|"), p += *p == '|') {
        const int n = (int)strcspn(p, "|");
        used += (size_t)snprintf(to + used, room - used, "%s%s%.*s",
                                 p == names ? ""
                                 : p[n]     ? ", "
                                            : " or ",
                                 n == 1 ? "-" : "--", n, p);
    }
}

int options_check(const struct command *c, const void *options)
{
    for (const struct option_spec *o = c->options; !is_end(o); o++) {
        char names[200], mine[40];
        const struct option_spec *other;
        if ((!o->with && !o->not_with) || !is_given(c, o, options))
            continue;
        snprintf(mine, sizeof mine, "%s", spelling(o));
        if (o->with && !first_given(c, o->with, options)) {
            spell_names(o->with, names, sizeof names);
            return command_usage(c, "%s needs %s", mine, names);
        }
        if (o->not_with && (other = first_given(c, o->not_with, options)))
            return command_usage(c, "%s and %s exclude each other", mine, spelling(other));
    }
    return 0;
}

/* ---- the command line ---- */

struct arguments {
    int argc, next;
    char **argv;
    const struct option_spec *took; /* whose file was the last argument, standing by itself */
};

/* Stores the next argument as the value. */
static int store_next(const struct command *c, const struct option_spec *o, struct arguments *a,
                      void *into)
{
    if (a->next == a->argc)
        return command_usage(c, "%s needs a value: %s %s", spelling(o), spelling(o), o->value);
    if (a->next + 1 == a->argc && o->completion == VALUE_FILE)
        a->took = o;
    return store(c, o, a->argv[a->next++], into);
}

/* One argument that starts with `--` and has more behind it. */
static int parse_long(const struct command *c, struct arguments *a, void *into)
{
    const char *name = a->argv[a->next++] + 2;
    size_t length = strcspn(name, "=");
    const struct option_spec *o = option_by_name(c, name, length);
    if (is_end(o))
        return unknown_option(c, name, length);
    if (o->kind == OPTION_FLAG) {
        if (name[length])
            return command_usage(c, "--%s takes no value", o->name);
        return store(c, o, NULL, into);
    }
    if (name[length])
        return store(c, o, name + length + 1, into);
    return store_next(c, o, a, into);
}

/* One argument that starts with a single `-`: flags, and at the end one option with a value. */
static int parse_letters(const struct command *c, struct arguments *a, void *into, bool *help)
{
    for (const char *p = a->argv[a->next++] + 1; *p; p++) {
        if (*p == 'h') {
            *help = true;
            return 0;
        }
        const struct option_spec *o = option_by_letter(c, *p);
        if (is_end(o))
            return command_usage(c, "unknown option -%c; 'mallow %s --help' lists the options", *p,
                                 c->name);
        int bad;
        if (o->kind == OPTION_FLAG)
            bad = store(c, o, NULL, into);
        else if (p[1])
            return store(c, o, p + 1, into);
        else
            return store_next(c, o, a, into);
        if (bad)
            return bad;
    }
    return 0;
}

/* Checks the number of operands; reports a missing or an extra one. */
static enum options_result check_operands(const struct command *c, const struct option_spec *took,
                                          const char *last, char **operands, int count)
{
    if (count < c->min_operands && took) {
        command_usage(c,
                      "%s takes '%s' as its %s, and %s is missing; usage: mallow %s [OPTIONS] %s",
                      spelling(took), last, took->value, c->operands, c->name, c->operands);
        return OPTIONS_BAD;
    }
    if (count < c->min_operands) {
        command_usage(c, "usage: mallow %s [OPTIONS] %s", c->name, c->operands);
        return OPTIONS_BAD;
    }
    if (c->max_operands >= 0 && count > c->max_operands) {
        command_usage(c, "unexpected '%s'; usage: mallow %s [OPTIONS]%s%s",
                      operands[c->max_operands], c->name, *c->operands ? " " : "", c->operands);
        return OPTIONS_BAD;
    }
    for (int i = 0; i < count && !(c->flags & COMMAND_PROGRAM); i++)
        if (!*operands[i]) {
            command_usage(c, "argument %d is empty; usage: mallow %s [OPTIONS] %s", i + 1, c->name,
                          c->operands);
            return OPTIONS_BAD;
        }
    return OPTIONS_OK;
}

enum options_result options_parse(const struct command *c, int argc, char **argv, void *into,
                                  char ***operands, int *operand_count)
{
    struct arguments a = {argc, 1, argv, NULL};
    char *last = argc > 1 ? argv[argc - 1] : NULL; /* argv is reordered */
    int count = 0;                                 /* operands gathered at argv[1..count] */
    bool help = false;
    while (a.next < argc) {
        char *arg = argv[a.next];
        int bad = 0;
        if (!strcmp(arg, "--")) {
            a.next++;
            break;
        }
        if (arg[0] != '-' || !arg[1]) {
            if (c->flags & COMMAND_PROGRAM)
                break;
            a.next++;
            argv[1 + count++] = arg;
            continue;
        }
        if (!strcmp(arg, "--help"))
            return OPTIONS_HELP;
        bad = arg[1] == '-' ? parse_long(c, &a, into) : parse_letters(c, &a, into, &help);
        if (help)
            return OPTIONS_HELP;
        if (bad)
            return OPTIONS_BAD;
    }
    while (a.next < argc)
        argv[1 + count++] = argv[a.next++];
    argv[1 + count] = NULL;
    *operands = argv + 1;
    *operand_count = count;
    return check_operands(c, a.took, last, argv + 1, count);
}

void options_release(const struct command *c, void *into)
{
    for (const struct option_spec *o = c->options; !is_end(o); o++)
        if (o->kind == OPTION_TEXTS) {
            struct text_list *list = (struct text_list *)(void *)((char *)into + o->offset);
            free(list->items);
            *list = (struct text_list){0};
        }
}

/* ---- help ---- */

enum { HELP_COLUMN = 28, HELP_WIDTH = 80 };

/* Prints words of `text` from column HELP_COLUMN on, wrapped at HELP_WIDTH. */
static void print_wrapped(const char *text)
{
    int column = HELP_COLUMN;
    bool first = true;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (!first && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", n, text);
        column += n + !first;
        first = false;
        text += n;
        while (*text == ' ')
            text++;
    }
    putchar('\n');
}

static void print_option(const struct option_spec *o)
{
    char left[160], text[640], names[200];
    int n = 0;
    if (o->letter && o->name)
        n = snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name);
    else if (o->letter)
        n = snprintf(left, sizeof left, "  -%c", o->letter);
    else
        n = snprintf(left, sizeof left, "      --%s", o->name);
    /* choices that do not fit into a line stand in the text, where they are wrapped */
    const bool many = o->kind == OPTION_CHOICE && n + 1 + (int)strlen(o->value) > HELP_WIDTH;
    if (o->kind != OPTION_FLAG && n > 0 && (size_t)n < sizeof left)
        n += snprintf(left + n, sizeof left - (size_t)n, "%s%s", o->name ? "=" : " ",
                      many ? "NAME" : o->value);
    if (n < HELP_COLUMN - 1)
        printf("%-*s", HELP_COLUMN, left);
    else
        printf("%s\n%*s", left, HELP_COLUMN, "");
    spell_names(o->with ? o->with : "", names, sizeof names);
    n = snprintf(text, sizeof text, "%s%s%s%s%s", o->with ? "with " : "", names,
                 o->with ? ": " : "", o->help, many ? "; NAME is one of " : "");
    for (const char *p = o->value; many && *p && n > 0 && (size_t)n + 3 < sizeof text; p++)
        n += snprintf(text + n, sizeof text - (size_t)n, *p == '|' ? ", " : "%c", *p);
    print_wrapped(text);
}

void options_print_help(const struct command *c)
{
    printf("usage: mallow %s [OPTIONS]%s%s\n\n", c->name, *c->operands ? " " : "", c->operands);
    size_t length = strlen(c->description);
    while (length && c->description[length - 1] == '\n')
        length--;
    printf("%.*s\n\n", (int)length, c->description);
    if (c->list) {
        c->list();
        printf("\n");
    }
    if (c->remarks)
        printf("%s\n\n", c->remarks);
    printf("Options:\n");
    for (const struct option_spec *o = c->options; !is_end(o); o++)
        print_option(o);
    static const struct option_spec help = {
        .letter = 'h', .name = "help", .kind = OPTION_FLAG, .help = "print this help"};
    print_option(&help);
    printf("\nThe manual: man mallow-%s\n", c->name);
}
