/* push_input.c - see push_input.h. */
#include "cli/push_input.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write.h"
#include "trust/place.h"

/* Standard input in a file without a name, so that it can be sent a second time. */
static int spool(struct error *err)
{
    const int fd = trust_unnamed(err);
    static char part[1 << 16];
    ssize_t n = 0;
    int status = fd < 0 ? -1 : 0;
    while (!status && (n = read(STDIN_FILENO, part, sizeof part)) > 0)
        if (write_all(fd, part, (size_t)n))
            status = error_system(err, "cannot write a temporary file");
    if (n < 0)
        status = error_system(err, "cannot read standard input");
    if (!status)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int push_open(const char *path, struct error *err)
{
    if (!strcmp(path, "-"))
        return spool(err);
    const int fd = trust_open_any(path, err);
    struct stat st;
    if (fd >= 0 || err->kind != ERROR_USAGE) /* the latter: it is no regular file */
        return fd;
    return error_set(err, ERROR_USAGE,
                     !stat(path, &st) && S_ISDIR(st.st_mode)
                         ? "%s is a directory; push sends one file"
                         : "%s is no file; '-' reads standard input",
                     path);
}
