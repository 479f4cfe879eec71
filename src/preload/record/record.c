/* record.c - one function per API call: the real call, the clock, the stack, the row.
 *
 * Order (docs/format.md): what releases an address is stamped before the real call, what yields one
 * after it; so in the merged order of all threads an address is never handed out twice without a
 * release between. Reached from entry.c only while recording is on; sp and bp are the caller's. */
#include "glibc/versions.h"
#include "routes.h"

/* ---- glibc's chunk header ---- */

/* Usable bytes of a block that the call is about to release. */
MLW_INLINE uint64_t held_bytes(void *p)
{
    if (!p)
        return 0;
    if (unlikely(!next_facts.glibc))
        return next.malloc_usable_size(p);
    uint64_t word = ((const uint64_t *)p)[-1];
    return (word & ~7ul) - (8 + (word & 2) * 4); /* a block with its own mapping has two words */
}

/* The live sums have changed: modulo 2^64. Only this thread writes to its buffer's head. */
MLW_INLINE void add_live(struct thread *t, uint64_t bytes) { t->chunk->live_bytes += bytes; }

/* usable bytes and enum mlw_path of a block of `size` that the call has just made. says: its row
 * has no argument; with MLW_PATH_HEAP_NEW it gets t->said. */
MLW_INLINE unsigned block_facts(struct thread *t, const void *p, uint64_t size, uint64_t *usable,
                                bool says)
{
    if (unlikely(!next_facts.glibc)) {
        *usable = next.malloc_usable_size((void *)(uintptr_t)p);
        if (unlikely(*usable < size)) /* tcmalloc says 0 before it is ready */
            *usable = size;
        return 0;
    }
    uint64_t word = ((const uint64_t *)p)[-1];
    unsigned path = 0;
    if (unlikely(word & 2)) {
        *usable = (word & ~7ul) - 16;
        return MLW_PATH_MMAPPED;
    }
    *usable = (word & ~7ul) - 8;
    if (word & 4) {
        path = MLW_PATH_NON_MAIN;
        const uint64_t heap_bytes = next_facts.heap_bytes;
        if (likely(heap_bytes != 0)) {
            const struct glibc_heap *heap = (const struct glibc_heap *)((uint64_t)p & -heap_bytes);
            if (unlikely((uint64_t)heap != t->heap || heap->bytes != t->heap_bytes))
                path |= heaps_other(t, heap, says);
        }
    } else {
        const uint64_t now = *recorder.break_at;
        if (unlikely(now != recorder.last_break || (uint64_t)p > now))
            path = heaps_main(t, (uint64_t)p, word & ~7ul, says);
    }
    return path;
}

MLW_INLINE uint32_t take_stack(struct thread *t, uint64_t sp, uint64_t bp)
{
    if (likely(t->stack_mode == MLW_STACKS_FULL))
        return unwind_stack(t->unwind, sp, bp, t);
    if (t->stack_mode == MLW_STACKS_CALLER)
        return unwind_caller(t->unwind, sp, t);
    return 0;
}

/* ---- the two shapes that nearly all rows have ---- */

/* The same for all calls, so that each has only the code of what nearly all rows are: the time
 * stamp counter may be read, no signal handler interrupted us, the call has a block. */
static __attribute__((noinline)) void after_any(struct thread *t, unsigned op, void *p,
                                                uint64_t size, uint64_t argument, bool failed,
                                                const struct route *was, uint64_t sp, uint64_t bp)
{
    uint64_t clock = clock_now(t->clock_kind);
    uint64_t usable = mlw_usual_usable(size);
    unsigned path = 0;
    if (p)
        path = block_facts(t, p, size, &usable, !argument);
    if (path & MLW_PATH_HEAP_NEW)
        argument = t->said;
    if (failed)
        path |= MLW_PATH_FAILED;
    if (t->lane)
        path |= MLW_PATH_NESTED;
    uint32_t stack = take_stack(t, sp, bp);
    bool unusual = usable != mlw_usual_usable(size);
    const uint32_t extra = (uint32_t)(usable - size);
    uint8_t *end;
    if (was)
        end = mlw_row_encode_routed(t->position, &t->row, op, MLW_F_ALLOC, clock, (uint64_t)p, size,
                                    stack, unusual, extra, argument, path,
                                    p ? route_of_made(was, p, path) : MLW_ROUTE_UNKNOWN);
    else
        end = mlw_row_encode(t->position, &t->row, op, MLW_F_ALLOC, clock, (uint64_t)p, size, stack,
                             unusual, extra, argument, path);
    stream_commit(t, end);
    add_live(t, p ? usable : 0);
    thread_leave(t);
}

