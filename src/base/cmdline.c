/* cmdline.c - Formats the name and the command line of a process. A program may overwrite its
 * arguments with a title (setproctitle), so one argument with only empty ones after it is read
 * as a title. */
#include "base/cmdline.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"

/* More empty arguments than that at the end are what a program wrote zeros over. */
enum { EMPTY_MOST = 2 };

bool cmdline_is_title(const char *exe, const char *const *command)
{
    if (!command || !command[0] || (exe && !strcmp(command[0], exe)))
        return false;
    size_t n = 1;
    while (command[n] && !*command[n])
        n++;
    /* The rest of a longer text is zeros, which read as empty arguments. */
    return !command[n] && *command[0] && (strchr(command[0], ' ') || n > 2);
}

const char *cmdline_name(const char *exe, const char *const *command)
{
    const bool called = command && command[0] && *command[0];
    if (called && !cmdline_is_title(exe, command))
        return path_base_name(command[0]);
    if (exe && *exe)
        return path_base_name(exe);
    return called ? command[0] : "?";
}

bool cmdline_is_same(const char *const *now, const char *const *command)
{
    for (; *now && *command; now++, command++)
        if (strcmp(*now, *command) != 0)
            return !now[1] && !strncmp(*now, *command, strlen(*now)); /* the last may be cut */
    return !*now;
}

/* Where the text begins without the directory of its program. */
static const char *brief_title(const char *exe, const char *title)
{
    const size_t own = exe ? strlen(exe) : 0;
    size_t end = own && !strncmp(title, exe, own) && title[own] == ' ' ? own : strcspn(title, " ");
    size_t from = end;
    while (from && title[from - 1] != '/')
        from--;
    return from < end ? title + from : title;
}

void cmdline_append(struct buffer *b, const char *exe, const char *const *command, bool brief)
{
    if (cmdline_is_title(exe, command)) {
        buffer_append_text(b, brief ? brief_title(exe, command[0]) : command[0]);
        return;
    }
    size_t n = 0, last = 0; /* arguments, and those up to the last that is not empty */
    for (; command && command[n]; n++)
        if (*command[n])
            last = n + 1;
    if (last && n - last > EMPTY_MOST)
        n = last;
    for (size_t i = 0; i < n; i++) {
        if (i)
            buffer_append_char(b, ' ');
        const char *text = brief && !i ? path_base_name(command[0]) : command[i];
        buffer_append_text(b, *text ? text : "''");
    }
}

static bool comm_is_of_path(const char *comm, const char *path)
{
    return path && !strncmp(comm, path_base_name(path), CMDLINE_COMM_BYTES - 1);
}

bool cmdline_is_renamed(const char *comm, const char *exe, const char *const *command)
{
    return comm && *comm && !comm_is_of_path(comm, exe) &&
           !comm_is_of_path(comm, command ? command[0] : NULL) &&
           !comm_is_of_path(comm, command && command[0] ? command[1] : NULL);
}

void cmdline_append_comm(struct buffer *b, const char *exe, const char *const *command,
                         const char *const *title, const char *comm)
{
    if (!cmdline_is_renamed(comm, exe, command) || !cmdline_is_renamed(comm, exe, title))
        return;
    buffer_append_text(b, " (");
    buffer_append_text(b, comm);
    buffer_append_char(b, ')');
}

void cmdline_append_now(struct buffer *b, const char *exe, const char *const *command,
                        const char *const *title, const char *comm, bool brief)
{
    const char *const *now = title && title[0] ? title : command;
    cmdline_append(b, exe, now, brief);
    cmdline_append_comm(b, exe, command, now, comm);
}

const char **cmdline_split(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t at = 0; at < bytes; at += strnlen(text + at, bytes - at) + 1)
        count++;
    const size_t list_bytes = (count + 1) * sizeof(char *);
    const char **list = malloc(list_bytes + bytes + 1);
    if (!list)
        return NULL;
    char *copy = (char *)list + list_bytes;
    if (bytes)
        memcpy(copy, text, bytes);
    copy[bytes] = 0;
    size_t i = 0;
    for (size_t at = 0; at < bytes; at += strlen(copy + at) + 1)
        list[i++] = copy + at;
    list[i] = NULL;
    return list;
}
