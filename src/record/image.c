/* image.c - see image.h. Samples and the end of one program image. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/proc.h"
#include "format/row.h"
#include "trust/process.h"

#define MS_NS          1000000u
#define FASTEST_NS     (1u * MS_NS)  /* at first: short programs get samples too */
#define ACTIVE_NS      (10u * MS_NS) /* for a process whose size changes */
#define IDLE_NS        (100u * MS_NS)
#define CALLED_NS      (100u * MS_NS) /* between two looks at what it is called */
#define FLUSH_AFTER_NS (2000ull * MS_NS)

/* In place of a process that may not write the file, as that of another user than it began as. */
static void describe_image(struct recording *r, struct image *m, uint64_t now_ns)
{
    uint8_t bytes[16384];
    char text[4096];
    struct tlv t = {.bytes = bytes, .room = sizeof bytes};
    const struct mlw_process *e = m->entry;
    const uint64_t start[3] = {m->start_clock, now_ns, clock_realtime_ns()};
    struct proc_stat stat;
    tlv_put_u32(&t, MLW_TLV_VERSION, mlw_session_format(r->shm.session->options));
    tlv_put_u32(&t, MLW_TLV_CLOCK_KIND, r->clock_kind);
    tlv_put(&t, MLW_TLV_START, start, sizeof start);
    if (proc_stat(m->pid, &stat))
        tlv_put_u32(&t, MLW_TLV_PPID, (uint32_t)stat.ppid);
    tlv_put_u32(&t, MLW_TLV_STACKS, r->shm.session->stack_mode);
    tlv_put_u32(&t, MLW_TLV_PAGE_BYTES, (uint32_t)r->page_bytes);
    if (e->forked_from)
        tlv_put(&t, MLW_TLV_FORKED_FROM, &e->forked_from, sizeof e->forked_from);
    if (e->attached) {
        const uint64_t before[2] = {UINT64_MAX, e->before};
        tlv_put(&t, MLW_TLV_ATTACHED, before, sizeof before);
    }
    if (proc_link(m->pid, "exe", text, sizeof text) > 0)
        tlv_put_text(&t, MLW_TLV_EXE, text);
    const ssize_t n = proc_read(m->pid, "cmdline", text, sizeof text);
    if (n > 0)
        tlv_put(&t, MLW_TLV_COMMAND, text, (size_t)n);
    const int environment = proc_open(m->pid, "environ");
    tlv_put_settings(&t, environment);
    if (environment >= 0)
        close(environment);
    snprintf(text, sizeof text, "%.*s", (int)sizeof e->unseen_allocator, e->unseen_allocator);
    tlv_put_text(&t, MLW_TLV_ALLOCATOR, text);
    struct mlw_chunk c = image_head(r, m, MLW_CHUNK_PROCESS);
    sink_write(&r->sink, &c, t.bytes, t.n);
}

struct image *image_adopt(struct recording *r, uint32_t index, uint64_t now_ns)
{
    struct image *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    struct mlw_process *e = &r->shm.table[index];
    m->index = index;
    m->entry = e;
    m->inner = (pid_t)e->pid;
    m->id = e->image;
    m->start_clock = e->start_clock;
    m->first_seen_ns = m->next_sample_ns = now_ns;
    m->interval_ns = r->sample_interval_ns ? r->sample_interval_ns : FASTEST_NS;
    m->pidfd = m->statm = -1;
    image_look(r, m, now_ns);
    if (m->gone) { /* or younger than the list of /proc: the next look decides */
        m->gone = false;
        m->next_look_ns = now_ns + 1;
    }
    slots_refresh(&m->slots, &r->shm, e);
    if (e->undescribed && m->pid > 0)
        describe_image(r, m, now_ns);
    return m;
}

/* A look at a process takes descriptors for a moment. Those that are kept for long leave it some:
 * the system gives out the lowest. Returns -1, without the descriptor, where it is one of those. */
static int keep_descriptor(int fd)
{
    struct rlimit open_files;
    if (fd < 0 || getrlimit(RLIMIT_NOFILE, &open_files) ||
        (rlim_t)fd + IMAGE_LOOK_FILES < open_files.rlim_cur)
        return fd;
    close(fd);
    return -1;
}

