/* ending.c - the end of a process without destructors: _exit, _Exit, quick_exit.
 *
 * What the library has still to do is done first; then the process ends as it was asked to. */
#include <sys/syscall.h>

#include "preload/guest.h"
#include "preload/sys.h"

INTERPOSED(void, _exit, int status)
{
    guest_ending(status, false);
    for (;;)
        sys_decided(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

INTERPOSED(void, _Exit, int status) { entry__exit(status); }

INTERPOSED(void, quick_exit, int status)
{
    void (*real)(int) = (void (*)(int))(uintptr_t)next_symbol("quick_exit");
    guest_ending(status, true);
    real(status);
    __builtin_unreachable();
}
