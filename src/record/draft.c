/* draft.c - see draft.h. Two threads: the loop's, which knows the buffers, and the one that seals,
 * which asks for what it needs to know and gets it at the loop's next look. */
#include "draft.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"
#include "limit/groups.h"

#define BEGIN_NS     250000000u   /* a shorter program is sealed at once */
#define BEGIN_BYTES  (4u << 20)   /* the same of a smaller recording */
#define MARGIN_NS    50000000u    /* a thread or process that came since is in sight by then */
#define ROOM_LOOK_NS 200000000u   /* between looks at disk and memory */
#define DISK_LEFT    (256u << 20) /* less is left alone */
#define MEMORY_LEFT  (256u << 20) /* the same */
#define NICEST       19

struct draft {
    struct recording *r;
    struct trace_draft *trace;
    const struct trust_place *place;
    pthread_t thread;
    bool began, running; /* running: there is a thread to be joined */
    uint64_t margin;     /* MARGIN_NS as ticks of the clock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    bool stop, failed;
    uint64_t wants; /* image; 0: nothing is asked */
    struct trace_horizon answer;
    bool answered;
    uint64_t *over; /* [over_count] images that are over */
    size_t over_count, over_room;
};

/* True if disk and memory have room for more than the program needs. */
static bool has_room(const struct draft *d)
{
    struct statvfs disk;
    struct stat st;
    if (fstatvfs(d->r->sink.fd, &disk) || fstat(d->r->sink.fd, &st))
        return false;
    const uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    return left >= DISK_LEFT + (uint64_t)st.st_size / 16 && limit_available() >= MEMORY_LEFT;
}

/* Asks about an image (0: about the file alone), and waits for the loop's answer. False: it is time
 * to stop. */
static bool ask_loop(struct draft *d, uint64_t image, struct trace_horizon *h)
{
    pthread_mutex_lock(&d->lock);
    d->wants = image;
    d->answered = false;
    while (!d->stop && !d->answered)
        pthread_cond_wait(&d->changed, &d->lock);
    *h = d->answer;
    const bool go_on = !d->stop;
    pthread_mutex_unlock(&d->lock);
    return go_on;
}

static bool is_stopped(struct draft *d)
{
    pthread_mutex_lock(&d->lock);
    const bool stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    return stop;
}

static void *run_draft(void *arg)
{
    struct draft *d = arg;
    struct error ignored; /* the recording is sealed at its end */
    uint64_t look_ns = 0;
    bool failed = false;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICEST);
    while (!failed) {
        struct trace_horizon h;
        if (!ask_loop(d, trace_draft_wants(d->trace), &h))
            break;
        int k = 2;
        while (k == 2 && !failed && !is_stopped(d)) {
            const uint64_t now = clock_monotonic_ns();
            if (now >= look_ns) {
                failed = !has_room(d);
                look_ns = now + ROOM_LOOK_NS;
            }
            if (!failed)
                failed = (k = trace_draft_go(d->trace, &h, &ignored)) < 0;
        }
    }
    pthread_mutex_lock(&d->lock);
    d->failed = failed;
    pthread_mutex_unlock(&d->lock);
    if (failed) { /* its memory is free at once */
        trace_draft_close(d->trace);
        d->trace = NULL;
    }
    return NULL;
}

struct draft *draft_open(struct recording *r, const struct trust_place *place)
{
    struct draft *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->r = r;
    d->place = place;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    return d;
}

/* Ticks of the clock in MARGIN_NS. */
static uint64_t margin_of(const struct recording *r)
{
    const struct mlw_clock_pair pair = clock_pair(r->clock_kind);
    const uint64_t ns = pair.monotonic_ns - r->began.monotonic_ns;
    return ns ? (uint64_t)((double)(pair.clock - r->began.clock) / (double)ns * MARGIN_NS) : 0;
}

static bool begin_draft(struct draft *d, uint64_t now)
{
    struct error ignored;
    struct stat st;
    if (now - d->r->started_ns < BEGIN_NS || fstat(d->r->sink.fd, &st) ||
        st.st_size < (off_t)BEGIN_BYTES)
        return false;
    d->began = true; /* or there will be none */
    if (!(d->margin = margin_of(d->r)) || !has_room(d) ||
        !(d->trace =
              trace_draft_open(d->r->sink.fd, d->place, programs_namer(d->r->programs), &ignored)))
        return false;
    d->running = !thread_start(&d->thread, run_draft, d);
    return d->running;
}

static bool image_is_over(const struct draft *d, uint64_t image)
{
    for (size_t i = d->over_count; i > 0; i--)
        if (d->over[i - 1] == image)
            return true;
    return false;
}

/* The state of an image: the buffers are looked at before the file. */
static struct trace_horizon horizon_of(struct draft *d, uint64_t wants, struct image *const *images,
                                       uint32_t count)
{
    struct trace_horizon h = {.image = wants, .over = wants && image_is_over(d, wants)};
    struct stat st;
    for (uint32_t i = 0; wants && !h.over && i < count; i++)
        if (images[i] && images[i]->id == wants) {
            const uint64_t now = clock_read(d->r->clock_kind);
            slots_refresh(&images[i]->slots, &d->r->shm, images[i]->entry);
            const uint32_t buffers = __atomic_load_n(&images[i]->entry->slots, __ATOMIC_ACQUIRE);
            h.clock = slots_written_until(&images[i]->slots, buffers,
                                          now > d->margin ? now - d->margin : 0);
        }
    if (!fstat(d->r->sink.fd, &st))
        h.file_bytes = (uint64_t)st.st_size;
    return h;
}

bool draft_look(struct draft *d, uint64_t now, struct image *const *images, uint32_t count)
{
    if (!d)
        return false;
    if (!d->began)
        return begin_draft(d, now);
    if (!d->running)
        return false;
    pthread_mutex_lock(&d->lock);
    if (!d->answered && !d->failed) {
        d->answer = horizon_of(d, d->wants, images, count);
        d->answered = true;
        pthread_cond_signal(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return false;
}

void draft_image_over(struct draft *d, uint64_t image)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    if (ARRAY_ROOM(d->over, d->over_count + 1, d->over_room))
        d->over[d->over_count++] = image;
    pthread_mutex_unlock(&d->lock); /* without memory it waits there until the end */
}

static void stop_draft(struct draft *d)
{
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (d->running)
        pthread_join(d->thread, NULL);
    d->running = false;
}

int draft_finish(struct draft *d, struct trace_seal_result *result,
                 void (*progress)(void *, uint64_t, uint64_t), void *progress_arg,
                 struct error *err)
{
    if (!d)
        return -1;
    stop_draft(d);
    /* A chunk in the reserve stands in front of those that were read. */
    if (!d->trace || d->r->sink.failed)
        return -1;
    return trace_draft_end(d->trace, 0, result, progress, progress_arg, err);
}

void draft_close(struct draft *d)
{
    if (!d)
        return;
    stop_draft(d);
    trace_draft_close(d->trace);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->changed);
    free(d->over);
    free(d);
}
