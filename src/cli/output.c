#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *output_named(const char *path)
{
    return path && strcmp(path, "-") && strcmp(path, "/dev/stdout") ? path : NULL;
}

/* A stream of its own for the descriptor. */
static FILE *stream_of(int descriptor)
{
    int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

int output_must_be_regular(const char *path, const char *what, struct error *err)
{
    struct stat st;
    if (!output_named(path))
        return error_set(err, ERROR_USAGE,
                         "-o %s is standard output, no regular file, which %s must be", path, what);
    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return error_set(err, ERROR_USAGE, "%s is no regular file, which %s must be", path, what);
    return 0;
}

/* A pipe, a device or a terminal is opened as it is, and not truncated: by now another file may be
 * there. */
static FILE *open_directly(const char *path, struct error *err)
{
    struct stat st;
    FILE *file = NULL;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && !S_ISREG(st.st_mode) && (file = fdopen(fd, "w")))
        return file;
    error_system(err, "cannot write %s", path);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* A path that leads to no new file. *stream: NULL with *err when it cannot be opened. */
static bool is_there(const char *path, FILE **stream, struct error *err)
{
    struct stat st;
    int descriptor = trust_descriptor(path);
    if (descriptor >= 0) {
        if (!(*stream = stream_of(descriptor)))
            error_system(err, "cannot write %s", path);
        return true;
    }
    if (stat(path, &st) || S_ISREG(st.st_mode))
        return false;
    *stream = open_directly(path, err);
    return true;
}

int output_open(struct output *o, const char *path, struct error *err)
{
    *o = (struct output){.path = path, .whole = {.place.dir = -1, .draft.fd = -1}};
    if (is_there(path, &o->file, err))
        return o->file ? 0 : -1;
    if (trust_whole_open(&o->whole, path, err))
        return trust_unreachable(err, "cannot write", path);
    if ((o->file = stream_of(o->whole.draft.fd)))
        return 0;
    struct error ignored;
    error_system(err, "cannot write %s", path);
    (void)trust_whole_close(&o->whole, false, &ignored);
    return -1;
}

int output_close(struct output *o, bool keep, struct error *err)
{
    int failed = ferror(o->file);
    failed |= fclose(o->file);
    int status = keep && failed ? error_system(err, "cannot write all of %s", o->path) : 0;
    if (o->whole.draft.fd < 0)
        return status;
    struct error ignored;
    return trust_whole_close(&o->whole, keep && !status, status ? &ignored : err) || status ? -1
                                                                                            : 0;
}

FILE *output_stream(const char *path, bool append, struct error *err)
{
    struct trust_place place;
    FILE *file = NULL;
    if (is_there(path, &file, err))
        return file;
    if (trust_place_open(&place, path, err)) {
        trust_unreachable(err, "cannot write", path);
        return NULL;
    }
    int fd = trust_output(&place, 0666, err);
    trust_place_close(&place);
    if (fd < 0)
        return NULL;
    if ((append || !ftruncate(fd, 0)) && (file = fdopen(fd, "a")))
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
