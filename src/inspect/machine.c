/* machine.c - see machine.h. One function for each fact; the table at the end is the order. */
#include "inspect/machine.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "arch/clock.h"
#include "arch/system.h"
#include "base/human.h"
#include "inspect/library.h"

/* ---- filling a fact ---- */

static void detail(struct machine_fact *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void detail(struct machine_fact *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(f->detail, sizeof f->detail, format, ap);
    va_end(ap);
}

static void trouble(struct machine_fact *f, enum machine_status status, const char *why,
                    const char *remedy)
{
    f->status = status;
    snprintf(f->why, sizeof f->why, "%s", why);
    snprintf(f->remedy, sizeof f->remedy, "%s", remedy);
}

/* The first line of a small file, or "" when it cannot be read. */
static const char *first_line(const char *path, char *line, size_t size)
{
    *line = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return line;
    ssize_t n = read(fd, line, size - 1);
    close(fd);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* ---- what recording stands on ---- */

static void fact_kernel(struct machine_fact *f)
{
    struct utsname u;
    uname(&u);
    detail(f, "%s %s, %s, %ld processors", u.sysname, u.release, u.machine,
           sysconf(_SC_NPROCESSORS_ONLN));
    if (strcmp(u.machine, ARCH_MACHINE) != 0)
        trouble(f, MACHINE_MISSING, "mallow records x86-64 programs only", "");
}

static void find_library(struct machine_fact *f, const char *name)
{
    char path[PATH_MAX];
    struct error err;
    if (inspect_find_library(name, path, &err)) {
        detail(f, "not found");
        trouble(f, MACHINE_MISSING, err.text, "make, or make install");
        return;
    }
    detail(f, "%.300s", path);
}

static void fact_library(struct machine_fact *f) { find_library(f, "libmallow-record.so"); }

static void fact_watch_library(struct machine_fact *f) { find_library(f, "libmallow-watch.so"); }

static void fact_arenas_library(struct machine_fact *f) { find_library(f, "libmallow-arenas.so"); }

static void fact_libc(struct machine_fact *f)
{
    const char *version = gnu_get_libc_version();
    bool find_object = dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL;
    detail(f, "glibc %s, _dl_find_object %s", version, find_object ? "present" : "absent");
    if (!find_object)
        trouble(f, MACHINE_LIMITED,
                "modules are found the slow way; programs that load many plugins record slower",
                "upgrade to a release with glibc 2.35 or newer");
}

static void fact_clock(struct machine_fact *f)
{
    const bool invariant = arch_clock_is_invariant();
    char source[64];
    first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
               sizeof source);
    detail(f, "time stamp counter %s, the kernel's clock source is %s",
           invariant ? "invariant" : "not invariant", *source ? source : "unknown");
    if (!invariant)
        trouble(f, MACHINE_LIMITED,
                "times come from CLOCK_MONOTONIC, which costs more on every call recorded", "");
}

static void fact_memfd(struct machine_fact *f)
{
    int fd = memfd_create("mallow-doctor", MFD_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        detail(f, "memfd_create works");
        return;
    }
    detail(f, "memfd_create: %s", strerror(errno));
    trouble(f, MACHINE_MISSING,
            "`mallow record` cannot make the buffers it shares with the program",
            "allow memfd_create in the container's seccomp profile");
}

static void fact_shm(struct machine_fact *f)
{
    struct statvfs fs;
    char free_text[HUMAN_TEXT_BYTES];
    if (statvfs("/dev/shm", &fs) || access("/dev/shm", W_OK)) {
        detail(f, "/dev/shm cannot be written: %s", strerror(errno));
        trouble(f, MACHINE_LIMITED,
                "`mallow watch -- PROGRAM` cannot share memory with the program; without `mallow "
                "record` beside it, the recorder cannot share its buffers, and a killed program "
                "loses the last ones",
                "mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
        return;
    }
    unsigned long long free_bytes = (unsigned long long)fs.f_bavail * fs.f_frsize;
    detail(f, "/dev/shm is writable, %s free", human_size(free_text, free_bytes));
    if (free_bytes < 64ull << 20)
        trouble(
            f, MACHINE_LIMITED,
            "little room for the buffers of programs with many threads (256 KB each) and for the "
            "samples of watched ones (up to 4 MB each)",
            "mount -o remount,size=1G /dev/shm");
}

static void fact_wipe_on_fork(struct machine_fact *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool works = p != MAP_FAILED && madvise(p, page, MADV_WIPEONFORK) == 0;
    int saved = errno;
    if (p != MAP_FAILED)
        munmap(p, page);
    detail(f, works ? "MADV_WIPEONFORK works" : "MADV_WIPEONFORK: %s", strerror(saved));
    if (!works)
        trouble(f, MACHINE_LIMITED,
                "a child made by a bare clone() is distinguished from its parent only by its "
                "process id",
                "use Linux 4.14 or newer");
}

static void fact_proc(struct machine_fact *f)
{
    char line[128];
    if (!*first_line("/proc/self/statm", line, sizeof line)) {
        detail(f, "/proc is not mounted");
        trouble(f, MACHINE_MISSING, "the recorder cannot see modules, threads or resident sizes",
                "mount -t proc proc /proc");
        return;
    }
    bool rollup = access("/proc/self/smaps_rollup", R_OK) == 0;
    bool smaps = access("/proc/self/smaps", R_OK) == 0;
    detail(f, "/proc/PID/statm, maps%s%s", smaps ? ", smaps" : "", rollup ? ", smaps_rollup" : "");
    if (!smaps)
        trouble(f, MACHINE_LIMITED, "the resident size cannot be split by kind of mapping",
                "use a kernel with CONFIG_PROC_PAGE_MONITOR");
}

static void fact_ptrace(struct machine_fact *f)
{
    char line[64];
    first_line("/proc/sys/kernel/yama/ptrace_scope", line, sizeof line);
    if (!*line)
        detail(f, "no Yama restriction");
    else
        detail(f, "kernel.yama.ptrace_scope = %s", line);
    if (atoi(line) >= 2) /* NOLINT(cert-err34-c): anything else is 0 */
        trouble(f, MACHINE_LIMITED,
                "/proc of other processes is closed to ordinary users: control and resident sizes "
                "work for programs that `mallow record` started",
                "sysctl kernel.yama.ptrace_scope=1");
}

static void fact_preload_file(struct machine_fact *f)
{
    if (access("/etc/ld.so.preload", F_OK)) {
        detail(f, "no /etc/ld.so.preload");
        return;
    }
    detail(f, "/etc/ld.so.preload exists");
    trouble(f, MACHINE_LIMITED,
            "its libraries are loaded into every program too; one that brings a malloc is recorded "
            "as the program's allocator",
            "cat /etc/ld.so.preload");
}

static void fact_limits(struct machine_fact *f)
{
    struct rlimit r;
    char line[64], size[HUMAN_TEXT_BYTES];
    bool limited = getrlimit(RLIMIT_FSIZE, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
    first_line("/proc/sys/vm/overcommit_memory", line, sizeof line);
    bool strict = !strcmp(line, "2");
    detail(f, "file size %s, overcommit %s", limited ? human_size(size, r.rlim_cur) : "unlimited",
           *line ? line : "unknown");
    if (limited)
        trouble(f, MACHINE_LIMITED, "a recording stops growing at the file size limit",
                "ulimit -f unlimited");
    else if (strict)
        trouble(f, MACHINE_LIMITED,
                "strict overcommit: programs near the limit may be refused the recorder's buffers",
                "sysctl vm.overcommit_memory=0");
}

/* ---- what reading stands on ---- */

static void fact_libdw(struct machine_fact *f)
{
    const char *version = dwfl_version(NULL);
    detail(f, "elfutils %s", version ? version : "of unknown version");
}

static void fact_debuginfod(struct machine_fact *f)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library)
        dlclose(library);
    if (!library) {
        detail(f, "libdebuginfod.so.1 is not installed");
        trouble(f, MACHINE_LIMITED, "debug information is taken from files on this machine only",
                "apt-get install libdebuginfod1");
    } else if (!urls || !*urls) {
        detail(f, "libdebuginfod is there, DEBUGINFOD_URLS is not set");
        trouble(f, MACHINE_LIMITED,
                "functions of stripped libraries without a -dbgsym package have no names",
                "export DEBUGINFOD_URLS=https://debuginfod.elfutils.org/");
    } else
        detail(f, "DEBUGINFOD_URLS=%.280s", urls);
}

static void fact_debug_files(struct machine_fact *f)
{
    bool there = access("/usr/lib/debug/.build-id", R_OK) == 0;
    detail(f, there ? "/usr/lib/debug/.build-id is there" : "no files in /usr/lib/debug/.build-id");
    if (!there)
        trouble(f, MACHINE_LIMITED, "static functions of the C library have no names",
                "apt-get install libc6-dbg");
}

/* ---- other allocators, which the library can record behind itself ---- */

static void allocator(struct machine_fact *f, const char *const *files, const char *package)
{
    static const char *const directories[] = {("/usr/lib/" ARCH_MULTIARCH), "/usr/lib64",
                                              "/usr/lib", "/usr/local/lib", "/usr/local/lib64"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        for (const char *const *name = files; *name; name++) {
            char path[256];
            snprintf(path, sizeof path, "%s/%s", directories[i], *name);
            if (!access(path, R_OK)) {
                detail(f, "%s", path);
                return;
            }
        }
    detail(f, "not installed");
    f->status = MACHINE_MISSING;
    snprintf(f->why, sizeof f->why, "workloads cannot be replayed against it");
    snprintf(f->remedy, sizeof f->remedy, "apt-get install %s", package);
}

static void fact_jemalloc(struct machine_fact *f)
{
    static const char *const files[] = {"libjemalloc.so.2", NULL};
    allocator(f, files, "libjemalloc2");
}

static void fact_tcmalloc(struct machine_fact *f)
{
    static const char *const files[] = {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4", NULL};
    allocator(f, files, "libtcmalloc-minimal4");
}

static void fact_mimalloc(struct machine_fact *f)
{
    static const char *const files[] = {"libmimalloc.so.3", "libmimalloc.so.2",
                                        "libmimalloc.so.2.0", "libmimalloc.so", NULL};
    allocator(f, files, "libmimalloc2.0");
}

/* ---- the kernel's own instruments ---- */

static void fact_perf(struct machine_fact *f)
{
    char line[64];
    first_line("/proc/sys/kernel/perf_event_paranoid", line, sizeof line);
    if (!*line) {
        detail(f, "the kernel has no perf events");
        f->status = MACHINE_MISSING;
        return;
    }
    detail(f, "kernel.perf_event_paranoid = %s%s", line, geteuid() ? "" : ", and this is root");
    if (geteuid() && atoi(line) > 2) /* NOLINT(cert-err34-c) */
        trouble(f, MACHINE_LIMITED, "perf events are closed to ordinary users",
                "sysctl kernel.perf_event_paranoid=2");
}

static void fact_bpf(struct machine_fact *f)
{
    char bpf[64], lockdown[128];
    first_line("/proc/sys/kernel/unprivileged_bpf_disabled", bpf, sizeof bpf);
    first_line("/sys/kernel/security/lockdown", lockdown, sizeof lockdown);
    bool btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
    bool tracefs = access("/sys/kernel/tracing/events", F_OK) == 0;
    detail(f, "type information (BTF) %s, tracefs %s, unprivileged_bpf_disabled %s, lockdown %s",
           btf ? "present" : "absent", tracefs ? "mounted" : "not mounted", *bpf ? bpf : "unknown",
           *lockdown ? lockdown : "unknown");
    if (!btf)
        trouble(f, MACHINE_MISSING, "the kernel was built without CONFIG_DEBUG_INFO_BTF", "");
    else if (geteuid())
        trouble(f, MACHINE_LIMITED,
                "loading programs into the kernel needs CAP_BPF and CAP_PERFMON", "sudo");
    else if (!tracefs)
        trouble(f, MACHINE_LIMITED, "classic tracepoints are out of reach",
                "mount -t tracefs nodev /sys/kernel/tracing");
}

/* ---- the table ---- */

static const struct {
    const char *name;
    enum machine_weight weight;
    void (*find)(struct machine_fact *);
} table[] = {
    {"kernel", MACHINE_ESSENTIAL, fact_kernel},
    {"record-library", MACHINE_ESSENTIAL, fact_library},
    {"proc", MACHINE_ESSENTIAL, fact_proc},
    {"memfd", MACHINE_ESSENTIAL, fact_memfd},
    {"libc", MACHINE_USEFUL, fact_libc},
    {"clock", MACHINE_USEFUL, fact_clock},
    {"dev-shm", MACHINE_USEFUL, fact_shm},
    {"watch-library", MACHINE_USEFUL, fact_watch_library},
    {"arenas-library", MACHINE_USEFUL, fact_arenas_library},
    {"wipe-on-fork", MACHINE_USEFUL, fact_wipe_on_fork},
    {"ptrace", MACHINE_USEFUL, fact_ptrace},
    {"ld-so-preload", MACHINE_USEFUL, fact_preload_file},
    {"limits", MACHINE_USEFUL, fact_limits},
    {"libdw", MACHINE_USEFUL, fact_libdw},
    {"debuginfod", MACHINE_USEFUL, fact_debuginfod},
    {"debug-files", MACHINE_USEFUL, fact_debug_files},
    {"jemalloc", MACHINE_USEFUL, fact_jemalloc},
    {"tcmalloc", MACHINE_USEFUL, fact_tcmalloc},
    {"mimalloc", MACHINE_USEFUL, fact_mimalloc},
    {"perf-events", MACHINE_OPTIONAL, fact_perf},
    {"bpf", MACHINE_OPTIONAL, fact_bpf},
};

size_t machine_facts(struct machine_fact *facts, size_t max)
{
    size_t count = sizeof table / sizeof *table;
    if (count > max)
        count = max;
    for (size_t i = 0; i < count; i++) {
        facts[i] = (struct machine_fact){.name = table[i].name, .weight = table[i].weight};
        table[i].find(&facts[i]);
    }
    return count;
}

_Static_assert(sizeof table / sizeof *table <= MACHINE_FACTS_MAX, "room for every fact");
