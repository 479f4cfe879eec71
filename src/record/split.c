/* split.c - Decides when to ask the kernel for the split of a process's resident size, asks it,
 * and appends the answer. The time it takes is limited to a hundredth of the elapsed time. An
 * answer that took too long is asked again, because the program went on meanwhile. */
#include "split.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "record/image.h"
#include "record/smaps.h"
#include "remote/handle.h"

#define MS_NS         1000000ull
#define MOST_THREADS  4096u
#define CREDIT_NS     (20 * MS_NS) /* for the beginning, when a hundredth of the time is nothing */
#define SETTLED_NS    (50 * MS_NS)
#define RESTING_NS    (20 * MS_NS) /* between answers that no peak calls for */
#define MARK_WAITS_NS (1000 * MS_NS)
#define STEP_LEAST    (1ull << 20)
#define REFUSED_MOST  3u
#define ASKED_MOST    3u
#define HELD_MOST_NS  (2 * MS_NS)
/* Answers that no peak calls for reach the file when this share of the image's time has gone by. */
#define SHARE_OF_TIME 64u
#define SHARE_AT_REST 32u
#define MARKS_SHARE   512u

/* One answer of the kernel. *split has its clock then, *took_ns the time that went by meanwhile. */
static int ask_once(struct recording *r, struct image *m, struct mlw_split *split,
                    uint64_t *took_ns, struct error *err)
{
    const uint64_t before = clock_thread_ns(), began_ns = clock_monotonic_ns();
    static uint64_t pointers[MOST_THREADS];
    slots_refresh(&m->slots, &r->shm, m->entry);
    struct stat st;
    struct smaps_hints hints = {.session_inode = fstat(r->shm.fd, &st) ? 0 : st.st_ino,
                                .thread_pointers = pointers,
                                .private_bytes =
                                    __atomic_load_n(&m->entry->private_bytes, __ATOMIC_RELAXED)};
    hints.threads = slots_thread_pointers(&m->slots, &r->shm, (uint32_t)m->inner, pointers,
                                          MOST_THREADS, &hints.first_thread);
    split->clock = clock_read(r->clock_kind);
    uint64_t rss = 0;
    struct handle handle;
    handle_open(&handle, m->pid);
    int failed = smaps_read(m->pid, &r->smaps, err);
    struct places_reading *const places =
        failed ? NULL
               : places_begin(&r->places, &handle, m->entry, r->smaps.bytes, r->smaps.n, &hints);
    failed = failed || smaps_split(r->smaps.bytes, r->smaps.n, &hints, split, &rss, err);
    places_end(places);
    handle_close(&handle);
    r->split_bytes += r->smaps.n;
    *took_ns = clock_monotonic_ns() - began_ns;
    m->split.held_cost_ns = clock_thread_ns() - before;
    r->split_spent_ns += m->split.held_cost_ns;
    return failed ? -1 : 0;
}

/* Asks the kernel. *split has its clock then. The recorder may wait for a processor in the middle,
 * while the program goes on: the answer is then of a later moment than its clock. It asks again. */
static int ask_kernel_split(struct recording *r, struct image *m, struct mlw_split *split,
                            struct error *err)
{
    uint64_t took_ns;
    if (ask_once(r, m, split, &took_ns, err))
        return -1;
    for (unsigned more = ASKED_MOST - 1; more && took_ns > 2 * m->split.held_cost_ns + HELD_MOST_NS;
         more--) {
        struct mlw_split again;
        struct error ended;
        if (ask_once(r, m, &again, &took_ns, &ended))
            break; /* the first answer is the last that there is */
        *split = again;
    }
    return 0;
}

static int append_split(struct recording *r, struct image *m, const struct mlw_split *split,
                        struct error *err)
{
    uint8_t bytes[sizeof *split + 16];
    struct tlv t = {.bytes = bytes, .room = sizeof bytes};
    tlv_put(&t, MLW_TLV_SPLIT, split, sizeof *split);
    struct mlw_chunk c = image_head(r, m, MLW_CHUNK_SPLIT);
    c.base_clock = split->clock;
    if (!sink_write(&r->sink, &c, t.bytes, t.n))
        return 0;
    errno = r->sink.last_errno;
    return error_system(err, "cannot append to the recording");
}

int split_now(struct recording *r, struct image *m, struct error *err)
{
    struct mlw_split split;
    return ask_kernel_split(r, m, &split, err) || append_split(r, m, &split, err) ? -1 : 0;
}

static uint64_t figure(const struct image *m, enum split_figure f)
{
    const uint64_t rss = m->last.rss, live = m->split.live_bytes;
    return f == SPLIT_RSS ? rss : f == SPLIT_LIVE ? live : rss > live ? rss - live : 0;
}

/* The rest of one percent of the time since the recording began. */
static uint64_t allowance(const struct recording *r, uint64_t now_ns)
{
    const uint64_t all = CREDIT_NS + (now_ns - r->started_ns) / 100;
    return all > r->split_spent_ns ? all - r->split_spent_ns : 0;
}

/* The cost of a query now, at most as much as before: the kernel walks over all that is resident.
 */
static uint64_t cost(const struct image *m)
{
    const struct split_state *s = &m->split;
    const uint64_t sixteenths = s->asked_rss ? m->last.rss * 16 / s->asked_rss : 16;
    return s->held_cost_ns * (sixteenths < 1 ? 1 : sixteenths > 16 ? 16 : sixteenths) / 16;
}

