/* exec.c - the program becomes another one, or starts one; what its environment says.
 *
 * Each call is forwarded to the real function. exec with an environment that was cleared or
 * rewritten gets our variables back, so that the chain is followed; nothing else in it is
 * touched. */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "preload/guest.h"
#include "preload/sys.h"

#define FIND(f) ((__typeof__(&f))(uintptr_t)next_symbol(#f))

static char *kept[GUEST_CARRIED_MAX]; /* as they were when we came */
static char *given;                   /* LD_PRELOAD=... as the kernel put it on the stack */
static size_t given_bytes;

static __attribute__((constructor(102))) void keep_environment(void)
{
    static char storage[8192];
    extern char **environ;
    size_t used = 0;
    unsigned count;
    const char *const *carried = guest_carried(&count);
    for (unsigned i = 0; i < count; i++) {
        size_t n = strlen(carried[i]);
        for (char **e = environ; e && *e; e++) {
            if (**e != *carried[i] || strncmp(*e, carried[i], n) != 0)
                continue;
            const size_t m = strlen(*e) + 1;
            if (m > sizeof storage - used)
                continue;
            if (!i) {
                given = *e;
                given_bytes = m;
            }
            kept[i] = memcpy(storage + used, *e, m);
            used += m;
            break;
        }
    }
}

void exec_keep(unsigned i, char *assignment) { kept[i] = *assignment ? assignment : 0; }

const char *guest_setting(const char *name)
{
    extern char **environ;
    size_t n = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (**e == *name && !strncmp(*e, name, n) && (*e)[n] == '=')
            return *e + n + 1;
    return 0;
}

/* How many of ours are missing in env; LD_PRELOAD counts when it does not name what it did. */
static unsigned missing(char *const *env, bool lacks[GUEST_CARRIED_MAX])
{
    unsigned all, count = 0;
    const char *const *carried = guest_carried(&all);
    for (unsigned i = 0; i < all; i++) {
        lacks[i] = false;
        if (!kept[i])
            continue;
        size_t n = strlen(carried[i]);
        bool there = false;
        for (char *const *e = env; e && *e; e++)
            if (!strncmp(*e, carried[i], n) && (i > 0 || strstr(*e, guest_library())))
                there = true;
        lacks[i] = !there;
        count += !there;
    }
    return count;
}

/* The libraries that a program asks for instead of ours, by a LD_PRELOAD of its own; NULL: none. */
static const char *asked(char *const *env)
{
    for (char *const *e = env; e && *e; e++)
        if (!strncmp(*e, "LD_PRELOAD=", 11) && (*e)[11])
            return *e + 11;
    return 0;
}

/* Our library as LD_PRELOAD named it. */
static const char *own_library(size_t *n)
{
    const char *at = kept[0] ? kept[0] + 11 : "";
    for (; *at; at += *n) {
        at += strspn(at, " :");
        *n = strcspn(at, " :");
        const char *found = strstr(at, guest_library());
        if (found && found < at + *n)
            return at;
    }
    return 0;
}

/* True if ours can stand before those. A sanitizer's runtime ends the program when it does not
 * stand first; another library of ours has another parent. */
#define JOINED_MOST 8192u
static bool may_join(const char *theirs)
{
    size_t n;
    return own_library(&n) && strlen(theirs) + n + 16 < JOINED_MOST &&
           !strstr(theirs, "libmallow-") && !strstr(theirs, "asan") && !strstr(theirs, "tsan");
}

/* Bytes of what `join_preloads` makes for that environment; 1: it makes nothing. */
static size_t joined_bytes(char *const *env, const bool lacks[GUEST_CARRIED_MAX])
{
    const char *theirs = lacks[0] ? asked(env) : 0;
    size_t n;
    return theirs && own_library(&n) ? strlen("LD_PRELOAD=:") + n + strlen(theirs) + 1 : 1;
}

/* Ours before theirs: calls reach us first, and then what the program asked for. */
static char *join_preloads(char *to, const char *theirs)
{
    size_t n;
    const char *own = own_library(&n);
    memcpy(to, "LD_PRELOAD=", 11);
    memcpy(to + 11, own, n);
    to[11 + n] = ':';
    strcpy(to + 12 + n, theirs);
    return to;
}

