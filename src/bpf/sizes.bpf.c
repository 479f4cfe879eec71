/* sizes.bpf.c - the distribution of sizes that allocation functions are asked for. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/sizes.h"

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SIZES_CLASSES);
    __type(key, u32);
    __type(value, struct sizes_class);
} classes SEC(".maps");

/* Without the multiplication in 128 bits that a compiler makes of the usual check. */
static __always_inline u64 product(u64 a, u64 b)
{
    if (a >> 32) {
        u64 swap = a;
        a = b;
        b = swap;
    }
    if (a >> 32 || ((b >> 32) * a) >> 32)
        return ~0ull; /* the function refuses it */
    return a * b;
}

SEC("uprobe")
int request(struct pt_regs *ctx)
{
    if (!wanted())
        return 0;
    u64 form = bpf_get_attach_cookie(ctx), n;
    switch (form & 0xff) {
    case SIZES_SECOND: n = ctx->si; break;
    case SIZES_RESIZE: n = ctx->si; break;
    case SIZES_THIRD: n = ctx->dx; break;
    case SIZES_PRODUCT: n = product(ctx->di, ctx->si); break;
    case SIZES_RESIZE_ELSE:
        if (!ctx->di)
            return 0;
        n = ctx->si;
        break;
    default: n = ctx->di;
    }
    u32 class = size_class(n);
    if (class >= SIZES_CLASSES)
        return 0;
    if (config.by == PROBE_BY_SIZE) {
        struct sizes_class *c = bpf_map_lookup_elem(&classes, &class);
        if (c) {
            __sync_fetch_and_add(&c->calls, 1);
            __sync_fetch_and_add(&c->bytes, n);
        }
        return 0;
    }
    struct probe_key k = {.size_class = class};
    if (config.by & PROBE_BY_FUNCTION)
        k.what = form >> 8;
    key_who(&k);
    if (config.by & PROBE_BY_STACK)
        k.stack = user_stack();
    add(&k, 1, n, 0, 0);
    return 0;
}
