/* gather.c - see gather.h. */
#include "workload/gather.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trust/place.h"

static int append(int to, const char *path, struct error *err)
{
    bool input = !strcmp(path, "-");
    int from = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), bad = 0;
    if (from < 0)
        return error_system(err, "cannot open %s", path);
    static char block[1 << 16];
    ssize_t n = 0;
    while (!bad && (n = read(from, block, sizeof block)) > 0)
        for (ssize_t done = 0, m; !bad && done < n; done += m)
            if ((m = write(to, block + done, (size_t)(n - done))) < 0)
                bad = error_system(err, "cannot assemble the input");
    if (n < 0)
        bad = error_system(err, "cannot read %s", input ? "standard input" : path);
    if (!input)
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

int workload_gather(const char *beside, char *const *files, size_t count, struct error *err)
{
    int fd = workload_unnamed(beside, err);
    for (size_t i = 0; fd >= 0 && i < count; i++)
        if (append(fd, files[i], err)) {
            close(fd);
            fd = -1;
        }
    return fd;
}
