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

/* By the address of the kernel's structure. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* raised with --live */
    __type(key, u64);
    __type(value, struct slab_cache);
} caches SEC(".maps");

/* How many blocks were given out again though no release of them was reported. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* raised with --live */
    __type(key, struct slab_origin);
    __type(value, u64);
} unseen SEC(".maps");

static __always_inline struct live *is_live(const void *block)
{
    u64 address = (u64)block;
    return bpf_map_lookup_elem(&live, &address);
}

static __always_inline void ends(const void *block, struct live *l)
{
    u64 address = (u64)block;
    add(&l->key, -1ull, -l->requested, -l->allocated, 0);
    bpf_map_delete_elem(&live, &address);
}

/* These two come first, and are attached first: no block is seen whose release is not. */
SEC("tp_btf/kmem_cache_free")
int BPF_PROG(cache_free, unsigned long call_site, const void *block, struct kmem_cache *cache)
{
    u64 address = (u64)cache;
    struct slab_cache *c = bpf_map_lookup_elem(&caches, &address);
    if (c)
        __sync_fetch_and_add(&c->released, 1);
    struct live *l = is_live(block);
    if (l)
        ends(block, l);
    return 0;
}

SEC("tp_btf/kfree")
int BPF_PROG(kmalloc_free, unsigned long call_site, const void *block)
{
    struct live *l = is_live(block);
    if (l)
        ends(block, l);
    return 0;
}

/* A block that is live and given out was released, and the kernel did not report it. */
static __always_inline void given_out(const void *block)
{
    struct live *l = config.live ? is_live(block) : 0;
    if (!l)
        return;
    struct slab_origin o = {.site = l->key.site, .what = l->key.what};
    __builtin_memcpy(o.name, l->key.name, sizeof o.name);
    u64 *n = bpf_map_lookup_elem(&unseen, &o), one = 1;
    if (n)
        __sync_fetch_and_add(n, 1);
    else if (bpf_map_update_elem(&unseen, &o, &one, BPF_ANY))
        lose(PROBE_LOST_BLOCKS);
    ends(block, l);
}

static __always_inline void know_cache(struct kmem_cache *cache, const char *name)
{
    u64 address = (u64)cache;
    struct slab_cache *known = bpf_map_lookup_elem(&caches, &address), c = {};
    if (known) {
        __sync_fetch_and_add(&known->given_out, 1);
        return;
    }
    __builtin_memcpy(c.name, name, sizeof c.name);
    c.given_out = 1;
    if (bpf_core_field_exists(cache->cpu_sheaves))
        c.has_sheaves = BPF_CORE_READ(cache, cpu_sheaves) != 0;
    if (bpf_map_update_elem(&caches, &address, &c, BPF_NOEXIST) &&
        !bpf_map_lookup_elem(&caches, &address))
        lose(PROBE_LOST_BLOCKS);
}

static __always_inline void allocated(void *ctx, struct live *l, const void *block, u64 call_site)
{
    struct probe_key *k = &l->key;
    key_who(k);
    if (config.by & PROBE_BY_CALLER || config.live)
        k->site = call_site;
    if (!keeps(k, 1, l->requested, l->allocated, 0))
        return;
    if (config.by & PROBE_BY_KSTACK)
        k->kstack = kernel_stack(ctx, 3);
    if (config.by & PROBE_BY_STACK)
        k->stack = user_stack();
    add(k, 1, l->requested, l->allocated, 0);
    u64 address = (u64)block;
    if (config.live && bpf_map_update_elem(&live, &address, l, BPF_ANY))
        lose(PROBE_LOST_BLOCKS);
}

SEC("tp_btf/kmem_cache_alloc")
int BPF_PROG(cache_alloc, unsigned long call_site, const void *block, struct kmem_cache *cache)
{
    given_out(block);
    if (!block || !wanted())
        return 0;
    struct live l = {.requested = cache->object_size, .allocated = cache->size};
    if (asks(PROBE_BY_CACHE) || config.live)
        bpf_probe_read_kernel_str(l.key.name, sizeof l.key.name, cache->name);
    if (config.live)
        know_cache(cache, l.key.name);
    allocated(ctx, &l, block, call_site);
    return 0;
}

SEC("tp_btf/kmalloc")
int BPF_PROG(kmalloc_alloc, unsigned long call_site, const void *block, size_t requested,
             size_t given)
{
    given_out(block);
    if (!block || !wanted())
        return 0;
    struct live l = {.requested = requested, .allocated = given};
    if (asks(PROBE_BY_CACHE) || config.live)
        l.key.what = given; /* kmalloc-N; the tool makes the name */
    allocated(ctx, &l, block, call_site);
    return 0;
}
