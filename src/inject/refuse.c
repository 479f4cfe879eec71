#include "inject/refuse.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/system.h"
#include "base/proc.h"
#include "format/attach.h"
#include "trust/process.h"

#define NEEDED_BYTES (32ull << 20) /* the library, its tables and its segment, all of them used */
#define SEARCH_MOST  (256ull << 20)

/* ---- the process ---- */

static bool says(const char *status, const char *field, const char *value)
{
    const char *at = proc_status_field(status, field);
    const size_t n = strlen(value);
    return at && !strncmp(at, value, n) && at[n] == '\n';
}

static int refuse_state(pid_t pid, const char *status, struct error *err)
{
    unsigned long tracer = 0;
    const char *state = proc_status_field(status, "State:");
    if (state && (*state == 'Z' || *state == 'X'))
        return error_set(err, ERROR_UNSUPPORTED, "process %d has ended (it is a zombie)", (int)pid);
    if (state && *state == 'T')
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d is stopped by a signal: continue it first (kill -CONT %d)",
                         (int)pid, (int)pid);
    proc_status_numbers(status, "TracerPid:", &tracer, 1);
    if (tracer)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d is traced by process %lu already (a debugger, or strace): end "
                         "that first",
                         (int)pid, tracer);
    if (!says(status, "Seccomp:", "0"))
        return error_set(
            err, ERROR_UNSUPPORTED,
            "process %d has a seccomp filter, which may kill it for a system call of "
            "the library's; 'mallow record -p %d --how probe' records it from the kernel's side, "
            "or start it again under 'mallow watch'",
            (int)pid, (int)pid);
    const char *features = proc_status_field(status, "x86_Thread_features:");
    if (features && memmem(features, strcspn(features, "\n"), "shstk", 5))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d has a shadow stack, which a borrowed thread would not return "
                         "on; start it again under 'mallow watch'",
                         (int)pid);
    return 0;
}

static int refuse_class(pid_t pid, struct error *err)
{
    Elf64_Ehdr head;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool read = fd >= 0 && pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
    if (fd >= 0)
        close(fd);
    if (read && (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != ARCH_ELF_MACHINE))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d is no 64-bit x86 program: the library cannot be loaded into "
                         "it; 'mallow probe calls -p %d' counts its calls from the kernel's side",
                         (int)pid, (int)pid);
    return 0;
}

/* The number in a file of the process's memory cgroup; UINT64_MAX: none, or no limit. */
static uint64_t cgroup_number(pid_t pid, const char *file)
{
    char text[PATH_MAX], path[PATH_MAX + 64], value[32] = "";
    if (proc_read(pid, "cgroup", text, sizeof text) <= 0)
        return UINT64_MAX;
    char *at = strstr(text, "0::");
    if (!at || (at != text && at[-1] != '\n'))
        return UINT64_MAX;
    at += 3;
    at[strcspn(at, "\n")] = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", at, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, value, sizeof value - 1) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : UINT64_MAX;
}

static int refuse_limits(pid_t pid, const char *status, struct error *err)
{
    char limits[4096];
    unsigned long size_kb = 0;
    proc_status_numbers(status, "VmSize:", &size_kb, 1);
    const char *at = proc_read(pid, "limits", limits, sizeof limits) > 0
                         ? strstr(limits, "Max address space")
                         : NULL;
    if (at) {
        at += strlen("Max address space");
        at += strspn(at, " ");
        if (*at >= '0' && *at <= '9' && strtoull(at, NULL, 10) < size_kb * 1024ull + NEEDED_BYTES)
            return error_set(err, ERROR_UNSUPPORTED,
                             "process %d has less than 32 MB of address space left below its limit "
                             "(RLIMIT_AS): the library would take it from the program",
                             (int)pid);
    }
    const uint64_t most = cgroup_number(pid, "memory.max"),
                   now = cgroup_number(pid, "memory.current");
    if (most != UINT64_MAX && now != UINT64_MAX && now + NEEDED_BYTES / 2 > most)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the cgroup of process %d has less than 16 MB left below memory.max: the "
                         "library might bring on the OOM killer; 'mallow probe calls -p %d' needs "
                         "no memory in it",
                         (int)pid, (int)pid);
    return 0;
}

int refuse_process(pid_t pid, struct error *err)
{
    struct trust_process who;
    char status[8192];
    if (pid == getpid())
        return error_set(err, ERROR_USAGE, "process %d is this one", (int)pid);
    if (trust_process(pid, &who, err))
        return -1;
    if (proc_read(pid, "status", status, sizeof status) <= 0)
        return error_system(err, "cannot read the status of process %d", (int)pid);
    if (refuse_state(pid, status, err))
        return -1;
    if (geteuid() &&
        (who.uid[0] != geteuid() || who.uid[1] != geteuid() || who.uid[2] != geteuid()))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d belongs to another user (%u): only that user, or root, can "
                         "attach to it",
                         (int)pid, (unsigned)who.uid[0]);
    return refuse_class(pid, err) || refuse_limits(pid, status, err) ? -1 : 0;
}

/* ---- its image ---- */

static bool has_module(const struct injected *t, const char *part)
{
    for (size_t i = 0; i < t->module_count; i++)
        if (strstr(t->modules[i].path, part))
            return true;
    return false;
}

static bool has_kind(const struct injected *t, enum module_kind kind)
{
    for (size_t i = 0; i < t->module_count; i++)
        if (t->modules[i].kind == kind && t->modules[i].base)
            return true;
    return false;
}

