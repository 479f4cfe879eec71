/* uploader.c - see uploader.h. The process and its parent share a page; a pipe wakes the process,
 * and its end says that the parent is gone. */
#include "push/uploader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "trust/file.h"

#define MS_NS       1000000ull
#define SECOND_NS   (1000 * MS_NS)
#define LOOK_MS     200              /* between looks at the file's size */
#define REST_EVERY  (10 * SECOND_NS) /* less than a segment is sent so often */
#define AFTER_ERROR (30 * SECOND_NS) /* before another try of what did not look like passing */
#define AGAIN_NS    (5 * SECOND_NS)  /* between two starts of the process */
#define LAST_TRIES  4u               /* once the recording is whole */
#define STARTS_LAST 3u               /* starts of the process, then */
#define NICER       5
#define OPEN        UINT64_MAX /* the recording still grows */

struct shared {
    uint64_t bytes; /* bytes of the whole recording; OPEN */
    uint64_t sent_bytes;
    uint32_t complaints; /* grows after complaint was written */
    char complaint[sizeof((struct error *)0)->text];
    bool done;
    int status;
    struct error err;
    struct segments_result result;
};

struct uploader {
    struct uploader_options o;
    int fd, pipe[2];
    struct shared *shared;
    pid_t child;
    uint64_t started_ns;
    uint32_t said;
    /* the process's */
    bool ending, alone, away;
    uint64_t last_tries;
};

/* ---- the process ---- */

static uint64_t wanted_bytes(const struct uploader *u)
{
    return __atomic_load_n(&u->shared->bytes, __ATOMIC_ACQUIRE);
}

/* Waits, at most so long; sooner when the recording is whole or the parent gone. */
static void uploader_wait(struct uploader *u, uint64_t ns)
{
    struct pollfd p = {.fd = u->pipe[0], .events = POLLIN};
    char byte;
    if (u->alone || poll(&p, 1, (int)(ns / MS_NS)) <= 0)
        return;
    if (read(u->pipe[0], &byte, 1) == 1)
        u->ending = true;
    else
        u->alone = true;
}

static void uploader_complain(struct uploader *u, const char *why)
{
    struct shared *s = u->shared;
    if (u->away)
        return;
    u->away = true;
    snprintf(s->complaint, sizeof s->complaint, "%s", why);
    __atomic_add_fetch(&s->complaints, 1, __ATOMIC_RELEASE);
}

static bool pause_for(void *arg, const char *why, uint64_t tries, uint64_t pause_ns)
{
    struct uploader *u = arg;
    const bool was_ending = u->ending;
    (void)tries;
    uploader_complain(u, why);
    if (was_ending && ++u->last_tries > LAST_TRIES)
        return false;
    if (was_ending && pause_ns > SECOND_NS << u->last_tries)
        pause_ns = SECOND_NS << u->last_tries;
    uploader_wait(u, pause_ns);
    return !u->alone;
}

static bool upload_goes_on(void *arg)
{
    struct uploader *u = arg;
    if (!u->alone)
        uploader_wait(u, 0);
    return !u->alone;
}

static void note_progress(void *arg, uint64_t done, uint64_t bytes)
{
    struct uploader *u = arg;
    (void)bytes;
    u->away = false;
    u->last_tries = 0;
    __atomic_store_n(&u->shared->sent_bytes, done, __ATOMIC_RELAXED);
}

/* Until all is there, or something does not look like passing. */
static int uploader_send_all(struct uploader *u, struct objects *to, struct error *err)
{
    const struct segments_options o = {
        .segment_bytes = u->o.segment_bytes, .progress = note_progress, .arg = u};
    struct segments *s = segments_begin(to, u->fd, &o, err);
    uint64_t rest_ns = clock_monotonic_ns();
    int status = s ? 0 : -1;
    while (!status && !u->alone && !u->ending) {
        struct stat st;
        const uint64_t now = clock_monotonic_ns();
        const bool rest = now - rest_ns > REST_EVERY;
        if (fstat(u->fd, &st))
            status = error_system(err, "cannot look at the recording");
        else
            status = segments_send(s, (uint64_t)st.st_size, rest, err);
        if (rest)
            rest_ns = now;
        if (!status)
            uploader_wait(u, LOOK_MS * MS_NS);
    }
    if (!status && u->ending)
        status = segments_finish(s, wanted_bytes(u), u->o.must_look, err);
    if (s)
        segments_result(s, &u->shared->result);
    segments_free(s);
    return status;
}

