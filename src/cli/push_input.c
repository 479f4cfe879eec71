/* push_input.c - see push_input.h. */
#include "cli/push_input.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Standard input in a file without a name, so that it can be sent a second time. */
static int spool(struct error *err)
{
    FILE *f = tmpfile();
    static char part[1 << 16];
    ssize_t n = 0;
    if (!f)
        return error_system(err, "cannot make a temporary file");
    while ((n = read(STDIN_FILENO, part, sizeof part)) > 0)
        if (fwrite(part, 1, (size_t)n, f) != (size_t)n)
            break;
    int fd = -1;
    if (n < 0)
        error_system(err, "cannot read standard input");
    else if (n > 0 || fflush(f) || (fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3)) < 0)
        error_system(err, "cannot write a temporary file");
    fclose(f);
    return fd;
}

int push_open(const char *path, struct error *err)
{
    if (!strcmp(path, "-"))
        return spool(err);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return error_system(err, "cannot open %s", path);
    if (S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return error_set(err, ERROR_USAGE,
                     S_ISDIR(st.st_mode) ? "%s is a directory; push sends one file"
                                         : "%s is no file; '-' reads standard input",
                     path);
}