static __attribute__((noinline)) void before_any(struct thread *t, unsigned op, void *p,
                                                 uint64_t size, uint64_t argument, bool ends)
{
    stream_commit(t, mlw_row_encode(t->position, &t->row, op, mlw_op_fields(op),
                                    clock_now(t->clock_kind), (uint64_t)p, size, 0, 0, 0, argument,
                                    t->lane ? MLW_PATH_NESTED : 0));
    if (ends && p)
        add_live(t, -held_bytes(p));
    thread_leave(t);
}

/* After a call that yields a block, or fails to (p NULL). released: usable bytes of the block that
 * it took the place of. was: the allocator's state before the call; NULL: it has no route. */
static inline __attribute__((always_inline)) void after(unsigned op, void *p, uint64_t size,
                                                        uint64_t argument, bool failed,
                                                        uint64_t released, const struct route *was,
                                                        uint64_t sp, uint64_t bp)
{
    struct thread *t = thread_enter(sp);
    if (unlikely(!t))
        return;
    if (!failed)
        add_live(t, -released);
    if (unlikely(!p || was || !thread_is_plain(t))) {
        after_any(t, op, p, size, argument, failed, was, sp, bp);
        return;
    }
    const uint64_t clock = arch_clock();
    const uint32_t stack = take_stack(t, sp, bp); /* first: less has to be kept across the call */
    uint64_t usable;
    const unsigned path = block_facts(t, p, size, &usable, !argument);
    if (unlikely(path & MLW_PATH_HEAP_NEW))
        argument = t->said;
    const bool unusual = usable != mlw_usual_usable(size);
    uint8_t *end = mlw_row_encode(t->position, &t->row, op, MLW_F_ALLOC, clock, (uint64_t)p, size,
                                  stack, unusual, (uint32_t)(usable - size), argument, path);
    stream_commit(t, end)->live_bytes += usable;
    thread_leave(t);
}

/* Before a call that releases the block p, or does not touch it (ends false). */
static inline __attribute__((always_inline)) void before(unsigned op, unsigned fields, void *p,
                                                         uint64_t size, uint64_t argument,
                                                         bool ends, uint64_t sp)
{
    struct thread *t = thread_enter(sp);
    if (unlikely(!t))
        return;
    if (unlikely(!thread_is_plain(t))) {
        before_any(t, op, p, size, argument, ends);
        return;
    }
    struct mlw_chunk *chunk =
        stream_commit(t, mlw_row_encode(t->position, &t->row, op, fields, arch_clock(), (uint64_t)p,
                                        size, 0, 0, 0, argument, 0));
    if (ends && likely(p != 0))
        chunk->live_bytes -= held_bytes(p);
    thread_leave(t);
}

/* ---- with routes ---- */

static uint64_t multiply_sizes(size_t n, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? UINT64_MAX : total;
}

/* For calls that are rare. */
static const struct route *look_before(struct route *r, uint64_t size)
{
    if (likely(!recorder.routed))
        return 0;
    route_before_making(r, size, false);
    return r;
}

static __attribute__((noinline)) void *malloc_routed(size_t size, uint64_t sp, uint64_t bp)
{
    struct route was;
    route_before_making(&was, size, true);
    void *p = next.malloc(size);
    after(MLW_OP_MALLOC, p, size, 0, !p, 0, &was, sp, bp);
    return p;
}

