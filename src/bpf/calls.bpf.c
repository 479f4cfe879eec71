/* calls.bpf.c - how often each function is called; the cookie of a probe is the function's number.
 */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/calls.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, CALLS_FUNCTIONS_MAX);
    __type(key, u32);
    __type(value, u64);
} counts SEC(".maps");

SEC("uprobe")
int call(struct pt_regs *ctx)
{
    if (!wanted())
        return 0;
    u32 function = bpf_get_attach_cookie(ctx);
    struct probe_key k = {.what = function};
    key_who(&k);
    if (!keeps(&k, 1, 0, 0, 0))
        return 0;
    if (config.by == PROBE_BY_FUNCTION) {
        u64 *n = bpf_map_lookup_elem(&counts, &function);
        if (n)
            __sync_fetch_and_add(n, 1);
        return 0;
    }
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack_of(ctx->ip, ctx->sp, ctx->bp);
    add(&k, 1, 0, 0, 0);
    return 0;
}
