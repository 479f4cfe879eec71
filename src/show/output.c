/* output.c - Opens output files so that a regular file appears whole under its name or not at
 * all. Pipes, devices and descriptors are written directly. The errors name the path that the
 * user gave. */
#include "show/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *output_named(const char *path)
{
    return path && strcmp(path, "-") && strcmp(path, "/dev/stdout") ? path : NULL;
}

int output_must_be_regular(const char *path, const char *what, struct error *err)
{
    struct stat st;
    if (!output_named(path))
        return error_set(err, ERROR_USAGE, "-o %s is standard output; %s must be a regular file",
                         path, what);
    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return error_set(err, ERROR_USAGE, "%s is not a regular file, which %s must be", path,
                         what);
    return 0;
}

int output_open(struct output *o, const char *path, struct error *err)
{
    *o = (struct output){.path = path};
    if (trust_whole_open(&o->whole, path, err))
        return trust_unreachable(err, "cannot write", path);
    if ((o->file = trust_whole_stream(&o->whole)))
        return 0;
    error_system(err, "cannot write %s", path);
    (void)trust_whole_close(&o->whole, false, err);
    return -1;
}

int output_close(struct output *o, bool keep, struct error *err)
{
    int failed = ferror(o->file);
    failed |= fclose(o->file);
    int status = keep && failed ? error_system(err, "cannot write all of %s", o->path) : 0;
    return trust_whole_close(&o->whole, keep && !status, err) ? -1 : status;
}

FILE *output_stream(const char *path, bool append, struct error *err)
{
    FILE *file;
    int fd;
    const bool direct = trust_direct(path, &fd, err);
    if (!direct)
        fd = trust_output_at(path, "cannot write", 0666, err);
    if (fd < 0)
        return NULL;
    if ((direct || append || !ftruncate(fd, 0)) && (file = fdopen(fd, direct ? "w" : "a")))
        return file;
    error_system(err, "cannot write %s", path);
    close(fd);
    return NULL;
}

bool output_is(const char *path, const char *other)
{
    struct stat x, y;
    return !stat(path, &x) && !stat(other, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
