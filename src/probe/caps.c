/* caps.c - Tries what probes need on this machine, one feature at a time, and names the command
 * that provides a missing one. Each attempt is undone before the function returns. */
#include "probe/caps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/proc.h"
#include "probe/attach.h"
#include "probe/probe.h"

enum { CAPABILITY_SYS_ADMIN = 21, CAPABILITY_PERFMON = 38, CAPABILITY_BPF = 39 };

static const char remedy_swap[] =
    "fallocate -l 1G /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile";

/* With the path of this program, as a shell takes it. Into a static buffer. */
static const char *remedy_rights(void)
{
    static char text[256];
    char own[160];
    if (proc_link(0, "exe", own, sizeof own) < 0 || strlen(own) + 1 == sizeof own ||
        strchr(own, '\''))
        snprintf(text, sizeof text, "run it as root (sudo)");
    else
        snprintf(text, sizeof text,
                 "run it as root (sudo), or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep '%s'",
                 own);
    return text;
}

static uint64_t effective_capabilities(void)
{
    char text[8192];
    const char *bits =
        proc_read(0, "status", text, sizeof text) > 0 ? proc_status_field(text, "CapEff:") : NULL;
    return bits ? strtoull(bits, NULL, 16) : 0;
}

static bool has_rights(void)
{
    uint64_t bits = effective_capabilities();
    bool admin = bits >> CAPABILITY_SYS_ADMIN & 1;
    return admin || (bits >> CAPABILITY_BPF & 1 && bits >> CAPABILITY_PERFMON & 1);
}

static bool has_types(void) { return access("/sys/kernel/btf/vmlinux", R_OK) == 0; }

/* A program that does nothing, of the type that uprobes have. Returns its descriptor or -1. */
static int empty_program(unsigned attach_type)
{
    static const struct bpf_insn code[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, options,
                .expected_attach_type = (enum bpf_attach_type)attach_type);
    return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "mallow_try", "GPL", code, 2, &options);
}

bool caps_uprobe_multi(void)
{
    int program = empty_program(ATTACH_UPROBE_MULTI);
    if (program < 0)
        return false;
    /* "/" cannot have a probe, and only a kernel that knows the call says so. */
    uint64_t offset = 0;
    int link = attach_link(program, "/", &offset, NULL, NULL, 1, false, 0);
    int number = errno;
    if (link >= 0)
        close(link);
    close(program);
    return link >= 0 || number == EBADF;
}

bool caps_user_stacks(void)
{
    return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_find_vma, NULL) == 1 &&
           libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_loop, NULL) == 1;
}

/* The inode of the first pid namespace, the same in every kernel. */
#define FIRST_PID_NAMESPACE 4026531836u

/* True if the process ids here are those that programs in the kernel see. */
static bool has_the_kernels_pids(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NAMESPACE;
}

#define REMEDY_PIDS                                                                                \
    "run mallow on the host, or start the container with the host's pid namespace "                \
    "(docker run --pid=host)"

int caps_require(struct error *err)
{
    if (!has_rights())
        return error_set(err, ERROR_UNSUPPORTED,
                         "programs are loaded into the kernel, which needs root or the "
                         "capabilities CAP_BPF and CAP_PERFMON; to fix it: %s",
                         remedy_rights());
    if (!has_the_kernels_pids())
        return error_set(err, ERROR_UNSUPPORTED,
                         "mallow runs in a pid namespace of its own, where process ids are not "
                         "those that the kernel's probes see: " REMEDY_PIDS);
    if (!has_types())
        return error_set(err, ERROR_UNSUPPORTED,
                         "the kernel does not describe its types (/sys/kernel/btf/vmlinux): use a "
                         "kernel built with CONFIG_DEBUG_INFO_BTF");
    int program = empty_program(0);
    if (program < 0)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the kernel refuses a program that does nothing (%s): see "
                         "/sys/kernel/security/lockdown and the container's seccomp profile",
                         strerror(errno));
    close(program);
    return 0;
}

static void put_cap(struct probe_cap *c, const char *name, bool works, const char *detail,
                    const char *why, const char *remedy)
{
    c->name = name;
    c->works = works;
    c->partly = false;
    snprintf(c->detail, sizeof c->detail, "%s", detail);
    snprintf(c->why, sizeof c->why, "%s", works ? "" : why);
    snprintf(c->remedy, sizeof c->remedy, "%s", works ? "" : remedy);
}

bool caps_any_swap(void)
{
    char line[256];
    int lines = 0;
    FILE *f = fopen("/proc/swaps", "re");
    while (f && fgets(line, sizeof line, f))
        lines++;
    if (f)
        fclose(f);
    return lines > 1;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list ap)
{
    (void)level, (void)format, (void)ap;
    return 0;
}