/* By how much a figure must have grown since the last split: a tenth, more when there is little
 * left to spend, so that a program that grows quickly is not left with a split of long before. */
static uint64_t split_step(uint64_t had, uint64_t left_ns)
{
    if (had < STEP_LEAST * 10)
        return STEP_LEAST;
    return left_ns > CREDIT_NS * 3 / 4 ? had / 10
           : left_ns > CREDIT_NS / 2   ? had / 7
           : left_ns > CREDIT_NS / 4   ? had / 3
                                       : had;
}

/* A figure is higher than at any split, by a step; or by a hundredth, and it has stayed for a while
 * where it had risen to. */
static bool is_new_peak(const struct split_peak *p, uint64_t now_bytes, uint64_t left_ns,
                        uint64_t cost_ns, uint64_t now_ns)
{
    const uint64_t had = p->measured_bytes;
    if (now_bytes <= had || left_ns < cost_ns)
        return false;
    if (now_bytes == p->seen_bytes && now_bytes > had + split_step(had, left_ns))
        return true;
    return now_bytes > had + had / 100 && now_bytes >= p->seen_bytes - p->seen_bytes / 100 &&
           now_ns - p->since_ns > SETTLED_NS;
}

/* Much was given back since the last answer, which is not true any longer; another one is cheap. */
static bool has_fallen(const struct image *m) { return m->last.rss < m->split.asked_rss / 4 * 3; }

static bool differs(uint64_t a, uint64_t b)
{
    const uint64_t by = a < b ? b - a : a - b;
    return by > (a > b ? a : b) / 100;
}

bool split_has_mark(const struct image *m)
{
    return __atomic_load_n(&m->entry->marks, __ATOMIC_ACQUIRE) != m->split.marks;
}

/* True if a mark waits, and may be answered: there may be thousands of them. */
static bool mark_waits(struct image *m, uint64_t now_ns)
{
    struct split_state *s = &m->split;
    const uint32_t marks = __atomic_load_n(&m->entry->marks, __ATOMIC_ACQUIRE);
    if (marks != s->marks) {
        s->marks = marks;
        if (now_ns - s->mark_written_ns >= (now_ns - m->first_seen_ns) / MARKS_SHARE)
            s->mark_ns = now_ns;
    }
    if (s->mark_ns && now_ns - s->mark_ns > MARK_WAITS_NS)
        s->mark_ns = 0;
    return s->mark_ns != 0;
}

/* Nothing special happened since the last answer, but something changed, or it was long ago; and
 * there is time. */
static bool is_due(const struct recording *r, const struct image *m, uint64_t now_ns)
{
    const struct split_state *s = &m->split;
    const uint64_t cost_ns = cost(m), reserve_ns = has_fallen(m) ? 0 : CREDIT_NS / 4;
    return now_ns - s->asked_ns > RESTING_NS && now_ns - s->asked_ns > 200 * cost_ns &&
           (differs(s->asked_rss, m->last.rss) || differs(s->asked_live, s->live_bytes) ||
            now_ns - s->asked_ns > (now_ns - m->first_seen_ns) / SHARE_AT_REST) &&
           allowance(r, now_ns) > reserve_ns + cost_ns;
}

/* An answer was had: what it settles. */
static void note_split(struct image *m, uint64_t now_ns)
{
    struct split_state *s = &m->split;
    for (enum split_figure f = 0; f < SPLIT_FIGURES; f++)
        if (figure(m, f) > s->peaks[f].measured_bytes)
            s->peaks[f].measured_bytes = figure(m, f);
    s->asked_ns = now_ns;
    s->asked_rss = m->last.rss;
    s->asked_live = s->live_bytes;
}

void split_look(struct recording *r, struct image *m, uint64_t now_ns)
{
    struct split_state *s = &m->split;
    const uint64_t left_ns = allowance(r, now_ns);
    bool peak = false;
    for (enum split_figure f = 0; f < SPLIT_FIGURES; f++) {
        struct split_peak *p = &s->peaks[f];
        if (figure(m, f) > p->seen_bytes) {
            p->seen_bytes = figure(m, f);
            p->since_ns = now_ns;
        }
        peak |= is_new_peak(p, figure(m, f), left_ns, cost(m), now_ns);
    }
    const bool mark = mark_waits(m, now_ns) && left_ns > cost(m);
    if (s->refused >= REFUSED_MOST || !(peak || mark || is_due(r, m, now_ns)))
        return;
    struct error ignored;
    struct mlw_split split;
    if (ask_kernel_split(r, m, &split, &ignored)) {
        s->refused++;
        return;
    }
    note_split(m, now_ns);
    s->held = split;
    if (!peak && !mark && now_ns - s->written_ns < (now_ns - m->first_seen_ns) / SHARE_OF_TIME)
        return;
    s->written_ns = now_ns;
    if (mark) {
        s->mark_ns = 0;
        s->mark_written_ns = now_ns;
    }
    split_finish(r, m);
}

void split_finish(struct recording *r, struct image *m)
{
    struct error ignored; /* the sink has counted it */
    if (m->split.held.clock)
        (void)append_split(r, m, &m->split.held, &ignored);
    m->split.held.clock = 0;
}