static char confined[] = GUEST_CONFINED;

/* env with ours put back, and with what a process hands on: at `to` and `joined`, which have space
 * for all. */
static char *const *complete(char *const *env, char **to, char *joined,
                             const bool lacks[GUEST_CARRIED_MAX], const char *handed)
{
    const char *theirs = lacks[0] ? asked(env) : 0;
    size_t name = 0;
    while (handed && handed[name++] != '=')
        ;
    unsigned n = 0;
    for (char *const *e = env; e && *e; e++)
        if (!(lacks[0] && !strncmp(*e, "LD_PRELOAD=", 11)) && !(name && !strncmp(*e, handed, name)))
            to[n++] = *e;
    for (unsigned i = 0; i < GUEST_CARRIED_MAX; i++)
        if (kept[i] && lacks[i])
            to[n++] = !i && theirs ? join_preloads(joined, theirs) : kept[i];
    if (handed)
        to[n++] = (char *)(uintptr_t)handed;
    if (sys_closed)
        to[n++] = confined;
    to[n] = 0;
    return to;
}

static size_t count_environment(char *const *env)
{
    size_t n = 0;
    while (env && env[n])
        n++;
    return n;
}

/* ---- no program that is started behind the closed door loads the library ---- */

/* Where our names stood in LD_PRELOAD, and what they were. */
static struct {
    unsigned count;
    size_t used;
    struct {
        char *at, *text;
        size_t bytes;
    } name[4];
    char text[4096];
} left;

/* The program may have made its environment of memory that cannot be written to. */
static bool write_env_text(char *at, const char *text, size_t n)
{
    struct iovec from = {(void *)(uintptr_t)text, n}, to = {at, n};
    long r = sys_process_vm_writev((int)sys_gettid(), &from, 1, &to, 1);
    if (r < 0 && r != -EFAULT && at >= given && at < given + given_bytes) {
        memcpy(at, text, n); /* the kernel put it on the stack */
        r = (long)n;
    }
    return r == (long)n;
}

void guest_leave_environment(void)
{
    extern char **environ;
    static const char separators[] = " :";
    char blank[1024];
    memset(blank, ':', sizeof blank);
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, "LD_PRELOAD=", 11) != 0)
            continue;
        char *at = *e + 11;
        while (*(at += strspn(at, separators))) {
            size_t n = strcspn(at, separators);
            char *text = left.text + left.used;
            if (left.count < sizeof left.name / sizeof *left.name && n <= sizeof blank &&
                n < sizeof left.text - left.used) {
                memcpy(text, at, n);
                text[n] = 0;
                if (strstr(text, guest_library()) && write_env_text(at, blank, n)) {
                    left.name[left.count].at = at;
                    left.name[left.count].text = text;
                    left.name[left.count++].bytes = n;
                    left.used += n + 1;
                }
            }
            at += n;
        }
    }
}

void guest_return_to_environment(void)
{
    for (; left.count; left.count--)
        write_env_text(left.name[left.count - 1].at, left.name[left.count - 1].text,
                       left.name[left.count - 1].bytes);
    left.used = 0;
}

/* Which of ours are to be put back: none of them for a successor that is not to be followed.
 * Whether the environment is to be changed at all. */
static bool to_complete(char *const *env, bool lacks[GUEST_CARRIED_MAX])
{
    if (!sys_closed && guest_follows() && kept[0] && missing(env, lacks) &&
        !(lacks[0] && asked(env) && !may_join(asked(env))))
        return true;
    memset(lacks, 0, GUEST_CARRIED_MAX * sizeof *lacks);
    for (char *const *e = env; sys_closed && e && *e; e++)
        if (!strncmp(*e, "LD_PRELOAD=", 11) && strstr(*e, guest_library()))
            return true; /* a copy of before: the library must know there */
    return false;
}

