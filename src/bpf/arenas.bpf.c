/* arenas.bpf.c - glibc's allocator from inside: by its own static probes, or by its functions. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/arenas.h"

enum { HEAP_BYTES = 64 << 20, TOP_OF_ARENA = 96, SIZE_OF_HEAP = 16, MMAP_THRESHOLD_OF_LIMITS = 16 };

const volatile struct arenas_places places SEC(".rodata.places") = {0};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, ARENAS_SITES_MAX);
    __type(key, u32);
    __type(value, struct arenas_site);
} sites SEC(".maps");

/* What a function was called with, until it returns. */
struct entered {
    u64 first, second, third;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u64); /* thread, and number of the function above it */
    __type(value, struct entered);
} entered SEC(".maps");

enum { IN_SBRK, IN_SYSMALLOC, IN_GET };

static __always_inline void tell(u32 probe, s64 a, s64 b, s64 c)
{
    struct arenas_event *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    u64 id = bpf_get_current_pid_tgid();
    if (!e) {
        lose(PROBE_LOST_EVENTS);
        return;
    }
    e->type = ARENAS_EVENT;
    e->probe = probe;
    e->pid = id >> 32;
    e->tid = id;
    e->time_ns = bpf_ktime_get_ns();
    e->argument[0] = a;
    e->argument[1] = b;
    e->argument[2] = c;
    bpf_ringbuf_submit(e, 0);
}

/* ---- glibc's own probes ---- */

enum { REGISTERS = 21, REGISTER_IP = 16 };

static __always_inline u64 word(const u64 *registers, u32 number)
{
    return number < REGISTERS ? registers[number] : 0;
}

static __noinline s64 argument(const u64 *registers, const struct arenas_argument *a)
{
    u64 value = 0;
    if (!registers || !a)
        return 0;
    u64 address = a->offset;
    switch (a->kind) {
    case ARENAS_CONSTANT: return a->offset;
    case ARENAS_ADDRESS: return registers[REGISTER_IP] + a->offset;
    case ARENAS_REGISTER: value = word(registers, a->base); break;
    case ARENAS_RELATIVE:
        address += registers[REGISTER_IP];
        bpf_probe_read_user(&value, sizeof value, (void *)address);
        break;
    default:
        address += word(registers, a->base) + word(registers, a->index) * a->scale;
        bpf_probe_read_user(&value, sizeof value, (void *)address);
    }
    switch (a->size) {
    case 1: return (u8)value;
    case -1: return (s8)value;
    case 2: return (u16)value;
    case -2: return (s16)value;
    case 4: return (u32)value;
    case -4: return (s32)value;
    default: return value;
    }
}

SEC("uprobe")
int at_site(struct pt_regs *ctx)
{
    u64 registers[REGISTERS];
    s64 value[ARENAS_ARGUMENTS] = {};
    if (!wanted())
        return 0;
    u32 number = bpf_get_attach_cookie(ctx);
    struct arenas_site *site = bpf_map_lookup_elem(&sites, &number);
    if (!site)
        return 0;
    bpf_probe_read_kernel(registers, sizeof registers, ctx);
    for (u32 i = 0; i < ARENAS_ARGUMENTS; i++)
        if (i < site->arguments)
            value[i] = argument(registers, &site->argument[i]);
    tell(site->probe, value[0], value[1], value[2]);
    return 0;
}

/* ---- by its functions ---- */

static __always_inline u64 user_word(u64 address)
{
    u64 value = 0;
    bpf_probe_read_user(&value, sizeof value, (void *)address);
    return value;
}

static __always_inline void enter(u32 where, u64 first, u64 second, u64 third)
{
    u64 key = bpf_get_current_pid_tgid() << 32 | where;
    struct entered e = {first, second, third};
    if (bpf_map_update_elem(&entered, &key, &e, BPF_ANY))
        lose(PROBE_LOST_EVENTS);
}

static __always_inline bool leave(u32 where, struct entered *e)
{
    u64 key = bpf_get_current_pid_tgid() << 32 | where;
    struct entered *found = bpf_map_lookup_elem(&entered, &key);
    if (!found)
        return false;
    *e = *found;
    bpf_map_delete_elem(&entered, &key);
    return true;
}

SEC("uprobe")
int sbrk_enter(struct pt_regs *ctx)
{
    if (wanted())
        enter(IN_SBRK, ctx->di, 0, 0);
    return 0;
}

SEC("uprobe")
int sbrk_leave(struct pt_regs *ctx)
{
    struct entered e;
    if (!leave(IN_SBRK, &e) || ctx->ax == -1ull || !e.first)
        return 0;
    s64 by = e.first;
    if (by > 0)
        tell(ARENAS_SBRK_MORE, ctx->ax, by, 0);
    else
        tell(ARENAS_SBRK_LESS, ctx->ax + by, -by, 0);
    return 0;
}

