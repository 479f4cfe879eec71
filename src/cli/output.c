#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *output_named(const char *path) { return path && strcmp(path, "-") ? path : NULL; }

int output_must_be_regular(const char *path, const char *what, struct error *err)
{
    struct stat st;
    if (!strcmp(path, "-"))
        return error_set(err, ERROR_USAGE,
                         "-o - is standard output, no regular file, which %s must be", what);
    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return error_set(err, ERROR_USAGE, "%s is no regular file, which %s must be", path, what);
    return 0;
}

int output_open(struct output *o, const char *path, struct error *err)
{
    struct stat st;
    *o = (struct output){.path = path};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        o->file = fopen(path, "we");
        return o->file ? 0 : error_system(err, "cannot write %s", path);
    }
    int n = snprintf(o->temporary, sizeof o->temporary, "%s.XXXXXX", path);
    int fd = -1;
    if (n < 0 || (size_t)n >= sizeof o->temporary)
        errno = ENAMETOOLONG;
    else
        fd = mkostemp(o->temporary, O_CLOEXEC);
    mode_t mask = umask(0);
    umask(mask);
    if (fd >= 0 && fchmod(fd, 0666 & ~mask) == 0)
        o->file = fdopen(fd, "w");
    if (o->file)
        return 0;
    int status = error_system(err, "cannot write %s", path);
    if (fd >= 0) {
        close(fd);
        unlink(o->temporary);
    }
    return status;
}

int output_close(struct output *o, bool keep, struct error *err)
{
    int failed = ferror(o->file);
    failed |= fclose(o->file);
    int status = 0;
    if (keep && failed)
        status = error_system(err, "cannot write all of %s", o->path);
    else if (keep && o->temporary[0] && rename(o->temporary, o->path))
        status = error_system(err, "cannot write %s", o->path);
    if (o->temporary[0] && (!keep || status))
        unlink(o->temporary);
    return status;
}

bool output_is(const char *path, const char *other)
{
    struct stat x, y;
    return !stat(path, &x) && !stat(other, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
