/* write.c - Writes all bytes to a descriptor. It continues after a partial write and after an
 * interrupt, and reports a write of no bytes as EIO. */
#include "base/write.h"

#include <errno.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            errno = EIO;
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}
