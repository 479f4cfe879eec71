/* arenas.c - Keeps the state of glibc's arenas, heaps and settings for each process, and updates
 * it from events. Events come from glibc's static probes, from its functions, or from the
 * library inside the program. A raw event is first turned into that of a static probe. */
#include "probe/arenas.h"

#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "glibc/versions.h"

static const struct {
    const char *name;
    unsigned arguments;
} probes[] = {
    [ARENAS_HEAP_NEW] = {"heap_new", 2},
    [ARENAS_HEAP_MORE] = {"heap_more", 2},
    [ARENAS_HEAP_LESS] = {"heap_less", 2},
    [ARENAS_HEAP_FREE] = {"heap_free", 2},
    [ARENAS_NEW] = {"arena_new", 2},
    [ARENAS_REUSE] = {"arena_reuse", 2},
    [ARENAS_REUSE_FREE_LIST] = {"arena_reuse_free_list", 1},
    [ARENAS_REUSE_WAIT] = {"arena_reuse_wait", 3},
    [ARENAS_RETRY] = {"arena_retry", 2},
    [ARENAS_SBRK_MORE] = {"sbrk_more", 2},
    [ARENAS_SBRK_LESS] = {"sbrk_less", 2},
    [ARENAS_MALLOC_RETRY] = {"malloc_retry", 2},
    [ARENAS_REALLOC_RETRY] = {"realloc_retry", 2},
    [ARENAS_MEMALIGN_RETRY] = {"memalign_retry", 2},
    [ARENAS_CALLOC_RETRY] = {"calloc_retry", 1},
    [ARENAS_TCACHE_DOUBLE_FREE] = {"tcache_double_free", 2},
    [ARENAS_MALLOPT] = {"mallopt", 2},
    [ARENAS_FREE_DYN_THRESHOLDS] = {"mallopt_free_dyn_thresholds", 2},
    [ARENAS_MXFAST] = {"mallopt_mxfast", 2},
    [ARENAS_TRIM_THRESHOLD] = {"mallopt_trim_threshold", 3},
    [ARENAS_TOP_PAD] = {"mallopt_top_pad", 3},
    [ARENAS_MMAP_THRESHOLD] = {"mallopt_mmap_threshold", 3},
    [ARENAS_MMAP_MAX] = {"mallopt_mmap_max", 3},
    [ARENAS_PERTURB] = {"mallopt_perturb", 2},
    [ARENAS_ARENA_TEST] = {"mallopt_arena_test", 2},
    [ARENAS_ARENA_MAX] = {"mallopt_arena_max", 2},
    [ARENAS_TCACHE_MAX_BYTES] = {"tunable_tcache_max_bytes", 2},
    [ARENAS_TCACHE_COUNT] = {"tunable_tcache_count", 2},
    [ARENAS_TCACHE_UNSORTED_LIMIT] = {"tunable_tcache_unsorted_limit", 2},
};

_Static_assert(sizeof probes / sizeof *probes == ARENAS_PROBES, "a name for each");

enum {
    INITIAL_THRESHOLD = 128 << 10,
    DYNAMIC_MAX = 32 << 20, /* DEFAULT_MMAP_THRESHOLD_MAX */
    OPTION_TRIM_THRESHOLD = -1,
    OPTION_MMAP_THRESHOLD = -3
};

const char *arenas_name(uint32_t probe)
{
    return probe < ARENAS_PROBES ? probes[probe].name : NULL;
}

bool arenas_is_setting(uint32_t probe) { return probe >= ARENAS_MXFAST && probe < ARENAS_PROBES; }

unsigned arenas_argument_count(uint32_t probe)
{
    return probe < ARENAS_PROBES ? probes[probe].arguments : 0;
}

uint32_t arenas_number(const char *name)
{
    uint32_t i = 0;
    if (strncmp(name, "memory_", 7) != 0)
        return ARENAS_PROBES;
    while (i < ARENAS_PROBES && strcmp(probes[i].name, name + 7) != 0)
        i++;
    return i;
}

/* Room for one more; the caller writes it. Doubles at powers of two. NULL: out of memory. */
static void *grow_arenas_array(struct arenas *a, void *array, size_t count, size_t element)
{
    if (count & (count - 1) && count)
        return array;
    void *more = reallocarray(array, count ? count * 2 : 1, element);
    if (!more)
        a->failed = true;
    return more;
}

