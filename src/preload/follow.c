/* follow.c - calls that change what we may rely on: fork, exec, the end of the process, dlclose.
 *
 * Each does what it is asked, by the function behind us. exec with an environment that was cleared
 * or rewritten gets our variables back, so that the chain is followed; nothing else in it is
 * touched. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder.h"

#define FIND(f) ((__typeof__(&f))(uintptr_t)next_symbol(#f))

static bool recording(void)
{
    if (!wiped.control)
        process_wake();
    return wiped.control && !recorder.off && recorder.process;
}

/* ---- fork ---- */

EXPORT pid_t fork(void);
pid_t fork(void)
{
    static __typeof__(&fork) real;
    if (!real)
        real = FIND(fork);
    if (recording())
        process_fork_clock = clock_now(recorder.clock_kind);
    pid_t pid = real ? real() : (pid_t)syscall(SYS_fork);
    if (!pid && !wiped.control) {
        int saved = errno;
        process_wake();
        errno = saved;
    }
    process_fork_clock = 0;
    return pid;
}

/* ---- exec ---- */

static const char *const carried[] = {"LD_PRELOAD=",    MLW_ENV_SESSION "=", MLW_ENV_OUTPUT "=",
                                      "MALLOW_STACKS=", "MALLOW_PAUSED=",    "MALLOW_ENVIRONMENT="};
#define CARRIED (sizeof carried / sizeof carried[0])
static char *kept[CARRIED]; /* as they were when we came */

static __attribute__((constructor(102))) void keep_environment(void)
{
    static char storage[8192];
    extern char **environ;
    size_t used = 0;
    for (unsigned i = 0; i < CARRIED; i++) {
        size_t n = strlen(carried[i]);
        for (char **e = environ; e && *e; e++) {
            size_t m = strlen(*e) + 1;
            if (strncmp(*e, carried[i], n) || m > sizeof storage - used)
                continue;
            kept[i] = memcpy(storage + used, *e, m);
            used += m;
            break;
        }
    }
}

/* How many of ours are missing in env; LD_PRELOAD counts when it does not name what it did. */
static unsigned missing(char *const *env, bool lacks[CARRIED])
{
    unsigned count = 0;
    for (unsigned i = 0; i < CARRIED; i++) {
        lacks[i] = false;
        if (!kept[i])
            continue;
        size_t n = strlen(carried[i]);
        bool there = false;
        for (char *const *e = env; e && *e; e++)
            if (!strncmp(*e, carried[i], n) && (i > 0 || strstr(*e, "libmallow-record")))
                there = true;
        lacks[i] = !there;
        count += !there;
    }
    return count;
}

/* env with ours put back: in `room` entries at `to`, which has space for all. */
static char *const *complete(char *const *env, char **to, const bool lacks[CARRIED])
{
    unsigned n = 0;
    for (char *const *e = env; e && *e; e++)
        if (!(lacks[0] && !strncmp(*e, "LD_PRELOAD=", 11)))
            to[n++] = *e;
    for (unsigned i = 0; i < CARRIED; i++)
        if (lacks[i])
            to[n++] = kept[i];
    to[n] = 0;
    return to;
}

static size_t length(char *const *env)
{
    size_t n = 0;
    while (env && env[n])
        n++;
    return n;
}

/* A program that replaced LD_PRELOAD by another list keeps what it asked for: then it is not
 * followed. */
static bool asks_otherwise(char *const *env)
{
    for (char *const *e = env; e && *e; e++)
        if (!strncmp(*e, "LD_PRELOAD=", 11) && (*e)[11])
            return true;
    return false;
}

#define WITH_ENVIRONMENT(env)                                                                      \
    bool lacks[CARRIED];                                                                           \
    size_t env_entries = length(env);                                                              \
    bool put = recording() && !(recorder.session->options & MLW_OPT_NO_FOLLOW) && kept[0] &&       \
               env_entries < 16384 && missing(env, lacks) && !(lacks[0] && asks_otherwise(env));   \
    char *copy[put ? env_entries + CARRIED + 1 : 1];                                               \
    if (put)                                                                                       \
    env = (char **)(uintptr_t)complete(env, copy, lacks)

#pragma GCC diagnostic ignored "-Wvla"

EXPORT int execve(const char *path, char *const argv[], char *const env[]);
int execve(const char *path, char *const argv[], char *const env[])
{
    __typeof__(&execve) real = FIND(execve);
    WITH_ENVIRONMENT(env);
    process_ending(MLW_END_EXEC, 0);
    int r = real(path, argv, env);
    process_not_ending();
    return r;
}

