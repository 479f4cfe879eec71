/* The option parser against a command of its own: every kind of value, every spelling, every way to
 * be wrong. What is printed is checked by test_usage.py; here it is caught and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

struct values {
    bool json, quiet;
    const char *output, *page;
    struct text_list filters;
    uint64_t top, size_bytes, period_ns;
    int stacks;
    struct option_range sizes;
    struct option_span time;
};

static const struct option_spec specs[] = {
    {'j', "json", OPTION_FLAG, offsetof(struct values, json), NULL, "json"},
    {'q', NULL, OPTION_FLAG, offsetof(struct values, quiet), NULL, "quiet"},
    {'o', "output", OPTION_TEXT, offsetof(struct values, output), "FILE", "file"},
    {0, "filter", OPTION_TEXTS, offsetof(struct values, filters), "PATTERN", "filter"},
    {'n', NULL, OPTION_COUNT, offsetof(struct values, top), "N", "top", 1, 1000},
    {0, "size", OPTION_SIZE, offsetof(struct values, size_bytes), "SIZE", "size", 4096, 0},
    {0, "every", OPTION_DURATION, offsetof(struct values, period_ns), "DURATION", "period"},
    {0, "stacks", OPTION_CHOICE, offsetof(struct values, stacks), "full|caller|none", "stacks"},
    {0, "sizes", OPTION_SIZE_RANGE, offsetof(struct values, sizes), "FROM..TO", "sizes"},
    {0, "time", OPTION_TIME_RANGE, offsetof(struct values, time), "FROM..TO", "time"},
    {0, "page", OPTION_TEXT, offsetof(struct values, page), "FILE", "page", .with = "filter|n",
     .not_with = "json|q"},
    OPTION_END,
};

static struct command command = {
    .name = "try", .operands = "FILE", .description = "", .options = specs, .max_operands = -1};

static unsigned messages;
static char message[512];

int command_usage(const struct command *c, const char *format, ...)
{
    va_list ap;
    (void)c;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    messages++;
    return EXIT_USAGE;
}

int command_no_memory(const struct command *c)
{
    (void)c;
    snprintf(message, sizeof message, "out of memory");
    messages++;
    return EXIT_FAILED;
}

static struct values v;
static char **operands;
static int operand_count;

/* Parses words separated by one space. */
static enum options_result parse(const char *line)
{
    static char text[512];
    static char *argv[64];
    static char name[] = "try";
    int argc = 1;
    options_release(&command, &v);
    v = (struct values){.stacks = -1};
    messages = 0;
    argv[0] = name;
    snprintf(text, sizeof text, "%s", line);
    for (char *p = text; *p;) {
        char *word = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = 0;
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    return options_parse(&command, argc, argv, &v, &operands, &operand_count);
}

static void test_spellings(void **state)
{
    (void)state;
    static const char *const lines[] = {"-o x a",       "-ox a",  "--output x a",
                                        "--output=x a", "a -o x", "-q -o x -- a"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(parse(lines[i]), OPTIONS_OK);
        assert_string_equal(v.output, "x");
        assert_int_equal(operand_count, 1);
        assert_string_equal(operands[0], "a");
        assert_null(operands[1]);
    }
    assert_int_equal(parse("-jqo=x"), OPTIONS_OK);
    assert_true(v.json && v.quiet);
    assert_string_equal(v.output, "=x");
    assert_int_equal(parse("- -- -j --json"), OPTIONS_OK);
    assert_int_equal(operand_count, 3);
    assert_false(v.json);
    assert_string_equal(operands[0], "-");
    assert_string_equal(operands[2], "--json");
}

static void test_values(void **state)
{
    (void)state;
    assert_int_equal(parse("-n 20 --size 1.5M --every 10ms --stacks caller --filter a --filter b"),
                     OPTIONS_OK);
    assert_int_equal(v.top, 20);
    assert_int_equal(v.size_bytes, 1572864);
    assert_int_equal(v.period_ns, 10000000);
    assert_int_equal(v.stacks, 1);
    assert_int_equal(v.filters.count, 2);
    assert_string_equal(v.filters.items[1], "b");
    assert_int_equal(parse("--sizes 64..4K --time=1s.."), OPTIONS_OK);
    assert_int_equal(v.sizes.from, 64);
    assert_int_equal(v.sizes.to, 4096);
    assert_int_equal(v.time.range.from, 1000000000);
    assert_true(v.time.range.to == UINT64_MAX);
    assert_int_equal(parse("--sizes ..16"), OPTIONS_OK);
    assert_int_equal(v.sizes.from, 0);
    assert_int_equal(v.sizes.to, 16);
}

static void test_wrong(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--jsn",          "-x",          "--json=1",      "-o",           "--output",
        "--output=",      "-n x",        "-n -1",         "-n 1.5",       "-n 0",
        "-n 1001",        "--size 12Q",  "--size 4095",   "--every 5min", "--stacks all",
        "--stacks ful",   "--stacks f",  "--stacks=",     "--sizes 5",    "--sizes ..",
        "--sizes 9..3",   "--sizes a..", "--time 2s..1s", "--time 1K",    "--jso",
        "--output-file=x"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (parse(lines[i]) != OPTIONS_BAD)
            fail_msg("'%s' was accepted", lines[i]);
        assert_int_equal(messages, 1);
        assert_null(strchr(message, '\n'));
    }
    assert_int_equal(parse("--jsn"), OPTIONS_BAD);
    assert_string_equal(message, "unknown option --jsn; did you mean --json?");
    assert_int_equal(parse("--stacks all"), OPTIONS_BAD);
    assert_string_equal(message, "--stacks: 'all' is not one of full|caller|none");
}