void image_look(struct recording *r, struct image *m, uint64_t now_ns)
{
    struct trust_process who;
    const bool found = find_process(&r->finder, &r->shm, m->entry, now_ns, &who);
    m->gone = !found && !r->finder.blind;
    if (!found)
        return;
    m->pid = who.pid;
    m->pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
    const bool ended = m->pidfd < 0 && errno == ESRCH;
    m->pidfd = keep_descriptor(m->pidfd);
    m->gone = ended || trust_process_has_ended(&who);
    if (!m->gone && m->statm < 0)
        m->statm = keep_descriptor(proc_open_memory(m->pid, "statm"));
}

bool image_has_ended(struct recording *r, const struct image *m, uint64_t now_ns)
{
    struct trust_process who;
    if (m->pidfd >= 0)
        return proc_fd_has_ended(m->pidfd);
    return !find_process(&r->finder, &r->shm, m->entry, now_ns, &who) && !r->finder.blind;
}

bool image_is_of_same(const struct image *a, const struct image *b)
{
    if (a->pid && b->pid)
        return a->pid == b->pid;
    return a->inner == b->inner && a->entry->pid_namespace == b->entry->pid_namespace;
}

struct mlw_chunk image_head(const struct recording *r, const struct image *m, uint16_t type)
{
    return (struct mlw_chunk){.type = type,
                              .image = m->id,
                              .pid = (uint32_t)m->inner,
                              .base_clock = clock_read(r->clock_kind)};
}

void image_flush(struct recording *r, struct image *m)
{
    if (!m->pending_n)
        return;
    struct mlw_chunk c = image_head(r, m, MLW_CHUNK_RESIDENT);
    c.base_clock = m->pending[0].clock;
    sink_write(&r->sink, &c, m->pending, m->pending_n * sizeof m->pending[0]);
    m->pending_n = 0;
}

static void keep_split(struct recording *r, struct image *m, const struct mlw_resident *s,
                       uint64_t now_ns)
{
    if (m->pending_n == IMAGE_SAMPLES)
        image_flush(r, m);
    if (!m->pending_n)
        m->pending_since_ns = now_ns;
    m->pending[m->pending_n++] = *s;
}

/* The live sums, as the recorder counts them. Returns whether they changed by more than a 64th. Of
 * very many threads the counts are only added up at one sample in several: each is a line of
 * another processor's cache. */
static bool look_at_live(struct recording *r, struct image *m)
{
    const uint32_t buffers = __atomic_load_n(&m->entry->slots, __ATOMIC_RELAXED);
    if (m->live_skipped++ < buffers / 256)
        return false;
    m->live_skipped = 0;
    slots_refresh(&m->slots, &r->shm, m->entry);
    const uint64_t live = slots_live_bytes(&m->slots, buffers), was = m->live_moved_from;
    m->split.live_bytes = live;
    if ((live < was ? was - live : live - was) <= was / 64)
        return false;
    m->live_moved_from = live;
    return true;
}

/* The thread that was asked has ended: others may go on. */
static bool ask_another(const struct recording *r, struct image *m, struct mlw_resident *s)
{
    close(m->statm);
    m->statm = proc_open_memory(m->pid, "statm");
    return statm_read(m->statm, r->page_bytes, s);
}

/* Title and name as they are now. Of a process that has ended the kernel says nothing, or its
 * file's name alone: the earlier ones stay. */
static void read_image_names(struct image *m, uint64_t now_ns)
{
    char text[sizeof m->title], comm[sizeof m->comm];
    if (m->called_ns && now_ns - m->called_ns < CALLED_NS)
        return;
    m->called_ns = now_ns;
    const size_t n = proc_called(m->pid, text, sizeof text, comm, sizeof comm);
    if (!n || __atomic_load_n(&m->entry->end_how, __ATOMIC_ACQUIRE) == MLW_END_EXEC)
        return; /* the last: that may be the next program's */
    memcpy(m->title, text, n);
    m->title_bytes = n;
    memcpy(m->comm, comm, sizeof comm);
}

