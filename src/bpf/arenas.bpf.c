/* arenas.bpf.c - glibc's allocator from inside: by its own static probes, by its functions, or by
 * its system calls. */
#include "bpf/vmlinux.h"

#include "bpf/target.inc"
#include "bpf/stack.inc"
#include "bpf/request.inc"
#include "bpf/arenas.h"

enum { SIZE_OF_HEAP = 16, WRITABLE_OF_HEAP = 24, MMAP_THRESHOLD_OF_LIMITS = 16, HEAP_SIZES = 3 };

const volatile struct arenas_places places SEC(".rodata.places") = {0};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, ARENAS_SITES_MAX);
    __type(key, u32);
    __type(value, struct arenas_site);
} sites SEC(".maps");

/* The arguments of a function, until it returns. */
struct entered {
    u64 first, second, third;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u64); /* thread, and number of the function above it */
    __type(value, struct entered);
} entered SEC(".maps");

enum { IN_SBRK, IN_SYSMALLOC, IN_GET, IN_CALL, IN_HEAP };

/* The mmap threshold of a process, where it is not the standard one. */
enum { STANDARD_THRESHOLD = 128 << 10 };
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, u64);
} thresholds SEC(".maps");

static __always_inline u64 threshold(void)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    u64 *known = bpf_map_lookup_elem(&thresholds, &pid);
    return known ? *known : STANDARD_THRESHOLD;
}

static __always_inline void set_threshold(u64 bytes)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (bpf_map_update_elem(&thresholds, &pid, &bytes, BPF_ANY))
        lose(PROBE_LOST_TARGETS);
}

static __always_inline void emit_known(u32 probe, s64 a, s64 b, s64 c, u32 known)
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
    e->known = known;
    bpf_ringbuf_submit(e, 0);
}

static __always_inline void emit(u32 probe, s64 a, s64 b, s64 c)
{
    emit_known(probe, a, b, c, ARENAS_ARGUMENTS);
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
    case ARENAS_UNKNOWN: return 0;
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
    if (site->probe == ARENAS_FREE_DYN_THRESHOLDS || site->probe == ARENAS_MMAP_THRESHOLD)
        set_threshold(value[0]);
    emit_known(site->probe, value[0], value[1], value[2], site->known);
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
        emit(ARENAS_SBRK_MORE, ctx->ax, by, 0);
    else
        emit(ARENAS_SBRK_LESS, ctx->ax + by, -by, 0);
    return 0;
}

SEC("uprobe")
int heap_made(struct pt_regs *ctx)
{
    if (wanted() && ctx->ax)
        emit(ARENAS_HEAP_NEW, ctx->ax, user_word(ctx->ax + SIZE_OF_HEAP), 0);
    return 0;
}

/* Reports mp_ when it has changed. */
static __always_inline void look_at_limits(u64 limits)
{
    u64 now = user_word(limits + MMAP_THRESHOLD_OF_LIMITS);
    if (now == threshold())
        return;
    set_threshold(now);
    emit(ARENAS_LIMITS, now, user_word(limits), (u32)user_word(limits + places.fixed) != 0);
}

SEC("uprobe")
int sysmalloc_enter(struct pt_regs *ctx)
{
    if (!ctx->si || !wanted())
        return 0;
    look_at_limits(ctx->ip + places.limits_too);
    if (ctx->si == ctx->ip + places.main_arena)
        emit(ARENAS_MAIN, ctx->si, 0, 0);
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
    u64 top = user_word(e.first + places.top);
    for (u32 i = 0; i < HEAP_SIZES; i++) {
        u64 heap = top & -places.heaps[i];
        if (!heap || user_word(heap) != e.first)
            continue;
        emit(ARENAS_GROWN, heap, user_word(heap + SIZE_OF_HEAP), 0);
        break;
    }
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
        emit(ARENAS_GOT, ctx->ax, e.first, e.second);
    return 0;
}

SEC("uprobe")
int retry(struct pt_regs *ctx)
{
    if (!wanted())
        return 0;
    const s64 back = user_word(ctx->sp) - ctx->ip;
    for (u32 i = 0; i < ARENAS_RETRIERS; i++)
        if (back >= places.retriers[i].from && back < places.retriers[i].to) {
            emit_known(places.retriers[i].probe, ctx->si, 0, 0, 1);
            break;
        }
    emit(ARENAS_RETRY, ctx->si, ctx->di, 0);
    return 0;
}

