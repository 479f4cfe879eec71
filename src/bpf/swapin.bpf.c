/* swapin.bpf.c - pages that come back from swap, and go there, and how long programs waited. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"

/* The last fault of a thread. Nothing says when it ends. */
struct fault {
    u64 since;
    u64 reads; /* pages came from swap within it */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, struct fault);
} begun SEC(".maps");

/* ctx: NULL where the kernel has no stack, for the fault is of the user's code. */
static __always_inline void count(void *ctx, u64 in, u64 out, u64 major, u64 ns, u64 ahead)
{
    if (config.stream) {
        emit_pages(in ? PROBE_PAGES_IN : out ? PROBE_PAGES_OUT : PROBE_PAGES_WAIT, 0, in + out, ns);
        return;
    }
    struct probe_key k = {};
    key_who(&k);
    if (!keeps_of(bpf_get_current_task_btf(), &k, in, out, major, ns, 0, ahead))
        return;
    if (config.by & PROBE_BY_KSTACK && ctx)
        k.kstack = kernel_stack(ctx, 0);
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack();
    k.size_class = size_class(ns); /* the histogram of waiting */
    add(&k, in, out, major, ns);
    struct probe_value *v = ahead ? sum_of(&k) : 0;
    if (v)
        __sync_fetch_and_add(&v->last, ahead);
}

/* Pages that come from swap beside those that a fault waits for: all but its first. */
static __always_inline u64 read_ahead(u64 n)
{
    u32 tid = bpf_get_current_pid_tgid();
    struct fault *f = bpf_map_lookup_elem(&begun, &tid);
    if (!f || f->reads)
        return n;
    f->reads = 1;
    return 0;
}

/* Pages of zeros, which newer kernels keep no copy of: none is read. */
static __always_inline void count_zeros(void *ctx, u64 n)
{
    if (config.stream)
        return;
    struct probe_key k = {};
    key_who(&k);
    if (!keeps_of(bpf_get_current_task_btf(), &k, 0, 0, 0, 0, n, 0))
        return;
    if (config.by & PROBE_BY_KSTACK)
        k.kstack = kernel_stack(ctx, 0);
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack();
    struct probe_value *v = sum_of(&k);
    if (v)
        __sync_fetch_and_add(&v->rest, n);
}

SEC("tp_btf/count_memcg_events")
int BPF_PROG(memory_event, void *group, int item, unsigned long n)
{
    if (item == bpf_core_enum_value(enum vm_event_item, PSWPIN)) {
        if (wanted())
            count(ctx, n, 0, 0, 0, read_ahead(n));
    } else if (item == bpf_core_enum_value(enum vm_event_item, PSWPOUT)) {
        if (wanted())
            count(ctx, 0, n, 0, 0, 0);
    } else if (bpf_core_enum_value_exists(enum vm_event_item, SWPIN_ZERO) &&
               item == bpf_core_enum_value(enum vm_event_item, SWPIN_ZERO)) {
        if (wanted())
            count_zeros(ctx, n);
    }
    return 0;
}

static __always_inline int begin(void)
{
    if (!wanted())
        return 0;
    u32 tid = bpf_get_current_pid_tgid();
    struct fault f = {.since = bpf_ktime_get_ns()};
    bpf_map_update_elem(&begun, &tid, &f, BPF_ANY);
    return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(user_fault) { return begin(); }

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(kernel_fault) { return begin(); }

SEC("perf_event")
int major_fault(struct bpf_perf_event_data *ctx)
{
    if (!wanted())
        return 0;
    u32 tid = bpf_get_current_pid_tgid();
    struct fault *f = bpf_map_lookup_elem(&begun, &tid);
    u64 now = bpf_ktime_get_ns();
    count(NULL, 0, 0, 1, f && now > f->since ? now - f->since : 0, 0);
    return 0;
}
