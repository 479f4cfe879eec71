/* purge.bpf.c - who gives memory back to the kernel: madvise, munmap, mremap and brk. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/purge.h"

enum { CALL_MUNMAP = 11, CALL_BRK = 12, CALL_MREMAP = 25, CALL_MADVISE = 28 };
enum { ADVICE_DONTNEED = 4, ADVICE_FREE = 8 };

/* A call between its entry and its return. */
struct pending {
    u64 what, bytes, since;
    u64 wanted_end; /* of brk, which returns the end as it is then */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, struct pending);
} pending SEC(".maps");

static __always_inline u64 whole_pages(u64 bytes) { return (bytes + 4095) & ~4095ull; }

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long id)
{
    if (id != CALL_MADVISE && id != CALL_MUNMAP && id != CALL_MREMAP && id != CALL_BRK)
        return 0;
    if (!wanted())
        return 0;
    struct pending p = {};
    u64 first = 0, second = 0, third = 0;
    u32 tid = bpf_get_current_pid_tgid();
    bpf_probe_read_kernel(&first, sizeof first, &regs->di);
    bpf_probe_read_kernel(&second, sizeof second, &regs->si);
    bpf_probe_read_kernel(&third, sizeof third, &regs->dx);
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
        p.wanted_end = first;
    }
    p.since = bpf_ktime_get_ns();
    if (bpf_map_update_elem(&pending, &tid, &p, BPF_ANY))
        lose(PROBE_LOST_EVENTS);
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long result)
{
    u32 tid = bpf_get_current_pid_tgid();
    struct pending *found = bpf_map_lookup_elem(&pending, &tid);
    if (!found)
        return 0;
    struct pending p = *found;
    u64 now = bpf_ktime_get_ns(), end = result;
    bpf_map_delete_elem(&pending, &tid);
    bool failed = end > -4096ull;
    if (p.what == PURGE_BRK)
        failed = end != p.wanted_end;
    struct probe_key k = {};
    if (config.by & PROBE_BY_FUNCTION)
        k.what = p.what;
    key_who(&k);
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack();
    add(&k, 1, failed ? 0 : p.bytes, failed, now - p.since);
    return 0;
}