static void run_uploader(struct uploader *u) __attribute__((noreturn));
static void run_uploader(struct uploader *u)
{
    struct shared *s = u->shared;
    struct objects_options o = u->o.objects;
    o.pause = pause_for;
    o.goes_on = upload_goes_on;
    o.arg = u;
    /* An open file of its own, so that no lock of the recording outlives the recording; and none of
     * the parent's other files. */
    u->fd = trust_again(u->fd, TRUST_READ);
    if (u->fd < 0 || dup2(u->fd, 3) < 0 || dup2(u->pipe[0], 4) < 0)
        _exit(1);
    u->fd = 3;
    u->pipe[0] = 4;
    (void)syscall(SYS_close_range, 5u, ~0u, 0u);
    errno = 0;
    (void)!nice(NICER);
    u->ending = wanted_bytes(u) != OPEN;
    struct objects *to = objects_open(&o, &s->err);
    s->status = to ? 0 : -1;
    while (to && (s->status = uploader_send_all(u, to, &s->err)) && !u->alone && !u->ending) {
        uploader_complain(u, s->err.text);
        uploader_wait(u, AFTER_ERROR);
    }
    objects_close(to);
    if (u->alone)
        _exit(1);
    __atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
    _exit(0);
}

/* ---- its parent ---- */

static int start_upload(struct uploader *u, struct error *err)
{
    u->shared->done = false;
    u->started_ns = clock_monotonic_ns();
    u->child = fork();
    if (u->child < 0)
        return error_system(err, "cannot start the uploader");
    if (u->child == 0) {
        /* at 3 and 4 something of the recording may lie that is still wanted: out of the way */
        const int fd = fcntl(u->fd, F_DUPFD_CLOEXEC, 10);
        const int wake = fcntl(u->pipe[0], F_DUPFD_CLOEXEC, 10);
        if (fd < 0 || wake < 0)
            _exit(1);
        u->fd = fd;
        u->pipe[0] = wake;
        close(u->pipe[1]);
        run_uploader(u);
    }
    return 0;
}

static void release_uploader(struct uploader *u)
{
    if (u->pipe[0] >= 0)
        close(u->pipe[0]);
    if (u->pipe[1] >= 0)
        close(u->pipe[1]);
    munmap(u->shared, sizeof *u->shared);
    free(u);
}

struct uploader *uploader_start(const struct uploader_options *o, int fd, struct error *err)
{
    struct uploader *u = calloc(1, sizeof *u);
    if (!u) {
        error_memory(err);
        return NULL;
    }
    *u = (struct uploader){.o = *o, .fd = fd, .pipe = {-1, -1}};
    u->shared =
        mmap(NULL, sizeof *u->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (u->shared == MAP_FAILED) {
        error_system(err, "cannot make room for the uploader");
        free(u);
        return NULL;
    }
    u->shared->bytes = OPEN;
    if (pipe2(u->pipe, O_CLOEXEC))
        error_system(err, "cannot make a pipe");
    else if (!start_upload(u, err))
        return u;
    release_uploader(u);
    return NULL;
}

static void pass_on(struct uploader *u)
{
    const uint32_t n = __atomic_load_n(&u->shared->complaints, __ATOMIC_ACQUIRE);
    char line[sizeof u->shared->complaint + 64];
    if (n == u->said)
        return;
    u->said = n;
    snprintf(line, sizeof line, "%s; it is tried again while the recording goes on",
             u->shared->complaint);
    u->o.say(u->o.arg, line);
}

/* True if the process has ended. */
static bool uploader_is_over(struct uploader *u)
{
    int status;
    return u->child <= 0 || waitpid(u->child, &status, WNOHANG) != 0;
}

void uploader_look(struct uploader *u)
{
    struct error ignored;
    if (!u)
        return;
    pass_on(u);
    if (!uploader_is_over(u))
        return;
    u->child = 0;
    if (!u->shared->done && clock_monotonic_ns() - u->started_ns > AGAIN_NS)
        (void)start_upload(u, &ignored);
}

int uploader_end(struct uploader *u, uint64_t bytes, struct segments_result *result,
                 struct error *err)
{
    struct shared *s = u->shared;
    uint32_t starts = 0;
    int status = 0;
    __atomic_store_n(&s->bytes, bytes, __ATOMIC_RELEASE);
    (void)!write(u->pipe[1], "", 1);
    for (;;) {
        if (!uploader_is_over(u)) {
            struct timespec t = {0, 20 * MS_NS};
            nanosleep(&t, NULL);
            if (u->o.progress)
                u->o.progress(u->o.arg, __atomic_load_n(&s->sent_bytes, __ATOMIC_RELAXED), bytes);
            continue;
        }
        u->child = 0;
        if (__atomic_load_n(&s->done, __ATOMIC_ACQUIRE))
            break;
        if (starts++ == STARTS_LAST || start_upload(u, err)) {
            if (starts > STARTS_LAST)
                error_set(err, ERROR_UNSUPPORTED, "the uploader was killed");
            status = -1;
            break;
        }
    }
    *result = s->result;
    if (!status && s->status) {
        *err = s->err;
        status = -1;
    }
    release_uploader(u);
    return status;
}
