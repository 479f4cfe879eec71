/* slab.bpf.c - what the kernel allocates for itself on behalf of programs. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/slab.h"

struct live {
    struct probe_key key;
    u64 requested, allocated;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* raised with --live */
    __type(key, u64);
    __type(value, struct live);
} live SEC(".maps");

static __always_inline void allocated(void *ctx, struct live *l, const void *block, u64 call_site)
{
    struct probe_key *k = &l->key;
    key_who(k);
    if (config.by & PROBE_BY_CALLER)
        k->site = call_site;
    if (config.by & PROBE_BY_KSTACK)
        k->kstack = kernel_stack(ctx, 3);
    if (config.by & PROBE_BY_STACK)
        k->stack = user_stack();
    add(k, 1, l->requested, l->allocated, 0);
    u64 address = (u64)block;
    if (config.live && bpf_map_update_elem(&live, &address, l, BPF_ANY))
        lose(PROBE_LOST_EVENTS);
}

SEC("tp_btf/kmem_cache_alloc")
int BPF_PROG(cache_alloc, unsigned long call_site, const void *block, struct kmem_cache *cache)
{
    if (!block || !wanted())
        return 0;
    struct live l = {.requested = cache->object_size, .allocated = cache->size};
    if (config.by & PROBE_BY_CACHE)
        bpf_probe_read_kernel_str(l.key.name, sizeof l.key.name, cache->name);
    allocated(ctx, &l, block, call_site);
    return 0;
}

SEC("tp_btf/kmalloc")
int BPF_PROG(kmalloc_alloc, unsigned long call_site, const void *block, size_t requested,
             size_t given)
{
    if (!block || !wanted())
        return 0;
    struct live l = {.requested = requested, .allocated = given};
    if (config.by & PROBE_BY_CACHE)
        l.key.what = given; /* kmalloc-N; the tool makes the name */
    allocated(ctx, &l, block, call_site);
    return 0;
}

static __always_inline int freed(const void *block)
{
    u64 address = (u64)block;
    struct live *l = bpf_map_lookup_elem(&live, &address);
    if (!l)
        return 0;
    add(&l->key, -1ull, -l->requested, -l->allocated, 0);
    bpf_map_delete_elem(&live, &address);
    return 0;
}

SEC("tp_btf/kmem_cache_free")
int BPF_PROG(cache_free, unsigned long call_site, const void *block) { return freed(block); }

SEC("tp_btf/kfree")
int BPF_PROG(kmalloc_free, unsigned long call_site, const void *block) { return freed(block); }