EXPORT int execv(const char *path, char *const argv[]);
int execv(const char *path, char *const argv[])
{
    extern char **environ;
    return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const env[]);
int execvpe(const char *file, char *const argv[], char *const env[])
{
    __typeof__(&execvpe) real = FIND(execvpe);
    WITH_ENVIRONMENT(env);
    process_ending(MLW_END_EXEC, 0);
    int r = real(file, argv, env);
    process_not_ending();
    return r;
}

EXPORT int execvp(const char *file, char *const argv[]);
int execvp(const char *file, char *const argv[])
{
    extern char **environ;
    return execvpe(file, argv, environ);
}

EXPORT int fexecve(int fd, char *const argv[], char *const env[]);
int fexecve(int fd, char *const argv[], char *const env[])
{
    __typeof__(&fexecve) real = FIND(fexecve);
    WITH_ENVIRONMENT(env);
    process_ending(MLW_END_EXEC, 0);
    int r = real(fd, argv, env);
    process_not_ending();
    return r;
}

/* execl and its kin: the list becomes an array and takes the road above. */
#define COLLECT(argv, first)                                                                       \
    va_list ap;                                                                                    \
    size_t argc = 1;                                                                               \
    va_start(ap, first);                                                                           \
    while (va_arg(ap, char *))                                                                     \
        argc++;                                                                                    \
    va_end(ap);                                                                                    \
    char *argv[argc + 1];                                                                          \
    va_start(ap, first);                                                                           \
    argv[0] = (char *)(uintptr_t)first;                                                            \
    for (size_t i = 1; i <= argc; i++)                                                             \
    argv[i] = va_arg(ap, char *)

EXPORT int execl(const char *path, const char *first, ...);
int execl(const char *path, const char *first, ...)
{
    COLLECT(argv, first);
    va_end(ap);
    return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *first, ...);
int execlp(const char *file, const char *first, ...)
{
    COLLECT(argv, first);
    va_end(ap);
    return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *first, ...);
int execle(const char *path, const char *first, ...)
{
    COLLECT(argv, first);
    char *const *env = va_arg(ap, char *const *);
    va_end(ap);
    return execve(path, argv, env);
}

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
                           const posix_spawnattr_t *, char *const[], char *const[]);

EXPORT spawn_function posix_spawn, posix_spawnp;

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    spawn_function *real = FIND(posix_spawn);
    WITH_ENVIRONMENT(env);
    return real(pid, path, actions, attributes, argv, env);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    spawn_function *real = FIND(posix_spawnp);
    WITH_ENVIRONMENT(env);
    return real(pid, file, actions, attributes, argv, env);
}

/* ---- the end without destructors ---- */

EXPORT void _exit(int status) __attribute__((noreturn));
void _exit(int status)
{
    process_ending(MLW_END_EXIT, (uint32_t)status & 255);
    for (;;)
        sys_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

EXPORT void _Exit(int status) __attribute__((noreturn, alias("_exit")));

EXPORT void quick_exit(int status) __attribute__((noreturn));
void quick_exit(int status)
{
    void (*real)(int) = (void (*)(int))(uintptr_t)next_symbol("quick_exit");
    if (recording()) {
        recorder.ending = recorder.lone; /* its handlers may allocate: their rows leave at once */
        process_ending(MLW_END_EXIT, (uint32_t)status & 255);
    }
    real(status);
    __builtin_unreachable();
}

/* ---- code and stacks that vanish ---- */

static void unmapped(uint64_t start, uint64_t end, uint64_t sp)
{
    if (recorder.stack_mode != MLW_STACKS_FULL)
        return;
    struct thread *t = thread_self;
    if (!t || t->busy) {
        t = thread_enter_slow(sp);
        if (!t)
            return;
    }
    t->busy = sp;
    barrier();
    unwind_unmapped(start, end, t);
    thread_leave(t);
}

void follow_unmapped(uint64_t start, uint64_t end, uint64_t sp)
{
    if (wiped.control && !recorder.off && recorder.process)
        unmapped(start, end, sp);
}

EXPORT int dlclose(void *handle);
int dlclose(void *handle)
{
    static __typeof__(&dlclose) real;
    if (!real)
        real = FIND(dlclose);
    int r = real(handle);
    if (recording())
        unmapped(0, 0, (uint64_t)__builtin_frame_address(0));
    return r;
}