#define GROW(a, array, count) grow_arenas_array(a, array, count, sizeof *(array))

static void forget_arenas_process(struct arenas_process *p)
{
    for (size_t i = 0; i < p->arenas; i++)
        free(p->arena[i].thread);
    free(p->arena);
    free(p->heap);
    free(p->wait);
    free(p->moment);
    *p = (struct arenas_process){.pid = p->pid,
                                 .mmap_threshold_bytes = INITIAL_THRESHOLD,
                                 .trim_threshold_bytes = INITIAL_THRESHOLD};
}

void arenas_release(struct arenas *a)
{
    for (size_t i = 0; i < a->processes; i++)
        forget_arenas_process(&a->process[i]);
    free(a->process);
    *a = (struct arenas){0};
}

struct arenas_process *arenas_process(struct arenas *a, uint32_t pid)
{
    for (size_t i = 0; i < a->processes; i++)
        if (a->process[i].pid == pid)
            return &a->process[i];
    struct arenas_process *more = GROW(a, a->process, a->processes);
    if (!more)
        return NULL;
    a->process = more;
    struct arenas_process *p = &a->process[a->processes++];
    *p = (struct arenas_process){.pid = pid};
    forget_arenas_process(p);
    return p;
}

void arenas_forget(struct arenas *a, uint32_t pid)
{
    struct arenas_process *p = arenas_process(a, pid);
    if (p)
        forget_arenas_process(p);
}

/* ---- arenas ---- */

static void leave_arena(struct arenas_process *p, uint32_t tid)
{
    for (size_t i = 0; i < p->arenas; i++)
        for (size_t k = 0; k < p->arena[i].threads; k++)
            if (p->arena[i].thread[k] == tid)
                p->arena[i].thread[k--] = p->arena[i].thread[--p->arena[i].threads];
}

struct probe_arena *arenas_find(struct arenas_process *p, uint64_t address)
{
    for (size_t i = 0; i < p->arenas; i++)
        if (p->arena[i].address == address)
            return &p->arena[i];
    return NULL;
}

/* An arena begins behind the words at the start of its heap, which lies at a multiple of its size;
 * main_arena lies in the library, or stands at 0 until that is known. */
static bool is_main(uint64_t address)
{
    return !address || (address & (glibc_huge_heap_bytes(ARCH_HUGE_BYTES) - 1)) > GLIBC_HEAD_BYTES;
}

struct probe_arena *arenas_enter(struct arenas *a, struct arenas_process *p, uint64_t address)
{
    struct probe_arena *at = arenas_find(p, address);
    if (!at && is_main(address) && (at = arenas_find(p, 0)))
        at->address = address; /* now it is known */
    if (at)
        return at;
    struct probe_arena *more = GROW(a, p->arena, p->arenas);
    if (!more)
        return NULL;
    p->arena = more;
    at = &p->arena[p->arenas++];
    *at = (struct probe_arena){.address = address, .main = is_main(address)};
    return at;
}

static void use_arena(struct arenas *a, struct arenas_process *p, uint64_t address, uint32_t tid)
{
    leave_arena(p, tid);
    struct probe_arena *at = arenas_enter(a, p, address);
    if (!at)
        return;
    /* A list of its own: threads come and go, so the room is asked for anew each time. */
    uint32_t *more = reallocarray(at->thread, at->threads + 1, sizeof *more);
    if (!more) {
        a->failed = true;
        return;
    }
    at->thread = more;
    at->thread[at->threads++] = tid;
}

void arenas_fork(struct arenas *a, uint32_t parent, uint32_t child, uint64_t arena)
{
    struct arenas_process *p = arenas_process(a, child), *from = NULL;
    if (!p)
        return;
    forget_arenas_process(p);
    for (size_t i = 0; i < a->processes; i++)
        if (a->process[i].pid == parent)
            from = &a->process[i];
    if (!from)
        return;
    p->sbrk_bytes = from->sbrk_bytes;
    p->mmap_threshold_bytes = from->mmap_threshold_bytes;
    p->trim_threshold_bytes = from->trim_threshold_bytes;
    p->main_arena = from->main_arena;
    p->heap_bytes = from->heap_bytes;
    for (size_t i = 0; i < from->heaps; i++) {
        struct arena_heap *more = GROW(a, p->heap, p->heaps);
        if (!more)
            return;
        p->heap = more;
        p->heap[p->heaps++] = from->heap[i];
    }
    for (size_t i = 0; i < from->arenas; i++)
        if (!arenas_enter(a, p, from->arena[i].address))
            return;
    if (arena != ARENAS_NO_ARENA)
        use_arena(a, p, arena ? arena : p->main_arena, child);
}

