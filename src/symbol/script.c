/* script.c - Splits the names that Python and JavaScript interpreters write for their functions
 * into function, file and line. For Python it reads the source file to find the line of the
 * definition. The source may belong to any user, so only line numbers come from it. */
#include "symbol/script.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buffer.h"
#include "trust/file.h"

enum { SOURCE_BYTES_MAX = 8 << 20, SOURCES_MAX = 4096, SCOPES_MAX = 64 };

struct definition {
    const char *name; /* qualified as CPython does; from malloc */
    unsigned line;
};

struct script_source {
    const char *path; /* interned */
    struct definition *at;
    size_t count, room;
};

/* ---- where Python functions are defined ---- */

/* A def or class that the current line stands in. */
struct scope {
    size_t indent;
    bool is_class;
    size_t name, length; /* in the text */
};

struct reader {
    const char *text;
    size_t at;
    unsigned line;
    unsigned brackets; /* open: a statement goes on */
    struct scope scope[SCOPES_MAX];
    unsigned scopes;
};

/* Goes behind a string that begins at the quote; it ends at the end of the line unless it is one of
 * three quotes. */
static void skip_string(struct reader *r)
{
    const char quote = r->text[r->at];
    const bool three = r->text[r->at + 1] == quote && r->text[r->at + 2] == quote;
    r->at += three ? 3 : 1;
    for (char c; (c = r->text[r->at]); r->at++) {
        if (c == '\\' && r->text[r->at + 1]) {
            r->at++;
            r->line += r->text[r->at] == '\n';
        } else if (c == '\n') {
            if (!three)
                return;
            r->line++;
        } else if (c == quote && !three) {
            r->at++;
            return;
        } else if (c == quote && r->text[r->at + 1] == quote && r->text[r->at + 2] == quote) {
            r->at += 3;
            return;
        }
    }
}

/* Goes behind the end of the line, or, within brackets and strings, of the statement. */
static void skip_statement(struct reader *r)
{
    for (char c; (c = r->text[r->at]);) {
        if (c == '#') {
            r->at += strcspn(r->text + r->at, "\n");
        } else if (c == '"' || c == '\'') {
            skip_string(r);
        } else if (c == '\n' || (c == '\\' && r->text[r->at + 1] == '\n')) {
            r->at += c == '\\' ? 2 : 1;
            r->line++;
            if (c == '\n' && !r->brackets)
                return;
        } else {
            r->brackets += strchr("([{", c) != NULL;
            if (strchr(")]}", c) && r->brackets)
                r->brackets--;
            r->at++;
        }
    }
}

static bool keyword(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(r->text + r->at, word, n) != 0 || !strchr(" \t", r->text[r->at + n]) ||
        !r->text[r->at + n])
        return false;
    r->at += n + strspn(r->text + r->at + n, " \t");
    return true;
}

static int add_script(struct script_source *s, const struct reader *r)
{
    struct buffer name = {0};
    for (unsigned i = 0; i < r->scopes; i++) {
        const struct scope *c = &r->scope[i];
        buffer_append(&name, r->text + c->name, c->length);
        if (i + 1 < r->scopes)
            buffer_append_text(&name, c->is_class ? "." : ".<locals>.");
    }
    char *copy = buffer_failed(&name) ? NULL : strdup(buffer_text(&name));
    buffer_release(&name);
    if (!copy || !ARRAY_ROOM(s->at, s->count + 1, s->room)) {
        free(copy);
        return -1;
    }
    s->at[s->count++] = (struct definition){copy, r->line};
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct definition *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static int read_definitions(struct script_source *s, const char *text)
{
    struct reader r = {.text = text, .line = 1};
    while (text[r.at]) {
        const size_t indent = strspn(text + r.at, " \t");
        r.at += indent;
        if (text[r.at] && !strchr("#\r\n", text[r.at]))
            while (r.scopes && r.scope[r.scopes - 1].indent >= indent)
                r.scopes--;
        keyword(&r, "async");
        const bool is_class = keyword(&r, "class");
        if ((is_class || keyword(&r, "def")) && r.scopes < SCOPES_MAX) {
            size_t n = 0;
            while (isalnum((unsigned char)text[r.at + n]) || text[r.at + n] == '_' ||
                   text[r.at + n] < 0)
                n++;
            r.scope[r.scopes++] = (struct scope){indent, is_class, r.at, n};
            if (add_script(s, &r))
                return -1;
        }
        skip_statement(&r);
    }
    if (s->count)
        qsort(s->at, s->count, sizeof *s->at, by_name);
    return 0;
}

/* The definitions in a file; none when it cannot be read. A file of any user will do: only line
 * numbers are taken from it. */
static void read_source(struct script_source *s)
{
    const struct trust_rule rule = {.what = "the script",
                                    .owners = TRUST_ANYBODY,
                                    .most_bytes = SOURCE_BYTES_MAX,
                                    .follow = true};
    struct error ignored;
    size_t bytes;
    const int fd =
        s->path[0] == '/' ? trust_open(AT_FDCWD, s->path, TRUST_READ, &rule, &ignored) : -1;
    if (fd < 0)
        return;
    char *text = trust_read_whole(fd, SOURCE_BYTES_MAX, &bytes, &ignored);
    close(fd);
    if (text && read_definitions(s, text)) {
        while (s->count)
            free((void *)s->at[--s->count].name);
    }
    free(text);
}

static struct script_source *source_of(struct scripts *s, const char *path)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->sources[i].path == path)
            return &s->sources[i];
    if (s->count == SOURCES_MAX)
        return NULL;
    if (!ARRAY_ROOM(s->sources, (size_t)s->count + 1, s->room))
        return NULL;
    s->sources[s->count] = (struct script_source){.path = path};
    read_source(&s->sources[s->count]);
    return &s->sources[s->count++];
}