static __attribute__((noinline)) void *calloc_routed(size_t n, size_t size, uint64_t sp,
                                                     uint64_t bp)
{
    struct route was;
    const uint64_t total = multiply_sizes(n, size);
    route_before_making(&was, total, false);
    void *p = next.calloc(n, size);
    after(MLW_OP_CALLOC, p, total, 0, !p, 0, &was, sp, bp);
    return p;
}

/* As `before`, with room for a route. Returns the end of the row; NULL: there is none. */
static uint8_t *before_routed(unsigned op, void *p, uint64_t size, uint64_t argument, bool ends,
                              uint64_t sp)
{
    struct thread *t = thread_enter(sp);
    if (!t)
        return 0;
    uint8_t *end = mlw_row_encode_routed(
        t->position, &t->row, op, mlw_op_fields(op), clock_now(t->clock_kind), (uint64_t)p, size, 0,
        0, 0, argument, t->lane ? MLW_PATH_NESTED : 0, MLW_ROUTE_UNKNOWN);
    stream_commit(t, end);
    if (ends && p)
        add_live(t, -held_bytes(p));
    thread_leave(t);
    return end;
}

/* Completes the row that ends there, if it is still this thread's last one: a signal handler may
 * have come in between. */
static void put_route(uint8_t *end, unsigned route, uint64_t sp)
{
    struct thread *t = thread_self;
    if (!end || !t || t->busy)
        return;
    t->busy = sp;
    barrier();
    if (t->position == end && *wiped.control == t->seen)
        end[-1] |= (uint8_t)route;
    thread_leave(t);
}

static __attribute__((noinline)) void release_routed(unsigned op, void *p, uint64_t size,
                                                     uint64_t argument, uint64_t sp)
{
    struct route was;
    route_before_release(&was, p);
    uint8_t *const end = before_routed(op, p, size, argument, true, sp);
    switch (op) {
    case MLW_OP_FREE_SIZED: next.free_sized(p, size); break;
    case MLW_OP_FREE_ALIGNED_SIZED: next.free_aligned_sized(p, argument, size); break;
    default: next.free(p); break;
    }
    put_route(end, route_of_released(&was), sp);
}

/* n: of reallocarray. */
static __attribute__((noinline)) void *resize_routed(unsigned op, void *old, size_t n, size_t size,
                                                     uint64_t total, uint64_t sp, uint64_t bp)
{
    const uint64_t released = held_bytes(old);
    struct route ending, making;
    uint8_t *end = 0;
    route_before_release(&ending, old);
    route_before_making(&making, total, false);
    if (old)
        end = before_routed(MLW_OP_REALLOC_OLD, old, 0, 0, false, sp);
    void *p = op == MLW_OP_REALLOC ? next.realloc(old, size) : next.reallocarray(old, n, size);
    making.stays = p && p == old;
    if (making.stays)
        put_route(end, MLW_ROUTE_IN_PLACE, sp);
    else if (p || !total)
        put_route(end, route_of_released(&ending), sp);
    after(op, p, total, 0, !p && (total || !old), released, &making, sp, bp);
    return p;
}

/* ---- the calls; see entry.c for the two extra arguments ---- */

void *record_malloc(size_t size, uint64_t sp, uint64_t bp)
{
    if (unlikely(recorder.routed))
        return malloc_routed(size, sp, bp);
    void *p = next.malloc(size);
    after(MLW_OP_MALLOC, p, size, 0, !p, 0, 0, sp, bp);
    return p;
}

void *record_calloc(size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    if (unlikely(recorder.routed))
        return calloc_routed(n, size, sp, bp);
    void *p = next.calloc(n, size);
    after(MLW_OP_CALLOC, p, multiply_sizes(n, size), 0, !p, 0, 0, sp, bp);
    return p;
}

