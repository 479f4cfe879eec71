/* attach.c - Runs `mallow record -p`: starts the probe, takes its events, samples the processes,
 * and ends on a signal or at their end. Rows are flushed every second, so that a kill of mallow
 * loses no more. Signals arrive by a signalfd. */
#include "record/attach.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "launch/launch.h"
#include "record/outside.h"
#include "record/sink.h"
#include "trace/trace.h"
#include "trust/place.h"
#include "trust/process.h"

#define LOOK_MS  10
#define FLUSH_NS 1000000000ull /* a kill of mallow loses at most so much */

struct attach {
    struct signals_before before;
    const struct attach_options *o;
    struct outside_options options;
    struct outside *outside;
    struct rows *rows;
    int output; /* its file */
    struct trust_place place;
    struct probe_options probe;
    struct probe_result result;
    uint64_t start_ns, now_ns, flush_ns;
    uint64_t end_ns; /* the end in ns of the recording; 0: not yet */
    int pidfd;       /* the pidfd of the process; -1: none to be had */
};

static void take_outside_call(void *arg, const struct probe_call *c)
{
    const struct attach *a = arg;
    /* Probes are taken away one after the other: what comes meanwhile is only a part. */
    if (!a->end_ns || c->what == PROBE_LOST_CALLS || c->time_ns <= a->end_ns)
        outside_take(a->outside, c);
}

static void say_attach_waits(const struct attach *a)
{
    char line[128];
    snprintf(line, sizeof line,
             "process %u has ended; waiting for %u of its children (Ctrl-C ends the recording)",
             a->o->pid, outside_running(a->outside));
    a->o->say(a->o->arg, false, line);
}