void image_sample(struct recording *r, struct image *m, uint64_t now_ns)
{
    if (m->pending_n && now_ns - m->pending_since_ns > FLUSH_AFTER_NS)
        image_flush(r, m);
    if (m->gone || m->statm < 0 || (now_ns < m->next_sample_ns && !split_has_mark(m)))
        return;
    struct mlw_resident s;
    if (!statm_read(m->statm, r->page_bytes, &s) && !ask_another(r, m, &s)) {
        m->next_sample_ns = now_ns + IDLE_NS;
        return;
    }
    s.clock = clock_read(r->clock_kind);
    read_image_names(m, now_ns);
    bool same =
        s.rss == m->last.rss && s.vmsize == m->last.vmsize && s.rss_shared == m->last.rss_shared;
    if (!same) {
        /* A step is a step: the sample before it belongs to the picture. */
        if (m->last.rss && !m->last_kept)
            keep_split(r, m, &m->last, now_ns);
        keep_split(r, m, &s, now_ns);
    }
    m->last = s;
    m->last_kept = !same;
    const bool still = !look_at_live(r, m) && same;
    if (r->sample_interval_ns)
        m->interval_ns = r->sample_interval_ns;
    else if (still)
        m->interval_ns = m->interval_ns * 5 / 4 > IDLE_NS ? IDLE_NS : m->interval_ns * 5 / 4;
    else {
        uint64_t by_age = (now_ns - m->first_seen_ns) / 50;
        m->interval_ns = by_age < FASTEST_NS ? FASTEST_NS : by_age > ACTIVE_NS ? ACTIVE_NS : by_age;
    }
    m->next_sample_ns = now_ns + m->interval_ns;
    split_look(r, m, now_ns);
}

unsigned image_drain(struct recording *r, struct image *m)
{
    uint64_t before = r->sink.failed_calls;
    slots_refresh(&m->slots, &r->shm, m->entry);
    unsigned n = slots_drain(&m->slots, &r->shm, &r->sink);
    m->lost_calls += r->sink.failed_calls - before;
    return n;
}

/* linux/pidfd.h of newer kernels; Debian 12's has neither. */
struct pidfd_exit_info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
};
#define PIDFD_EXIT_WANTED 8u
#define PIDFD_ASK_INFO    _IOWR(0xFF, 11, struct pidfd_exit_info)

/* As long as it is a zombie. */
static int zombie_status(pid_t pid)
{
    /* 0 also stands for "you may not know". */
    struct proc_stat stat;
    return proc_stat(pid, &stat) && stat.state == 'Z' && stat.exit_code ? stat.exit_code : -1;
}

/* Once its parent has waited for it. */
static int reaped_status(int pidfd)
{
    struct pidfd_exit_info info = {.mask = PIDFD_EXIT_WANTED};
    return pidfd >= 0 && !ioctl(pidfd, PIDFD_ASK_INFO, &info) && info.mask & PIDFD_EXIT_WANTED
               ? info.exit_code
               : -1;
}

int image_wait_status(int pidfd, pid_t pid)
{
    int status = reaped_status(pidfd);
    if (status < 0)
        status = zombie_status(pid);
    return status < 0 ? reaped_status(pidfd) : status; /* it may have been waited for meanwhile */
}

static void put_lost(struct tlv *t, uint64_t calls, enum mlw_lost_reason reason)
{
    struct {
        uint64_t calls;
        uint32_t reason, zero;
    } lost = {calls, reason, 0};
    if (calls)
        tlv_put(t, MLW_TLV_LOST, &lost, sizeof lost);
}

#define NOT_FOUND_OUT "the reason could not be found out, it has ended"
static const char namespace_note[] = MLW_UNSEEN_BEGIN("namespace");

static void keep_name(struct unjoined *u, uint32_t programs, const char *path, const char *why)
{
    u->programs += programs;
    for (uint32_t i = 0; i < u->names; i++)
        if (!strcmp(u->name[i], path))
            return;
    if (u->names < sizeof u->name / sizeof *u->name) {
        strcpy(u->why[u->names], why);
        strcpy(u->name[u->names++], path);
    }
}

void image_ask_why(struct recording *r, struct image *m, uint64_t now_ns)
{
    enum { LOOK_NS = 20000000 }; /* to load libraries takes a while */
    if (m->why_looks < 8 && now_ns - m->exec_seen_ns >= (uint64_t)LOOK_NS << m->why_looks) {
        m->why_looks++;
        unseen_why_process(m->pid, r->library, m->why);
    }
}