void arenas_name_main(struct arenas *a, uint32_t pid, uint64_t address)
{
    struct arenas_process *p = arenas_process(a, pid);
    struct probe_arena *at = p ? arenas_find(p, 0) : NULL;
    if (p)
        p->main_arena = address;
    if (at)
        at->address = address;
}

/* ---- heaps and waits ---- */

struct arena_heap *arenas_find_heap(struct arenas_process *p, uint64_t address)
{
    for (size_t i = 0; i < p->heaps; i++)
        if (p->heap[i].address == address)
            return &p->heap[i];
    return NULL;
}

/* arena 0: as it was. */
static void set_heap(struct arenas *a, struct arenas_process *p, uint64_t address, uint64_t bytes,
                     uint64_t arena)
{
    struct arena_heap *h = arenas_find_heap(p, address);
    if (!h) {
        struct arena_heap *more = GROW(a, p->heap, p->heaps);
        if (!more)
            return;
        p->heap = more;
        h = &p->heap[p->heaps++];
        *h = (struct arena_heap){.address = address};
    }
    h->bytes = bytes;
    if (arena)
        h->arena = arena;
}

static void drop_heap(struct arenas_process *p, uint64_t address)
{
    struct arena_heap *h = arenas_find_heap(p, address);
    if (!h)
        return;
    size_t i = (size_t)(h - p->heap);
    memmove(h, h + 1, (p->heaps - i - 1) * sizeof *h);
    p->heaps--;
}

static void count_wait(struct arenas *a, struct arenas_process *p, uint32_t tid)
{
    for (size_t i = 0; i < p->waits; i++)
        if (p->wait[i].tid == tid) {
            p->wait[i].count++;
            return;
        }
    struct arena_waits *more = GROW(a, p->wait, p->waits);
    if (!more)
        return;
    p->wait = more;
    p->wait[p->waits++] = (struct arena_waits){tid, 1};
}

/* ---- events ---- */

static void set_option(struct arenas_process *p, int64_t option, int64_t value)
{
    if (option == OPTION_MMAP_THRESHOLD)
        p->mmap_threshold_bytes = (uint64_t)value;
    else if (option == OPTION_TRIM_THRESHOLD)
        p->trim_threshold_bytes = (uint64_t)value;
}

/* Turns events of the functions into those of the static probes; false: nothing happened. */
static bool from_raw(struct arenas_process *p, struct arenas_event *e)
{
    const struct arena_heap *h = arenas_find_heap(p, (uint64_t)e->argument[0]);
    switch (e->probe) {
    case ARENAS_GROWN:
        e->probe = h && h->bytes > (uint64_t)e->argument[1] ? ARENAS_HEAP_LESS : ARENAS_HEAP_MORE;
        return !h || h->bytes != (uint64_t)e->argument[1];
    case ARENAS_UNMAPPED:
        /* glibc's own rule, when a block of its own mapping is freed */
        if ((uint64_t)e->argument[0] <= p->mmap_threshold_bytes || e->argument[0] >= DYNAMIC_MAX)
            return false;
        e->probe = ARENAS_FREE_DYN_THRESHOLDS;
        e->argument[1] = 2 * e->argument[0];
        return true;
    case ARENAS_HEAP_LESS:
    case ARENAS_HEAP_FREE: return h != NULL;
    case ARENAS_LIMITS: {
        const uint64_t was = p->mmap_threshold_bytes, trim = (uint64_t)e->argument[1];
        if (was == (uint64_t)e->argument[0])
            return false;
        e->probe = ARENAS_FREE_DYN_THRESHOLDS;
        if (!e->argument[2])
            return true;
        e->probe = ARENAS_MMAP_THRESHOLD; /* it was set, by GLIBC_TUNABLES for instance */
        p->trim_threshold_bytes = trim;
        e->argument[1] = (int64_t)was;
        e->argument[2] = 0;
        return true;
    }
    case ARENAS_GOT:
        if (e->argument[2] && e->argument[2] == e->argument[0])
            e->probe = ARENAS_REUSE_FREE_LIST;
        else if (!arenas_find(p, (uint64_t)e->argument[0]) && !is_main((uint64_t)e->argument[0]))
            e->probe = ARENAS_NEW;
        else
            e->probe = ARENAS_REUSE;
        e->argument[2] = 0;
        return true;
    case ARENAS_WAITED: {
        uint64_t lock = (uint64_t)e->argument[0];
        bool known = arenas_find(p, lock) || (p->main_arena && lock == p->main_arena);
        e->probe = ARENAS_REUSE_WAIT;
        if (known)
            p->lock_waits++;
        return known;
    }
    default: return true;
    }
}

