/* control.c - see control.h. Takes the session of another process and changes one word in it. */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "format/chunk.h"
#include "record/image.h"
#include "record/shm.h"
#include "record/sink.h"
#include "record/slots.h"
#include "trace/trace.h"
#include "trust/file.h"
#include "trust/place.h"
#include "trust/process.h"

/* A recording of all calls so far, made while the programs go on.
 *
 * Owns: a copy of the raw recording that no flight recorder changes meanwhile, sealed to a file of
 * the caller's. Refuses: to open anything for another user: the file is made with the rights of the
 * caller, in a directory held by descriptor (trust/place.h). One thread. */

#define TRIES       50
#define PIECE_BYTES ((size_t)1 << 20)

struct copy {
    int from, to;
    uint8_t *buffer; /* [PIECE_BYTES] */
};

/* The end of the first chunks, which are never released. */
static uint64_t count_head_bytes(int fd)
{
    struct mlw_chunk c;
    uint64_t at = 0;
    while (trust_read(fd, &c, sizeof c, at) == sizeof c && c.magic == MLW_CHUNK_MAGIC &&
           c.header_bytes == sizeof c && (c.type == MLW_CHUNK_FILE || c.type == MLW_CHUNK_SPACE))
        at += sizeof c + c.payload_bytes;
    return at;
}

/* Copies [at, end). */
static int copy_range(const struct copy *c, uint64_t at, uint64_t end, struct error *err)
{
    while (at < end) {
        const size_t want = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        const size_t n = trust_read(c->from, c->buffer, want, at);
        if (!n)
            return error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
        for (size_t done = 0; done < n;) {
            const ssize_t k = pwrite(c->to, c->buffer + done, n - done, (off_t)(at + done));
            if (k < 0 && errno != EINTR)
                return error_system(err, "cannot copy the recording");
            done += k > 0 ? (size_t)k : 0;
        }
        at += n;
    }
    return 0;
}

/* The front, which stands behind the first chunks and is released from its beginning. */
struct front {
    uint64_t at; /* the first byte that is not 0 */
    size_t n;    /* 0: there is none yet */
    uint8_t bytes[sizeof(struct mlw_chunk)];
};

static void find_front(const struct copy *c, uint64_t head, struct front *f)
{
    const off_t data = lseek(c->from, (off_t)head, SEEK_DATA);
    size_t n, i = 0;
    f->at = data >= 0 ? (uint64_t)data : head;
    while ((n = trust_read(c->from, c->buffer, PIECE_BYTES, f->at))) {
        for (i = 0; i < n && !c->buffer[i]; i++)
            ;
        f->at += i;
        if (i < n)
            break;
    }
    f->n = trust_read(c->from, f->bytes, sizeof f->bytes, f->at);
}

/* One try. What stood first before the size was asked for, and still does when all was copied,
 * shows that nothing was released meanwhile: neither rows of before, nor rows whose fold lies
 * behind that size. 1: copied, 0: it was released meanwhile, -1. */
static int copy_once(const struct copy *c, struct error *err)
{
    struct stat st;
    struct front front;
    uint8_t now[sizeof front.bytes];
    const uint64_t head = count_head_bytes(c->from);
    find_front(c, head, &front);
    if (ftruncate(c->to, 0) || fstat(c->from, &st))
        return error_system(err, "cannot copy the recording");
    const uint64_t end = (uint64_t)st.st_size;
    if (!front.n && end > front.at)
        return 0; /* it has come since */
    if (copy_range(c, 0, head < end ? head : end, err) || copy_range(c, front.at, end, err))
        return -1;
    return trust_read(c->from, now, front.n, front.at) == front.n &&
           !memcmp(front.bytes, now, front.n);
}

/* recording: a raw recording, open for reading, that may grow and whose front may be released at
 * any moment. path: as the user typed it. 0, or -1 with *err. */
static int dump_recording(int recording, const char *path, struct error *err)
{
    struct copy c = {.from = recording, .to = trust_unnamed(err), .buffer = malloc(PIECE_BYTES)};
    struct trust_place place = {.dir = -1};
    struct stat st;
    int copied = 0, status = -1;
    if (c.to < 0 || !c.buffer) {
        if (!c.buffer)
            error_memory(err);
        goto out;
    }
    for (int i = 0; i < TRIES && !copied; i++)
        copied = copy_once(&c, err);
    if (!copied)
        error_set(err, ERROR_SYSTEM, "the window moves faster than it can be copied");
    if (copied <= 0)
        goto out;
    /* Its readers are those of the recording. */
    if (fstat(recording, &st) || fchmod(c.to, st.st_mode & 0777)) {
        error_system(err, "cannot copy the recording");
        goto out;
    }
    struct trust_identity id;
    if (trust_place_open(&place, path, err))
        goto out;
    if (trust_identify(recording, &id) && trust_is(place.dir, place.name, &id))
        error_set(err, ERROR_USAGE, "%s is being recorded to; choose another file", path);
    else
        status = trace_seal(c.to, &place, 1, NULL, NULL, NULL, NULL, err);
    trust_place_close(&place);
out:
    if (c.to >= 0)
        close(c.to);
    free(c.buffer);
    return status;
}