/* For programs that the image became, or ran in a child that shares its memory, and that could not
 * be recorded: keeps the names, and puts them into its notes. */
static void say_unjoined(struct recording *r, struct image *m, uint32_t how, struct tlv *t)
{
    const struct mlw_process *e = m->entry;
    char path[MLW_EXEC_BYTES], why[UNSEEN_WHY_BYTES], note[MLW_EXEC_BYTES + UNSEEN_WHY_BYTES + 160];
    if (r->shm.session->options & MLW_OPT_NO_FOLLOW)
        return;
    snprintf(path, sizeof path, "%.*s", (int)sizeof e->exec_path - 1, e->exec_path);
    if (how == MLW_END_EXEC && m->gone && !m->replaced && !m->followed && *path) {
        if (!*m->why)
            unseen_why_file(path, m->why);
        keep_name(&r->unjoined, 1, path, m->why);
        snprintf(note, sizeof note,
                 "it became %s, which did not load the recorder: %s; its calls are missing", path,
                 *m->why ? m->why : NOT_FOUND_OUT);
        tlv_put_text(t, MLW_TLV_NOTE, note);
    }
    const uint32_t programs = __atomic_load_n(&e->unjoined, __ATOMIC_RELAXED);
    snprintf(path, sizeof path, "%.*s", (int)sizeof e->unjoined_path - 1, e->unjoined_path);
    if (programs && *path) {
        unseen_why_file(path, why);
        keep_name(&r->unjoined, programs, path, why);
        snprintf(note, sizeof note, "it ran %s%s, %u time%s, which did not load the recorder: %s",
                 path, programs > 1 ? " or the like" : "", programs, programs == 1 ? "" : "s",
                 *why ? why : NOT_FOUND_OUT);
        tlv_put_text(t, MLW_TLV_NOTE, note);
    }
}

/* By the library, and from outside. */
static void say_unseen(struct recording *r, struct image *m, struct tlv *t)
{
    const struct mlw_process *e = m->entry;
    const uint32_t bits = __atomic_load_n(&e->unseen, __ATOMIC_ACQUIRE);
    char note[TRACE_UNSEEN_BYTES], module[sizeof e->unseen_module + 1];
    struct unseen_notes all = {.count = 0};
    for (unsigned i = 0; i < MLW_UNSEEN_COUNT; i++)
        if (bits & 1u << i) {
            if (i == MLW_UNSEEN_NAMESPACE)
                snprintf(module, sizeof module, "%.*s", (int)sizeof e->unseen_module,
                         e->unseen_module);
            else if (i == MLW_UNSEEN_LIBC_BEHIND)
                strcpy(module, MLW_UNSEEN_LIBC);
            else
                snprintf(module, sizeof module, "%.*s", (int)sizeof e->unseen_allocator,
                         e->unseen_allocator);
            trace_unseen_note((enum mlw_unseen)i, NULL, module, note);
            unseen_add(&all, note);
        }
    for (uint32_t i = 0; i < m->unseen.notes.count; i++) /* the library names the module itself */
        if (!(bits & 1u << MLW_UNSEEN_NAMESPACE) ||
            strncmp(m->unseen.notes.note[i], namespace_note, sizeof namespace_note - 1) != 0)
            unseen_add(&all, m->unseen.notes.note[i]);
    for (uint32_t i = 0; i < all.count; i++) {
        tlv_put_text(t, MLW_TLV_NOTE, all.note[i]);
        unseen_add(&r->unseen, all.note[i]);
    }
    unseen_release(&all);
}

/* Calls that the process left out of a flight recorder's file. */
static void say_kept_back(struct tlv *t, uint64_t calls)
{
    char n[HUMAN_TEXT_BYTES], note[sizeof n + 200];
    if (!calls)
        return;
    snprintf(note, sizeof note,
             "flight recorder: old calls were not folded in time, so %s call%s %s left out to keep "
             "the file within its bound, those of short-lived blocks first",
             human_count(n, calls), calls == 1 ? "" : "s", calls == 1 ? "was" : "were");
    tlv_put_text(t, MLW_TLV_NOTE, note);
}