void *record_realloc(void *old, size_t size, uint64_t sp, uint64_t bp)
{
    if (unlikely(recorder.routed))
        return resize_routed(MLW_OP_REALLOC, old, 1, size, size, sp, bp);
    const uint64_t released = held_bytes(old);
    if (old)
        before(MLW_OP_REALLOC_OLD, MLW_F_ADDR, old, 0, 0, false, sp);
    void *p = next.realloc(old, size);
    after(MLW_OP_REALLOC, p, size, 0, !p && (size || !old), released, 0, sp, bp);
    return p;
}

void *record_reallocarray(void *old, size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    const uint64_t total = multiply_sizes(n, size);
    if (unlikely(recorder.routed))
        return resize_routed(MLW_OP_REALLOCARRAY, old, n, size, total, sp, bp);
    const uint64_t released = held_bytes(old);
    if (old)
        before(MLW_OP_REALLOC_OLD, MLW_F_ADDR, old, 0, 0, false, sp);
    void *p = next.reallocarray(old, n, size);
    after(MLW_OP_REALLOCARRAY, p, total, 0, !p && (total || !old), released, 0, sp, bp);
    return p;
}

void record_free(void *p, uint64_t sp, uint64_t bp)
{
    (void)bp;
    if (unlikely(recorder.routed)) {
        release_routed(MLW_OP_FREE, p, 0, 0, sp);
        return;
    }
    before(MLW_OP_FREE, MLW_F_ADDR, p, 0, 0, true, sp);
    next.free(p);
}

int record_posix_memalign(void **to, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    struct route r;
    const struct route *const was = look_before(&r, size);
    const int error = next.posix_memalign(to, align, size);
    after(MLW_OP_POSIX_MEMALIGN, error ? 0 : *to, size, align, error != 0, 0, was, sp, bp);
    return error;
}

void *record_aligned_alloc(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    struct route r;
    const struct route *const was = look_before(&r, size);
    void *p = next.aligned_alloc(align, size);
    after(MLW_OP_ALIGNED_ALLOC, p, size, align, !p, 0, was, sp, bp);
    return p;
}

void *record_memalign(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    struct route r;
    const struct route *const was = look_before(&r, size);
    void *p = next.memalign(align, size);
    after(MLW_OP_MEMALIGN, p, size, align, !p, 0, was, sp, bp);
    return p;
}

void *record_valloc(size_t size, uint64_t sp, uint64_t bp)
{
    struct route r;
    const struct route *const was = look_before(&r, size);
    void *p = next.valloc(size);
    after(MLW_OP_VALLOC, p, size, 0, !p, 0, was, sp, bp);
    return p;
}

void *record_pvalloc(size_t size, uint64_t sp, uint64_t bp)
{
    struct route r;
    const struct route *const was = look_before(&r, size);
    void *p = next.pvalloc(size);
    after(MLW_OP_PVALLOC, p, size, 0, !p, 0, was, sp, bp);
    return p;
}

void record_free_sized(void *p, size_t size, uint64_t sp, uint64_t bp)
{
    (void)bp;
    if (unlikely(recorder.routed)) {
        release_routed(MLW_OP_FREE_SIZED, p, size, 0, sp);
        return;
    }
    before(MLW_OP_FREE_SIZED, MLW_F_ADDR | MLW_F_SIZE, p, size, 0, true, sp);
    next.free_sized(p, size);
}

void record_free_aligned_sized(void *p, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    (void)bp;
    if (unlikely(recorder.routed)) {
        release_routed(MLW_OP_FREE_ALIGNED_SIZED, p, size, align, sp);
        return;
    }
    before(MLW_OP_FREE_ALIGNED_SIZED, MLW_F_ADDR | MLW_F_SIZE, p, size, align, true, sp);
    next.free_aligned_sized(p, align, size);
}

size_t record_malloc_usable_size(void *p, uint64_t sp, uint64_t bp)
{
    (void)bp;
    size_t n = next.malloc_usable_size(p);
    before(MLW_OP_MALLOC_USABLE_SIZE, MLW_F_ADDR | MLW_F_SIZE, p, n, 0, false, sp);
    return n;
}

/* ---- jemalloc's own ---- */

