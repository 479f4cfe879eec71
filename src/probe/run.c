/* run.c - see run.h. One epoll for the ring buffer, signals, the process and two timers. */
#include "probe/run.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum source {
    SOURCE_RING,
    SOURCE_SIGNAL,
    SOURCE_PROCESS,
    SOURCE_END,
    SOURCE_INTERVAL,
    SOURCE_TICK,
    SOURCES
};

enum { TICK_NS = 10000000 };

struct waiting {
    struct run_plan *plan;
    int epoll;
    int fd[SOURCES];
    bool over, child_ended;
    unsigned interrupts;
};

static void watch_descriptor(struct waiting *w, enum source source, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = source};
    w->fd[source] = fd;
    if (fd >= 0)
        epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e);
}

static int timer(uint64_t first_ns, uint64_t every_ns)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec t = {
        .it_value = {(time_t)(first_ns / 1000000000u), (long)(first_ns % 1000000000u)},
        .it_interval = {(time_t)(every_ns / 1000000000u), (long)(every_ns % 1000000000u)}};
    if (fd >= 0)
        timerfd_settime(fd, 0, &t, NULL);
    return fd;
}

static void reap_program(struct waiting *w)
{
    int status;
    if (w->plan->is_child && !w->child_ended &&
        waitpid((pid_t)w->plan->pid, &status, WNOHANG) == (pid_t)w->plan->pid) {
        w->child_ended = true;
        w->plan->wait_status = status;
        w->over = true;
    }
}

/* Ctrl-C reaches a program that was started as well, which gets a moment to end by itself. */
static void handle_interrupt(struct waiting *w)
{
    w->plan->interrupted = true;
    w->interrupts++;
    if (!w->plan->is_child || w->interrupts > 1) {
        w->over = true;
        return;
    }
    if (w->fd[SOURCE_END] >= 0)
        close(w->fd[SOURCE_END]);
    watch_descriptor(w, SOURCE_END, timer(300000000, 0));
}

static void take_probe_signals(struct waiting *w)
{
    struct signalfd_siginfo info;
    while (read(w->fd[SOURCE_SIGNAL], &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            reap_program(w);
        else
            handle_interrupt(w);
    }
}

/* The program outlived the probe, by time or by Ctrl-C: it is asked to end, and its status
 * taken. */
static void end_child(struct waiting *w)
{
    pid_t pid = (pid_t)w->plan->pid;
    kill(pid, SIGTERM);
    for (int i = 0; i < 100 && !w->child_ended; i++) {
        usleep(10000);
        reap_program(w);
    }
    if (!w->child_ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &w->plan->wait_status, 0);
    }
}

static int handle(struct waiting *w, enum source source, struct error *err)
{
    uint64_t ticks;
    switch (source) {
    case SOURCE_RING: ring_buffer__consume(w->plan->ring); return 0;
    case SOURCE_SIGNAL: take_probe_signals(w); return 0;
    case SOURCE_PROCESS:
        if (w->plan->is_child)
            reap_program(w);
        w->over = true;
        return 0;
    case SOURCE_END: w->over = true; return 0;
    case SOURCE_INTERVAL:
        if (read(w->fd[SOURCE_INTERVAL], &ticks, sizeof ticks) != (ssize_t)sizeof ticks)
            return 0;
        return w->plan->interval(w->plan->arg, err);
    case SOURCE_TICK:
        if (read(w->fd[SOURCE_TICK], &ticks, sizeof ticks) == (ssize_t)sizeof ticks)
            w->plan->tick(w->plan->arg);
        return 0;
    case SOURCES: break;
    }
    return 0;
}

int run_wait(struct run_plan *p, struct error *err)
{
    struct waiting w = {.plan = p, .fd = {-1, -1, -1, -1, -1, -1}};
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGQUIT);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGHUP);
    w.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w.epoll < 0)
        return error_system(err, "cannot wait");
    watch_descriptor(&w, SOURCE_SIGNAL, signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (p->pid)
        watch_descriptor(&w, SOURCE_PROCESS, (int)syscall(SYS_pidfd_open, p->pid, 0));
    if (p->duration_ns)
        watch_descriptor(&w, SOURCE_END, timer(p->duration_ns, 0));
    if (p->interval_ns)
        watch_descriptor(&w, SOURCE_INTERVAL, timer(p->interval_ns, p->interval_ns));
    struct epoll_event ring = {.events = EPOLLIN, .data.u32 = SOURCE_RING};
    if (p->ring)
        epoll_ctl(w.epoll, EPOLL_CTL_ADD, ring_buffer__epoll_fd(p->ring), &ring);
    else
        watch_descriptor(&w, SOURCE_TICK, timer(TICK_NS, TICK_NS));
    reap_program(&w);
    int bad = 0;
    while (!w.over && !bad) {
        struct epoll_event events[SOURCES];
        int n = epoll_wait(w.epoll, events, SOURCES, -1);
        if (n < 0 && errno != EINTR) {
            bad = error_system(err, "cannot wait");
            break;
        }
        for (int i = 0; i < n && !bad; i++)
            bad = handle(&w, (enum source)events[i].data.u32, err);
    }
    if (p->is_child && !w.child_ended)
        end_child(&w);
    for (int i = 0; i < SOURCES; i++)
        if (w.fd[i] >= 0)
            close(w.fd[i]);
    close(w.epoll);
    return bad;
}
