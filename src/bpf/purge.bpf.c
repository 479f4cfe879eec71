/* purge.bpf.c - call sites that return memory to the kernel: madvise, munmap, mremap and brk. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/purge.h"
#include "bpf/call.inc"

enum { ADVICE_DONTNEED = 4, ADVICE_FREE = 8 };

/* pending: bytes to be given back; before: the end that brk is asked for. */

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long id)
{
    if (id != CALL_MADVISE && id != CALL_MUNMAP && id != CALL_MREMAP && id != CALL_BRK)
        return 0;
    if (!wanted())
        return 0;
    struct pending p = {};
    u64 first = 0, second = 0, third = 0;
    CALL_ARGUMENT(first, regs, di);
    CALL_ARGUMENT(second, regs, si);
    CALL_ARGUMENT(third, regs, dx);
    if (id == CALL_MADVISE) {
        if (third != ADVICE_DONTNEED && third != ADVICE_FREE)
            return 0;
        p.what = third == ADVICE_FREE ? PURGE_FREE : PURGE_DONTNEED;
        p.bytes = whole_pages(second);
    } else if (id == CALL_MUNMAP) {
        p.what = PURGE_MUNMAP;
        p.bytes = whole_pages(second);
    } else if (id == CALL_MREMAP) {
        p.what = PURGE_MREMAP;
        second = whole_pages(second);
        third = whole_pages(third);
        if (third >= second)
            return 0;
        p.bytes = second - third;
    } else {
        struct task_struct *task = bpf_get_current_task_btf();
        u64 end = BPF_CORE_READ(task, mm, brk);
        p.what = PURGE_BRK;
        if (first == 0 || first >= end)
            return 0;
        p.bytes = end - first;
        p.before = first;
    }
    p.since = bpf_ktime_get_ns();
    call_begins(&p);
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long result)
{
    struct pending p;
    if (!call_ends(&p))
        return 0;
    /* brk returns the end as it is then: of a refusal, the old one */
    bool failed = p.what == PURGE_BRK ? (u64)result != p.before : call_failed(result);
    call_count(p.what, failed ? 0 : p.bytes, failed, bpf_ktime_get_ns() - p.since);
    return 0;
}
