/* error.c - reports of memory errors.
 *
 * Always into the segment; and as text on stderr when the segment has no reader, if it is still the
 * stderr that we found. The text names modules and offsets: what a symbolizer needs, and what the
 * process itself knows without one. */
#include <string.h>

#include "static_probe.h"
#include "watcher.h"

#define TEXT_BYTES 16384u

PROBE_SEMAPHORE(mallow_error_semaphore);

static const char *const kinds[] = {"memory-error",          "heap-buffer-overflow",
                                    "heap-buffer-underflow", "heap-use-after-free",
                                    "double-free",           "invalid-free"};

/* ---- the segment ---- */

static void copy_stack(struct mlw_watch_stack *to, const struct mlw_watch_stack *from)
{
    if (from)
        *to = *from;
    else
        memset(to, 0, sizeof *to);
}

static void enter_error(const struct error_facts *f, uint64_t now)
{
    uint64_t number = __atomic_fetch_add(&watcher.segment->next_error, 1, __ATOMIC_RELAXED);
    struct mlw_watch_error *e = &watcher.error[number % watcher.plan.errors];
    if (!segment_touch(e, sizeof *e))
        return;
    uint32_t v = seqlock_begin(&e->version);
    e->kind = f->kind;
    e->number = number;
    e->flags = f->flags;
    e->signal = f->signal;
    e->time_ns = now;
    e->access_address = f->access_address;
    e->address = f->address;
    e->size = f->size;
    e->offset = f->flags & MLW_WATCH_ERROR_BLOCK ? (int64_t)(f->access_address - f->address) : 0;
    e->allocated_ns = f->allocated_ns;
    e->freed_ns = f->freed_ns;
    e->tid = watch_tid();
    e->allocated_tid = f->allocated_tid;
    e->freed_tid = f->freed_tid;
    copy_stack(&e->access, f->access);
    copy_stack(&e->allocation, f->allocation);
    copy_stack(&e->release, f->release);
    seqlock_end(&e->version, v);
}

/* ---- words ---- */

struct text {
    char *at, *end;
};

static void error_put(struct text *t, const char *s)
{
    size_t n = strlen(s);
    if (n > (size_t)(t->end - t->at))
        n = (size_t)(t->end - t->at);
    memcpy(t->at, s, n);
    t->at += n;
}

static void error_put_number(struct text *t, uint64_t v)
{
    char digits[24];
    *watch_decimal(digits, v) = 0;
    error_put(t, digits);
}

static void error_put_hex(struct text *t, uint64_t v)
{
    char digits[19] = "0x";
    unsigned n = 2, shift = 60;
    while (shift && !(v >> shift))
        shift -= 4;
    for (;; shift -= 4) {
        digits[n++] = "0123456789abcdef"[v >> shift & 15];
        if (!shift)
            break;
    }
    digits[n] = 0;
    error_put(t, digits);
}

static void error_put_stack(struct text *t, const struct mlw_watch_stack *s)
{
    for (uint32_t i = 0; s && i < s->frames; i++) {
        uint64_t bias, pc = MLW_WATCH_FRAME_PC(s->frame[i]);
        const char *path = stack_module(s->frame[i], &bias);
        error_put(t, "    #");
        error_put_number(t, i);
        error_put(t, " ");
        error_put_hex(t, pc);
        if (path) {
            error_put(t, " (");
            error_put(t, path);
            error_put(t, "+");
            error_put_hex(t, pc - bias);
            error_put(t, ")");
        }
        error_put(t, "\n");
    }
    if (!s || !s->frames)
        error_put(t, "    (its stack is not known any more)\n");
}

static void error_put_age(struct text *t, const char *what, uint32_t tid, uint64_t since,
                          uint64_t now)
{
    error_put(t, what);
    error_put(t, " by thread ");
    error_put_number(t, tid);
    if (since && now >= since) {
        error_put(t, ", ");
        error_put_number(t, (now - since) / 1000000);
        error_put(t, " ms before");
    }
    error_put(t, ":\n");
}