void *record_mallocx(size_t size, int flags, uint64_t sp, uint64_t bp)
{
    void *p = next.mallocx(size, flags);
    after(MLW_OP_MALLOCX, p, size, (unsigned)flags, !p, 0, 0, sp, bp);
    return p;
}

void *record_rallocx(void *old, size_t size, int flags, uint64_t sp, uint64_t bp)
{
    const uint64_t released = held_bytes(old);
    before(MLW_OP_REALLOC_OLD, MLW_F_ADDR, old, 0, 0, false, sp);
    void *p = next.rallocx(old, size, flags);
    after(MLW_OP_RALLOCX, p, size, (unsigned)flags, !p, released, 0, sp, bp);
    return p;
}

/* In place, so that nothing changes when it fails. The size obtained counts as the size
 * requested. */
size_t record_xallocx(void *p, size_t size, size_t extra, int flags, uint64_t sp, uint64_t bp)
{
    const uint64_t released = held_bytes(p);
    before(MLW_OP_REALLOC_OLD, MLW_F_ADDR, p, 0, 0, false, sp);
    size_t has = next.xallocx(p, size, extra, flags), most;
    if (__builtin_add_overflow(size, extra, &most) || most > has)
        most = has < size ? size : has;
    after(MLW_OP_XALLOCX, has < size ? 0 : p, most, (unsigned)flags, has < size, released, 0, sp,
          bp);
    return has;
}

void record_dallocx(void *p, int flags, uint64_t sp, uint64_t bp)
{
    (void)bp;
    before(MLW_OP_DALLOCX, MLW_F_ADDR, p, 0, (unsigned)flags, true, sp);
    next.dallocx(p, flags);
}

void record_sdallocx(void *p, size_t size, int flags, uint64_t sp, uint64_t bp)
{
    (void)bp;
    before(MLW_OP_SDALLOCX, MLW_F_SIZED, p, size, (unsigned)flags, true, sp);
    next.sdallocx(p, size, flags);
}

size_t record_sallocx(const void *p, int flags, uint64_t sp, uint64_t bp)
{
    (void)bp;
    const size_t n = next.sallocx(p, flags);
    before(MLW_OP_SALLOCX, MLW_F_SIZED, (void *)(uintptr_t)p, n, (unsigned)flags, false, sp);
    return n;
}

/* ---- for cxx.c ---- */

static bool active(void)
{
    if (unlikely(!wiped.control))
        process_wake();
    return wiped.control && *wiped.control & MLW_CTL_ACTIVE;
}

void *guest_new(size_t size, uint64_t sp, uint64_t bp)
{
    return active() ? record_malloc(size, sp, bp) : next.malloc(size);
}

void *guest_new_aligned(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    size = (size + align - 1) & ~(align - 1);
    return active() ? record_aligned_alloc(align, size, sp, bp) : next.aligned_alloc(align, size);
}

void guest_delete(void *p, uint64_t sp, uint64_t bp)
{
    if (active())
        record_free(p, sp, bp);
    else
        next.free(p);
}

/* ---- for mapping.c ---- */

/* Rows whose result is an address but not a block of the allocator: no chunk header to read. */
void record_mapping(unsigned op, void *p, uint64_t size, uint64_t argument, bool failed,
                    uint64_t sp, uint64_t bp)
{
    struct thread *t = thread_enter(sp);
    if (!t)
        return;
    uint64_t clock = clock_now(t->clock_kind);
    uint32_t stack = take_stack(t, sp, bp);
    unsigned path = (failed ? MLW_PATH_FAILED : 0) | (t->lane ? MLW_PATH_NESTED : 0);
    stream_commit(t, mlw_row_encode(t->position, &t->row, op, MLW_F_ALLOC, clock,
                                    failed ? 0 : (uint64_t)p, size, stack, 0, 0, argument, path));
    thread_leave(t);
}

void record_unmapping(unsigned op, void *p, uint64_t size, uint64_t sp)
{
    before(op, MLW_F_ADDR | MLW_F_SIZE, p, size, 0, false, sp);
}