static const char *const action_names[] = {
    [CONTROL_START] = "start",     [CONTROL_STOP] = "stop",         [CONTROL_PAUSE] = "pause",
    [CONTROL_UNPAUSE] = "unpause", [CONTROL_SYNC] = "sync",         [CONTROL_RESET] = "reset",
    [CONTROL_MARK] = "mark",       [CONTROL_SNAPSHOT] = "snapshot", [CONTROL_DUMP] = "dump"};

int control_action_named(const char *name)
{
    for (int i = 0; i < (int)(sizeof action_names / sizeof *action_names); i++)
        if (!strcmp(action_names[i], name))
            return i;
    return -1;
}

/* The control word after `action`; the epoch makes every thread look. */
static uint32_t changed(uint32_t control, enum control_action action)
{
    switch (action) {
    case CONTROL_START: /* who asks for a start wants to see events */
        control = (control | MLW_CTL_STARTED) & ~(uint32_t)MLW_CTL_PAUSED;
        break;
    case CONTROL_STOP: control &= ~(uint32_t)MLW_CTL_STARTED; break;
    case CONTROL_PAUSE: control |= MLW_CTL_PAUSED; break;
    case CONTROL_UNPAUSE: control &= ~(uint32_t)MLW_CTL_PAUSED; break;
    case CONTROL_RESET: control |= MLW_CTL_RESET; break;
    default: return control;
    }
    if (control & MLW_CTL_STARTED && !(control & MLW_CTL_PAUSED))
        control |= MLW_CTL_ACTIVE;
    else
        control &= ~(uint32_t)MLW_CTL_ACTIVE;
    return control + MLW_CTL_EPOCH;
}