/* The allocator that is linked into the program itself, by the messages in it; NULL: none. */
static const char *built_in(const struct injected *t)
{
    static const struct {
        const char *text, *name;
    } marks[] = {{"<jemalloc>: ", "jemalloc"},
                 {"tcmalloc: large alloc", "tcmalloc"},
                 {"mimalloc: ", "mimalloc"},
                 {"AddressSanitizer: ", "AddressSanitizer"}};
    char link[PATH_MAX];
    const char *found = NULL;
    if (proc_link(t->pid, "exe", link, sizeof link) <= 0)
        return NULL;
    uint64_t left = SEARCH_MOST;
    for (size_t i = 0; i < t->region_count && !found; i++) {
        const struct region *r = &t->regions[i];
        if (r->module < 0 || r->write || !r->read || strcmp(t->modules[r->module].path, link) != 0)
            continue;
        enum { WINDOW = 1 << 20, OVERLAP = 64 };
        char *text = malloc(WINDOW + OVERLAP);
        for (uint64_t at = r->start; text && at < r->end && !found && left; at += WINDOW) {
            const size_t n = r->end - at < WINDOW + OVERLAP ? r->end - at : WINDOW + OVERLAP;
            left -= left < n ? left : n;
            if (!injected_read(t, at, text, n))
                continue;
            for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
                if (memmem(text, n, marks[k].text, strlen(marks[k].text)))
                    found = marks[k].name;
        }
        free(text);
    }
    return found;
}

/* Whether malloc leads to that library now, by the C library's symbol table. */
static bool leads_to(const struct injected *t, const char *library)
{
    const struct module *m = injected_module(t, library);
    const uint64_t at = m ? injected_function(t, MODULE_LIBC, "malloc", NULL) : 0;
    const struct region *r = at ? injected_region(t, at) : NULL;
    return r && r->module >= 0 && &t->modules[r->module] == m;
}

int refuse_image(const struct injected *t, bool beginning, const char *library, struct error *err)
{
    const int pid = (int)t->pid;
    if (has_module(t, "/ld-musl-") || has_module(t, "/libc.musl-"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d runs on musl: the library needs glibc; 'mallow probe calls -p "
                         "%d' counts its calls from the kernel's side",
                         pid, pid);
    if (!has_kind(t, MODULE_LINKER) || !has_kind(t, MODULE_LIBC))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d is linked statically: there is no dynamic linker in it that "
                         "could load the library, and its calls of malloc can be seen by no other "
                         "means than 'mallow probe'",
                         pid);
    if (!beginning)
        return 0;
    if (has_module(t, "libmallow-record.so"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d is recorded already: 'mallow control %d mark' and 'snapshot' "
                         "work on it",
                         pid, pid);
    if (has_module(t, "libmallow-watch.so"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d runs under 'mallow watch': 'mallow watch -p %d' shows it; "
                         "'mallow record -p %d --how probe' records it from the kernel's side",
                         pid, pid, pid);
    if (leads_to(t, strcmp(library, MLW_ATTACH_LIBRARY) != 0 ? MLW_ATTACH_LIBRARY
                                                             : MLW_ATTACH_RECORD_LIBRARY))
        return error_set(
            err, ERROR_UNSUPPORTED,
            "process %d is attached to by %s already: end that first, or 'mallow "
            "watch --detach %d'",
            pid, strcmp(library, MLW_ATTACH_LIBRARY) != 0 ? "mallow watch" : "mallow record", pid);
    if (leads_to(t, library) && !strcmp(library, MLW_ATTACH_RECORD_LIBRARY))
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d is recorded already: 'mallow control %d mark' and 'snapshot' "
                         "work on it; 'mallow watch --detach %d' ends what a killed mallow left",
                         pid, pid, pid);
    const char *allocator = built_in(t);
    if (allocator)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "process %d has %s linked into the program: its calls reach no binding "
            "that could be changed; 'mallow record -p %d --how probe' records from the kernel's "
            "side",
            pid, allocator, pid);
    static const char *const foreign[] = {"libjemalloc", "libtcmalloc", "libmimalloc", "libasan",
                                          "libtsan"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (has_module(t, foreign[i]))
            return error_set(
                err, ERROR_UNSUPPORTED,
                "process %d runs with %s, whose own functions (sdallocx, operator "
                "delete) would get past the library; 'mallow record -p %d --how probe' records "
                "from the kernel's side, or start it again under 'mallow watch', "
                "which knows them",
                pid, foreign[i], pid);
    return 0;
}

/* ---- the kernel's refusal ---- */

int refuse_trace(pid_t pid, int number, struct error *err)
{
    char scope[8] = "";
    const int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, scope, sizeof scope - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (number == ESRCH)
        return error_set(err, ERROR_USAGE, "there is no process %d any more", (int)pid);
    if (number == EPERM && n > 0 && *scope != '0')
        return error_set(err, ERROR_UNSUPPORTED,
                         "the kernel forbids tracing process %d (kernel.yama.ptrace_scope is %c): "
                         "be root, or set it to 0 for the moment",
                         (int)pid, *scope);
    if (number == EPERM)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the kernel forbids tracing process %d: it is not dumpable (prctl "
                         "PR_SET_DUMPABLE, or changed its user), or traced; be root",
                         (int)pid);
    errno = number;
    return error_system(err, "trace process %d", (int)pid);
}
