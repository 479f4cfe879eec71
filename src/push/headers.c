/* headers.c - see headers.h. */
#include "push/headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "push/push.h"

static int list_add(struct push_headers *list, const char *text, size_t length, struct error *err)
{
    char **more = reallocarray(list->text, list->count + 1, sizeof *more);
    char *copy = more ? strndup(text, length) : NULL;
    if (more)
        list->text = more;
    if (!copy)
        return error_memory(err);
    list->text[list->count++] = copy;
    const char *fault = push_header_fault(copy);
    /* The value may be a secret: it is not repeated. */
    if (fault)
        return error_set(err, ERROR_USAGE, "--header '%.*s...' is not 'NAME: VALUE': %s",
                         (int)strcspn(copy, ":"), strchr(copy, ':') ? copy : "", fault);
    return 0;
}

static int list_read(struct push_headers *list, const char *path, struct error *err)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int status = 0;
    if (!f)
        return error_system(err, "cannot open %s", path);
    while (!status && (n = getline(&line, &room, f)) > 0) {
        const size_t length = strcspn(line, "\r\n");
        if (length)
            status = list_add(list, line, length, err);
    }
    if (!status && ferror(f))
        status = error_system(err, "cannot read %s", path);
    free(line);
    fclose(f);
    return status;
}

int push_headers_collect(struct push_headers *list, const char *const *given, size_t count,
                         struct error *err)
{
    for (size_t i = 0; i < count; i++)
        if (*given[i] == '@' ? list_read(list, given[i] + 1, err)
                             : list_add(list, given[i], strlen(given[i]), err))
            return -1;
    return 0;
}

void push_headers_release(struct push_headers *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
    free(list->text);
}
