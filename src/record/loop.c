/* loop.c - see loop.h. One thread, one epoll set; signals arrive through a signalfd. */
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "draft.h"
#include "flight.h"
#include "kernel_source.h"
#include "launch/launch.h"

#define MS_NS          1000000ull
#define SECOND_NS      1000000000ull
#define SCAN_MS        10 /* between looks at the table of processes */
#define SCAN_IDLE_MS   50 /* the same while nothing moves */
#define LATEST_ENTRIES 256
#define WHOLE_SCAN_NS  (100 * MS_NS)
#define LOOK_NS        (200 * MS_NS)  /* at processes for which there was no descriptor */
#define DRAIN_MS       1              /* while a process cannot write by itself */
#define EXEC_GRACE_NS  (1000 * MS_NS) /* from an exec to the next image of the process */
#define JOIN_GRACE_NS  (300 * MS_NS)  /* for processes that have not joined yet, at the end */
#define CLOCK_EVERY_NS (60 * SECOND_NS)
#define INTERIM_BYTES  (4u << 20) /* at most this much in a second */

enum { TAG_SIGNALS = 1, TAG_PROGRAM = 2, TAG_IMAGE = 3, TAG_KERNEL = 4 };

struct watch {
    struct recording *r;
    const struct loop_options *o;
    pid_t program;
    const char *session_path;
    bool reaped;
    int wait_status;
    int program_pidfd;
    struct image **images; /* by table index; NULL: not watched */
    uint32_t watched;      /* images[] that are not NULL */
    uint32_t reach;        /* images[] at and after are NULL */
    uint64_t now_ns;
    uint64_t interim_ns, clock_ns, whole_ns; /* when they are due */
    uint64_t starting_since_ns[MLW_PROCESSES];
    uint64_t interrupted_ns; /* the user ends the recording; 0: not yet */
    bool active;             /* something moved in the last round */
    bool draining;
    uint64_t reaped_ns; /* when the program was first seen to have ended; 0: not yet */
    uint64_t alone_ns;  /* since when no process of the recording runs; 0: one does */
    bool said_waiting;
};

static void epoll_watch(struct watch *w, int fd, uint64_t tag, uint32_t index)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = tag << 32 | index};
    if (fd >= 0)
        epoll_ctl(w->o->open->epoll, EPOLL_CTL_ADD, fd, &e);
}

static void reap_children(struct watch *w)
{
    int status;
    if (w->o->leave) { /* no child of ours */
        w->reaped |= kill(w->program, 0) && errno == ESRCH;
        return;
    }
    if (!w->reaped && waitpid(w->program, &status, WNOHANG) == w->program) {
        w->reaped = true;
        w->wait_status = status;
    }
}

