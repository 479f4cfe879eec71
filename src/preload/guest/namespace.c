/* namespace.c - the pid namespace of this process. See guest.h. */
#include <fcntl.h>

#include "preload/guest.h"
#include "preload/sys.h"

uint64_t guest_pid_namespace(void)
{
    char text[64];
    uint64_t v = 0;
    long n = sys_readlinkat(AT_FDCWD, "/proc/self/ns/pid", text, sizeof text);
    for (long i = 0; i < n; i++) /* pid:[4026531836] */
        if (text[i] >= '0' && text[i] <= '9')
            v = v * 10 + (uint64_t)(text[i] - '0');
    return v;
}