static void wait_for_end(struct attach *a, int signals)
{
    struct pollfd fds[] = {{.fd = probe_descriptor(&a->result), .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    bool said = false, interrupted = false;
    while (outside_running(a->outside) && !interrupted && !outside_failed(a->outside) &&
           (!a->o->duration_ns || a->now_ns - a->start_ns < a->o->duration_ns)) {
        (void)!poll(fds, 2, LOOK_MS);
        a->now_ns = clock_monotonic_ns();
        probe_consume(&a->result);
        outside_sample(a->outside, a->now_ns);
        if (a->now_ns >= a->flush_ns) {
            outside_look(a->outside, a->now_ns);
            rows_flush(a->rows);
            a->flush_ns = a->now_ns + FLUSH_NS;
        }
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
            interrupted |= info.ssi_signo != SIGCHLD;
        if (!said && outside_has_ended(a->outside) && outside_running(a->outside)) {
            say_attach_waits(a);
            said = true;
        }
    }
}

static bool attached_has_ended(const struct attach *a)
{
    return a->pidfd >= 0 && proc_fd_has_ended(a->pidfd);
}

/* The path of its program. */
static const char *program_path(uint32_t pid, char *exe, size_t room)
{
    (void)proc_link((pid_t)pid, "exe", exe, room);
    return exe;
}

/* "1.9 us", of a cost; room for it in `to`. */
static const char *microseconds(char to[32], uint64_t ns)
{
    snprintf(to, 32, "%" PRIu64 ".%" PRIu64 " us", (ns + 50) / 1000, (ns + 50) / 100 % 10);
    return to;
}

/* Reports the cost before anything is recorded: a server may not be able to afford it. */
static void say_cost(const struct attach *a, char *to, size_t room)
{
    const struct probe_result *r = &a->result;
    char malloc_cost[32], free_cost[32];
    if (r->malloc_cost_ns)
        snprintf(to, room,
                 "each malloc takes at least %s longer meanwhile, each free %s (measured just "
                 "now), up to twice that while all processors are busy%s",
                 microseconds(malloc_cost, r->malloc_cost_ns),
                 microseconds(free_cost, r->free_cost_ns),
                 a->o->stacks == MLW_STACKS_NONE
                     ? ""
                     : ", and a malloc up to 5 us more where call stacks keep changing");
    else
        snprintf(to, room, "each call of its allocator takes about 1 to 12 us longer meanwhile");
}

static void say_begun(const struct attach *a, const char *exe)
{
    char line[1536], cost[512];
    const struct attach_options *o = a->o;
    const char *slash = strrchr(exe, '/');
    const char *name = slash ? slash + 1 : exe;
    say_cost(a, cost, sizeof cost);
    if (o->no_follow)
        snprintf(line, sizeof line, "recording process %u (%.200s): %s; Ctrl-C ends the recording",
                 o->pid, name, cost);
    else
        snprintf(line, sizeof line,
                 "recording process %u (%.200s) and its children: %s; calls of every other process "
                 "that uses %.500s take nearly as long (--no-follow spares them); Ctrl-C ends the "
                 "recording",
                 o->pid, name, cost, a->result.source);
    o->say(o->arg, false, line);
}

static int attach_outside(struct attach *a, const char *exe, struct record_result *result,
                          struct error *err)
{
    const struct attach_options *o = a->o;
    a->options = (struct outside_options){.pid = o->pid,
                                          .stacks = o->stacks,
                                          .no_follow = o->no_follow,
                                          .sample_interval_ns = o->sample_interval_ns};
    a->probe = (struct probe_options){.kind = &probe_kind_record,
                                      .pid = o->pid,
                                      .no_follow = o->no_follow,
                                      .by = o->stacks == MLW_STACKS_NONE ? 0 : PROBE_BY_STACK,
                                      .call = take_outside_call,
                                      .arg = a};
    a->outside = outside_new(&a->options, err);
    if (!a->outside)
        return -1;
    signals_pass(&a->before); /* it can take seconds, and the kernel takes the probes away */
    int bad = probe_begin(&a->probe, &a->result, err);
    signals_block();
    if (attached_has_ended(a) && (bad || outside_running(a->outside) < 2))
        return error_set(
            err, ERROR_UNSUPPORTED,
            "process %u ended while the probes were being attached: nothing is recorded", o->pid);
    if (bad)
        return -1;
    a->start_ns = a->now_ns = clock_monotonic_ns();
    a->output = record_open(result->output, &a->place, err);
    int fd = a->output < 0 ? -1 : fcntl(a->output, F_DUPFD_CLOEXEC, 0);
    a->rows = fd < 0 ? NULL : rows_new_on(fd, result->output, err);
    if (!a->rows) {
        if (a->output >= 0)
            record_unmake(&a->place, a->output);
        return -1;
    }
    outside_begin(a->outside, a->rows, &a->result, a->start_ns);
    say_begun(a, exe);
    return 0;
}

static int finish_outside(struct attach *a, struct record_result *result, struct error *err)
{
    const uint64_t now_ns = a->end_ns = clock_monotonic_ns();
    probe_end(&a->result);
    result->lost_calls = probe_lost(&a->result);
    result->left_running = outside_running(a->outside);
    result->images = outside_images(a->outside);
    outside_end(a->outside, now_ns, result->lost_calls);
    result->lost_stacks = outside_lost_stacks(a->outside);
    result->calls = rows_calls(a->rows);
    if (outside_failed(a->outside)) {
        rows_abandon(a->rows);
        record_unmake(&a->place, a->output);
        return error_memory(err);
    }
    if (rows_finish_raw(a->rows, now_ns - a->start_ns, err))
        return -1;
    struct trace_seal_result sealed;
    struct stat st;
    if (!fstat(a->output, &st))
        result->file_bytes = (uint64_t)st.st_size;
    if (!a->o->keep_raw &&
        !trace_seal(a->output, &a->place, 0, NULL, &sealed, NULL, NULL, &result->seal_error)) {
        result->sealed = true;
        result->file_bytes = sealed.bytes_out;
    }
    return 0;
}

int record_attach(const struct attach_options *o, struct record_result *result, struct error *err)
{
    struct attach *a = calloc(1, sizeof *a);
    *result = (struct record_result){.program_pid = (int)o->pid};
    if (!a)
        return error_memory(err);
    a->o = o;
    a->output = a->place.dir = -1;
    a->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)o->pid, 0);
    signals_take(&a->before);
    const int signals = signals_open();
    char exe[4096];
    program_path(o->pid, exe, sizeof exe);
    int status =
        record_output(o->output, exe, (int)o->pid, result->output, sizeof result->output, err);
    if (!status)
        status = attach_outside(a, exe, result, err);
    if (!status) {
        wait_for_end(a, signals);
        status = finish_outside(a, result, err);
    }
    if (signals >= 0)
        close(signals);
    if (a->pidfd >= 0)
        close(a->pidfd);
    if (a->output >= 0)
        close(a->output);
    trust_place_close(&a->place);
    probe_release(&a->result);
    outside_free(a->outside);
    signals_restore(&a->before);
    free(a);
    return status;
}
