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

/* A pipe, a device or a terminal is opened as it is, and not truncated: by now another file may be
 * there. */
static int open_directly(struct output *o, const char *path, struct error *err)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && !fstat(fd, &st) && !S_ISREG(st.st_mode) && (o->file = fdopen(fd, "w")))
        return 0;
    error_system(err, "cannot write %s", path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The draft in a stream of its own: the descriptor is needed to give it its name. */
static FILE *stream_of(const struct trust_draft *d)
{
    int fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static void release(struct output *o)
{
    if (o->draft.fd >= 0)
        trust_draft_drop(&o->draft, &o->place);
    trust_place_close(&o->place);
}

int output_open(struct output *o, const char *path, struct error *err)
{
    struct stat st;
    *o = (struct output){.path = path, .place.dir = -1, .draft.fd = -1};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return open_directly(o, path, err);
    if (trust_place_open(&o->place, path, err)) {
        errno = err->number;
        return errno == ELOOP ? -1 : error_system(err, "cannot write %s", path);
    }
    if (trust_draft_open(&o->draft, &o->place, ".writing-", err))
        errno = err->number;
    else if ((o->file = stream_of(&o->draft)))
        return 0;
    error_system(err, "cannot write %s", path);
    release(o);
    return -1;
}

int output_close(struct output *o, bool keep, struct error *err)
{
    int failed = ferror(o->file);
    failed |= fclose(o->file);
    int status = 0;
    mode_t mask = umask(0);
    umask(mask);
    if (keep && failed)
        status = error_system(err, "cannot write all of %s", o->path);
    else if (keep && o->draft.fd >= 0)
        status = trust_draft_publish(&o->draft, &o->place, 0666 & ~mask, err);
    release(o);
    return status;
}

bool output_is(const char *path, const char *other)
{
    struct stat x, y;
    return !stat(path, &x) && !stat(other, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