static int set_control(struct mlw_process *e, enum control_action action, struct error *err)
{
    uint32_t old = __atomic_load_n(&e->control, __ATOMIC_ACQUIRE);
    do
        if (old & MLW_CTL_DEAD)
            return error_set(err, ERROR_UNSUPPORTED,
                             "recording has failed permanently in process %u, or was ended",
                             e->pid);
    while (!__atomic_compare_exchange_n(&e->control, &old, changed(old, action), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return 0;
}

/* Sets the state in which a program begins that joins the recording from now on. */
static void set_initial(struct mlw_session *s, enum control_action action)
{
    const uint32_t bits = MLW_CTL_STARTED | MLW_CTL_PAUSED | MLW_CTL_ACTIVE;
    uint32_t old = __atomic_load_n(&s->initial_control, __ATOMIC_ACQUIRE);
    while (action <= CONTROL_UNPAUSE &&
           !__atomic_compare_exchange_n(&s->initial_control, &old, changed(old, action) & bits,
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
}

/* Opens the recording that the session names, where it is one of the session's owner, and the
 * process that made the session or the one that is controlled has it open for writing itself: then
 * nothing is written on their behalf that they could not write. */
static int open_recording_output(struct recording *r, pid_t pid, struct error *err)
{
    char path[MLW_PATH_BYTES];
    const struct trust_rule rule = {
        .what = "the recording", .owners = TRUST_USER, .user = r->shm.owner, .follow = true};
    struct trust_identity id;
    uint32_t magic = 0;
    if (r->sink.fd >= 0)
        return 0;
    memcpy(path, r->shm.session->output, sizeof path);
    if (!memchr(path, 0, sizeof path) || path[0] != '/')
        return error_set(err, ERROR_FORMAT, "the session does not say where its recording is");
    int fd = trust_open(AT_FDCWD, path, TRUST_APPEND, &rule, err);
    if (fd < 0)
        return error_prefix(err, "cannot append to the recording that process %d names", (int)pid);
    if (trust_read(fd, &magic, sizeof magic, 0) != sizeof magic || magic != MLW_CHUNK_MAGIC)
        error_set(err, ERROR_UNSUPPORTED, "%s, which process %d names, is not a recording", path,
                  (int)pid);
    else if (!trust_identify(fd, &id) ||
             (!trust_process_writes(r->shm.maker, &id) && !trust_process_writes(pid, &id)))
        error_set(err, ERROR_UNSUPPORTED,
                  "%s, which process %d names, is not open for writing there: it is not the file "
                  "that is being recorded to",
                  path, (int)pid);
    else {
        r->sink.fd = fd;
        return 0;
    }
    close(fd);
    return -1;
}

static int append_record(struct recording *r, struct mlw_chunk *c, const struct tlv *t,
                         struct error *err)
{
    if (!sink_write(&r->sink, c, t->bytes, t->n))
        return 0;
    errno = r->sink.last_errno;
    return error_system(err, "cannot append to %s", r->shm.session->output);
}

static int mark(struct recording *r, const struct mlw_process *e, const char *label,
                struct error *err)
{
    uint8_t bytes[4200];
    struct tlv t = {.bytes = bytes, .room = sizeof bytes};
    tlv_put_text(&t, MLW_TLV_LABEL, label);
    if (t.full)
        return error_set(err, ERROR_USAGE, "the label is too long: 4000 bytes at most");
    struct mlw_chunk c = {.type = MLW_CHUNK_MARK,
                          .image = e->image,
                          .pid = e->pid,
                          .base_clock = clock_read(r->clock_kind)};
    return append_record(r, &c, &t, err);
}

/* Every row that was complete when this began is in the file when it returns. */
static int sync_buffers(struct recording *r, struct mlw_process *e, struct error *err)
{
    struct slots s = {0};
    uint64_t failed = r->sink.failed;
    slots_refresh(&s, &r->shm, e);
    uint64_t clock = clock_read(r->shm.session->clock_kind);
    slots_interim(&s, &r->shm, &r->sink, clock_monotonic_ns(), &clock);
    /* Buffers that were handed over meanwhile and wait for the parent: it has a second. */
    for (int i = 0; i < 1000 && __atomic_load_n(&e->drain, __ATOMIC_ACQUIRE); i++) {
        bool waiting = false;
        for (uint32_t w = 0; w < s.windows && !waiting; w++)
            for (uint32_t k = 0; s.window[w] && !waiting &&
                                 (k = shm_next_touched(&r->shm, s.number[w], k)) < MLW_WINDOW_SLOTS;
                 k++)
                waiting = __atomic_load_n(&shm_slot(s.window[w], k)->slot_state,
                                          __ATOMIC_ACQUIRE) == MLW_SLOT_FULL;
        if (!waiting)
            break;
        usleep(1000);
    }
    slots_close(&s, &r->shm, false);
    if (r->sink.failed == failed)
        return 0;
    errno = r->sink.last_errno;
    return error_system(err, "cannot append to %s", r->shm.session->output);
}

static int snapshot(struct recording *r, uint32_t index, struct error *err)
{
    struct trust_process p;
    if (!find_process(&r->finder, &r->shm, &r->shm.table[index], clock_monotonic_ns(), &p))
        return error_set(err, ERROR_USAGE, "the process has ended");
    const pid_t pid = p.pid;
    /* This recording is not for a third user's process, even where the caller may see it. */
    if (r->shm.owner != geteuid() && !trust_process_is_of(&p, r->shm.owner))
        return error_set(err, ERROR_UNSUPPORTED, "process %d is another user's", (int)pid);
    struct image *m = image_adopt(r, index, clock_monotonic_ns());
    if (!m)
        return error_memory(err);
    int failed = split_now(r, m, err);
    image_drop(r, m);
    return failed;
}

struct order {
    pid_t pid, inner; /* inner: what the process calls itself */
    enum control_action action;
    const char *label;
};

static int apply_order(struct recording *r, uint32_t index, const struct order *o,
                       struct error *err)
{
    struct mlw_process *e = &r->shm.table[index];
    bool writes = o->action == CONTROL_SYNC || o->action == CONTROL_MARK ||
                  o->action == CONTROL_SNAPSHOT || o->action == CONTROL_DUMP;
    if (writes && open_recording_output(r, o->pid, err))
        return -1;
    switch (o->action) {
    case CONTROL_SYNC: return sync_buffers(r, e, err);
    case CONTROL_MARK: {
        struct error ignored; /* a mark is one without a measurement, too */
        if (mark(r, e, o->label, err))
            return -1;
        (void)snapshot(r, index, &ignored);
        return 0;
    }
    case CONTROL_SNAPSHOT: return snapshot(r, index, err);
    case CONTROL_DUMP: return 0; /* once, of all: below */
    default: return set_control(e, o->action, err);
    }
}

/* More than the buffers of a session hold was not in them: its tables go round in circles. */
static bool has_written_too_much(const struct recording *r)
{
    struct stat st;
    return r->sink.bytes > (64u << 20) && !fstat(r->shm.fd, &st) &&
           r->sink.bytes > (64u << 20) + (uint64_t)st.st_blocks * 512;
}

/* True if the entry is of the process that was named. */
static bool order_names_entry(struct recording *r, const struct mlw_process *e,
                              const struct order *o)
{
    struct trust_process who;
    return ((pid_t)e->pid == o->pid || (pid_t)e->pid == o->inner) &&
           find_process(&r->finder, &r->shm, e, clock_monotonic_ns(), &who) && who.pid == o->pid;
}

/* A recording of all processes, as far as they are now. */
static int dump(struct recording *r, const struct order *o, struct error *err)
{
    struct mlw_clock_pair pair = clock_pair(r->clock_kind);
    struct mlw_chunk c = {.type = MLW_CHUNK_CLOCK, .base_clock = pair.clock};
    const uint32_t entries = shm_entries(&r->shm);
    if (sink_write(&r->sink, &c, &pair, sizeof pair)) {
        errno = r->sink.last_errno;
        return error_system(err, "cannot append to %s", r->shm.session->output);
    }
    for (uint32_t i = 0; i < entries; i++) {
        struct mlw_process *e = &r->shm.table[i];
        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) != MLW_PROC_LIVE)
            continue;
        if (sync_buffers(r, e, err))
            return -1;
        if (has_written_too_much(r))
            return error_set(err, ERROR_FORMAT, "the session of process %d is damaged",
                             (int)o->pid);
    }
    return dump_recording(r->sink.fd, o->label, err);
}

/* To the processes of the session that it is about; *reached of them. */
static int apply_to_all(struct recording *r, const struct order *o, uint32_t *reached,
                        struct error *err)
{
    *reached = 0;
    if (shm_map(&r->shm, err))
        return -1;
    r->clock_kind = (enum mlw_clock_kind)r->shm.session->clock_kind;
    r->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    bool all = (uint32_t)o->pid == r->shm.session->parent_pid;
    if (all) /* programs that are yet to come get it, too */
        set_initial(r->shm.session, o->action);
    uint32_t entries = shm_entries(&r->shm);
    int failed = 0;
    for (uint32_t i = 0; i < entries && !failed; i++) {
        struct mlw_process *e = &r->shm.table[i];
        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) != MLW_PROC_LIVE ||
            (!all && !order_names_entry(r, e, o)))
            continue;
        failed = apply_order(r, i, o, err);
        ++*reached;
        if (!failed && has_written_too_much(r))
            failed =
                error_set(err, ERROR_FORMAT, "the session of process %d is damaged", (int)o->pid);
    }
    if (!*reached)
        return error_set(err, ERROR_USAGE,
                         all ? "no process of the recording of %d is alive"
                             : "process %d belongs to a recording but is not recorded itself (it "
                               "could not join, or does not follow)",
                         (int)o->pid);
    return !failed && o->action == CONTROL_DUMP ? dump(r, o, err) : failed;
}

