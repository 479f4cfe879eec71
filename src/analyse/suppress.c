/* suppress.c - Reads and appends suppression files, and matches their patterns against names.
 * Matching takes time bounded by the product of the two lengths. */
#include "analyse/suppress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "trust/place.h"

enum { SUPPRESSIONS_BYTES_MAX = 64 << 20 };

static int add_suppression(struct suppressions *s, const char *pattern, bool whole_stack,
                           unsigned line)
{
    struct suppression *items = realloc(s->items, (s->count + 1) * sizeof *items);
    char *copy = strdup(pattern);
    if (items)
        s->items = items;
    if (!items || !copy) {
        free(copy);
        return -1;
    }
    s->items[s->count++] =
        (struct suppression){.pattern = copy, .whole_stack = whole_stack, .line = line};
    return 0;
}

int suppressions_read(struct suppressions *s, const char *path, struct error *err)
{
    memset(s, 0, sizeof *s);
    size_t left = 0;
    char *const all = trust_read_any(path, SUPPRESSIONS_BYTES_MAX, &left, err), *text = all, *next;
    unsigned line = 0;
    int status = all ? 0 : -1;
    for (; !status && left; left -= (size_t)(next - text), text = next) {
        char *const end = memchr(text, '\n', left);
        size_t n = end ? (size_t)(end - text) : left;
        next = text + n + (end != NULL);
        line++;
        if (memchr(text, 0, n)) {
            status = error_set(err, ERROR_FORMAT, "%s:%u: a NUL byte; not a text file", path, line);
            break;
        }
        text[n] = 0; /* there is one behind the whole, too */
        while (n && strchr(" \t\r", text[n - 1]))
            text[--n] = 0;
        const char *p = text + strspn(text, " \t");
        if (!*p || *p == '#')
            continue;
        bool whole_stack = !strncmp(p, "stack:", 6);
        const char *pattern = p + (whole_stack ? 6 : 5);
        if (!whole_stack && strncmp(p, "leak:", 5))
            status = error_set(err, ERROR_FORMAT,
                               "%s:%u: '%.60s' is not a suppression; lines are leak:PATTERN or "
                               "stack:FUNCTION;FUNCTION;...",
                               path, line, p);
        else if (!*pattern)
            status = error_set(err, ERROR_FORMAT, "%s:%u: no pattern behind %.*s", path, line,
                               (int)(pattern - p), p);
        else if (add_suppression(s, pattern, whole_stack, line))
            status = error_memory(err);
    }
    free(all);
    if (status)
        suppressions_release(s);
    return status;
}

int suppressions_append(const char *path, const char *comment, const char *stack, struct error *err)
{
    const int fd = trust_output_at(path, "cannot write to", 0666, err);
    if (fd < 0)
        return -1;
    FILE *f = fdopen(fd, "a");
    if (!f) {
        error_system(err, "cannot write to %s", path);
        close(fd);
        return -1;
    }
    text_printf(f, "# %s\nstack:%s\n", comment, stack);
    bool bad = ferror(f);
    if (fclose(f) || bad)
        return error_system(err, "cannot write to %s", path);
    return 0;
}

void suppressions_release(struct suppressions *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i].pattern);
    free(s->items);
    memset(s, 0, sizeof *s);
}

/* Matches from here on; `*` by going back to the last one, so that time is bounded by the product
 * of the lengths. */
bool suppression_matches(const char *pattern, const char *name)
{
    if (!name || !*name)
        return false;
    bool from_start = *pattern == '^';
    if (from_start)
        pattern++;
    size_t n = strlen(pattern);
    bool to_end = n && pattern[n - 1] == '$';
    const char *const end = pattern + n - to_end;
    const char *star = from_start ? NULL : pattern; /* pattern behind the last * */
    const char *resume = name;                      /* where that * tries next */
    const char *p = pattern, *s = name;
    for (;;) {
        if (p < end && *p == '*') {
            star = ++p;
            resume = s;
        } else if (p == end && (!to_end || !*s)) {
            return true;
        } else if (p < end && *s && *p == *s) {
            p++;
            s++;
        } else if (star && *resume) {
            s = ++resume;
            p = star;
        } else {
            return false;
        }
    }
}

size_t suppressions_unused(const struct suppressions *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->items[i].blocks == 0;
    return n;
}
