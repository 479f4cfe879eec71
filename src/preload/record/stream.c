/* stream.c - threads and their buffers.
 *
 * A thread owns a buffer in shared memory and writes rows there; a full one leaves with one write.
 * What the program's end leaves in it is recovered by `mallow record` or by the first reader.
 * Buffers and thread states of ended threads are used again; nothing here waits for another thread.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "arch/page.h"
#include "arch/stack.h"
#include "arch/registers.h"
#include "recorder.h"

TLS struct thread *thread_self;
static TLS uint64_t acquiring; /* stack pointer of the thread_enter_slow under way, 0 for none */
static pthread_key_t end_key;
static volatile bool end_key_made;

/* ---- buffers ---- */

/* Windows become visible to readers in their order, so that `windows` never counts one whose number
 * is not known yet: two threads may add two at once. */
static void windows_publish(void)
{
    uint32_t n = __atomic_load_n(&recorder.process->windows, __ATOMIC_SEQ_CST);
    while (n < MLW_PROCESS_WINDOWS && __atomic_load_n(&recorder.windows[n], __ATOMIC_SEQ_CST))
        if (__atomic_compare_exchange_n(&recorder.process->windows, &n, n + 1, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            n++;
}

/* Maps window w of this process; NULL when there is no room. Threads that come at once agree on its
 * number first; the one that maps it last gives its mapping back. */
static uint8_t *window_add(uint32_t w)
{
    uint32_t number = __atomic_load_n(&recorder.window_number[w], __ATOMIC_ACQUIRE);
    if (!number) {
        const uint32_t mine =
            __atomic_fetch_add(&recorder.session->next_window, 1, __ATOMIC_RELAXED) + 1;
        if (__atomic_compare_exchange_n(&recorder.window_number[w], &number, mine, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            number = mine;
    }
    uint8_t *p = process_map_window(number - 1);
    if (!p)
        return 0;
    __atomic_store_n(&recorder.process->window[w], number - 1, __ATOMIC_RELEASE);
    uint8_t *there = 0;
    if (!__atomic_compare_exchange_n(&recorder.windows[w], &there, p, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        sys_munmap(p, MLW_WINDOW_BYTES);
        p = there;
    }
    windows_publish();
    return p;
}

static struct mlw_chunk *slot_at(uint32_t index)
{
    uint32_t w = index / MLW_WINDOW_SLOTS;
    if (w >= MLW_PROCESS_WINDOWS)
        return 0;
    uint8_t *window = __atomic_load_n(&recorder.windows[w], __ATOMIC_ACQUIRE);
    if (!window && !sys_closed) /* more threads at once than one window holds */
        window = window_add(w);
    if (!window)
        return 0;
    return (struct mlw_chunk *)(window + (size_t)(index % MLW_WINDOW_SLOTS) * MLW_SLOT_BYTES);
}

/* Our own shared memory is a file of limited size: a store into a page that it has no room for
 * would kill the program, so the room is made first. `mallow record`'s is a memfd, which has no
 * limit. */
static bool slot_back(uint32_t index)
{
    if (!recorder.lone)
        return true;
    int fd = process_memory_fd();
    uint64_t at = mlw_window_offset(recorder.process->window[index / MLW_WINDOW_SLOTS]) +
                  (uint64_t)(index % MLW_WINDOW_SLOTS) * MLW_SLOT_BYTES;
    return fd >= 0 && !sys_fallocate(fd, 0, (off_t)at, MLW_SLOT_BYTES);
}

/* Readers of the live sums look at the first `count` buffers. */
static void slots_publish(uint32_t count)
{
    uint32_t known = __atomic_load_n(&recorder.process->slots, __ATOMIC_RELAXED);
    while (known < count && !__atomic_compare_exchange_n(&recorder.process->slots, &known, count,
                                                         false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        ;
}

/* A free buffer, marked USED; NULL when there is none. */
static struct mlw_chunk *slot_take(void)
{
    uint32_t used = __atomic_load_n(&recorder.slots_used, __ATOMIC_RELAXED);
    /* buffers that the parent gave back, only worth a look when some were handed over */
    if (__atomic_load_n(&recorder.process->drain, __ATOMIC_ACQUIRE))
        for (uint32_t i = 0; i < used && i < MLW_WINDOW_SLOTS; i++) {
            struct mlw_chunk *c = slot_at(i);
            uint64_t free_state = MLW_SLOT_FREE;
            if (c && __atomic_compare_exchange_n(&c->slot_state, &free_state, MLW_SLOT_USED, false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return c;
        }
    while (used < MLW_WINDOW_SLOTS * MLW_PROCESS_WINDOWS) {
        if (sys_closed && used >= MLW_WINDOW_SLOTS && !recorder.windows[used / MLW_WINDOW_SLOTS])
            return 0;
        if (__atomic_compare_exchange_n(&recorder.slots_used, &used, used + 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            struct mlw_chunk *c = slot_at(used);
            if (!c || !slot_back(used))
                return 0;
            /* a thread that looks for returned buffers may have been here already */
            uint64_t free_state = MLW_SLOT_FREE;
            if (__atomic_compare_exchange_n(&c->slot_state, &free_state, MLW_SLOT_USED, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
                slots_publish(used + 1);
                return c;
            }
            used = __atomic_load_n(&recorder.slots_used, __ATOMIC_RELAXED);
        }
    }
    return 0;
}

void stream_begin_chunk(struct thread *t, uint32_t sequence, uint64_t first_call)
{
    struct mlw_chunk *c = t->chunk;
    __atomic_store_n(&c->payload_bytes, 0, __ATOMIC_RELEASE);
    barrier();
    c->calls = 0;
    c->magic = MLW_CHUNK_MAGIC;
    c->type = MLW_CHUNK_EVENTS;
    c->flags = 0;
    c->header_bytes = sizeof *c;
    c->checksum = 0;
    c->image = recorder.image;
    c->pid = recorder.pid;
    c->tid = t->tid;
    c->thread = t->number;
    c->lane = t->lane;
    c->sequence = sequence;
    c->first_call = first_call;
    c->lost_calls = t->lost;
    c->base_clock = t->row.clock;
    c->base_address = t->row.address;
    c->pair_clock = 0;
    c->pair_monotonic_ns = 0;
    c->thread_pointer = arch_thread_pointer();
    t->position = (uint8_t *)c + sizeof *c;
    t->limit = (uint8_t *)c + MLW_SLOT_BYTES - MLW_ROW_MAX;
    if (__atomic_load_n(&c->slot_state, __ATOMIC_RELAXED) == MLW_SLOT_COPIED) /* not these rows */
        __atomic_store_n(&c->slot_state, MLW_SLOT_USED, __ATOMIC_RELEASE);
    if (recorder.ending)
        t->limit = t->position + 1; /* rows after our destructor are not collected */
}

/* ---- the way out ---- */

/* One write of head and payload; 0 or -errno. A file-size limit must not reach the program as a
 * signal. */
static long write_both(int fd, const struct mlw_chunk *head, const void *payload)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)head, sizeof *head},
                           {(void *)(uintptr_t)payload, head->payload_bytes}};
    uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
    uint64_t only = 1ul << (SIGXFSZ - 1), old = 0;
    bool limited = false;
    if (!sys_getrlimit(RLIMIT_FSIZE, limit) && limit[0] != RLIM_INFINITY) {
        if (sys_rt_sigprocmask(SIG_BLOCK, &only, &old))
            return -EFBIG;
        limited = true;
    }
    long r;
    do
        r = sys_call(SYS_writev, fd, (long)iov, 2, 0, 0, 0);
    while (r == -EINTR);
    if (limited) {
        if (r == -EFBIG && !(old & only)) {
            struct timespec now = {0, 0};
            sys_rt_sigtimedwait(&only, 0, &now); /* the signal that this write raised */
        }
        sys_rt_sigprocmask(SIG_SETMASK, &old, 0);
    }
    if (r < 0)
        return r;
    return (size_t)r == sizeof *head + head->payload_bytes ? 0 : -ENOSPC;
}

/* Behind the closed door (confine.c): head and payload, which lie together, leave in one. So the
 * state of the slot is in the file, too: one that no other thread or process changes. */
static int write_confined(struct mlw_chunk *c)
{
    uint64_t state, fs = c->thread_pointer, live = c->live_bytes;
    struct stat st;
    long r = -EBADF;
    if (recorder.may_not_write || recorder.output.fd < 0 ||
        sys_decided(SYS_fstat, recorder.output.fd, (long)&st, 0, 0, 0, 0) ||
        st.st_dev != recorder.output.dev || st.st_ino != recorder.output.ino)
        return (int)r;
    state = __atomic_exchange_n(&c->slot_state, MLW_SLOT_LEAVING, __ATOMIC_ACQ_REL);
    c->thread_pointer = c->live_bytes = c->checksum = 0;
    c->checksum = mlw_chunk_checksum(c, c + 1);
    do
        r = sys_decided(SYS_write, recorder.output.fd, (long)c,
                        (long)(sizeof *c + c->payload_bytes), 0, 0, 0);
    while (r == -EINTR);
    __atomic_store_n(&c->slot_state, state, __ATOMIC_RELEASE);
    c->thread_pointer = fs;
    c->live_bytes = live;
    return r < 0 ? (int)r : (size_t)r == sizeof *c + c->payload_bytes ? 0 : -ENOSPC;
}

/* Completes the head (checksum, flags) in a copy and writes both. 0 or -errno. */
int stream_write_chunk(struct mlw_chunk *c, const void *payload)
{
    if (sys_closed)
        return payload == c + 1 ? write_confined(c) : -EBADF;
    struct mlw_chunk head = *c;
    head.slot_state = head.thread_pointer = head.live_bytes = 0;
    if (recorder.clock_kind != CLOCK_FROZEN) {
        head.pair_clock = clock_now(recorder.clock_kind);
        head.pair_monotonic_ns = clock_monotonic_ns();
    }
    head.checksum = mlw_chunk_checksum(&head, payload);
    int fd = process_output_fd();
    return fd < 0 ? -EBADF : (int)write_both(fd, &head, payload);
}

/* Gives the parent a chunk that this process could not write. Not of events; before the first
 * thread has a buffer, or beside them. */
bool stream_give_chunk(const struct mlw_chunk *head, const void *payload)
{
    if (recorder.lone || head->payload_bytes > MLW_SLOT_BYTES - sizeof *head)
        return false;
    struct mlw_chunk *c = slot_take();
    if (!c)
        return false;
    __atomic_store_n(&recorder.process->drain, 1, __ATOMIC_RELEASE);
    const uint64_t state = c->slot_state;
    *c = *head;
    c->slot_state = state;
    memcpy(c + 1, payload, head->payload_bytes);
    __atomic_store_n(&c->slot_state, MLW_SLOT_FULL, __ATOMIC_RELEASE);
    return true;
}

/* Gives the buffer to the parent, which writes it out, and goes on in another one. */
static bool hand_over_chunk(struct thread *t)
{
    if (recorder.lone)
        return false;
    __atomic_store_n(&recorder.process->drain, 1, __ATOMIC_RELEASE);
    struct mlw_chunk *fresh = slot_take();
    if (!fresh)
        return false;
    struct mlw_chunk *old = t->chunk;
    fresh->live_bytes = old->live_bytes;
    old->live_bytes = 0;
    uint32_t sequence = old->sequence;
    uint64_t first = old->first_call + old->calls;
    t->chunk = fresh;
    stream_begin_chunk(t, sequence + 1, first);
    barrier();
    __atomic_store_n(&old->slot_state, MLW_SLOT_FULL, __ATOMIC_RELEASE);
    return true;
}

/* goes_on: rows follow, so what need not leave may stay. */
static void flush_stream(struct thread *t, bool keep, bool goes_on)
{
    struct mlw_chunk *c = t->chunk;
    if (!c->payload_bytes)
        return;
    if (!keep && bound_keeps_back(t, goes_on))
        return;
    int r = -1;
    uint64_t limit[2];
    bool parent = !recorder.lone;
    if (parent && (sys_closed || __atomic_load_n(&recorder.process->drain, __ATOMIC_RELAXED) ||
                   (!sys_getrlimit(RLIMIT_FSIZE, limit) && limit[0] != RLIM_INFINITY))) {
        if (hand_over_chunk(t))
            return;
    }
    if (recorder.attached && parent && !sys_closed && !process_has_parent())
        /* `mallow record` was killed: no reader will detach */
        __atomic_store_n(&recorder.process->control, MLW_CTL_DEAD, __ATOMIC_RELEASE);
    r = stream_write_chunk(c, (uint8_t *)c + sizeof *c);
    if (!r) {
        stream_begin_chunk(t, c->sequence + 1, c->first_call + c->calls);
        return;
    }
    if ((r == -EBADF || r == -EFBIG || r == -EPERM || r == -EACCES) && hand_over_chunk(t))
        return;
    if (!keep)
        bound_unwritten(t, r);
}

void stream_flush(struct thread *t) { flush_stream(t, false, false); }

void stream_make_room(struct thread *t)
{
    const bool back = arch_forwards();
    if (t->position >= t->limit)
        flush_stream(t, false, true);
    arch_backwards(back);
}

void stream_meta(struct thread *t, unsigned kind, const void *a, size_t na, const void *b,
                 size_t nb)
{
    size_t n = na + nb;
    if (n > 60000)
        return;
    if (t->position + 5 + n > t->limit)
        flush_stream(t, false, n < 2 * ARCH_PAGE_BYTES);
    if (t->position + 5 + n > (uint8_t *)t->chunk + MLW_SLOT_BYTES - MLW_ROW_MAX)
        return;
    uint8_t *p = t->position;
    p[0] = MLW_OP_META;
    p[1] = 0;
    p[2] = (uint8_t)kind;
    p[3] = (uint8_t)n;
    p[4] = (uint8_t)(n >> 8);
    memcpy(p + 5, a, na);
    if (nb)
        memcpy(p + 5 + na, b, nb);
    barrier();
    t->position = p + 5 + n;
    __atomic_store_n(
        &t->chunk->payload_bytes,
        (uint32_t)(t->position - (uint8_t *)t->chunk - (ptrdiff_t)sizeof(struct mlw_chunk)),
        __ATOMIC_RELEASE);
}

void stream_control_row(struct thread *t, unsigned control)
{
    uint8_t payload[9];
    uint64_t clock = clock_now(t->clock_kind);
    memcpy(payload, &clock, 8);
    payload[8] = (uint8_t)control;
    stream_meta(t, MLW_META_CONTROL, payload, sizeof payload, 0, 0);
}

/* ---- what the unwinder asks of us ---- */

void unwind_host_node(void *ctx, uint32_t id, uint32_t parent, uint64_t pc, uint32_t module,
                      unsigned flags)
{
    uint8_t p[21];
    memcpy(p, &id, 4);
    memcpy(p + 4, &parent, 4);
    memcpy(p + 8, &pc, 8);
    memcpy(p + 16, &module, 4);
    p[20] = (uint8_t)flags;
    stream_meta((struct thread *)ctx, MLW_META_NODE, p, sizeof p, 0, 0);
}

void unwind_host_module(void *ctx, uint32_t id, uint64_t start, uint64_t end, uint64_t bias,
                        const uint8_t *build_id, size_t build_id_bytes, const char *path)
{
    uint8_t p[4 + 24 + 1 + 64 + 2];
    uint16_t path_bytes = (uint16_t)strlen(path);
    if (build_id_bytes > 64)
        build_id_bytes = 64;
    memcpy(p, &id, 4);
    memcpy(p + 4, &start, 8);
    memcpy(p + 12, &end, 8);
    memcpy(p + 20, &bias, 8);
    p[28] = (uint8_t)build_id_bytes;
    memcpy(p + 29, build_id, build_id_bytes);
    memcpy(p + 29 + build_id_bytes, &path_bytes, 2);
    stream_meta((struct thread *)ctx, MLW_META_MODULE, p, 31 + build_id_bytes, path, path_bytes);
}

void unwind_host_module_gone(void *ctx, uint32_t id)
{
    struct thread *t = (struct thread *)ctx;
    uint8_t p[12];
    uint64_t clock = clock_now(t->clock_kind);
    memcpy(p, &id, 4);
    memcpy(p + 4, &clock, 8);
    stream_meta(t, MLW_META_MODULE_GONE, p, sizeof p, 0, 0);
}

void unwind_host_truncated(void)
{
    if (recorder.process)
        __atomic_fetch_add(&recorder.process->stacks_truncated, 1, __ATOMIC_RELAXED);
}

/* ---- threads come and go ---- */

static void thread_start_row(struct thread *t)
{
    uint8_t p[10 + 16];
    uint64_t clock = clock_now(t->clock_kind);
    char name[16] = "";
    if (sys_prctl(PR_GET_NAME, (unsigned long)name, 0, 0, 0))
        name[0] = 0;
    uint16_t n = (uint16_t)strnlen(name, sizeof name);
    memcpy(p, &clock, 8);
    memcpy(p + 8, &n, 2);
    memcpy(p + 10, name, n);
    stream_meta(t, MLW_META_THREAD_START, p, 10u + n, 0, 0);
}

/* Makes t, whose chunk is set, the state of the calling thread. */
static void thread_begin(struct thread *t, uint32_t tid, uint32_t lane, uint32_t number)
{
    t->tid = tid;
    t->lane = lane;
    t->number = number;
    __atomic_store_n(&t->ended, 0, __ATOMIC_RELAXED);
    t->destructor_rounds = 0;
    t->clock_kind = thread_self ? thread_self->clock_kind : recorder.clock_kind;
    t->stack_mode = recorder.stack_mode;
    t->row.clock = clock_now(t->clock_kind);
    t->row.address = 0;
    t->heap = t->heap_bytes = 0;
    t->lost = 0;
    t->nested = 0;
    t->round = recorder.round;
    t->seen = *wiped.control;
    stream_begin_chunk(t, 0, 0);
    if (!lane)
        thread_start_row(t);
}

/* The state of a thread that has ended, to be used again. */
static struct thread *thread_recycle(uint32_t tid)
{
    for (struct thread *t = __atomic_load_n(&recorder.threads, __ATOMIC_ACQUIRE); t; t = t->next) {
        uint32_t owner = __atomic_load_n(&t->owner, __ATOMIC_ACQUIRE);
        if (!owner)
            continue;
        if (owner != tid && (!__atomic_load_n(&t->ended, __ATOMIC_ACQUIRE) ||
                             sys_tgkill((int)recorder.pid, (int)owner, 0) != -ESRCH))
            continue;
        if ((owner == tid && t == thread_self) || !t->chunk)
            continue;
        if (!__atomic_compare_exchange_n(&t->owner, &owner, 0, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        if (t->round != recorder.round) { /* its buffer went with an earlier recording */
            t->chunk = slot_take();
            if (!t->chunk)
                return 0;
        }
        stream_flush(t);
        if (t->chunk
                ->payload_bytes) /* could not leave: its calls are counted, its rows kept back */
            stream_begin_chunk(t, 0, 0);
        if (t->unwind)
            unwind_thread_reset(t->unwind);
        __atomic_store_n(&t->owner, tid, __ATOMIC_RELEASE);
        return t;
    }
    return 0;
}

/* States of threads that ended without their destructors: looked for when their number has doubled.
 */
static void thread_sweep(void)
{
    static uint32_t next_sweep = 128;
    uint32_t count = __atomic_load_n(&recorder.thread_count, __ATOMIC_RELAXED),
             at = __atomic_load_n(&next_sweep, __ATOMIC_RELAXED);
    if (count < at || sys_closed)
        return;
    if (!__atomic_compare_exchange_n(&next_sweep, &at, count * 2, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    for (struct thread *t = __atomic_load_n(&recorder.threads, __ATOMIC_ACQUIRE); t; t = t->next) {
        uint32_t owner = __atomic_load_n(&t->owner, __ATOMIC_ACQUIRE);
        if (owner && !__atomic_load_n(&t->ended, __ATOMIC_ACQUIRE) &&
            sys_tgkill((int)recorder.pid, (int)owner, 0) == -ESRCH)
            __atomic_store_n(&t->ended, 1, __ATOMIC_RELEASE);
    }
}

static struct thread *thread_new(uint32_t tid)
{
    /* 64 states a block of memory, which counts for itself how many are given out; a race wastes at
     * most a block */
    enum { POOL = 64 };
    struct block {
        struct thread states[POOL];
        uint32_t used;
    };
    static struct block *pool;
    for (;;) {
        struct block *block = __atomic_load_n(&pool, __ATOMIC_ACQUIRE);
        uint32_t i = block ? __atomic_fetch_add(&block->used, 1, __ATOMIC_RELAXED) : POOL;
        if (i < POOL) {
            struct thread *t = &block->states[i];
            t->chunk = slot_take();
            if (!t->chunk)
                return 0;
            if (recorder.stack_mode != MLW_STACKS_NONE && !t->unwind)
                t->unwind = unwind_thread_new();
            __atomic_store_n(&t->owner, tid, __ATOMIC_RELAXED);
            struct thread *head = __atomic_load_n(&recorder.threads, __ATOMIC_RELAXED);
            do
                t->next = head;
            while (!__atomic_compare_exchange_n(&recorder.threads, &head, t, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
            __atomic_fetch_add(&recorder.thread_count, 1, __ATOMIC_RELAXED);
            return t;
        }
        struct block *fresh = (struct block *)own_map(sizeof *fresh);
        if (!fresh)
            return 0;
        if (!__atomic_compare_exchange_n(&pool, &block, fresh, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            own_unmap(fresh, sizeof *fresh);
    }
}

static struct thread *thread_acquire(uint32_t lane, uint32_t number)
{
    uint32_t tid = thread_self  ? thread_self->tid
                   : sys_closed ? (uint32_t)(arch_thread_pointer() >> ARCH_PAGE_SHIFT) | 1u << 31
                                : (uint32_t)sys_gettid();
    struct thread *t = 0;
    if (!lane) {
        thread_sweep();
        t = thread_recycle(tid);
    }
    if (!t)
        t = thread_new(tid);
    if (!t)
        return 0;
    if (recorder.stack_mode != MLW_STACKS_NONE && !t->unwind) {
        t->stack_mode = MLW_STACKS_NONE; /* no memory for stacks: events without */
    }
    if (!lane)
        number = __atomic_fetch_add(&recorder.process->threads, 1, __ATOMIC_RELAXED);
    thread_begin(t, tid, lane, number);
    if (!t->unwind)
        t->stack_mode = MLW_STACKS_NONE;
    return t;
}

/* While a thread's state is made (some hundred microseconds at worst), handlers wait: their calls
 * could not be recorded. Faults and what seccomp raises do not wait. Without success they run, and
 * what they allocate meanwhile is counted as lost. */
static bool hold_handlers(uint64_t *old)
{
    static const int never[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
    uint64_t held = ~(uint64_t)0;
    for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++)
        held &= ~(1ul << (never[i] - 1));
    return !sys_rt_sigprocmask(SIG_BLOCK, &held, old);
}

static void let_handlers(const uint64_t *old) { sys_rt_sigprocmask(SIG_SETMASK, old, 0); }

/* Instead of a stack pointer: the thread is in a call of ours to pthread_setspecific. */
#define KEY_BUSY 1u

/* Busy: a signal handler interrupted us, or a longjmp left us so. Frames nest, so a stack pointer
 * at or above the interrupted call's means that that call is gone, unless this is another stack. */
static bool call_is_gone(uint64_t busy, uint64_t sp)
{
    if (busy <= KEY_BUSY || sp < busy || sp - busy >= (8ul << 20))
        return false;
    stack_t alternate;
    return sys_closed || (!sys_call(SYS_sigaltstack, 0, (long)&alternate, 0, 0, 0, 0) &&
                          !(alternate.ss_flags & SS_ONSTACK));
}

static struct thread *enter_slow(uint64_t sp)
{
    struct thread *t = thread_self;
    if ((acquiring && !call_is_gone(acquiring, sp)) || !wiped.control) {
        const bool own = t && t->busy == KEY_BUSY && !sys_closed; /* handlers are held */
        if (recorder.process && !own)
            __atomic_fetch_add(&recorder.process->lost_nested, 1, __ATOMIC_RELAXED);
        return 0;
    }
    uint64_t old;
    if (!t) {
        bool held = hold_handlers(&old);
        acquiring = sp;
        barrier();
        t = thread_self; /* a handler may have been here before they were held */
        if (t) {
            acquiring = 0;
            if (held)
                let_handlers(&old);
            if (likely(!t->busy))
                return t;
            __atomic_fetch_add(&recorder.process->lost_nested, 1, __ATOMIC_RELAXED);
            return 0;
        }
        t = thread_acquire(0, 0);
        if (t) {
            t->busy = KEY_BUSY; /* glibc allocates for a key beyond the 32nd: not the program's */
            thread_self = t;
            if (end_key_made && !sys_closed)
                pthread_setspecific(end_key, t);
            t->busy = 0;
        } else {
            __atomic_fetch_add(&recorder.process->lost_buffer, 1, __ATOMIC_RELAXED);
        }
        barrier();
        acquiring = 0;
        if (held)
            let_handlers(&old);
        return t;
    }
    if (call_is_gone(t->busy, sp)) {
        t->busy = 0;
        if (t->unwind)
            unwind_thread_reset(t->unwind);
        return t;
    }
    if (!t->nested) {
        bool held = hold_handlers(&old);
        acquiring = sp;
        barrier();
        if (!t->nested)
            t->nested = thread_acquire(1, t->number);
        barrier();
        acquiring = 0;
        if (held)
            let_handlers(&old);
    }
    t = t->nested;
    if (!t || t->busy) {
        if (t && call_is_gone(t->busy, sp)) {
            t->busy = 0;
            return t;
        }
        __atomic_fetch_add(&recorder.process->lost_nested, 1, __ATOMIC_RELAXED);
        return 0;
    }
    return t;
}

struct thread *thread_enter_slow(uint64_t sp)
{
    const bool back = arch_forwards();
    struct thread *t = enter_slow(sp);
    arch_backwards(back);
    return t;
}

/* The last thing that a thread does for us. Other destructors may still allocate: the state stays
 * its own until the kernel says that the thread is gone. */
static void end_thread_stream(void *arg)
{
    struct thread *t = (struct thread *)arg;
    if (t != thread_self || !wiped.control)
        return;
    if (++t->destructor_rounds < 4) { /* PTHREAD_DESTRUCTOR_ITERATIONS: be the last */
        pthread_setspecific(end_key, t);
        return;
    }
    uint64_t clock = clock_now(t->clock_kind);
    t->busy = (uint64_t)&clock;
    barrier();
    if (t->round == recorder.round)
        stream_meta(t, MLW_META_THREAD_END, &clock, 8, 0, 0);
    if (t->nested)
        __atomic_store_n(&t->nested->ended, 1, __ATOMIC_RELEASE);
    barrier();
    t->busy = 0;
    __atomic_store_n(&t->ended, 1, __ATOMIC_RELEASE);
}

void stream_key_init(void)
{
    if (!end_key_made && !pthread_key_create(&end_key, end_thread_stream))
        end_key_made = true;
}

/* A buffer for a thread whose last one went with an earlier recording. False: there is none. */
static bool thread_again(struct thread *t)
{
    if (recorder.off || !recorder.process)
        return false;
    t->chunk = slot_take();
    if (!t->chunk) {
        __atomic_fetch_add(&recorder.process->lost_buffer, 1, __ATOMIC_RELAXED);
        return false;
    }
    if (t->unwind)
        unwind_thread_clear(t->unwind);
    t->stack_mode = t->unwind ? recorder.stack_mode : MLW_STACKS_NONE;
    thread_begin(t, t->tid, t->lane,
                 t->lane ? t->number
                         : __atomic_fetch_add(&recorder.process->threads, 1, __ATOMIC_RELAXED));
    return true;
}

bool thread_notice(struct thread *t, uint32_t word)
{
    if (unlikely(t->round != recorder.round) && !thread_again(t)) {
        t->busy = 0;
        return false;
    }
    uint32_t before = t->seen;
    t->seen = word;
    if (word & MLW_CTL_RESET) {
        uint32_t expected = word;
        if (__atomic_compare_exchange_n(&recorder.process->control, &expected,
                                        word & ~(uint32_t)MLW_CTL_RESET, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            stream_control_row(t, MLW_CONTROL_RESET);
            t->seen = word & ~(uint32_t)MLW_CTL_RESET;
        }
    }
    if (before / MLW_CTL_EPOCH != word / MLW_CTL_EPOCH)
        stream_flush(t);
    return true;
}

bool stream_is_busy(void)
{
    for (const struct thread *t = __atomic_load_n(&recorder.threads, __ATOMIC_ACQUIRE); t;
         t = t->next)
        if (t->busy && t->owner && sys_tgkill((int)recorder.pid, (int)t->owner, 0) != -ESRCH)
            return true;
    return false;
}

void stream_flush_own(bool keep)
{
    struct thread *t = thread_self;
    if (!t || t->busy || !wiped.control || t->round != recorder.round)
        return;
    t->busy = (uint64_t)&t;
    barrier();
    flush_stream(t, keep, false);
    if (t->nested && !t->nested->busy)
        flush_stream(t->nested, keep, false);
    barrier();
    t->busy = 0;
}

uint64_t stream_live_bytes(void)
{
    uint64_t sum = 0;
    for (const struct thread *t = recorder.threads; t; t = t->next)
        if (t->chunk && t->round == recorder.round)
            sum += t->chunk->live_bytes;
    return sum;
}

/* In the child: the other threads are gone, and so are the buffers. This thread's state gets a new
 * one. */
void stream_after_fork(uint64_t live_bytes)
{
    struct thread *t = thread_self;
    recorder.threads = 0;
    recorder.thread_count = 0;
    acquiring = 0;
    heaps_forked();
    if (t) {
        t->nested = 0;
        t->chunk = slot_take();
        if (!t->chunk) {
            thread_self = 0;
            return;
        }
        t->chunk->live_bytes = live_bytes;
        uint32_t tid = (uint32_t)sys_gettid();
        t->owner = tid;
        t->next = 0;
        recorder.threads = t;
        recorder.thread_count = 1;
        thread_begin(t, tid, 0,
                     __atomic_fetch_add(&recorder.process->threads, 1, __ATOMIC_RELAXED));
        if (!t->unwind)
            t->stack_mode = MLW_STACKS_NONE;
    }
}
