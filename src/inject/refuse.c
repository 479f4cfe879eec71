/* refuse.c - Decides whether a library may go into a process: by its state, executable format,
 * limits and owner, then by its mapped modules and its allocator. It also explains why the
 * kernel refused to trace the process. Nothing here stops or changes the process. */
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
#include "inject/reasons.h"
#include "limit/groups.h"
#include "symbol/program.h"
#include "trust/process.h"

#define NEEDED_BYTES (32ull << 20) /* the library, its tables and its segment, all of them used */
#define SEARCH_MOST  (256ull << 20)

/* ---- the process ---- */

static int refuse_state(pid_t pid, const char *status, struct error *err)
{
    unsigned long tracer = 0, threads = 0;
    char detail[32];
    const char *state = proc_status_field(status, "State:");
    proc_status_numbers(status, "Threads:", &threads, 1);
    if (state && (*state == 'Z' || *state == 'X'))
        return reasons_refuse(pid, threads > 1 ? INJECT_LEADER : INJECT_ENDED, NULL, err);
    if (state && *state == 'T')
        return reasons_refuse(pid, INJECT_STOPPED, NULL, err);
    proc_status_numbers(status, "TracerPid:", &tracer, 1);
    snprintf(detail, sizeof detail, "process %lu", tracer);
    if (tracer)
        return reasons_refuse(pid, INJECT_TRACED, detail, err);
    if (!proc_status_is(status, "Seccomp:", "0"))
        return reasons_refuse(pid, INJECT_FILTERED, NULL, err);
    const char *features = proc_status_field(status, "x86_Thread_features:");
    if (features && memmem(features, strcspn(features, "\n"), "shstk", 5))
        return reasons_refuse(pid, INJECT_SHADOWED, NULL, err);
    return 0;
}

static int refuse_class(pid_t pid, struct error *err)
{
    Elf64_Ehdr head;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    struct error ignored;
    const int fd = program_open(path, &ignored);
    const bool read = fd >= 0 && pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
    if (fd >= 0)
        close(fd);
    if (read && (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != ARCH_ELF_MACHINE))
        return reasons_refuse(pid, INJECT_MACHINE, NULL, err);
    return 0;
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
            return reasons_refuse(pid, INJECT_SPACE, NULL, err);
    }
    struct limit_groups groups;
    if (limit_groups_of(pid, &groups) && limit_left(&groups) < NEEDED_BYTES / 2)
        return reasons_refuse(pid, INJECT_GROUP, NULL, err);
    return 0;
}

static int refuse_user(pid_t pid, uid_t user, struct error *err)
{
    char detail[32];
    snprintf(detail, sizeof detail, "user %u", (unsigned)user);
    return reasons_refuse(pid, INJECT_USER, detail, err);
}

int refuse_process(pid_t pid, struct error *err)
{
    struct trust_process who;
    char status[8192];
    if (pid == getpid())
        return reasons_refuse(pid, INJECT_SELF, NULL, err);
    if (trust_process(pid, &who, err))
        return -1;
    if (proc_read(pid, "status", status, sizeof status) <= 0)
        return error_system(err, "cannot read the status of process %d", (int)pid);
    if (refuse_state(pid, status, err))
        return -1;
    for (unsigned i = 0; geteuid() && i < 3; i++)
        if (who.uid[i] != geteuid())
            return refuse_user(pid, who.uid[i], err);
    return refuse_class(pid, err) || refuse_limits(pid, status, err) ? -1 : 0;
}

/* ---- its image ---- */