static void read_signals(struct watch *w)
{
    struct signalfd_siginfo info;
    while (read(w->o->open->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        bool sent =
            info.ssi_code == SI_USER || info.ssi_code == SI_QUEUE || info.ssi_code == SI_TKILL;
        if (number == SIGCHLD)
            continue; /* the program is asked for below, in any case */
        if ((w->reaped || w->o->leave) && !w->interrupted_ns)
            w->interrupted_ns = clock_monotonic_ns();
        if (!w->reaped && !w->o->leave && sent && (number == SIGTERM || number == SIGHUP))
            kill(w->program, number); /* from a terminal it has it already */
    }
    reap_children(w);
}

static void end_image(struct watch *w, uint32_t index, bool still_running)
{
    struct image *m = w->images[index];
    int status = -1;
    const bool unseen = !m->pid && m->inner == w->program && find_is_here(&w->r->finder, m->entry);
    if (m->pid == w->program || unseen)
        reap_children(w); /* it may have ended since the last look */
    if (!w->o->leave && w->reaped && (m->pid == w->program || unseen))
        status = w->wait_status;
    else if (m->gone && m->pid > 0)
        status = image_wait_status(m->pidfd, m->pid);
    if (m->pidfd >= 0)
        epoll_ctl(w->o->open->epoll, EPOLL_CTL_DEL, m->pidfd, NULL);
    w->images[index] = NULL;
    w->watched--;
    const uint64_t id = m->id;
    image_end(w->r, m, status, still_running);
    if (!still_running)
        draft_image_over(w->o->draft, id);
}

/* Ends an image that another one of its process follows. */
static void end_followed(struct watch *w, struct image *m)
{
    if (!image_has_ended(w->r, m, w->now_ns))
        m->replaced = true;
    else { /* or another process was given its number */
        m->gone = true;
        m->followed = true;
    }
    end_image(w, m->index, false);
}

/* Ends all images of the process of `fresh` but the youngest. A look at the table takes
 * time: that may be another than `fresh`. */
static void end_older(struct watch *w, struct image *fresh)
{
    for (uint32_t i = 0; i < w->reach; i++) {
        struct image *m = w->images[i];
        if (!m || m == fresh || !image_is_of_same(m, fresh))
            continue;
        if (m->start_clock > fresh->start_clock) {
            end_followed(w, fresh);
            return;
        }
        end_followed(w, m);
    }
}

/* A process that died while it joined leaves an entry behind that no other process gives back. */
static void look_at_starting(struct watch *w, uint32_t index)
{
    struct mlw_process *e = &w->r->shm.table[index];
    uint64_t *since = &w->starting_since_ns[index];
    if (!*since) {
        *since = w->now_ns;
        return;
    }
    struct trust_process who;
    if (w->now_ns - *since < SECOND_NS || !__atomic_load_n(&e->pid, __ATOMIC_RELAXED) ||
        find_process(&w->r->finder, &w->r->shm, e, w->now_ns, &who))
        return;
    *since = 0;
    memset((char *)e + sizeof e->state, 0, sizeof *e - sizeof e->state);
    __atomic_store_n(&e->state, MLW_PROC_FREE, __ATOMIC_RELEASE);
}

/* Watches the entry's image if it is a new one. */
static bool look_at_entry(struct watch *w, uint32_t i)
{
    if (w->images[i])
        return false;
    uint32_t state = __atomic_load_n(&w->r->shm.table[i].state, __ATOMIC_ACQUIRE);
    if (state == MLW_PROC_STARTING) {
        look_at_starting(w, i);
        return false;
    }
    w->starting_since_ns[i] = 0;
    if (state != MLW_PROC_LIVE)
        return false;
    w->images[i] = image_adopt(w->r, i, w->now_ns);
    if (!w->images[i])
        return false; /* no memory: tried again at the next look */
    w->watched++;
    w->active = true;
    epoll_watch(w, w->images[i]->pidfd, TAG_IMAGE, i);
    return true;
}

/* The whole table now and then; in between the entries of the latest tickets, where a process that
 * has just come is nearly always found. Whether an image has come. */
static bool scan_table(struct watch *w, bool whole)
{
    uint32_t n = shm_entries(&w->r->shm), from = 0;
    if (n > w->reach)
        w->reach = n;
    uint32_t count = n;
    if (!whole && n > LATEST_ENTRIES && w->now_ns < w->whole_ns) {
        count = LATEST_ENTRIES;
        from = __atomic_load_n(&w->r->shm.session->next_process, __ATOMIC_RELAXED) - count;
    } else
        w->whole_ns = w->now_ns + WHOLE_SCAN_NS;
    bool fresh = false;
    for (uint32_t i = 0; i < count; i++)
        fresh |= look_at_entry(w, (from + i) % MLW_PROCESSES);
    for (uint32_t i = 0; fresh && i < n; i++)
        if (w->images[i] && w->images[i]->first_seen_ns == w->now_ns)
            end_older(w, w->images[i]);
    return fresh;
}

/* One round over the images that are watched. */
static void serve_images(struct watch *w)
{
    bool interim = w->now_ns >= w->interim_ns && flight_has_room(w->r->flight);
    uint64_t interim_left = INTERIM_BYTES;
    if (interim)
        w->interim_ns = w->now_ns + SECOND_NS;
    w->draining = false;
    for (uint32_t i = 0; i < w->reach; i++) {
        struct image *m = w->images[i];
        if (!m)
            continue;
        if (m->gone) {
            w->active = true;
            end_image(w, i, false);
            continue;
        }
        if (m->pidfd < 0 && w->now_ns >= m->next_look_ns) {
            m->next_look_ns = w->now_ns + LOOK_NS;
            image_look(w->r, m, w->now_ns);
            epoll_watch(w, m->pidfd, TAG_IMAGE, i);
        }
        if (m->gone || !m->pid) { /* it ends, or is looked for, after another look at the table */
            w->active = true;
            continue;
        }
        bool after_exec = __atomic_load_n(&m->entry->end_how, __ATOMIC_ACQUIRE) == MLW_END_EXEC;
        if (!after_exec)
            m->exec_seen_ns = 0;
        else if (!m->exec_seen_ns) {
            m->exec_seen_ns = w->now_ns;
            m->exec_cpu_ns = launch_cpu_ns(m->pid);
        } else
            image_ask_why(w->r, m, w->now_ns);
        if (!after_exec)
            unseen_look(&w->r->files, &m->unseen, m->pid, m->first_seen_ns, w->now_ns);
        if (__atomic_load_n(&m->entry->drain, __ATOMIC_ACQUIRE)) {
            w->draining = true;
            image_drain(w->r, m);
        }
        if (!after_exec) {
            uint64_t rss = m->last.rss;
            image_sample(w->r, m, w->now_ns);
            w->active |= rss != m->last.rss;
        }
        if (interim && interim_left) {
            slots_refresh(&m->slots, &w->r->shm, m->entry);
            uint64_t bytes = slots_interim(&m->slots, &w->r->shm, &w->r->sink, w->now_ns, NULL);
            interim_left -= bytes < interim_left ? bytes : interim_left;
        }
    }
}

static void append_clock(struct watch *w)
{
    struct mlw_clock_pair pair = clock_pair(w->r->clock_kind);
    struct mlw_chunk c = {.type = MLW_CHUNK_CLOCK, .base_clock = pair.clock};
    sink_write(&w->r->sink, &c, &pair, sizeof pair);
    w->clock_ns = w->now_ns + CLOCK_EVERY_NS;
}

static uint64_t count_shared_bytes(void *arg)
{
    const struct watch *w = arg;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->reach; i++) {
        const struct image *m = w->images[i];
        if (!m || m->gone || !m->pid)
            continue;
        const uint64_t bytes = proc_proportional_bytes(m->pid);
        sum += bytes ? bytes : m->last.rss;
    }
    return sum;
}

