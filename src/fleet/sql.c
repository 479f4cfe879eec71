/* sql.c - the SQL of a question is written from its template, word by word. */
#include "fleet/sql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME(member, key) #member,
static const char *const figures[STORE_FIGURES] = {STORE_FIGURE_LIST(NAME)};

static void put_sql_template(const struct sql *s, struct buffer *to, const char *text,
                             const char *argument);

/* A word whose argument is expanded. */
static void put_sql_word(const struct sql *s, struct buffer *to, const char *name,
                         const char *argument)
{
    const struct sql_word *w = s->words;
    while (w->name && strcmp(w->name, name))
        w++;
    if (!strcmp(name, "f"))
        buffer_append_text(to, s->figure);
    else if (!strcmp(name, "by"))
        buffer_append_text(to, store_column(s->q->by));
    else if (!strcmp(name, "width"))
        buffer_printf(to, "%" PRIu64, s->q->width_ns);
    else if (!strcmp(name, "top"))
        buffer_printf(to, "%" PRIu64, s->q->top);
    else if (w->name && w->put)
        w->put(s, to, argument);
    else if (w->name)
        put_sql_template(s, to, w->text, argument);
    else
        to->failed = true; /* a template that no engine could ask */
}

/* The length of "(...)" at the beginning of `text`, with all that is open inside; 0: none. */
static size_t measure_parenthesis(const char *text)
{
    size_t depth = 0, at = 0;
    if (*text != '(')
        return 0;
    do {
        depth += text[at] == '(';
        depth -= text[at] == ')';
    } while (text[++at] && depth);
    return at;
}

/* $name(given), which stands where $1 is `argument`. */
static void put_named_word(const struct sql *s, struct buffer *to, const char *name,
                           const char *given, const char *argument)
{
    struct buffer expanded = {0};
    if (!strcmp(name, "each")) {
        for (size_t i = 0; i < STORE_FIGURES; i++) {
            struct sql of = *s;
            of.figure = figures[i];
            put_sql_template(&of, to, given, argument);
        }
        return;
    }
    put_sql_template(s, &expanded, given, argument);
    put_sql_word(s, to, name, buffer_text(&expanded));
    to->failed |= buffer_failed(&expanded);
    buffer_release(&expanded);
}

/* Writes a template; argument: the value of $1, in which no words are looked for. */
static void put_sql_template(const struct sql *s, struct buffer *to, const char *text,
                             const char *argument)
{
    while (*text) {
        char name[32];
        const size_t plain = strcspn(text, "$");
        buffer_append(to, text, plain);
        text += plain;
        if (!*text)
            return;
        if (*++text == '1') {
            buffer_append_text(to, argument);
            text++;
            continue;
        }
        const size_t bytes = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
        const size_t inside = measure_parenthesis(text + bytes);
        snprintf(name, sizeof name, "%.*s", (int)bytes, text);
        char *given = inside ? strndup(text + bytes + 1, inside - 2) : strdup("");
        if (given)
            put_named_word(s, to, name, given, argument);
        to->failed |= !given;
        free(given);
        text += bytes + inside;
    }
}

void sql_put(const struct sql *s, struct buffer *to, const char *text)
{
    put_sql_template(s, to, text, "");
}

char *sql_text(const struct sql *s, const char *text)
{
    struct buffer b = {0};
    sql_put(s, &b, text);
    char *copy = buffer_failed(&b) ? NULL : strdup(buffer_text(&b));
    buffer_release(&b);
    return copy;
}