#define WITH_ENVIRONMENT(env)                                                                      \
    bool lacks[GUEST_CARRIED_MAX];                                                                 \
    size_t env_entries = count_environment(env);                                                   \
    const char *handed = env_entries < 16384 ? guest_hand_on() : 0;                                \
    bool put = env_entries < 16384 && (to_complete(env, lacks) || handed);                         \
    char *copy[put ? env_entries + GUEST_CARRIED_MAX + 3 : 1];                                     \
    char joined[put ? joined_bytes(env, lacks) : 1];                                               \
    if (put)                                                                                       \
    env = (char **)(uintptr_t)complete(env, copy, joined, lacks, handed)

#pragma GCC diagnostic ignored "-Wvla"

INTERPOSED(int, execve, const char *path, char *const argv[], char *const env[])
{
    __typeof__(&execve) real = FIND(execve);
    WITH_ENVIRONMENT(env);
    guest_exec(path);
    int r = real(path, argv, env);
    guest_exec_failed();
    guest_not_handed();
    return r;
}

INTERPOSED(int, execv, const char *path, char *const argv[])
{
    extern char **environ;
    return entry_execve(path, argv, environ);
}

INTERPOSED(int, execvpe, const char *file, char *const argv[], char *const env[])
{
    __typeof__(&execvpe) real = FIND(execvpe);
    WITH_ENVIRONMENT(env);
    guest_exec(file);
    int r = real(file, argv, env);
    guest_exec_failed();
    guest_not_handed();
    return r;
}

INTERPOSED(int, execvp, const char *file, char *const argv[])
{
    extern char **environ;
    return entry_execvpe(file, argv, environ);
}

INTERPOSED(int, fexecve, int fd, char *const argv[], char *const env[])
{
    __typeof__(&fexecve) real = FIND(fexecve);
    WITH_ENVIRONMENT(env);
    guest_exec("");
    int r = real(fd, argv, env);
    guest_exec_failed();
    guest_not_handed();
    return r;
}

INTERPOSED(int, execveat, int fd, const char *path, char *const argv[], char *const env[],
           int flags)
{
    int (*real)(int, const char *, char *const[], char *const[], int) =
        (__typeof__(real))(uintptr_t)next_symbol("execveat");
    if (!real) { /* glibc 2.34 has it */
        errno = ENOSYS;
        return -1;
    }
    WITH_ENVIRONMENT(env);
    guest_exec(path);
    int r = real(fd, path, argv, env, flags);
    guest_exec_failed();
    guest_not_handed();
    return r;
}

long guest_exec_syscall(guest_real_syscall *real, long number, const long a[6])
{
    unsigned at = number == SYS_execveat ? 3 : 2;
    char *const *env = (char *const *)a[at];
    WITH_ENVIRONMENT(env);
    guest_exec((const char *)a[number == SYS_execveat]);
    long r = number == SYS_execveat ? real(number, a[0], a[1], a[2], env, a[4], a[5])
                                    : real(number, a[0], a[1], env, a[3], a[4], a[5]);
    guest_exec_failed();
    guest_not_handed();
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

INTERPOSED(int, execl, const char *path, const char *first, ...)
{
    COLLECT(argv, first);
    va_end(ap);
    return entry_execv(path, argv);
}

INTERPOSED(int, execlp, const char *file, const char *first, ...)
{
    COLLECT(argv, first);
    va_end(ap);
    return entry_execvp(file, argv);
}

INTERPOSED(int, execle, const char *path, const char *first, ...)
{
    COLLECT(argv, first);
    char *const *env = va_arg(ap, char *const *);
    va_end(ap);
    return entry_execve(path, argv, env);
}

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
                           const posix_spawnattr_t *, char *const[], char *const[]);

INTERPOSED(int, posix_spawn, pid_t *pid, const char *path,
           const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
           char *const argv[], char *const env[])
{
    spawn_function *real = FIND(posix_spawn);
    WITH_ENVIRONMENT(env);
    int r = real(pid, path, actions, attributes, argv, env);
    guest_not_handed();
    if (!r)
        guest_spawned(path);
    return r;
}

INTERPOSED(int, posix_spawnp, pid_t *pid, const char *file,
           const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
           char *const argv[], char *const env[])
{
    spawn_function *real = FIND(posix_spawnp);
    WITH_ENVIRONMENT(env);
    int r = real(pid, file, actions, attributes, argv, env);
    guest_not_handed();
    if (!r)
        guest_spawned(file);
    return r;
}