/* 0 when it is not known, or when several functions have the name. */
static unsigned script_line(struct scripts *s, const char *path, const char *name)
{
    const struct script_source *source = source_of(s, path);
    size_t low = 0, high = source ? source->count : 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(source->at[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (!source || low == source->count || strcmp(source->at[low].name, name) != 0 ||
        (low + 1 < source->count && !strcmp(source->at[low + 1].name, name)))
        return 0;
    return source->at[low].line;
}

/* ---- names ---- */

static const char *intern_part(struct intern *strings, const char *text, size_t length)
{
    char *copy = strndup(text, length);
    const char *kept = copy ? intern_string(strings, copy) : NULL;
    free(copy);
    return kept;
}

static bool python(struct scripts *s, struct intern *strings, const char *name,
                   struct symbol_frame *frame)
{
    const char *colon = strchr(name, ':');
    if (!colon || colon == name || !colon[1])
        return false;
    const char *function = intern_part(strings, name, (size_t)(colon - name));
    const char *file = intern_string(strings, colon + 1);
    if (!function || !file)
        return false;
    frame->function = function;
    frame->file = file;
    frame->line = script_line(s, file, function);
    frame->module = SYMBOL_PYTHON;
    return true;
}

/* Where the file begins in "name /path/file.js:10:5". */
static const char *javascript_file(const char *text)
{
    static const char *const begins[] = {" /", " node:", " file:"};
    const char *found = NULL;
    for (unsigned i = 0; i < sizeof begins / sizeof *begins; i++) {
        const char *at = strstr(text, begins[i]);
        if (at && (!found || at < found))
            found = at;
    }
    return found ? found : strrchr(text, ' ');
}

static bool javascript(struct intern *strings, const char *text, struct symbol_frame *frame)
{
    text += strspn(text, "~^*+-"); /* which compiler made it */
    const char *blank = javascript_file(text);
    if (!blank || !blank[1])
        return false;
    const char *file = blank + 1, *end = file + strlen(file);
    unsigned line = 0;
    for (unsigned numbers = 0; numbers < 2; numbers++) { /* the column, then the line */
        const char *digits = end;
        while (digits > file && isdigit((unsigned char)digits[-1]))
            digits--;
        if (digits == end || digits - 1 <= file || digits[-1] != ':')
            break;
        line = (unsigned)strtoul(digits, NULL, 10);
        end = digits - 1;
    }
    if (!strncmp(file, "file:///", 8))
        file += 7;
    const char *function = blank == text ? intern_string(strings, "(anonymous)")
                                         : intern_part(strings, text, (size_t)(blank - text));
    const char *path = intern_part(strings, file, (size_t)(end - file));
    if (!function || !path)
        return false;
    frame->function = function;
    frame->file = path;
    frame->line = line;
    frame->module = SYMBOL_JAVASCRIPT;
    return true;
}

bool script_frame(struct scripts *s, struct intern *strings, const char *name,
                  struct symbol_frame *frame)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
    if (!strncmp(name, "py::", 4))
        return python(s, strings, name + 4, frame);
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(name, kinds[i], strlen(kinds[i])))
            return javascript(strings, name + strlen(kinds[i]), frame);
    return false;
}

void scripts_free(struct scripts *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        for (size_t k = 0; k < s->sources[i].count; k++)
            free((void *)s->sources[i].at[k].name);
        free(s->sources[i].at);
    }
    free(s->sources);
    *s = (struct scripts){0};
}
