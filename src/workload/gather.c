/* gather.c - Copies several input files, or standard input, into one unnamed file. It reads no
 * further than the size it saw at first, because the owner may still append. */
#include "workload/gather.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write.h"
#include "trust/place.h"

static char block[1 << 16];

static int append_block(int to, size_t bytes, struct error *err)
{
    return write_all(to, block, bytes) ? error_system(err, "cannot assemble the input") : 0;
}

static int append_input(int to, struct error *err)
{
    ssize_t n;
    int bad = 0;
    while (!bad && (n = read(STDIN_FILENO, block, sizeof block)) > 0)
        bad = append_block(to, (size_t)n, err);
    return bad || !n ? bad : error_system(err, "cannot read standard input");
}

static int append_file(int to, const char *path, struct error *err)
{
    const int from = trust_open_any(path, err);
    struct stat st;
    if (from < 0)
        return -1;
    int bad = 0;
    if (fstat(from, &st))
        bad = error_system(err, "cannot look at %s", path);
    else if (!trust_may_map(from) && (uint64_t)st.st_size > TRUST_COPY_BYTES_MAX)
        bad = error_set(err, ERROR_UNSUPPORTED,
                        "%s is of another user and larger than the %llu MiB that are copied", path,
                        (unsigned long long)(TRUST_COPY_BYTES_MAX >> 20));
    /* Not further than the size that was seen: its owner may go on appending. */
    size_t n = 1;
    for (off_t at = 0; !bad && n && at < st.st_size; at += (off_t)n) {
        const off_t left = st.st_size - at;
        n = trust_read(from, block, left < (off_t)sizeof block ? (size_t)left : sizeof block,
                       (uint64_t)at);
        bad = append_block(to, n, err);
    }
    if (!bad && !n)
        bad = error_set(err, ERROR_FORMAT, "%s cannot be read, or became shorter", path);
    close(from);
    return bad;
}

int workload_unnamed(const char *beside, struct error *err)
{
    struct trust_place place;
    if (trust_place_open(&place, beside, err))
        return trust_unreachable(err, "cannot create", beside);
    int fd = trust_unnamed_beside(&place, err);
    trust_place_close(&place);
    return fd;
}

int workload_unnamed_inherited(struct error *err)
{
    const int fd = trust_unnamed(err);
    if (fd < 0 || !fcntl(fd, F_SETFD, 0))
        return fd;
    close(fd);
    return error_system(err, "cannot create a temporary file");
}

int workload_gather(const char *beside, char *const *files, size_t count, struct error *err)
{
    int fd = workload_unnamed(beside, err);
    for (size_t i = 0; fd >= 0 && i < count; i++)
        if (strcmp(files[i], "-") ? append_file(fd, files[i], err) : append_input(fd, err)) {
            close(fd);
            fd = -1;
        }
    return fd;
}