/* All that the buffers hold is in the file before it is read. */
static void look_at_flight(struct watch *w)
{
    struct pressure_sizes sizes = {.now_ns = w->now_ns, .once = count_shared_bytes, .arg = w};
    pid_t pid = 0;
    if (!w->r->flight)
        return;
    for (uint32_t i = 0; i < w->reach; i++)
        if (w->images[i] && !w->images[i]->gone) {
            sizes.rss_bytes += w->images[i]->last.rss;
            sizes.processes++;
            pid = pid ? pid : w->images[i]->pid;
        }
    if (!flight_look(w->r->flight, &sizes, pid))
        return;
    uint64_t clock = clock_read(w->r->clock_kind);
    append_clock(w);
    for (uint32_t i = 0; i < w->reach; i++)
        if (w->images[i]) {
            struct image *m = w->images[i];
            slots_refresh(&m->slots, &w->r->shm, m->entry);
            slots_interim(&m->slots, &w->r->shm, &w->r->sink, w->now_ns, &clock);
        }
    flight_start(w->r->flight, w->now_ns, clock);
}

/* Adds a sample of the program and of its children. */
static void report_size(struct watch *w)
{
    for (uint32_t i = 0; w->o->size && i < w->reach; i++) {
        const struct image *m = w->images[i];
        const bool is_program = m && m->pid == w->program;
        if (m && m->pid > 0 && !m->gone && !m->replaced && m->last.rss &&
            !(is_program && w->reaped))
            w->o->size(w->o->size_arg, m->pid, is_program, m->last.rss, w->o->output);
    }
}

/* True if an image, or the next one of its process, may still write. */
static bool is_running(const struct watch *w, const struct image *m)
{
    if (!m || m->gone)
        return false;
    const uint64_t since_ns = m->exec_seen_ns ? w->now_ns - m->exec_seen_ns : 0;
    return since_ns <= EXEC_GRACE_NS ||
           (since_ns < LAUNCH_LATEST_NS && launch_is_starting(m->pid, m->exec_cpu_ns));
}

static uint32_t count_running(const struct watch *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->reach; i++)
        n += is_running(w, w->images[i]);
    return n;
}