static void write_image_end(struct recording *r, struct image *m, uint32_t how, int wait_status)
{
    struct mlw_process *e = m->entry;
    uint8_t bytes[1024 + IMAGE_TITLE_BYTES + (UNSEEN_NOTES + 2) * TRACE_UNSEEN_BYTES];
    struct tlv t = {.bytes = bytes, .room = sizeof bytes};
    struct {
        uint64_t clock;
        uint32_t how, status;
    } end = {clock_read(r->clock_kind), how, (uint32_t)(wait_status < 0 ? 0 : wait_status)};
    uint64_t sink = __atomic_load_n(&e->lost_sink, __ATOMIC_RELAXED) + m->lost_calls;
    uint64_t buffer = __atomic_load_n(&e->lost_buffer, __ATOMIC_RELAXED);
    uint64_t nested = __atomic_load_n(&e->lost_nested, __ATOMIC_RELAXED);
    uint64_t bound = __atomic_load_n(&e->lost_bound, __ATOMIC_RELAXED);
    tlv_put(&t, MLW_TLV_END, &end, sizeof end);
    put_lost(&t, sink, MLW_LOST_SINK);
    put_lost(&t, buffer, MLW_LOST_BUFFER);
    put_lost(&t, nested, MLW_LOST_NESTED);
    put_lost(&t, bound, MLW_LOST_BOUND);
    say_unjoined(r, m, how, &t);
    say_unseen(r, m, &t);
    say_kept_back(&t, bound);
    if (m->title_bytes) {
        tlv_put(&t, MLW_TLV_TITLE, m->title, m->title_bytes);
        tlv_put_text(&t, MLW_TLV_COMM, m->comm);
    }
    uint64_t own = __atomic_load_n(&e->private_bytes, __ATOMIC_RELAXED);
    if (own)
        tlv_put(&t, MLW_TLV_OWN, &own, sizeof own);
    struct mlw_chunk c = image_head(r, m, MLW_CHUNK_END);
    c.base_clock = end.clock;
    sink_write_surely(&r->sink, &c, t.bytes, t.n);
    r->lost_calls += sink + buffer + nested + bound;
    if (e->unwritten)
        r->unwritten_errno = (int)e->unwritten;
}

void image_end(struct recording *r, struct image *m, int wait_status, bool still_running)
{
    struct mlw_process *e = m->entry;
    if (m->last.rss && !m->last_kept)
        keep_split(r, m, &m->last, clock_monotonic_ns());
    image_flush(r, m);
    split_finish(r, m);

    uint64_t failed_before = r->sink.failed_calls;
    slots_refresh(&m->slots, &r->shm, e);
    slots_finish(&m->slots, &r->shm, &r->sink, m->id);
    m->lost_calls += r->sink.failed_calls - failed_before;

    uint32_t how = __atomic_load_n(&e->end_how, __ATOMIC_ACQUIRE);
    if (m->replaced || how == MLW_END_EXEC) {
        how = MLW_END_EXEC; /* later acts of the process are not this image's */
        wait_status = -1;
    } else if (still_running) {
        how = MLW_END_UNKNOWN;
        wait_status = -1;
    } else if (wait_status >= 0)
        how = WIFSIGNALED(wait_status) ? MLW_END_KILLED : MLW_END_EXIT;
    else if (how == MLW_END_EXIT)
        wait_status = (int)(e->end_status & 0xff) << 8;
    else
        how = MLW_END_KILLED;
    write_image_end(r, m, how, wait_status);

    if (!still_running) {
        slots_close(&m->slots, &r->shm, true);
        memset((char *)e + sizeof e->state, 0, sizeof *e - sizeof e->state);
        __atomic_store_n(&e->state, MLW_PROC_FREE, __ATOMIC_RELEASE);
    }
    r->images_ended++;
    image_drop(r, m);
}

void image_drop(struct recording *r, struct image *m)
{
    slots_close(&m->slots, &r->shm, false);
    unseen_release(&m->unseen.notes);
    if (m->pidfd >= 0)
        close(m->pidfd);
    if (m->statm >= 0)
        close(m->statm);
    free(m);
}
