/* sizes.bpf.c - the distribution of sizes that allocation functions are asked for. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/request.inc"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SIZES_CLASSES);
    __type(key, u32);
    __type(value, struct sizes_class);
} classes SEC(".maps");

SEC("uprobe")
int request(struct pt_regs *ctx)
{
    if (!wanted())
        return 0;
    u64 form = bpf_get_attach_cookie(ctx), n;
    if (!request_size(ctx, form & 0xff, &n))
        return 0;
    u32 class = size_class(n);
    if (class >= SIZES_CLASSES)
        return 0;
    struct probe_key k = {};
    if (config.by & PROBE_BY_FUNCTION)
        k.what = form >> 8;
    key_who(&k);
    if (!keeps(&k, 1, n, 0, 0))
        return 0;
    k.size_class = class;
    if (config.by == PROBE_BY_SIZE) {
        struct sizes_class *c = bpf_map_lookup_elem(&classes, &class);
        if (c) {
            __sync_fetch_and_add(&c->calls, 1);
            __sync_fetch_and_add(&c->bytes, n);
        }
        return 0;
    }
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack_of(ctx->ip, ctx->sp, ctx->bp);
    add(&k, 1, n, 0, 0);
    return 0;
}
