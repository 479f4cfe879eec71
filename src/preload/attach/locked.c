/* locked.c - work under the dynamic linker's lock.
 *
 * dlsym holds that lock while it asks an indirect function what it is; nothing else that is public
 * runs code under it at will. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "preload/sys.h"
#include "redirect.h"

/* For the thread: one whose injector was killed may be late. */
static TLS struct mlw_attach *asked;
static TLS void (*to_do)(struct mlw_attach *);
static void *handle; /* the handle of this library */

static void done(void) {}

static __attribute__((used)) void (*under_lock(void))(void)
{
    to_do(asked);
    return done;
}

EXPORT void mallow_attach_locked(void) __attribute__((ifunc("under_lock")));

static int visit_own(struct dl_phdr_info *info, size_t size, void *path)
{
    const uint64_t here = (uint64_t)&handle;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            here - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            *(const char **)path = info->dlpi_name;
    return 0;
}

static void *own_handle(void)
{
    const char *path = 0;
    dl_iterate_phdr(visit_own, &path);
    return path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : 0;
}

void locked_do(void (*work)(struct mlw_attach *), struct mlw_attach *request)
{
    const int saved = errno; /* the injector puts it back, if it lives */
    request->result = MLW_ATTACH_NOT_RUN;
    asked = request;
    to_do = work;
    if (!handle)
        handle = own_handle();
    if (handle)
        (void)dlsym(handle, "mallow_attach_locked");
    errno = saved;
}

/* The kernel remembers of one call only how to go on with it after a stop, and that is the call
 * that the thread was borrowed in: of all that wait, this one changes nothing of it. */
void locked_wait(unsigned ms)
{
    const uint64_t no_signal = 0;
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    if (!sys_closed)
        sys_rt_sigtimedwait(&no_signal, 0, &time);
}

/* True if the injector lives: the kernel ends its tracing with it. A thread that was put back in
 * the middle would leave the file open. */
static bool injector_lives(volatile uint32_t *done)
{
    static const char field[] = "\nTracerPid:\t";
    char status[1024];
    __atomic_store_n(done, MLW_ATTACH_LOOKS, __ATOMIC_SEQ_CST);
    const int fd =
        sys_closed ? -1
                   : (int)sys_openat(AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);
    const long n = fd < 0 ? 0 : sys_read(fd, status, sizeof status - 1);
    if (fd >= 0)
        sys_close(fd);
    __atomic_store_n(done, MLW_ATTACH_STAYS, __ATOMIC_SEQ_CST);
    status[n > 0 ? n : 0] = 0;
    const char *at = strstr(status, field);
    return at && at[sizeof field - 1] != '0';
}

extern volatile struct mlw_attach_answer mallow_attach_answer;
EXPORT volatile struct mlw_attach_answer mallow_attach_answer;

int64_t locked_answer(const struct mlw_attach *request)
{
    volatile struct mlw_attach_answer *to = &mallow_attach_answer;
    const int64_t result = request->result;
    to->result = request->result;
    to->slots = request->slots;
    to->busy = request->busy;
    to->done = MLW_ATTACH_STAYS;
    __atomic_store_n(&to->token, request->token, __ATOMIC_RELEASE);
    if (request->stay_ms) {
        enum { LOOK_MS = 10 };
        for (unsigned ms = 0; ms < request->stay_ms && injector_lives(&to->done); ms += LOOK_MS)
            locked_wait(LOOK_MS);
        __atomic_store_n(&to->done, MLW_ATTACH_LEAVES, __ATOMIC_RELEASE);
    }
    return result;
}