struct outcome { /* shared with the child that does it */
    int status;
    uint32_t reached;
    struct error err;
};

/* The same by a child. Another user may truncate the session at any moment: a process that has it
 * mapped then dies. */
static int apply_in_child(struct recording *r, const struct order *o, uint32_t *reached,
                          struct error *err)
{
    struct outcome *out =
        mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (out == MAP_FAILED)
        return error_system(err, "cannot make room for a result");
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_DUMPABLE, 0); /* no core of it */
        out->status = apply_to_all(r, o, &out->reached, &out->err);
        _exit(0);
    }
    int status = 0, result;
    if (child < 0)
        result = error_system(err, "cannot start a process");
    else if (waitpid(child, &status, 0) != child || status)
        result = error_set(err, ERROR_FORMAT,
                           "the session of process %d was cut off while it was used (signal %d)",
                           (int)o->pid, WTERMSIG(status));
    else {
        result = out->status;
        *reached = out->reached;
        *err = out->err;
    }
    munmap(out, sizeof *out);
    return result;
}

int control_run(pid_t pid, enum control_action action, const char *label, uint32_t *reached,
                struct error *err)
{
    static struct recording recording;
    struct recording *r = &recording;
    struct trust_process who;
    struct error none;
    const pid_t inner = trust_process(pid, &who, &none) ? pid : who.inner_pid;
    const struct order order = {pid, inner, action, label};
    uint32_t count = 0;
    *r = (struct recording){.sink = {.fd = -1, .reserve_fd = -1}};
    int failed = shm_find(&r->shm, pid, err);
    if (!failed)
        failed = r->shm.steady ? apply_to_all(r, &order, &count, err)
                               : apply_in_child(r, &order, &count, err);
    if (r->sink.fd >= 0)
        close(r->sink.fd);
    free(r->smaps.bytes);
    places_release(&r->places);
    find_release(&r->finder);
    shm_close(&r->shm);
    if (reached)
        *reached = count;
    return failed;
}