static void test_operands(void **state)
{
    (void)state;
    command.min_operands = 1;
    command.max_operands = 1;
    assert_int_equal(parse(""), OPTIONS_BAD);
    assert_int_equal(parse("a b"), OPTIONS_BAD);
    assert_int_equal(parse("a"), OPTIONS_OK);
    command.max_operands = -1;
    command.flags = COMMAND_PROGRAM;
    assert_int_equal(parse("-j prog -q --unknown -- x"), OPTIONS_OK);
    assert_true(v.json && !v.quiet);
    assert_int_equal(operand_count, 5);
    assert_string_equal(operands[1], "-q");
    assert_int_equal(parse("-j -- prog -q"), OPTIONS_OK);
    assert_int_equal(operand_count, 2);
    command.flags = 0;
    command.min_operands = 0;
}

static void test_help_wins(void **state)
{
    (void)state;
    command.min_operands = 1;
    assert_int_equal(parse("--help"), OPTIONS_HELP);
    assert_int_equal(parse("-jh"), OPTIONS_HELP);
    assert_int_equal(parse("x -h y z"), OPTIONS_HELP);
    command.min_operands = 0;
    assert_int_equal(parse("-- --help"), OPTIONS_OK);
}

static void test_distance(void **state)
{
    (void)state;
    assert_int_equal(options_distance("record", "record"), 0);
    assert_int_equal(options_distance("recrod", "record"), 1);
    assert_int_equal(options_distance("recod", "record"), 1);
    assert_int_equal(options_distance("recordd", "record"), 1);
    assert_int_equal(options_distance("", "abc"), 3);
    assert_int_equal(options_distance("abc", ""), 3);
    char text[200];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_true(options_distance(text, "a") > 10);
}

/* Each way in which --page stands beside others, and the line about it; "": it may. */
static void test_relations(void **state)
{
    (void)state;
    static const struct {
        struct values given;
        const char *said;
    } cases[] = {
        {{.json = true, .quiet = true, .top = 3}, ""},
        {{.page = "x"}, "--page needs --filter or -n"},
        {{.page = "x", .top = 3}, ""},
        {{.page = "x", .top = 3, .quiet = true}, "--page and -q exclude each other"},
        {{.page = "x", .top = 3, .json = true}, "--page and --json exclude each other"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        *message = 0;
        assert_int_equal(options_check(&command, &cases[i].given), *cases[i].said ? EXIT_USAGE : 0);
        assert_string_equal(message, cases[i].said);
    }
    /* A command's default is not given by the user. */
    static const struct values usual = {.page = "x", .json = true};
    command.defaults = &usual;
    *message = 0;
    assert_int_equal(options_check(&command, &usual), 0);
    assert_string_equal(message, "");
    command.defaults = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings), cmocka_unit_test(test_values),
        cmocka_unit_test(test_wrong),     cmocka_unit_test(test_operands),
        cmocka_unit_test(test_help_wins), cmocka_unit_test(test_distance),
        cmocka_unit_test(test_relations),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    options_release(&command, &v);
    return status;
}