static bool is_watched(const struct watch *w, pid_t pid)
{
    for (uint32_t i = 0; i < w->reach; i++)
        if (w->images[i] && w->images[i]->pid == pid)
            return true;
    return false;
}

/* Processes up to this id need no look. Within a second after the program started the ids do not
 * come around, so that its children have higher ones. */
static pid_t first_of_interest(const struct watch *w)
{
    char text[128];
    if (w->now_ns - w->r->started_ns > SECOND_NS)
        return 1;
    int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *last = strrchr(text, ' '); /* the newest id there is */
    return last && strtol(last, NULL, 10) >= w->program ? w->program : 1;
}

static bool pid_is_known(void *arg, pid_t pid) { return is_watched(arg, pid); }

/* True if there are processes of this recording that have not joined it: just forked, or between
 * exec and the first instruction of the library. A process that has not joined after all others
 * were gone for a while never will, unless it could hardly run until now. */
static bool strangers(struct watch *w, uint64_t alone_ns)
{
    char wanted[256];
    int length = snprintf(wanted, sizeof wanted, "%s=%s", MLW_ENV_SESSION, w->session_path);
    return length > 0 && (size_t)length < sizeof wanted && alone_ns < LAUNCH_LATEST_NS &&
           launch_has_heirs(wanted, first_of_interest(w), alone_ns > JOIN_GRACE_NS, pid_is_known,
                            w);
}

/* Processes that were attached to, or are forks of such, get their own back. */
static void leave_all(struct watch *w)
{
    for (uint32_t i = 0; i < w->reach; i++)
        if (w->images[i] && w->images[i]->pid > 0 &&
            !image_has_ended(w->r, w->images[i], w->now_ns))
            w->o->leave(w->o->leave_arg, w->images[i]->pid, w->interrupted_ns);
}

static void stop_all(struct watch *w)
{
    for (uint32_t i = 0; i < w->reach; i++) {
        if (!w->images[i])
            continue;
        uint32_t *control = &w->images[i]->entry->control;
        uint32_t old = __atomic_load_n(control, __ATOMIC_RELAXED), new;
        do
            new = ((old & ~(uint32_t)(MLW_CTL_STARTED | MLW_CTL_ACTIVE)) | MLW_CTL_DEAD) +
                  MLW_CTL_EPOCH;
        while (!__atomic_compare_exchange_n(control, &old, new, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED));
    }
    usleep(20000); /* calls that are on their way get done */
}

static int timeout_ms(const struct watch *w)
{
    if (w->draining)
        return DRAIN_MS;
    uint64_t wait =
        (w->active || w->now_ns - w->r->started_ns < SECOND_NS ? SCAN_MS : SCAN_IDLE_MS) * MS_NS;
    for (uint32_t i = 0; i < w->reach; i++) {
        const struct image *m = w->images[i];
        if (!m || m->statm < 0 || m->gone)
            continue;
        uint64_t due = m->next_sample_ns > w->now_ns ? m->next_sample_ns - w->now_ns : 0;
        if (due < wait)
            wait = due;
    }
    if (!w->watched && w->now_ns - w->r->started_ns < 100 * MS_NS)
        wait = MS_NS; /* the program is about to join */
    return wait < MS_NS ? 1 : (int)((wait + MS_NS / 2) / MS_NS);
}

static void watch_descriptors(struct watch *w)
{
    epoll_watch(w, w->o->open->signals, TAG_SIGNALS, 0);
    w->program_pidfd = (int)syscall(SYS_pidfd_open, w->program, 0);
    epoll_watch(w, w->program_pidfd, TAG_PROGRAM, 0);
    for (size_t i = 0; i < kernel_descriptors(w->r->kernel); i++)
        epoll_watch(w, kernel_descriptor(w->r->kernel, i), TAG_KERNEL, (uint32_t)i);
}

static void close_program(struct watch *w)
{
    if (w->program_pidfd >= 0)
        close(w->program_pidfd); /* leaves the epoll set with it */
    w->program_pidfd = -1;
}