size_t probe_caps(struct probe_cap *caps, size_t max)
{
    struct probe_cap c[PROBE_CAPS_MAX];
    size_t n = 0;
    libbpf_set_print(quiet);
    bool rights = has_rights(), types = has_types();
    int program = rights ? empty_program(0) : -1;
    const bool pids = has_the_kernels_pids();
    if (pids)
        put_cap(&c[n++], "probe-rights", rights && program >= 0,
                !rights        ? "neither root nor CAP_BPF and CAP_PERFMON"
                : program >= 0 ? "programs can be loaded into the kernel"
                               : "the kernel refuses programs",
                "`mallow probe` cannot load its programs into the kernel", remedy_rights());
    else
        put_cap(&c[n++], "probe-rights", false, "this is a pid namespace of its own",
                "`mallow probe` cannot find a process in the kernel", REMEDY_PIDS);
    put_cap(&c[n++], "probe-types", types,
            types ? "/sys/kernel/btf/vmlinux is there" : "no /sys/kernel/btf/vmlinux",
            "`mallow probe` cannot find its way in this kernel's structures",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF");
    if (program >= 0) {
        close(program);
        bool multi = caps_uprobe_multi(), stacks = caps_user_stacks();
        put_cap(&c[n++], "probe-many", multi,
                multi ? "many functions are probed at once (uprobe_multi)"
                      : "functions are probed one by one (perf uprobes)",
                "taking probes away again takes a tenth of a second for each function",
                "use Linux 6.6 or newer");
        put_cap(&c[n++], "probe-stacks", stacks,
                stacks ? "user stacks are unwound in the kernel" : "no bpf_find_vma or bpf_loop",
                "`mallow probe --by stack` does not work", "use Linux 5.17 or newer");
    }
    bool swap = caps_any_swap();
    put_cap(&c[n++], "swap", swap, swap ? "swap is configured" : "no swap is configured",
            "anonymous pages cannot be paged out or in; there is nothing for such a probe to see",
            remedy_swap);
    if (n > max)
        n = max;
    memcpy(caps, c, n * sizeof *c);
    return n;
}

/* ---- what a recording asks for ---- */

static void ignore_event(void *arg, const struct mlw_kernel *event, const uint64_t *values)
{
    (void)arg, (void)event, (void)values;
}

static void ignore_call(void *arg, const struct probe_call *call) { (void)arg, (void)call; }

/* Keeps the first line that is said: what there is less of than there might be. */
static void keep_line(void *arg, const char *line)
{
    struct error *kept = arg;
    if (!*kept->text)
        error_set(kept, ERROR_UNSUPPORTED, "%s", line);
}

/* Begins it on this process and ends it. False with *err; true with text in *err: only in part. */
static bool begins(const struct probe_kind *kind, struct error *err)
{
    const bool calls = kind == &probe_kind_record;
    struct probe_result result;
    struct error failed;
    const struct probe_options o = {.kind = kind,
                                    .pid = (uint32_t)getpid(),
                                    .no_follow = true,
                                    .by = probe_kind_stream_by(kind),
                                    .stream = calls ? NULL : ignore_event,
                                    .call = calls ? ignore_call : NULL,
                                    .say = keep_line,
                                    .arg = err};
    *err->text = 0;
    const bool begun = !probe_begin(&o, &result, &failed);
    if (begun)
        probe_end(&result);
    else
        *err = failed;
    probe_release(&result);
    return begun;
}

/* Adds "NAME: TEXT" to why; what fixes it is the remedy, unless there is one. */
static void add_reason(struct probe_cap *c, const char *name, const char *text)
{
    static const char fix[] = "; to fix it: ";
    const char *remedy = strstr(text, fix);
    const size_t n = strlen(c->why), length = remedy ? (size_t)(remedy - text) : strlen(text);
    snprintf(c->why + n, sizeof c->why - n, "%s%s%s%.*s", n ? "; " : "", name, *name ? ": " : "",
             (int)length, text);
    if (remedy && !*c->remedy)
        snprintf(c->remedy, sizeof c->remedy, "%s", remedy + sizeof fix - 1);
}

static void try_streams(struct probe_cap *c)
{
    struct error err;
    unsigned kinds = 0, begun = 0;
    for (const struct probe_kind *const *k = probe_kinds; *k; k++) {
        if (!probe_kind_stream(*k))
            continue;
        const char *name = probe_kind_name(*k);
        const size_t n = strlen(c->detail);
        const bool works = begins(*k, &err);
        kinds++;
        begun += works;
        if (works)
            snprintf(c->detail + n, sizeof c->detail - n, "%s%s", n ? ", " : "", name);
        c->partly |= works && *err.text;
        if (*err.text)
            add_reason(c, name, err.text);
    }
    if (c->partly && !*c->remedy && !caps_any_swap())
        snprintf(c->remedy, sizeof c->remedy, "%s", remedy_swap);
    c->works = begun;
    c->partly |= begun && begun < kinds;
    if (!begun)
        snprintf(c->detail, sizeof c->detail, "none of the kernel's events");
}

size_t probe_caps_recording(struct probe_cap *caps, size_t max)
{
    struct probe_cap c[] = {{.name = "record-with"}, {.name = "record-p"}};
    struct error err;
    const size_t n = sizeof c / sizeof *c < max ? sizeof c / sizeof *c : max;
    if (caps_require(&err)) { /* the same for all, which is said once */
        snprintf(c[0].detail, sizeof c[0].detail, "none of the kernel's events");
        add_reason(&c[0], "", err.text);
    } else
        try_streams(&c[0]);
    c[1].works = begins(&probe_kind_record, &err);
    c[1].partly = c[1].works && !caps_user_stacks();
    snprintf(c[1].detail, sizeof c[1].detail,
             c[1].works ? "a process that runs already can be recorded"
                        : "a process that runs already cannot be recorded");
    if (!c[1].works)
        add_reason(&c[1], "", err.text);
    else if (c[1].partly)
        add_reason(&c[1], "", "only with --stacks none; to fix it: use Linux 5.17 or newer");
    memcpy(caps, c, n * sizeof *c);
    return n;
}
