/* headers.c - Collects request headers from options and files, and checks that each is NAME:
 * VALUE. Error texts repeat the name only, because the value may be a secret. */
#include "push/headers.h"

#include <stdlib.h>
#include <string.h>

#include "push/push.h"
#include "trust/file.h"

enum { FILE_BYTES_MAX = 1 << 20 };

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
    size_t bytes;
    char *text = trust_read_any(path, FILE_BYTES_MAX, &bytes, err);
    if (!text)
        return -1;
    int status = 0;
    for (char *line = text, *end; !status && line; line = end ? end + 1 : NULL) {
        end = memchr(line, '\n', (size_t)(text + bytes - line));
        if (end)
            *end = 0;
        const size_t length = strcspn(line, "\r");
        if (length)
            status = list_add(list, line, length, err);
    }
    free(text);
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
