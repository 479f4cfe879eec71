/* control.c - see control.h. Takes the session of another process and changes one word in it. */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/image.h"
#include "record/shm.h"
#include "record/sink.h"
#include "record/slots.h"

static const char *const action_names[] = {
    [CONTROL_START] = "start",     [CONTROL_STOP] = "stop",        [CONTROL_PAUSE] = "pause",
    [CONTROL_UNPAUSE] = "unpause", [CONTROL_SYNC] = "sync",        [CONTROL_RESET] = "reset",
    [CONTROL_MARK] = "mark",       [CONTROL_SNAPSHOT] = "snapshot"};

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

/* What a program begins with that joins the recording from now on. */
static void set_initial(struct mlw_session *s, enum control_action action)
{
    const uint32_t bits = MLW_CTL_STARTED | MLW_CTL_PAUSED | MLW_CTL_ACTIVE;
    uint32_t old = __atomic_load_n(&s->initial_control, __ATOMIC_ACQUIRE);
    while (action <= CONTROL_UNPAUSE &&
           !__atomic_compare_exchange_n(&s->initial_control, &old, changed(old, action) & bits,
                                        false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
}

static int open_output(struct recording *r, struct error *err)
{
    char path[MLW_PATH_BYTES];
    if (r->sink.fd >= 0)
        return 0;
    memcpy(path, r->shm.session->output, sizeof path);
    if (!memchr(path, 0, sizeof path) || path[0] != '/')
        return error_set(err, ERROR_FORMAT, "the session does not say where its recording is");
    r->sink.fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    return r->sink.fd < 0 ? error_system(err, "cannot append to %s", path) : 0;
}

static int append(struct recording *r, struct mlw_chunk *c, const struct tlv *t, struct error *err)
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
    return append(r, &c, &t, err);
}

/* Every row that was complete when this began is in the file when it returns. */
static int sync_buffers(struct recording *r, struct mlw_process *e, struct error *err)
{
    struct slots s = {0};
    uint64_t failed = r->sink.failed;
    slots_refresh(&s, &r->shm, e);
    slots_interim(&s, &r->shm, &r->sink, clock_monotonic_ns(), true);
    /* What was handed over meanwhile and waits for the parent: it has a second. */
    for (int i = 0; i < 1000 && __atomic_load_n(&e->drain, __ATOMIC_ACQUIRE); i++) {
        bool waiting = false;
        for (uint32_t w = 0; w < s.windows && !waiting; w++)
            for (uint32_t k = 0; s.window[w] && !waiting &&
                                 (k = shm_next_touched(&r->shm, s.number[w], k)) < MLW_WINDOW_SLOTS;
                 k++)
                waiting = __atomic_load_n(&shm_slot(s.window[w], k)->reserved[0],
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
    struct image *m = image_adopt(r, index, clock_monotonic_ns());
    if (!m)
        return error_set(err, ERROR_MEMORY, "out of memory");
    int failed = image_split(r, m, err);
    image_drop(r, m);
    return failed;
}

static int apply(struct recording *r, uint32_t index, enum control_action action, const char *label,
                 struct error *err)
{
    struct mlw_process *e = &r->shm.table[index];
    switch (action) {
    case CONTROL_SYNC: return open_output(r, err) ? -1 : sync_buffers(r, e, err);
    case CONTROL_MARK: return open_output(r, err) ? -1 : mark(r, e, label, err);
    case CONTROL_SNAPSHOT: return open_output(r, err) ? -1 : snapshot(r, index, err);
    default: return set_control(e, action, err);
    }
}

int control_run(pid_t pid, enum control_action action, const char *label, uint32_t *reached,
                struct error *err)
{
    static struct recording recording;
    struct recording *r = &recording;
    *r = (struct recording){.sink = {.fd = -1, .reserve_fd = -1}};
    if (reached)
        *reached = 0;
    if (shm_find(&r->shm, pid, err))
        return -1;
    r->clock_kind = (enum mlw_clock_kind)r->shm.session->clock_kind;
    r->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    bool all = (uint32_t)pid == r->shm.session->parent_pid;
    if (all) /* of programs that are yet to come, too */
        set_initial(r->shm.session, action);
    uint32_t n = 0, entries = shm_entries(&r->shm);
    int failed = 0;
    for (uint32_t i = 0; i < entries && !failed; i++) {
        struct mlw_process *e = &r->shm.table[i];
        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) != MLW_PROC_LIVE ||
            (!all && e->pid != (uint32_t)pid))
            continue;
        failed = apply(r, i, action, label, err);
        n++;
    }
    if (r->sink.fd >= 0)
        close(r->sink.fd);
    free(r->smaps.bytes);
    shm_close(&r->shm);
    if (reached)
        *reached = n;
    if (!n)
        return error_set(err, ERROR_USAGE,
                         all ? "no process of the recording of %d is alive"
                             : "process %d belongs to a recording but is not recorded itself (it "
                               "could not join, or does not follow)",
                         (int)pid);
    return failed;
}
