/* brk.bpf.c - who makes the heap grow: the system calls brk, and with --mmap anonymous mappings. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/brk.h"

enum { CALL_MMAP = 9, CALL_MUNMAP = 11, CALL_BRK = 12, CALL_MREMAP = 25 };
enum { FLAG_ANONYMOUS = 0x20 };

/* A call between its entry and its return. */
struct pending {
    u64 what, before, bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, struct pending);
} pending SEC(".maps");

static long is_anonymous(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
    *(u64 *)data = vma->vm_file == NULL;
    return 0;
}

static __always_inline u64 whole_pages(u64 bytes) { return (bytes + 4095) & ~4095ull; }

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *regs, long id)
{
    if (id != CALL_BRK && !config.detail)
        return 0;
    if (id != CALL_BRK && id != CALL_MMAP && id != CALL_MUNMAP && id != CALL_MREMAP)
        return 0;
    if (!wanted())
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    struct pending p = {};
    u64 first = 0, second = 0, third = 0, flags = 0, anonymous = 0;
    u32 tid = bpf_get_current_pid_tgid();
    bpf_probe_read_kernel(&first, sizeof first, &regs->di);
    bpf_probe_read_kernel(&second, sizeof second, &regs->si);
    bpf_probe_read_kernel(&third, sizeof third, &regs->dx);
    bpf_probe_read_kernel(&flags, sizeof flags, &regs->r10);
    if (id == CALL_BRK) {
        p.what = BRK_BRK;
        p.before = BPF_CORE_READ(task, mm, brk);
        if (first == 0)
            return 0; /* a question */
    } else if (id == CALL_MMAP) {
        p.what = BRK_MMAP;
        p.bytes = whole_pages(second);
        if (!(flags & FLAG_ANONYMOUS))
            return 0;
    } else {
        if (bpf_find_vma(task, first, is_anonymous, &anonymous, 0) || !anonymous)
            return 0;
        p.what = id == CALL_MUNMAP ? BRK_MUNMAP : BRK_MREMAP;
        p.before = whole_pages(second);
        p.bytes = whole_pages(third);
    }
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
    u64 grown = 0, released = 0, after = result;
    bpf_map_delete_elem(&pending, &tid);
    bool failed = after > -4096ull;
    if (p.what == BRK_BRK) {
        grown = after > p.before ? after - p.before : 0;
        released = after < p.before ? p.before - after : 0;
    } else if (p.what == BRK_MMAP)
        grown = failed ? 0 : p.bytes;
    else if (p.what == BRK_MUNMAP)
        released = failed ? 0 : p.before;
    else if (!failed) {
        grown = p.bytes > p.before ? p.bytes - p.before : 0;
        released = p.bytes < p.before ? p.before - p.bytes : 0;
    }
    struct probe_key k = {};
    if (config.by & PROBE_BY_FUNCTION)
        k.what = p.what;
    key_who(&k);
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack();
    add(&k, 1, grown, released, 0);
    return 0;
}
