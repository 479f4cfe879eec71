/* rss.bpf.c - the resident size of processes, exactly, whenever it changes. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/rss.h"

enum { CPUS_MAX = 512, STEP_PAGES = 64, STEP_NS = 10000000 };

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, struct rss_process);
} resident SEC(".maps");

/* Shows where each processor's own data begins, which the kernel does not publish: the distance
 * from the address that stands for a value on all of them to the value on one. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} ruler SEC(".maps");

/* By way of memory, the verifier takes its address for a number, which may be added to. */
static volatile u64 ruler_at, ruler_on[CPUS_MAX]; /* the same for every writer */

static __always_inline u64 ruler_all(void)
{
    u64 address = 0;
    ruler_at = (u64)&ruler;
    bpf_probe_read_kernel(&address, sizeof address,
                          (void *)(ruler_at + bpf_core_field_offset(struct bpf_array, pptrs)));
    return address;
}

#define read_counter(mm, index, sum, rest)                                                         \
    do {                                                                                           \
        bpf_probe_read_kernel(&(sum), sizeof(sum), &(mm)->rss_stat[index].count);                  \
        bpf_probe_read_kernel(&(rest), sizeof(rest), &(mm)->rss_stat[index].counters);             \
    } while (0)

/* A counter is one number and a small rest on each processor. */
static __always_inline u64 count_of(struct mm_struct *mm, u32 member)
{
    s64 sum = 0;
    member &= 3;
    if (!bpf_core_field_exists(mm->rss_stat[0].count)) {
        struct mm_struct___before *before = (void *)mm;
        if (bpf_core_field_exists(before->rss_stat.count))
            bpf_probe_read_kernel(&sum, sizeof sum,
                                  (void *)before + member * sizeof sum +
                                      bpf_core_field_offset(before->rss_stat.count));
        return sum < 0 ? 0 : sum;
    }
    s32 *rest = NULL;
    /* Each index by itself: only constant ones are relocated. */
    switch (member) {
    case 0: read_counter(mm, 0, sum, rest); break;
    case 1: read_counter(mm, 1, sum, rest); break;
    case 2: read_counter(mm, 2, sum, rest); break;
    default: read_counter(mm, 3, sum, rest);
    }
    u64 all = ruler_all();
    u32 zero = 0;
    for (u32 i = 0; i < CPUS_MAX && i < config.cpus; i++) {
        s32 part = 0;
        ruler_on[i] = (u64)bpf_map_lookup_percpu_elem(&ruler, &zero, i);
        u64 here = ruler_on[i];
        if (!here || !rest)
            break;
        bpf_probe_read_kernel(&part, sizeof part, (void *)rest + (here - all));
        sum += part;
    }
    return sum < 0 ? 0 : sum;
}

static __always_inline void set(struct rss_process *p, u32 member, u64 pages)
{
    member &= 3;
    p->pages[member] = pages;
    if (pages > p->peak[member])
        p->peak[member] = pages;
}

static __always_inline u64 size_of(const struct rss_process *p)
{
    return p->pages[RSS_FILE] + p->pages[RSS_ANONYMOUS] + p->pages[RSS_SHARED];
}

static __always_inline void emit(struct rss_process *p, u32 pid, u64 now, u64 size)
{
    struct rss_event *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return;
    }
    e->type = RSS_EVENT;
    e->pid = pid;
    e->time_ns = now;
    for (u32 i = 0; i < RSS_KINDS; i++)
        e->pages[i] = p->pages[i];
    bpf_ringbuf_submit(e, wakes());
    p->reported = size;
    p->reported_ns = now;
    if (size > p->peak_reported)
        p->peak_reported = size;
}

SEC("tp_btf/rss_stat")
int BPF_PROG(changed, struct mm_struct *mm, int member)
{
    struct task_struct *task = bpf_get_current_task_btf(), *owner = task;
    if (BPF_CORE_READ(task, mm) != mm) {
        owner = BPF_CORE_READ(mm, owner);
        if (!owner || BPF_CORE_READ(owner, mm) != mm)
            return 0; /* being made by exec, or being taken down */
    }
    u32 pid = BPF_CORE_READ(owner, tgid);
    if (!wanted_pid(pid) || !named(owner))
        return 0;
    struct rss_process *p = bpf_map_lookup_elem(&resident, &pid);
    if (!p) {
        struct rss_process none = {};
        bpf_map_update_elem(&resident, &pid, &none, BPF_NOEXIST);
        p = bpf_map_lookup_elem(&resident, &pid);
        if (!p) {
            lose(PROBE_LOST_ROWS);
            return 0;
        }
    }
    u64 now = bpf_ktime_get_ns(), was = size_of(p);
    if (p->mm != (u64)mm) {
        p->mm = (u64)mm;
        p->peak_reported = 0;
        for (u32 i = 0; i < RSS_KINDS; i++)
            set(p, i, count_of(mm, i));
    } else {
        u64 pages = count_of(mm, member);
        u32 which = member & 3;
        /* A peak must not fall through between two events: it is reported when it is left. */
        if (was > p->peak_reported && which != RSS_SWAP && pages < p->pages[which])
            emit(p, pid, now, was);
        set(p, member, pages);
    }
    bpf_probe_read_kernel_str(p->command, sizeof p->command, owner->comm);
    __sync_fetch_and_add(&p->changes, 1);
    u64 size = size_of(p);
    if (size > p->peak_resident)
        p->peak_resident = size;
    u64 moved = size > p->reported ? size - p->reported : p->reported - size;
    if (moved < STEP_PAGES + (p->reported >> 5) && now - p->reported_ns < STEP_NS)
        return 0;
    emit(p, pid, now, size);
    return 0;
}
