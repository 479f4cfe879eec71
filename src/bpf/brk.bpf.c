/* brk.bpf.c - call sites that grow the heap: the system calls brk, and with --mmap anonymous
 * mappings. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/brk.h"
#include "bpf/call.inc"

enum { FLAG_ANONYMOUS = 0x20 };

/* pending: bytes that there are to be; before: the end of the heap, or bytes, until then. */

static long is_anonymous(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
    *(u64 *)data = vma->vm_file == NULL;
    return 0;
}

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
    CALL_ARGUMENT(first, regs, di);
    CALL_ARGUMENT(second, regs, si);
    CALL_ARGUMENT(third, regs, dx);
    CALL_ARGUMENT(flags, regs, r10);
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
    call_begins(&p);
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *regs, long result)
{
    struct pending p;
    u64 grown = 0, released = 0, after = result;
    if (!call_ends(&p))
        return 0;
    bool failed = call_failed(after);
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
    call_count(p.what, grown, released, 0);
    return 0;
}
