/* gate.c - Prints each judgment of a limit as a line, as a GitHub annotation and as a JUnit test
 * case, and chooses the exit status. Texts are escaped for each format, because paths and names
 * come from recordings. */
#include "cli/gate.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "show/output.h"

struct gate_case {
    enum gate_outcome outcome;
    char *name, *message;
};

/* Appends `text` as GitHub's workflow commands want it. property: of a value before the message. */
static void append_github(struct buffer *b, const char *text, bool property)
{
    struct buffer plain = {0};
    text_append(&plain, text); /* no line ends are left */
    for (const char *p = buffer_text(&plain); *p; p++) {
        if (*p == '%')
            buffer_append_text(b, "%25");
        else if (property && *p == ':')
            buffer_append_text(b, "%3A");
        else if (property && *p == ',')
            buffer_append_text(b, "%2C");
        else
            buffer_append_char(b, *p);
    }
    buffer_release(&plain);
}

/* The part of a path below the sources that are checked out, as annotations want it. */
static const char *below_workspace(const char *path)
{
    char here[4096];
    const char *root = getenv("GITHUB_WORKSPACE");
    if (!root || !*root)
        root = getcwd(here, sizeof here);
    const size_t n = root ? strlen(root) : 0;
    return n && !strncmp(path, root, n) && path[n] == '/' ? path + n + 1 : path;
}

/* Without "." and "NAME/..", which compilers leave in: annotations name files as git does. */
static void append_normal(struct buffer *b, const char *path)
{
    char out[4096];
    size_t n = 0;
    if (strlen(path) >= sizeof out - 1) {
        buffer_append_text(b, path);
        return;
    }
    for (const char *p = path; *p;) {
        const size_t length = strcspn(p, "/");
        const bool up = length == 2 && !memcmp(p, "..", 2);
        size_t last = n ? n - 1 : 0; /* out[0..n] ends with a slash, or is empty */
        while (last && out[last - 1] != '/')
            last--;
        if (up && n > 1 && memcmp(out + last, "../", 3) != 0) {
            n = last;
        } else if (!(length == 1 && *p == '.') && (length || p == path)) {
            memcpy(out + n, p, length);
            n += length;
            if (p[length])
                out[n++] = '/';
        }
        p += length + (p[length] == '/');
    }
    out[n] = 0;
    buffer_append_text(b, out);
}

static void annotate(const struct gate *g, const char *file, unsigned line, const char *message)
{
    struct buffer b = {0};
    buffer_append_text(&b, "::error ");
    if (file) {
        buffer_append_text(&b, "file=");
        struct buffer normal = {0};
        append_normal(&normal, file);
        append_github(&b, below_workspace(buffer_text(&normal)), true);
        buffer_release(&normal);
        if (line)
            buffer_printf(&b, ",line=%u", line);
        buffer_append_char(&b, ',');
    }
    buffer_printf(&b, "title=mallow %s::", g->self->name);
    append_github(&b, message, false);
    text_printf(stderr, "%s\n", buffer_text(&b));
    buffer_release(&b);
}

void gate_judge(struct gate *g, enum gate_outcome outcome, const char *name, const char *file,
                unsigned line, const char *format, ...)
{
    char message[1024];
    va_list ap;
    va_start(ap, format);
    text_format(message, sizeof message, format, ap);
    va_end(ap);
    if (outcome != GATE_BELOW) {
        command_warn(g->self, "%s", message);
        if (g->options->annotate == GATE_GITHUB)
            annotate(g, file, line, message);
    }
    struct gate_case *more = realloc(g->cases, (g->count + 1) * sizeof *more);
    if (more)
        g->cases = more;
    struct gate_case c = {outcome, strdup(name), strdup(message)};
    if (more && c.name && c.message) {
        g->cases[g->count++] = c;
        return;
    }
    g->failed = true;
    free(c.name);
    free(c.message);
}

/* --- JUnit --- */

/* Text that XML 1.0 allows, also between quotes. */
static void append_xml(struct buffer *b, const char *text)
{
    struct buffer plain = {0};
    text_append(&plain, text); /* UTF-8 without controls */
    for (const char *p = buffer_text(&plain); *p; p++) {
        if (*p == '&')
            buffer_append_text(b, "&amp;");
        else if (*p == '<')
            buffer_append_text(b, "&lt;");
        else if (*p == '>')
            buffer_append_text(b, "&gt;");
        else if (*p == '"')
            buffer_append_text(b, "&quot;");
        else if (!strncmp(p, "\xef\xbf\xbe", 3) || !strncmp(p, "\xef\xbf\xbf", 3))
            buffer_append_text(b, "?"), p += 2; /* U+FFFE and U+FFFF */
        else
            buffer_append_char(b, *p);
    }
    buffer_release(&plain);
}

static void append_case(struct buffer *b, const struct gate *g, const struct gate_case *c)
{
    static const char *const elements[] = {"system-out", "failure", "error"};
    buffer_printf(b, "<testcase classname=\"mallow.%s\" name=\"", g->self->name);
    append_xml(b, c->name);
    buffer_printf(b, "\"><%s%s", elements[c->outcome],
                  c->outcome == GATE_BELOW ? ">" : " message=\"");
    append_xml(b, c->message);
    buffer_append_text(b, c->outcome == GATE_BELOW ? "</system-out>" : "\"/>");
    buffer_append_text(b, "</testcase>");
}

#define JUNIT_HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
#define JUNIT_TAIL "\n</testsuite>\n</testsuites>\n"

static int write_junit(const struct gate *g, const char *subject, struct error *err)
{
    size_t of[3] = {0};
    struct output o;
    struct buffer b = {0};
    for (size_t i = 0; i < g->count; i++)
        of[g->cases[i].outcome]++;
    buffer_printf(&b, "<testsuite name=\"mallow %s ", g->self->name);
    append_xml(&b, subject);
    buffer_printf(&b, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"0\">", g->count,
                  of[GATE_ABOVE], of[GATE_UNKNOWN]);
    for (size_t i = 0; i < g->count; i++)
        append_case(&b, g, &g->cases[i]);
    int status = buffer_failed(&b) ? error_memory(err) : output_open(&o, g->options->junit, err);
    if (!status) {
        text_printf(o.file, JUNIT_HEAD "%s" JUNIT_TAIL, buffer_text(&b));
        status = output_close(&o, true, err);
    }
    buffer_release(&b);
    return status;
}

int gate_finish(struct gate *g, const char *subject)
{
    struct error err;
    int status = EXIT_DONE;
    if (g->failed) {
        error_memory(&err);
        status = command_fail(g->self, &err);
    } else if (g->options->junit && write_junit(g, subject, &err)) {
        status = command_fail(g->self, &err);
    }
    for (size_t i = 0; i < g->count; i++) {
        if (!status && g->cases[i].outcome == GATE_ABOVE)
            status = EXIT_FAILED;
    }
    for (size_t i = 0; i < g->count; i++) {
        if (!status && g->cases[i].outcome == GATE_UNKNOWN)
            status = EXIT_UNKNOWN;
        free(g->cases[i].name);
        free(g->cases[i].message);
    }
    free(g->cases);
    g->cases = NULL;
    g->count = 0;
    return status;
}
