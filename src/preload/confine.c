/* confine.c - the recorder in a program that locks itself in: what sandbox.c asks of us.
 *
 * A filter that would kill the program for a call of ours puts us in the sandbox: from then on no
 * system call but `write`, and not even that where it is not allowed either. Rows then leave
 * through `mallow record`, which empties the shared buffers, or wait there for a reader. */
#include <linux/filter.h>
#include <sys/prctl.h>

#include "recorder.h"

/* Every call that we may make once the program runs. */
static bool all_harmless(const struct sock_fprog *program)
{
    static const short ours[] = {
        SYS_writev, SYS_openat, SYS_close,     SYS_fstat,     SYS_fcntl,           SYS_readlinkat,
        SYS_munmap, SYS_mremap, SYS_fallocate, SYS_ftruncate, SYS_rt_sigprocmask,  SYS_prlimit64,
        SYS_getpid, SYS_gettid, SYS_getppid,   SYS_unlinkat,  SYS_rt_sigtimedwait, SYS_uname,
        SYS_getcwd, SYS_read,   SYS_lseek,     SYS_madvise,   SYS_process_vm_readv};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!sandbox_harmless(program, ours[i], 0))
            return false;
    /* filters often look at the arguments of these */
    const uint64_t map[6] = {
        0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (uint64_t)recorder.memory.fd, 0};
    const uint64_t own[6] = {
        0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0};
    const uint64_t name[6] = {PR_GET_NAME};
    const uint64_t probe[6] = {recorder.pid, recorder.pid, 0};
    const uint64_t stack[6] = {0, 1};
    return sandbox_harmless(program, SYS_mmap, map) && sandbox_harmless(program, SYS_mmap, own) &&
           sandbox_harmless(program, SYS_prctl, name) &&
           sandbox_harmless(program, SYS_tgkill, probe) &&
           sandbox_harmless(program, SYS_sigaltstack, stack);
}

/* Before the filter (NULL: strict mode) is installed. */
void guest_sandbox(const struct sock_fprog *program)
{
    if (!wiped.control)
        process_wake();
    if (!wiped.control || recorder.off || !recorder.process)
        return;
    if (program) {
        const uint64_t arguments[6] = {(uint64_t)recorder.output.fd, 0, 4096};
        if (!program->filter || !program->len || program->len > SANDBOX_STEPS_MAX)
            return; /* refused by the kernel */
        if (!sandbox_harmless(program, SYS_write, arguments))
            recorder.write_forbidden = true;
        if (all_harmless(program) && !recorder.write_forbidden)
            return;
    }
    if (!recorder.sandboxed)
        stream_flush_own(); /* while it is allowed */
    unwind_no_syscalls();
    recorder.sandboxed = true;
    if (!program) /* strict mode takes the time stamp counter away, too */
        clock_freeze(true);
}

bool guest_sandboxed(void) { return recorder.sandboxed; }
void guest_not_sandboxed(bool as_before) { recorder.sandboxed = as_before; }
void guest_clock_withheld(void) { clock_freeze(false); }
void guest_asks(long number, long a, long b, long c) { (void)number, (void)a, (void)b, (void)c; }