static void await_events(struct watch *w)
{
    struct epoll_event events[64];
    int n = epoll_wait(w->o->open->epoll, events, 64, timeout_ms(w));
    if (n < 0 && errno != EINTR)
        usleep(SCAN_MS * 1000); /* without epoll, by looking */
    w->now_ns = clock_monotonic_ns();
    w->active = false;
    for (int i = 0; i < n; i++) {
        uint64_t tag = events[i].data.u64 >> 32;
        uint32_t index = (uint32_t)events[i].data.u64;
        if (tag == TAG_IMAGE && w->images[index])
            w->images[index]->gone = true;
    }
    read_signals(w);
    if (w->reaped)
        close_program(w);
}

static void serve_all(struct watch *w)
{
    scan_table(w, false);
    kernel_take(w->r->kernel);
    serve_images(w);
    look_at_flight(w);
    report_size(w);
    if (w->o->beside)
        w->o->beside(w->o->beside_arg);
    if (draft_look(w->o->draft, w->now_ns, w->images, w->reach) || w->now_ns >= w->clock_ns)
        append_clock(w);
}

static void say_loop_waits(struct watch *w, uint32_t running)
{
    char line[160];
    if (w->said_waiting || w->now_ns - w->reaped_ns <= SECOND_NS)
        return;
    snprintf(line, sizeof line,
             "the program has ended; waiting for %u of its processes in the background "
             "(Ctrl-C ends the recording)",
             running);
    w->o->say(w->o->say_arg, false, line);
    w->said_waiting = true;
}

/* True if the program and all processes that it started have ended. */
static bool watch_is_over(struct watch *w)
{
    if (!w->reaped)
        return false;
    if (!w->reaped_ns)
        w->reaped_ns = w->now_ns;
    const uint32_t running = count_running(w);
    if (running) {
        w->alone_ns = 0;
        say_loop_waits(w, running);
        return false;
    }
    if (!w->alone_ns)
        w->alone_ns = w->now_ns;
    if (scan_table(w, true) || strangers(w, w->now_ns - w->alone_ns))
        return false;
    return !scan_table(w, true); /* processes that joined during the scan */
}

/* Ends the images that are still watched. */
static void end_all_images(struct watch *w, struct loop_result *result)
{
    if (w->o->leave) {
        scan_table(w, true);
        leave_all(w);
    }
    result->left_running = count_running(w);
    if (result->left_running)
        stop_all(w);
    for (uint32_t i = 0; i < w->reach; i++)
        if (w->images[i])
            end_image(w, i, !w->images[i]->gone);
    append_clock(w);
    close_program(w);
}

int loop_open(struct loop_descriptors *d, struct error *err)
{
    int spare[IMAGE_LOOK_FILES], n = 0;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    d->signals = d->epoll < 0 ? -1 : signals_open();
    while (d->signals >= 0 && n < IMAGE_LOOK_FILES &&
           (spare[n] = fcntl(d->signals, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    const int failed =
        n < IMAGE_LOOK_FILES ? error_system(err, "cannot watch the program and its children") : 0;
    while (n)
        close(spare[--n]);
    if (failed)
        loop_close(d);
    return failed;
}

void loop_close(struct loop_descriptors *d)
{
    if (d->epoll >= 0)
        close(d->epoll);
    if (d->signals >= 0)
        close(d->signals);
    *d = LOOP_CLOSED;
}

void loop_run(struct recording *r, const struct loop_options *o, struct loop_result *result)
{
    static struct watch watch;
    struct watch *w = &watch;
    *w = (struct watch){.r = r, .o = o, .program = o->program, .session_path = o->session_path};
    static struct image *images[MLW_PROCESSES];
    memset(images, 0, sizeof images);
    w->images = images;
    watch_descriptors(w);
    w->now_ns = clock_monotonic_ns();
    w->interim_ns = w->now_ns + SECOND_NS;
    w->clock_ns = w->now_ns + CLOCK_EVERY_NS;
    while (!w->interrupted_ns && !(o->duration_ns && w->now_ns - r->started_ns >= o->duration_ns)) {
        await_events(w);
        serve_all(w);
        if (watch_is_over(w))
            break;
    }
    end_all_images(w, result);
    result->wait_status = w->wait_status;
    result->images = r->images_ended;
    result->unrecorded = __atomic_load_n(&r->shm.session->unrecorded, __ATOMIC_RELAXED);
    result->lost_calls = r->lost_calls;
    result->unwritten_errno = r->sink.failed ? r->sink.last_errno : r->unwritten_errno;
}