SEC("uprobe")
int lock_wait(struct pt_regs *ctx)
{
    if (wanted())
        emit(ARENAS_WAITED, ctx->di, 0, 0);
    return 0;
}

SEC("uprobe")
int chunk_unmapped(struct pt_regs *ctx)
{
    if (wanted())
        look_at_limits(ctx->ip + places.limits);
    return 0;
}

SEC("uprobe")
int option_set(struct pt_regs *ctx)
{
    if (wanted())
        emit(ARENAS_MALLOPT, (s32)ctx->di, (s32)ctx->si, 0);
    return 0;
}

SEC("uprobe")
int complaint(struct pt_regs *ctx)
{
    /* By its address: the text itself may not have been read into memory yet. */
    if (!places.double_free || ctx->di != ctx->ip + places.double_free || !wanted())
        return 0;
    emit(ARENAS_TCACHE_DOUBLE_FREE, 0, 0, 0);
    return 0;
}

enum {
    CALL_MPROTECT = 10,
    CALL_MUNMAP = 11,
    CALL_BRK = 12,
    CALL_MADVISE = 28,
    CALL_EXIT = 60,
    CALL_FUTEX = 202,
    CALL_EXIT_GROUP = 231,
    CALL_URETPROBE = 335, /* made by the kernel's own code in a function that is probed */
    CALL_UPROBE = 336,
    READ_WRITE = 3,
    DYNAMIC_MAX = 32 << 20
};

SEC("tp_btf/sys_enter")
int BPF_PROG(memory_call, struct pt_regs *regs, long id)
{
    enum { ADVICE_DONTNEED = 4 };
    u64 address = 0, bytes = 0, advice = 0;
    if ((id != CALL_MUNMAP && id != CALL_MADVISE) || !wanted())
        return 0;
    bpf_probe_read_kernel(&address, sizeof address, &regs->di);
    bpf_probe_read_kernel(&bytes, sizeof bytes, &regs->si);
    bpf_probe_read_kernel(&advice, sizeof advice, &regs->dx);
    for (u32 i = 0; i < HEAP_SIZES; i++) {
        u64 heap = address & -places.heaps[i];
        if (id == CALL_MUNMAP) {
            if (address == heap && bytes == places.heaps[i])
                emit(ARENAS_HEAP_FREE, heap, 0, 0);
        } else if (advice == ADVICE_DONTNEED && address != heap &&
                   address + bytes == heap + user_word(heap + SIZE_OF_HEAP)) {
            /* malloc_trim gives back what lies inside; only a heap's end is its end */
            emit(ARENAS_HEAP_LESS, heap, address - heap, 0);
            break;
        }
    }
    return 0;
}

/* ---- by its system calls ---- */

/* Heaps that were made. */
struct heap_key {
    u64 heap;
    u64 pid;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __type(key, struct heap_key);
    __type(value, u64); /* the bytes last reported */
} heaps SEC(".maps");

static __always_inline bool begins_arena(u64 address)
{
    /* behind the header of its heap: 32 bytes, 48 since glibc 2.35 */
    u64 offset = address & (places.heaps[0] - 1);
    return offset == 0x20 || offset == 0x30;
}

/* The heap that the thread made in its last call has its header by now. */
static __always_inline void look_at_new_heap(void)
{
    struct entered e;
    if (!leave(IN_HEAP, &e))
        return;
    u64 arena = user_word(e.first), bytes = user_word(e.first + SIZE_OF_HEAP);
    if (!begins_arena(arena) || !bytes || bytes > places.heaps[HEAP_SIZES - 1])
        return; /* something else that begins there */
    struct heap_key key = {.heap = e.first, .pid = bpf_get_current_pid_tgid() >> 32};
    if (bpf_map_update_elem(&heaps, &key, &bytes, BPF_ANY))
        lose(PROBE_LOST_EVENTS);
    emit(ARENAS_HEAP_NEW, e.first, bytes, arena);
    if ((arena & -places.heaps[0]) == e.first)
        emit(ARENAS_GOT, arena, 0, 0);
}

struct bpf_map;

