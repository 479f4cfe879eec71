/* reclaim.bpf.c - how the kernel reclaims pages, and which threads wait for it. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/reclaim.h"

struct under_way {
    u64 since;
    u32 what, zero;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, struct under_way);
} under_way SEC(".maps");

static __always_inline void count(void *ctx, u32 what, u64 calls, u64 pages, u64 ns, u64 scanned)
{
    if (config.stream) {
        /* The work of the kernel's own thread belongs to no process. */
        if (calls && (what == RECLAIM_DIRECT || what == RECLAIM_GROUP))
            emit_pages(what == RECLAIM_DIRECT ? PROBE_PAGES_RECLAIMED : PROBE_PAGES_GROUP, 0, pages,
                       ns);
        return;
    }
    struct probe_key k = {.what = what};
    key_who(&k);
    if (!keeps(&k, calls, pages, ns, scanned))
        return;
    if (config.by & PROBE_BY_KSTACK)
        k.kstack = kernel_stack(ctx, 0);
    if (config.by & PROBE_BY_STACK && what != RECLAIM_DAEMON)
        k.stack = user_stack();
    add(&k, calls, pages, ns, scanned);
}

static __always_inline int begin(u32 what)
{
    if (what != RECLAIM_DAEMON && !wanted())
        return 0;
    u32 tid = bpf_get_current_pid_tgid();
    struct under_way u = {.since = bpf_ktime_get_ns(), .what = what};
    bpf_map_update_elem(&under_way, &tid, &u, BPF_ANY);
    return 0;
}

static __always_inline int end(void *ctx, u64 pages)
{
    u32 tid = bpf_get_current_pid_tgid();
    struct under_way *u = bpf_map_lookup_elem(&under_way, &tid);
    if (!u)
        return 0;
    count(ctx, u->what, 1, pages, bpf_ktime_get_ns() - u->since, 0);
    bpf_map_delete_elem(&under_way, &tid);
    return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(direct_begins) { return begin(RECLAIM_DIRECT); }

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(direct_ends, unsigned long pages) { return end(ctx, pages); }

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(group_begins) { return begin(RECLAIM_GROUP); }

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(group_ends, unsigned long pages) { return end(ctx, pages); }

SEC("tp_btf/mm_vmscan_kswapd_wake")
int BPF_PROG(daemon_wakes) { return begin(RECLAIM_DAEMON); }

SEC("tp_btf/mm_vmscan_kswapd_sleep")
int BPF_PROG(daemon_sleeps) { return end(ctx, 0); }

SEC("tp_btf/mm_vmscan_wakeup_kswapd")
int BPF_PROG(daemon_woken)
{
    if (wanted())
        count(ctx, RECLAIM_WAKES, 1, 0, 0, 0);
    return 0;
}

SEC("tp_btf/mm_vmscan_lru_shrink_inactive")
int BPF_PROG(scanned, int node, unsigned long pages, unsigned long reclaimed)
{
    u32 tid = bpf_get_current_pid_tgid();
    struct under_way *u = bpf_map_lookup_elem(&under_way, &tid);
    if (!u) {
        char name[PROBE_COMMAND_BYTES];
        bpf_get_current_comm(name, sizeof name);
        bool daemon = name[0] == 'k' && name[1] == 's' && name[2] == 'w' && name[3] == 'a' &&
                      name[4] == 'p' && name[5] == 'd';
        if (daemon) /* it was awake before the probe began */
            begin(RECLAIM_DAEMON);
        if (daemon || wanted())
            count(ctx, daemon ? RECLAIM_DAEMON : RECLAIM_OTHER, 0, reclaimed, 0, pages);
    } else if (u->what == RECLAIM_DAEMON)
        count(ctx, u->what, 0, reclaimed, 0, pages);
    else
        count(ctx, u->what, 0, 0, 0, pages); /* the end carries the reclaimed pages */
    return 0;
}

SEC("tp_btf/mark_victim")
int BPF_PROG(kill, struct task_struct *task)
{
    u32 pid = task->tgid;
    if (!wanted_pid(pid) || !named(task))
        return 0;
    if (config.stream) {
        emit_pages(PROBE_PAGES_KILLED, pid, 0, 0);
        return 0;
    }
    struct probe_key k = {.what = RECLAIM_KILL};
    if (config.by & PROBE_BY_PROCESS)
        k.pid = pid;
    if (config.by & (PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD))
        bpf_probe_read_kernel_str(k.command, sizeof k.command, task->comm);
    if (keeps_of(task, &k, 1, 0, 0, 0, 0, 0))
        add(&k, 1, 0, 0, 0);
    return 0;
}