int refuse_mappings(struct injected *t, struct error *err)
{
    const int number = injected_refresh(t);
    if (number == EACCES || number == EPERM)
        return reasons_refuse((pid_t)t->target->pid, INJECT_HIDDEN, NULL, err);
    if (number == ESRCH)
        return reasons_refuse((pid_t)t->target->pid, INJECT_KERNEL, NULL, err);
    if (number == E2BIG)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %d has more than %d mappings; no more are looked at",
                         (int)t->target->pid, TARGET_REGIONS_MAX);
    if (number == ENOMEM)
        return error_memory(err);
    errno = number;
    return number ? error_system(err, "cannot see the memory of process %d", (int)t->target->pid)
                  : 0;
}

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
    /* CPython, since 3.13, has mimalloc for objects in builds without a global lock. The C
     * library's malloc stays what it was. */
    static const char beside[] = "PYTHONMALLOC";
    bool is_beside = false;
    char link[PATH_MAX];
    const char *found = NULL;
    if (proc_link((pid_t)t->target->pid, "exe", link, sizeof link) <= 0)
        return NULL;
    uint64_t left = SEARCH_MOST;
    for (size_t i = 0; i < t->target->region_count && !is_beside; i++) {
        const struct target_region *r = &t->target->regions[i];
        if (!r->file || r->flags & REGION_WRITE || !(r->flags & REGION_READ) ||
            strcmp(r->file, link) != 0)
            continue;
        enum { WINDOW = 1 << 20, OVERLAP = 64 };
        char *text = malloc(WINDOW + OVERLAP);
        for (uint64_t at = r->start; text && at < r->end && !is_beside && left; at += WINDOW) {
            const size_t n = r->end - at < WINDOW + OVERLAP ? r->end - at : WINDOW + OVERLAP;
            left -= left < n ? left : n;
            if (!target_read_past(t->target, at, text, n))
                continue;
            for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
                if (memmem(text, n, marks[k].text, strlen(marks[k].text)))
                    found = marks[k].name;
            is_beside |= memmem(text, n, beside, strlen(beside)) != NULL;
        }
        free(text);
    }
    return is_beside ? NULL : found;
}

/* True if malloc leads to that library now, by the C library's symbol table. */
static bool leads_to(const struct injected *t, const char *library)
{
    const struct module *m = injected_module(t, library);
    const uint64_t at = m ? injected_function(t, MODULE_LIBC, "malloc", NULL) : 0;
    const struct target_region *r = at ? target_region_at(t->target, at) : NULL;
    return r && injected_module_of(t, r) == m;
}

/* Other libraries of ours in it. */
static int refuse_ours(const struct injected *t, const char *library, struct error *err)
{
    const bool watch = !strcmp(library, MLW_ATTACH_LIBRARY);
    if (has_module(t, "libmallow-record.so"))
        return reasons_refuse((pid_t)t->target->pid, INJECT_RECORDED, NULL, err);
    if (has_module(t, "libmallow-watch.so"))
        return reasons_refuse((pid_t)t->target->pid, INJECT_WATCHED, NULL, err);
    if (leads_to(t, watch ? MLW_ATTACH_RECORD_LIBRARY : MLW_ATTACH_LIBRARY))
        return reasons_refuse((pid_t)t->target->pid, INJECT_ATTACHED,
                              watch ? "mallow record" : "mallow watch", err);
    if (!watch && leads_to(t, library))
        return reasons_refuse((pid_t)t->target->pid, INJECT_RECORDED, NULL, err);
    return 0;
}

int refuse_image(const struct injected *t, bool beginning, const char *library, struct error *err)
{
    static const char *const foreign[] = {"libjemalloc", "libtcmalloc", "libmimalloc", "libasan",
                                          "libtsan"};
    if (has_module(t, "/ld-musl-") || has_module(t, "/libc.musl-"))
        return reasons_refuse((pid_t)t->target->pid, INJECT_MUSL, NULL, err);
    if (!has_kind(t, MODULE_LINKER))
        return reasons_refuse((pid_t)t->target->pid, INJECT_STATIC, NULL, err);
    if (!has_kind(t, MODULE_LIBC))
        return reasons_refuse((pid_t)t->target->pid, INJECT_BEGINS, NULL, err);
    if (!beginning)
        return 0;
    if (refuse_ours(t, library, err))
        return -1;
    const char *allocator = built_in(t);
    if (allocator)
        return reasons_refuse((pid_t)t->target->pid, INJECT_BUILT_IN, allocator, err);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (has_module(t, foreign[i]))
            return reasons_refuse((pid_t)t->target->pid, INJECT_FOREIGN, foreign[i], err);
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
    if (number == ESRCH && proc_is_hidden(pid))
        return error_set(err, ERROR_SYSTEM, PROC_HIDDEN, (int)pid);
    if (number == ESRCH)
        return error_set(err, ERROR_USAGE, "there is no process %d any more", (int)pid);
    if (number == EPERM && n > 0 && *scope != '0')
        return reasons_refuse(pid, INJECT_FORBIDDEN, NULL, err);
    if (number == EPERM)
        return reasons_refuse(pid, INJECT_HIDDEN, NULL, err);
    errno = number;
    return error_system(err, "trace process %d", (int)pid);
}