/* Sizes that changed without a call of the kernel. */
static long look_at_heap(struct bpf_map *map, struct heap_key *key, u64 *reported, void *data)
{
    u64 now;
    if (key->pid != bpf_get_current_pid_tgid() >> 32)
        return 0;
    if (bpf_probe_read_user(&now, sizeof now, (void *)(key->heap + SIZE_OF_HEAP)) ||
        now == *reported)
        return 0;
    *reported = now;
    emit(ARENAS_GROWN, key->heap, now, 0);
    return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_enter, struct pt_regs *regs, long id)
{
    u64 first = 0, second = 0, third = 0;
    if (id == CALL_URETPROBE || id == CALL_UPROBE || !wanted())
        return 0; /* no call of the program's: a new heap may have no header yet */
    look_at_new_heap();
    bpf_probe_read_kernel(&first, sizeof first, &regs->di);
    bpf_probe_read_kernel(&second, sizeof second, &regs->si);
    bpf_probe_read_kernel(&third, sizeof third, &regs->dx);
    switch (id) {
    case CALL_BRK:
        if (first)
            enter(IN_CALL, CALL_BRK, BPF_CORE_READ(bpf_get_current_task_btf(), mm, brk), 0);
        break;
    case CALL_MPROTECT:
        if (third == READ_WRITE)
            enter(IN_CALL, CALL_MPROTECT, first, second);
        break;
    case CALL_MUNMAP: {
        /* A block of malloc's own mapping says so itself: its size, of which two words lack since
         * glibc 2.43. */
        u64 chunk = first & (ARCH_PAGE_BYTES - 1) ? 0 : user_word(first + 8);
        if (second && (chunk == (second | 2) || chunk == ((second - 16) | 2))) {
            chunk &= -16ull;
            if (chunk > threshold() && chunk < DYNAMIC_MAX)
                set_threshold(chunk);
            emit(ARENAS_UNMAPPED, chunk, 0, 0);
        }
        struct heap_key key = {.heap = first, .pid = bpf_get_current_pid_tgid() >> 32};
        if (second >= places.heaps[0])
            bpf_map_delete_elem(&heaps, &key);
        break;
    }
    case CALL_FUTEX:
        if (begins_arena(first) && !(second & 0x7f))
            emit(ARENAS_WAITED, first, 0, 0);
        break;
    case CALL_EXIT:
    case CALL_EXIT_GROUP: bpf_for_each_map_elem(&heaps, look_at_heap, NULL, 0); break;
    default: break;
    }
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_leave, struct pt_regs *regs, long result)
{
    struct entered e;
    if (!leave(IN_CALL, &e) || (u64)result > -4096ull)
        return 0;
    if (e.first == CALL_BRK) {
        u64 now = result;
        if (now == e.second)
            return 0;
        emit(ARENAS_MAIN, 0, 0, 0);
        if (now > e.second)
            emit(ARENAS_SBRK_MORE, now, now - e.second, 0);
        else
            emit(ARENAS_SBRK_LESS, now, e.second - now, 0);
        return 0;
    }
    for (u32 i = 0; i < HEAP_SIZES; i++) {
        u64 heap = e.second & -places.heaps[i];
        struct heap_key key = {.heap = heap, .pid = bpf_get_current_pid_tgid() >> 32};
        u64 *reported = bpf_map_lookup_elem(&heaps, &key);
        /* it grows where what can be written to ends, as its header has it still */
        if (!reported || e.second != heap + user_word(heap + WRITABLE_OF_HEAP))
            continue;
        *reported = e.second + e.third - heap;
        emit(ARENAS_GROWN, heap, *reported, 0);
        return 0;
    }
    if (!(e.second & (places.heaps[0] - 1)))
        enter(IN_HEAP, e.second, 0, 0);
    return 0;
}

/* ---- requests beside the threshold ---- */

SEC("uprobe")
int request(struct pt_regs *ctx)
{
    u64 form = bpf_get_attach_cookie(ctx), n;
    if (!wanted() || !request_size(ctx, form & 0xff, &n))
        return 0;
    u64 limit = threshold(), chunk = (n + 8 + 15) & ~15ull; /* as glibc compares it */
    struct probe_key k = {.pid = bpf_get_current_pid_tgid() >> 32,
                          .site = limit,
                          .what = chunk < n || chunk >= limit,
                          .size_class = size_class(n)};
    add(&k, 1, n, 0, 0);
    return 0;
}

/* ---- for all ---- */

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_ends, struct task_struct *task)
{
    enum { GROUP_EXIT = 4 };
    if (task->pid != task->tgid && !(task->signal->flags & GROUP_EXIT) && wanted())
        emit(ARENAS_THREAD_END, 0, 0, 0);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(executes, struct task_struct *task)
{
    u32 pid = task->tgid;
    if (config.filter && !bpf_map_lookup_elem(&targets, &pid))
        return 0;
    bpf_map_delete_elem(&thresholds, &pid);
    emit(ARENAS_EXEC, 0, 0, 0);
    return 0;
}
