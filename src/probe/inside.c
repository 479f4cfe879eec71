/* inside.c - Runs the arenas probe without rights: a preloaded library writes events into shared
 * memory, and this file turns them into those of glibc's probes. Slots of the ring are claimed
 * and filled by atomics. A slot that stays unfilled is skipped and counted, because its writer
 * may have died. */
#include "probe/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/arenas.h"
#include "launch/launch.h"
#include "probe/kind.h"

enum { PATH_BYTES = 64 };

struct inside {
    struct mlw_arenas *shared;
    char path[PATH_BYTES];
    char *preload;
    const char *environment[5];
    uint64_t skipped; /* slots whose writer did not fill them */
    uint32_t unknown; /* a bit for each enum mlw_arenas_reason */
};

static int make_inside_file(struct inside *in, struct error *err)
{
    snprintf(in->path, sizeof in->path, "/dev/shm/mallow-arenas-XXXXXX");
    int fd = mkostemp(in->path, O_CLOEXEC);
    if (fd < 0) {
        in->path[0] = 0;
        return error_system(err, "cannot make a file in /dev/shm");
    }
    /* All of it: a page that is not there would kill the program. */
    errno = posix_fallocate(fd, 0, sizeof *in->shared);
    void *p = MAP_FAILED;
    if (!errno)
        p = mmap(NULL, sizeof *in->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int bad = p == MAP_FAILED
                  ? error_system(err, "cannot have %zu bytes in /dev/shm", sizeof *in->shared)
                  : 0;
    close(fd);
    if (!bad)
        in->shared = p;
    return bad;
}

int inside_make(struct inside **made, const char *library, bool no_follow, bool sizes,
                struct error *err)
{
    struct inside *in = calloc(1, sizeof *in);
    *made = in;
    if (!in)
        return error_memory(err);
    if (launch_preload(library, &in->preload, err) || make_inside_file(in, err))
        return -1;
    in->shared->no_follow = no_follow;
    in->shared->sizes = sizes;
    in->shared->magic = MLW_ARENAS_MAGIC;
    in->environment[0] = "LD_PRELOAD";
    in->environment[1] = in->preload;
    in->environment[2] = MLW_ENV_ARENAS;
    in->environment[3] = in->path;
    return 0;
}

void inside_free(struct inside *in)
{
    if (!in)
        return;
    if (in->path[0])
        unlink(in->path);
    if (in->shared)
        munmap(in->shared, sizeof *in->shared);
    free(in->preload);
    free(in);
}

const char *const *inside_environment(const struct inside *in) { return in->environment; }

void inside_begin(struct inside *in, pid_t program) { in->shared->program_pid = (uint32_t)program; }

uint64_t inside_lost(const struct inside *in)
{
    return __atomic_load_n(&in->shared->lost, __ATOMIC_RELAXED) + in->skipped +
           __atomic_load_n(&in->shared->uncounted, __ATOMIC_RELAXED);
}

const char *inside_trouble(const struct inside *in)
{
    if (in->unknown >> MLW_ARENAS_NOT_GLIBC & 1)
        return "a process has another allocator than glibc's, or a glibc whose arenas are not "
               "known: it is not reported";
    if (in->unknown >> MLW_ARENAS_LAYOUT & 1)
        return "the arenas of a process do not match its glibc: its report ends there";
    if (!__atomic_load_n(&in->shared->joined, __ATOMIC_RELAXED))
        return "no process loaded libmallow-arenas.so: there is nothing to report";
    return NULL;
}

/* ---- the library's events, as those of glibc's probes ---- */

struct telling {
    struct probe_engine *e;
    struct arenas *a;
    struct arenas_event event; /* who and when */
};

static void emit_inside_event(struct telling *t, uint32_t probe, uint64_t first, uint64_t second,
                              uint64_t third)
{
    t->event.probe = probe;
    t->event.argument[0] = (int64_t)first;
    t->event.argument[1] = (int64_t)second;
    t->event.argument[2] = (int64_t)third;
    const struct arena_moment *m = arenas_take(t->a, &t->event, t->e->result->start_ns);
    if (m && t->e->options->moment)
        t->e->options->moment(t->e->options->arg, t->event.pid, m);
}

/* An arena has so many bytes in all, and its top is in that heap; heaps are made and freed at the
 * top only, so each one's size follows. */
static void level(struct telling *t, uint64_t arena, uint64_t top, uint64_t bytes)
{
    struct arenas_process *p = arenas_process(t->a, t->event.pid);
    if (!p || !p->heap_bytes || p->heap_bytes & (p->heap_bytes - 1))
        return; /* it did not say how large heaps are */
    uint64_t heap = top & -p->heap_bytes, others = 0;
    bool is_new = !arenas_find_heap(p, heap);
    for (size_t i = p->heaps; i-- > 0;) {
        if (p->heap[i].arena != arena || p->heap[i].address == heap)
            continue;
        bool above = !is_new && &p->heap[i] > arenas_find_heap(p, heap);
        if (above)
            emit_inside_event(t, ARENAS_HEAP_FREE, p->heap[i].address, 0, 0);
        else
            others += p->heap[i].bytes;
    }
    if (bytes <= others)
        return; /* it is being changed: more events will come */
    if (is_new)
        emit_inside_event(t, ARENAS_HEAP_NEW, heap, bytes - others, arena);
    else
        emit_inside_event(t, ARENAS_GROWN, heap, bytes - others, 0);
}

/* The thread has its memory from that arena. */
static void uses(struct telling *t, uint64_t arena)
{
    struct arenas_process *p = arenas_process(t->a, t->event.pid);
    if (!p)
        return;
    if (!arena) {
        arena = p->main_arena;
        if (t->event.tid == t->event.pid && !arenas_find(p, arena)) {
            emit_inside_event(t, ARENAS_MAIN, arena, 0, 0);
            return;
        }
    }
    /* It is no longer in use: then it came from the list of free ones. */
    const struct probe_arena *at = arenas_find(p, arena);
    emit_inside_event(t, ARENAS_GOT, arena, 0, at && !at->threads ? arena : 0);
}

static void moved(struct telling *t, uint64_t now, uint64_t before)
{
    if (now > before)
        emit_inside_event(t, ARENAS_SBRK_MORE, now, now - before, 0);
    else
        emit_inside_event(t, ARENAS_SBRK_LESS, now, before - now, 0);
}

static void tell_option(struct telling *t, int64_t option, uint64_t value, uint64_t standard)
{
    static const uint32_t probe[] = {ARENAS_TRIM_THRESHOLD, ARENAS_TOP_PAD, ARENAS_MMAP_THRESHOLD,
                                     ARENAS_MMAP_MAX};
    if (option <= -1 && option >= -4)
        emit_inside_event(t, probe[-1 - option], value, standard, 0);
}

static void translate(struct inside *in, struct telling *t, const struct mlw_arenas_event *e)
{
    const uint64_t *v = e->argument;
    struct arenas_process *p;
    t->event = (struct arenas_event){
        .pid = e->pid, .tid = e->tid, .time_ns = e->time_ns, .known = ARENAS_ARGUMENTS};
    switch (e->what) {
    case MLW_ARENAS_JOINED:
        if (v[1])
            arenas_fork(t->a, (uint32_t)v[0], e->pid, v[2]);
        else
            emit_inside_event(t, ARENAS_EXEC, 0, 0, 0);
        if (!v[1] && (p = arenas_process(t->a, e->pid)))
            p->heap_bytes = v[2];
        break;
    case MLW_ARENAS_LEVEL: level(t, v[0], v[1], v[2]); break;
    case MLW_ARENAS_USES: uses(t, v[0]); break;
    case MLW_ARENAS_BREAK: moved(t, v[0], v[1]); break;
    case MLW_ARENAS_MAIN: arenas_name_main(t->a, e->pid, v[0]); break;
    case MLW_ARENAS_LIMITS: emit_inside_event(t, ARENAS_FREE_DYN_THRESHOLDS, v[0], v[1], 0); break;
    case MLW_ARENAS_OPTION: emit_inside_event(t, ARENAS_MALLOPT, v[0], v[1], 0); break;
    case MLW_ARENAS_BEGAN: tell_option(t, (int64_t)v[0], v[1], v[2]); break;
    case MLW_ARENAS_THREAD_END: emit_inside_event(t, ARENAS_THREAD_END, 0, 0, 0); break;
    case MLW_ARENAS_UNKNOWN: in->unknown |= 1u << (v[0] & 31); break;
    default: break;
    }
}

/* True to go on without a slot that was claimed and is not filled. Its writer may have died, or
 * may only wait for a processor, for seconds: there is time until the room behind it gets short. */
static bool give_up(const struct mlw_arenas *s, uint64_t at, bool last)
{
    uint64_t claimed = __atomic_load_n(&s->claimed, __ATOMIC_RELAXED);
    return last || claimed - at > MLW_ARENAS_SLOTS / 4 * 3;
}

void inside_drain(struct inside *in, struct probe_engine *e, struct arenas *a, bool last)
{
    struct mlw_arenas *s = in->shared;
    uint64_t at = s->taken;
    struct telling t = {.e = e, .a = a};
    while (at != __atomic_load_n(&s->claimed, __ATOMIC_ACQUIRE)) {
        const struct mlw_arenas_event *slot = &s->event[at % MLW_ARENAS_SLOTS];
        if (__atomic_load_n(&slot->ready, __ATOMIC_ACQUIRE) == at + 1) {
            struct mlw_arenas_event copy = *slot;
            translate(in, &t, &copy);
        } else if (give_up(s, at, last))
            in->skipped++;
        else
            break;
        __atomic_store_n(&s->taken, ++at, __ATOMIC_RELEASE);
    }
}

int inside_requests(const struct inside *in, struct probe_engine *e, struct error *err)
{
    for (uint32_t i = 0; i < MLW_ARENAS_REGIMES; i++) {
        const struct mlw_arenas_regime *r = &in->shared->regime[i];
        for (uint32_t above = 0; r->pid && above < 2; above++)
            for (uint32_t class = 0; class < MLW_ARENAS_CLASSES; class ++) {
                struct probe_row row = {.key = {.pid = (uint32_t)r->pid,
                                                .site = r->threshold,
                                                .what = above,
                                                .size_class = class}};
                for (uint32_t k = 0; k < MLW_ARENAS_ROWS; k++)
                    row.value.calls +=
                        __atomic_load_n(&r->count[k][above][class], __ATOMIC_RELAXED);
                if (row.value.calls && engine_add_row(e, &row, err))
                    return -1;
            }
    }
    return 0;
}
