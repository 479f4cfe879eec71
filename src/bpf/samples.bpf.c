/* samples.bpf.c - the static probes of libmallow-watch.so, in every process that carries it. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/samples.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, SAMPLES_SITES_MAX);
    __type(key, u32);
    __type(value, struct samples_site);
} sites SEC(".maps");

/* Processes with events: their ends are reported, too. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, u32);
} reported SEC(".maps");

enum { REGISTERS = 21 };

static __always_inline struct samples_event *begin(u32 what)
{
    struct samples_event *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return NULL;
    }
    struct task_struct *task = bpf_get_current_task_btf();
    u64 id = bpf_get_current_pid_tgid();
    e->type = SAMPLES_EVENT;
    e->what = what;
    e->pid = id >> 32;
    e->tid = id;
    e->ppid = BPF_CORE_READ(task, group_leader, real_parent, tgid);
    e->zero = 0;
    e->start_ns = BPF_CORE_READ(task, group_leader, start_time);
    e->time_ns = bpf_ktime_get_ns();
    e->stack = 0;
    for (u32 i = 0; i < SAMPLES_ARGUMENTS; i++)
        e->argument[i] = 0;
    return e;
}

SEC("uprobe")
int at_site(struct pt_regs *ctx)
{
    u64 registers[REGISTERS];
    u32 number = bpf_get_attach_cookie(ctx), pid = bpf_get_current_pid_tgid() >> 32, one = 1;
    struct samples_site *site = bpf_map_lookup_elem(&sites, &number);
    if (!site || pid == config.own_pid)
        return 0;
    u64 stack = user_stack_of(ctx->ip, ctx->sp, ctx->bp);
    bpf_probe_read_kernel(registers, sizeof registers, ctx);
    bpf_map_update_elem(&reported, &pid, &one, BPF_ANY);
    struct samples_event *e = begin(site->what);
    if (!e)
        return 0;
    e->stack = stack;
    for (u32 i = 0; i < SAMPLES_ARGUMENTS; i++) {
        u32 word = site->word[i];
        if (i < site->arguments && word < REGISTERS)
            e->argument[i] = registers[word];
    }
    bpf_ringbuf_submit(e, 0);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(becomes_another, struct task_struct *task)
{
    struct samples_event *e =
        begin(SAMPLES_EXEC); /* comes from all processes: it may be about to report */
    if (e)
        bpf_ringbuf_submit(e, 0);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exits, struct task_struct *task)
{
    u32 pid = task->tgid;
    if (task->signal->live.counter || !bpf_map_lookup_elem(&reported, &pid))
        return 0;
    struct samples_event *e = begin(SAMPLES_EXIT);
    if (e) {
        u32 code = task->signal->group_exit_code;
        e->argument[0] = code ? code : task->exit_code;
        bpf_ringbuf_submit(e, 0);
    }
    bpf_map_delete_elem(&reported, &pid);
    return 0;
}
