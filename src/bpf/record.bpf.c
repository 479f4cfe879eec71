/* record.bpf.c - every call of an allocator's functions, one by one: `mallow record -p`. */
#include "bpf/vmlinux.h"

#define TARGETS_END_ELSEWHERE
#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/record.h"

/* A call between its entry and its return. */
struct entered {
    u64 sp; /* at the entry, which distinguishes it from calls that it makes itself; 0: there is
               none */
    u64 size, argument, stack;
    u64 result; /* where the block's address will stand; 0: it is returned */
    u32 op;
    u32 inner; /* calls that seemed to be made by it */
};

enum { INNER_MAX = 16 }; /* more of them: its return was missed */

/* Each thread's own, which ends with it. Only threads of processes that are looked at have one. */
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct entered);
} entered SEC(".maps");

/* The function refuses a product that does not fit; then what it says is the largest number. */
static __always_inline u64 product(u64 a, u64 b)
{
    if (a >> 32) {
        u64 swap = a;
        a = b;
        b = swap;
    }
    if (a >> 32 || ((b >> 32) * a) >> 32)
        return ~0ull;
    return a * b;
}

/* Losses of each process. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32); /* process */
    __type(value, u64);
} lost_calls SEC(".maps");

static __always_inline void lose_call(void)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    u64 one = 1, *n = bpf_map_lookup_elem(&lost_calls, &pid);
    lose(PROBE_LOST_EVENTS);
    if (!n && bpf_map_update_elem(&lost_calls, &pid, &one, BPF_NOEXIST) == 0)
        return;
    n = bpf_map_lookup_elem(&lost_calls, &pid); /* another CPU was quicker */
    if (n)
        __sync_fetch_and_add(n, 1);
}

static __always_inline struct record_event *new_event(u32 type, u64 address, u64 size)
{
    struct record_event *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    if (!e)
        return NULL;
    u64 id = bpf_get_current_pid_tgid();
    __builtin_memset(e, 0, sizeof *e);
    e->type = type;
    e->pid = id >> 32;
    e->tid = id;
    e->time_ns = bpf_ktime_get_ns();
    e->address = address;
    e->size = size;
    return e;
}

static __always_inline void emit(u32 what, u32 op, u64 address, const struct entered *call)
{
    struct record_event *e = new_event(RECORD_EVENT, address, call ? call->size : 0);
    if (!e) {
        lose_call();
        return;
    }
    e->what = what;
    e->op = op;
    if (call) {
        e->argument = call->argument;
        e->stack = call->stack;
    }
    bpf_ringbuf_submit(e, wakes());
}

SEC("uprobe")
int enters(struct pt_regs *ctx)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct entered *call = bpf_task_storage_get(&entered, task, NULL, 0);
    if (!call) {
        if (!wanted())
            return 0;
        call = bpf_task_storage_get(&entered, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
        if (!call) {
            lose_call();
            return 0;
        }
    }
    u64 cookie = bpf_get_attach_cookie(ctx);
    if (ctx->sp <= call->sp && ++call->inner < INNER_MAX)
        return 0; /* one of the functions calls another, or jumps to it */
    call->sp = ctx->sp;
    call->inner = 0;
    call->op = cookie >> 8;
    call->argument = call->result = 0;
    switch (cookie & 0xff) {
    case RECORD_PRODUCT: call->size = product(ctx->di, ctx->si); break;
    case RECORD_RESIZE: call->size = ctx->si; break;
    case RECORD_RESIZE_PRODUCT: call->size = product(ctx->si, ctx->dx); break;
    case RECORD_SECOND:
        call->argument = ctx->di;
        call->size = ctx->si;
        break;
    case RECORD_NEW:
        call->size = ctx->di;
        call->argument = ctx->si;
        break;
    case RECORD_THIRD:
        call->result = ctx->di;
        call->argument = ctx->si;
        call->size = ctx->dx;
        break;
    default: call->size = ctx->di;
    }
    bool resizes = (cookie & 0xff) == RECORD_RESIZE || (cookie & 0xff) == RECORD_RESIZE_PRODUCT;
    u64 old = ctx->di;
    if (config.by & PROBE_BY_STACK)
        call->stack = user_stack_of(ctx->ip, ctx->sp, ctx->bp);
    if (resizes && old)
        emit(RECORD_RESIZES, cookie >> 8, old, NULL);
    return 0;
}

SEC("uretprobe")
int leaves(struct pt_regs *ctx)
{
    struct entered *call = bpf_task_storage_get(&entered, bpf_get_current_task_btf(), NULL, 0);
    if (!call || ctx->sp != call->sp + 8)
        return 0; /* the call was made within another, or before we came */
    call->sp = 0;
    u64 address = ctx->ax;
    if (call->result) {
        u64 failed = (u32)ctx->ax;
        address = 0;
        if (!failed)
            bpf_probe_read_user(&address, sizeof address, (void *)call->result);
    }
    emit(RECORD_ALLOCATED, call->op, address, call);
    return 0;
}

SEC("uprobe")
int releases(struct pt_regs *ctx)
{
    if (!ctx->di)
        return 0;
    struct entered *outer = bpf_task_storage_get(&entered, bpf_get_current_task_btf(), NULL, 0);
    if (!outer && !wanted())
        return 0;
    if (outer && ctx->sp < outer->sp && ++outer->inner < INNER_MAX)
        return 0; /* realloc moves the block */
    emit(RECORD_RELEASED, bpf_get_attach_cookie(ctx) >> 8, ctx->di, NULL);
    return 0;
}

/* ---- processes ---- */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forks, struct task_struct *parent, struct task_struct *child)
{
    u32 pid = child->tgid;
    if (pid == parent->tgid || !wanted_pid(parent->tgid))
        return 0;
    struct record_event *e = new_event(RECORD_FORK, pid, child->mm == parent->mm);
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return 0;
    }
    bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP); /* soon, while it can be looked at */
    return 0;
}

/* The program becomes another one, whose memory is another. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(becomes, struct task_struct *task, int old_pid, struct linux_binprm *program)
{
    u32 pid = task->tgid;
    if (!wanted_pid(pid))
        return 0;
    struct record_exec *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return 0;
    }
    u64 start = BPF_CORE_READ(task, mm, arg_start), n = BPF_CORE_READ(task, mm, arg_end) - start;
    if (n > RECORD_ARGUMENT_BYTES)
        n = RECORD_ARGUMENT_BYTES;
    e->type = RECORD_EXEC;
    e->pid = pid;
    e->time_ns = bpf_ktime_get_ns();
    e->zero = 0;
    e->argument_bytes = bpf_probe_read_user(e->arguments, n, (void *)start) ? 0 : n;
    if (bpf_probe_read_kernel_str(e->path, sizeof e->path, BPF_CORE_READ(program, filename)) <= 0)
        e->path[0] = 0;
    bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exits, struct task_struct *task)
{
    u32 pid = task->tgid;
    if (task->signal->live.counter != 0 || !wanted_pid(pid))
        return 0;
    bpf_map_delete_elem(&targets, &pid);
    u32 status = task->signal->group_exit_code;
    struct record_event *e = new_event(RECORD_EXIT, 0, status ? status : task->exit_code);
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return 0;
    }
    bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
    return 0;
}
