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
#include "record/dump.h"
#include "record/image.h"
#include "record/shm.h"
#include "record/sink.h"
#include "record/slots.h"
#include "trust/process.h"

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
                             "recording has failed for good in process %u, or was ended", e->pid);
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
        error_set(err, ERROR_UNSUPPORTED, "%s, which process %d names, is no recording", path,
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