static void error_put_place(struct text *t, const struct error_facts *f)
{
    int64_t offset = (int64_t)(f->access_address - f->address);
    uint64_t size = f->size;
    if (!(f->flags & MLW_WATCH_ERROR_BLOCK)) {
        error_put(t, "  no sampled block begins there\n");
        return;
    }
    error_put(t, "  ");
    error_put_number(t, (uint64_t)(offset < 0                 ? -offset
                                   : (uint64_t)offset >= size ? offset - (int64_t)size
                                                              : offset));
    error_put(t, offset < 0                 ? " bytes before"
                 : (uint64_t)offset >= size ? " bytes after"
                                            : " bytes inside");
    error_put(t, " a block of ");
    error_put_number(t, size);
    error_put(t, " bytes at ");
    error_put_hex(t, f->address);
    error_put(t, "\n");
}

static volatile uint32_t busy; /* with saying something */

void error_after_fork(void) { busy = 0; }

static void say_error(const struct error_facts *f, uint64_t now)
{
    static char buffer[TEXT_BYTES];
    struct text t = {buffer, buffer + sizeof buffer};
    if (watch_claim(&busy) == CLAIM_BUSY)
        return; /* another thread reports another error: that one is in the segment */
    error_put(&t, "mallow: ");
    error_put(&t, kinds[f->kind < sizeof kinds / sizeof *kinds ? f->kind : 0]);
    error_put(&t, f->flags & MLW_WATCH_ERROR_AT_FREE  ? ", found when it was freed, at "
                  : f->flags & MLW_WATCH_ERROR_AT_END ? ", found when the program ended, at "
                  : f->flags & MLW_WATCH_ERROR_WRITE  ? ", write at "
                                                      : ", read at ");
    error_put_hex(&t, f->access_address);
    error_put(&t, ", process ");
    error_put_number(&t, watcher.pid);
    error_put(&t, "\n");
    error_put_place(&t, f);
    if (!(f->flags & MLW_WATCH_ERROR_AT_END)) {
        error_put_age(&t, f->flags & MLW_WATCH_ERROR_AT_FREE ? "  this call" : "  accessed",
                      watch_tid(), 0, now);
        error_put_stack(&t, f->access);
    }
    if (f->flags & MLW_WATCH_ERROR_BLOCK) {
        error_put_age(&t, "  allocated", f->allocated_tid, f->allocated_ns, now);
        error_put_stack(&t, f->allocation);
    }
    if (f->flags & MLW_WATCH_ERROR_FREED) {
        error_put_age(&t, "  freed", f->freed_tid, f->freed_ns, now);
        error_put_stack(&t, f->release);
    }
    watch_say(buffer, (size_t)(t.at - buffer));
    watch_disclaim(&busy);
}

void error_report(const struct error_facts *f)
{
    if (watcher.off || !watch_wiped.joined)
        return;
    uint64_t now = guest_clock();
    count(&watcher.segment->counters.errors, 1);
    enter_error(f, now);
    if (unlikely(mallow_error_semaphore))
        PROBE5(MALLOW_USDT_PROVIDER, "error", mallow_error_semaphore, f->kind, f->access_address,
               f->address, f->size, f->flags);
    if (!watch_has_reader())
        say_error(f, now);
}

bool error_is_fatal(void)
{
    return watcher.segment && !watcher.off &&
           __atomic_load_n(&watcher.segment->settings.on_error, __ATOMIC_RELAXED) == MLW_WATCH_DIE;
}

void error_consequence(void)
{
    if (!error_is_fatal())
        return;
    /* also behind the closed door: the process is to end */
    long tid = watch_tid();
    if (!tid)
        tid = sys_decided(SYS_gettid, 0, 0, 0, 0, 0, 0);
    sys_decided(SYS_tgkill, (long)watcher.pid, tid, SIGABRT, 0, 0, 0);
}