static bool has_main(const struct arenas_process *p)
{
    size_t i = 0;
    while (i < p->arenas && !p->arena[i].main)
        i++;
    return i < p->arenas;
}

/* Its memory grows in a thread, which may have come from another arena for once. */
static void enter_main(struct arenas *a, struct arenas_process *p, uint32_t tid)
{
    bool elsewhere = false;
    for (size_t i = 0; i < p->arenas; i++)
        for (size_t k = 0; k < p->arena[i].threads; k++)
            elsewhere |= p->arena[i].thread[k] == tid;
    if (elsewhere)
        arenas_enter(a, p, p->main_arena);
    else
        use_arena(a, p, p->main_arena, tid);
}

static void apply(struct arenas *a, struct arenas_process *p, const struct arenas_event *e)
{
    uint64_t first = (uint64_t)e->argument[0], second = (uint64_t)e->argument[1];
    switch (e->probe) {
    case ARENAS_SBRK_MORE:
        /* glibc's probe comes before it is known if the break moved. Memory that is mapped in its
         * place is not sbrk's. */
        if (first)
            p->sbrk_bytes += e->argument[1];
        if (!has_main(p)) /* no static probe says more about a program with one thread */
            enter_main(a, p, e->tid);
        break;
    case ARENAS_SBRK_LESS: p->sbrk_bytes -= e->argument[1]; break;
    case ARENAS_HEAP_NEW: set_heap(a, p, first, second, (uint64_t)e->argument[2]); break;
    case ARENAS_HEAP_MORE:
    case ARENAS_HEAP_LESS: set_heap(a, p, first, second, 0); break;
    case ARENAS_HEAP_FREE: drop_heap(p, first); break;
    case ARENAS_NEW:
    case ARENAS_REUSE:
    case ARENAS_REUSE_FREE_LIST: use_arena(a, p, first, e->tid); break;
    case ARENAS_REUSE_WAIT: count_wait(a, p, e->tid); break;
    case ARENAS_FREE_DYN_THRESHOLDS:
        p->mmap_threshold_bytes = first;
        p->trim_threshold_bytes = second;
        break;
    case ARENAS_MMAP_THRESHOLD: p->mmap_threshold_bytes = first; break;
    case ARENAS_TRIM_THRESHOLD: p->trim_threshold_bytes = first; break;
    case ARENAS_MALLOPT: set_option(p, e->argument[0], e->argument[1]); break;
    default: break;
    }
}

const struct arena_moment *arenas_take(struct arenas *a, const struct arenas_event *given,
                                       uint64_t start_ns)
{
    struct arenas_event e = *given;
    struct arenas_process *p = arenas_process(a, e.pid);
    if (!p)
        return NULL;
    if (e.probe == ARENAS_EXEC) {
        forget_arenas_process(p);
        return NULL;
    }
    if (e.probe == ARENAS_MAIN) {
        const bool news = !p->main_arena;
        arenas_name_main(a, e.pid, (uint64_t)e.argument[0]);
        if (news)
            use_arena(a, p, p->main_arena, e.tid);
        return NULL;
    }
    if (e.probe == ARENAS_THREAD_END) {
        leave_arena(p, e.tid);
        return NULL;
    }
    if (!from_raw(p, &e) || e.probe >= ARENAS_PROBES)
        return NULL;
    apply(a, p, &e);
    struct arena_moment *more = GROW(a, p->moment, p->moments);
    if (!more)
        return NULL;
    p->moment = more;
    struct arena_moment *m = &p->moment[p->moments++];
    *m = (struct arena_moment){.time_ns = e.time_ns > start_ns ? e.time_ns - start_ns : 0,
                               .tid = e.tid,
                               .probe = e.probe,
                               .known = (unsigned)e.known};
    memcpy(m->argument, e.argument, sizeof m->argument);
    return m;
}
