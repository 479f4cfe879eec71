/* faults.bpf.c - page faults, minor and major, from the kernel's own software events. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/faults.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, u32);
} access SEC(".maps");

enum { ERROR_PROTECTION = 1, ERROR_WRITE = 2, ERROR_FETCH = 16 };

struct mapping {
    u64 address;
    char *name;
};

static long mapping_found(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
    struct mapping *m = data;
    char *name = m->name;
    struct file *file = vma->vm_file;
    struct mm_struct *mm = vma->vm_mm;
    if (file) {
        const unsigned char *from = BPF_CORE_READ(file, f_path.dentry, d_name.name);
        bpf_probe_read_kernel_str(name, PROBE_NAME_BYTES, from);
    } else if (vma->vm_start <= mm->brk && vma->vm_end >= mm->start_brk)
        __builtin_memcpy(name, "[heap]", 7);
    else if (vma->vm_start <= mm->start_stack && vma->vm_end >= mm->start_stack)
        __builtin_memcpy(name, "[stack]", 8);
    else
        __builtin_memcpy(name, "[anonymous]", 12);
    return 0;
}

static long place_found(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
    u32 *place = data;
    struct file *file = vma->vm_file;
    struct mm_struct *mm = vma->vm_mm;
    if (file)
        *place = config.own_inode && BPF_CORE_READ(file, f_inode, i_ino) == config.own_inode
                     ? FAULTS_OWN
                     : FAULTS_FILE;
    else if (vma->vm_start <= mm->brk && vma->vm_end >= mm->start_brk)
        *place = FAULTS_HEAP;
    else if (vma->vm_start <= mm->start_stack && vma->vm_end >= mm->start_stack)
        *place = FAULTS_STACK;
    else
        *place = FAULTS_ANONYMOUS;
    return 0;
}

static __always_inline u32 take_access(void)
{
    u32 tid = bpf_get_current_pid_tgid(), found = FAULTS_KERNEL;
    u32 *how = bpf_map_lookup_elem(&access, &tid);
    if (how) {
        found = *how;
        bpf_map_delete_elem(&access, &tid);
    }
    return found;
}

static __always_inline int emit(struct bpf_perf_event_data *ctx, u64 major)
{
    u64 id = bpf_get_current_pid_tgid();
    u32 place = FAULTS_BUSY, how = take_access();
    bpf_find_vma(bpf_get_current_task_btf(), ctx->addr, place_found, &place, 0);
    struct faults_event *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return 0;
    }
    e->type = FAULTS_EVENT;
    e->pid = id >> 32;
    e->tid = id;
    e->major = major;
    e->access = how;
    e->place = place;
    e->zero = 0;
    e->time_ns = bpf_ktime_get_ns();
    e->address = ctx->addr;
    bpf_ringbuf_submit(e, wakes());
    return 0;
}

static __always_inline int fault(struct bpf_perf_event_data *ctx, u64 minor, u64 major)
{
    if (!wanted())
        return 0;
    if (config.stream)
        return emit(ctx, major);
    struct probe_key k = {};
    key_who(&k);
    if (asks(PROBE_BY_ADDRESS))
        k.site = ctx->addr & ~(u64)(ARCH_PAGE_BYTES - 1);
    if (asks(PROBE_BY_MAPPING)) {
        struct mapping m = {.name = k.name};
        if (bpf_find_vma(bpf_get_current_task_btf(), ctx->addr, mapping_found, &m, 0))
            __builtin_memcpy(k.name, "[busy]", 7); /* the map of the process was being changed */
    }
    if (asks(PROBE_BY_ACCESS))
        k.what = take_access();
    if (!keeps(&k, minor, 0, major, 0))
        return 0;
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack();
    add(&k, minor, 0, major, 0);
    return 0;
}

SEC("perf_event")
int minor_fault(struct bpf_perf_event_data *ctx) { return fault(ctx, 1, 0); }

SEC("perf_event")
int major_fault(struct bpf_perf_event_data *ctx) { return fault(ctx, 0, 1); }

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_begins, unsigned long address, struct pt_regs *regs, unsigned long code)
{
    if (!wanted())
        return 0;
    u32 tid = bpf_get_current_pid_tgid(), how = FAULTS_READ;
    if (code & ERROR_FETCH)
        how = FAULTS_FETCH;
    else if (code & ERROR_WRITE)
        how = code & ERROR_PROTECTION ? FAULTS_COPY : FAULTS_WRITE;
    bpf_map_update_elem(&access, &tid, &how, BPF_ANY);
    return 0;
}