SEC("uprobe")
int heap_made(struct pt_regs *ctx)
{
    if (wanted() && ctx->ax)
        tell(ARENAS_HEAP_NEW, ctx->ax, user_word(ctx->ax + SIZE_OF_HEAP), 0);
    return 0;
}

SEC("uprobe")
int sysmalloc_enter(struct pt_regs *ctx)
{
    if (!ctx->si || !wanted())
        return 0;
    if (ctx->si == ctx->ip + places.main_arena)
        tell(ARENAS_MAIN, ctx->si, 0, 0);
    else
        enter(IN_SYSMALLOC, ctx->si, 0, 0);
    return 0;
}

SEC("uprobe")
int sysmalloc_leave(struct pt_regs *ctx)
{
    struct entered e;
    if (!leave(IN_SYSMALLOC, &e))
        return 0;
    u64 heap = user_word(e.first + TOP_OF_ARENA) & ~(HEAP_BYTES - 1ull);
    if (heap)
        tell(ARENAS_GROWN, heap, user_word(heap + SIZE_OF_HEAP), 0);
    return 0;
}

SEC("uprobe")
int get_enter(struct pt_regs *ctx)
{
    if (wanted())
        enter(IN_GET, ctx->si, user_word(ctx->ip + places.free_list), 0);
    return 0;
}

SEC("uprobe")
int get_leave(struct pt_regs *ctx)
{
    struct entered e;
    if (leave(IN_GET, &e) && ctx->ax)
        tell(ARENAS_GOT, ctx->ax, e.first, e.second);
    return 0;
}

SEC("uprobe")
int retry(struct pt_regs *ctx)
{
    if (wanted())
        tell(ARENAS_RETRY, ctx->si, ctx->di, 0);
    return 0;
}

SEC("uprobe")
int lock_wait(struct pt_regs *ctx)
{
    if (wanted())
        tell(ARENAS_WAITED, ctx->di, 0, 0);
    return 0;
}

SEC("uprobe")
int chunk_unmapped(struct pt_regs *ctx)
{
    u64 limits = ctx->ip + places.limits;
    if (wanted())
        tell(ARENAS_LIMITS, user_word(limits + MMAP_THRESHOLD_OF_LIMITS), user_word(limits), 0);
    return 0;
}

SEC("uprobe")
int option_set(struct pt_regs *ctx)
{
    if (wanted())
        tell(ARENAS_MALLOPT, (s32)ctx->di, (s32)ctx->si, 0);
    return 0;
}

SEC("uprobe")
int complaint(struct pt_regs *ctx)
{
    /* "free(): double free detected in tcache 2", in words */
    const u64 first = 0x203a292865657266, second = 0x6620656c62756f64, last = 0x3220656863616374;
    u64 text[5] = {};
    if (!wanted())
        return 0;
    bpf_probe_read_user(text, sizeof text, (void *)ctx->di);
    if (text[0] != first || text[1] != second || text[4] != last)
        return 0;
    tell(ARENAS_TCACHE_DOUBLE_FREE, 0, 0, 0);
    return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(memory_call, struct pt_regs *regs, long id)
{
    enum { CALL_MUNMAP = 11, CALL_MADVISE = 28, ADVICE_DONTNEED = 4 };
    u64 address = 0, bytes = 0, advice = 0;
    if ((id != CALL_MUNMAP && id != CALL_MADVISE) || !wanted())
        return 0;
    bpf_probe_read_kernel(&address, sizeof address, &regs->di);
    bpf_probe_read_kernel(&bytes, sizeof bytes, &regs->si);
    bpf_probe_read_kernel(&advice, sizeof advice, &regs->dx);
    u64 heap = address & ~(HEAP_BYTES - 1ull);
    if (id == CALL_MUNMAP) {
        if (address == heap && bytes == HEAP_BYTES)
            tell(ARENAS_HEAP_FREE, heap, 0, 0);
    } else if (advice == ADVICE_DONTNEED && address != heap &&
               address + bytes == heap + user_word(heap + SIZE_OF_HEAP))
        /* malloc_trim gives back what lies inside; only a heap's end is its end */
        tell(ARENAS_HEAP_LESS, heap, address - heap, 0);
    return 0;
}

/* ---- for both ---- */

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_ends, struct task_struct *task)
{
    enum { GROUP_EXIT = 4 };
    if (task->pid != task->tgid && !(task->signal->flags & GROUP_EXIT) && wanted())
        tell(ARENAS_THREAD_END, 0, 0, 0);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(executes, struct task_struct *task)
{
    u32 pid = task->tgid;
    if (!config.filter || bpf_map_lookup_elem(&targets, &pid))
        tell(ARENAS_EXEC, 0, 0, 0);
    return 0;
}
