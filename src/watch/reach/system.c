/* system.c - Runs the listener of `mallow watch -a` in a child process. The child takes events
 * from the kernel and writes segments, which the watch reads like those of the library. A pipe
 * carries the reason if the child cannot start. */
#include "watch/reach/system.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/samples.h"
#include "watch/written.h"

/* ---- the listener ---- */

struct listener {
    const struct watch_system *system;
    struct written *written;
    int ready; /* pipe: nothing is written but the reason of a failure; closed: it listens */
};

static void say_system_line(void *arg, const char *line)
{
    const struct listener *l = arg;
    note_line(&l->system->note, "%s", line);
}

static void attached(void *arg)
{
    struct listener *l = arg;
    close(l->ready);
    l->ready = -1;
}

static void reported(void *arg, const struct probe_reported *t)
{
    const struct listener *l = arg;
    const struct samples_event *e = t->event;
    const uint64_t *a = (const uint64_t *)e->argument;
    struct written_frame frames[PROBE_DEPTH_MAX];
    const struct written_stack stack = {frames, t->frame_count};
    const struct written_who who = {.pid = e->pid,
                                    .tid = e->tid,
                                    .ppid = e->ppid,
                                    .start_ns = e->start_ns,
                                    .time_ns = e->time_ns};
    for (size_t i = 0; i < t->frame_count; i++)
        frames[i] = (struct written_frame){.path = t->frames[i].path,
                                           .address = t->frames[i].address,
                                           .build_id = t->frames[i].build_id,
                                           .build_id_bytes = t->frames[i].build_id_bytes};
    switch (e->what) {
    case SAMPLES_SAMPLE: written_sample(l->written, &who, a[0], a[1], a[2], a[3], &stack); break;
    case SAMPLES_FREE:
    case SAMPLES_REALLOC: /* the library's own numbers of both kinds are in this order, too */
        written_release(l->written, &who, a[0], e->what - SAMPLES_FREE,
                        e->what == SAMPLES_REALLOC ? a[3] : 0, &stack);
        break;
    case SAMPLES_ERROR:
        written_error(l->written, &who, (uint32_t)a[0], (uint32_t)a[4], a[1], a[2], a[3], &stack);
        break;
    case SAMPLES_EXEC: written_exec(l->written, &who); break;
    case SAMPLES_EXIT: written_exit(l->written, &who, (uint32_t)a[0]); break;
    default: break;
    }
}

static int listen(struct watch_system *s, const char *directory, int ready)
{
    struct error err = {0};
    struct listener l = {.system = s, .ready = ready};
    struct probe_result result = {0};
    const struct probe_options options = {.kind = &probe_kind_samples,
                                          .all = true,
                                          .by = PROBE_BY_STACK,
                                          .library = s->library,
                                          .verbose = s->verbose,
                                          .say = say_system_line,
                                          .reported = reported,
                                          .attached = attached,
                                          .arg = &l};
    l.written = written_new(directory, &err);
    int bad = !l.written || probe_run(&options, &result, &err);
    if (bad && l.ready >= 0) {
        ssize_t n = write(l.ready, err.text, strlen(err.text));
        (void)n; /* then the pipe's end reports it */
    } else if (bad) {
        note_line(&s->note, "%s", err.text);
    } else {
        const uint64_t lost = probe_lost(&result) + result.losses[PROBE_LOST_STACKS];
        if (lost)
            note_line(&s->note,
                      "%llu events or stacks were lost: blocks may be missing, or seem to live",
                      (unsigned long long)lost);
    }
    probe_release(&result);
    written_free(l.written);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the watch's side ---- */

static int begin_system(void *arg, const char *directory, struct error *err)
{
    struct watch_system *s = arg;
    char text[sizeof err->text] = "";
    int ready[2];
    pid_t watch = getpid();
    if (pipe2(ready, O_CLOEXEC))
        return error_system(err, "cannot make a pipe");
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        close(ready[0]);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        setpgid(0, 0); /* Ctrl-C is for the watch, which then ends this */
        if (getppid() != watch)
            _exit(EXIT_FAILURE);
        int status = listen(s, directory, ready[1]);
        fflush(NULL);
        _exit(status);
    }
    close(ready[1]);
    if (s->pid < 0) {
        s->pid = 0;
        close(ready[0]);
        return error_system(err, "cannot start the listener");
    }
    ssize_t n = read(ready[0], text, sizeof text - 1);
    close(ready[0]);
    if (n <= 0)
        return 0;
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
    return error_set(err, ERROR_UNSUPPORTED, "%s", text);
}

static bool works(void *arg)
{
    struct watch_system *s = arg;
    if (s->pid && waitpid(s->pid, NULL, WNOHANG) == s->pid)
        s->pid = 0;
    return s->pid != 0;
}

static void end_system(void *arg)
{
    struct watch_system *s = arg;
    if (!s->pid)
        return;
    kill(s->pid, SIGTERM);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

struct watch_source watch_system_source(struct watch_system *s)
{
    return (struct watch_source){
        .arg = s, .begin = begin_system, .works = works, .end = end_system};
}
