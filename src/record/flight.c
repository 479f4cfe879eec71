/* flight.c - Keeps a recording within a window of time or size. A child process folds the rows
 * that left the window into a chunk of live blocks, or writes a copy. The parent then releases
 * the old part of the file, so its loop never waits for the fold. */
#include "flight.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "trace/trace.h"
#include "trust/place.h"

#define MS_NS       1000000ull
#define WHEN_NS     (100 * MS_NS) /* between looks at thresholds */
#define LEAST_ROWS  (256u << 10)  /* bytes; less is not worth a fold */
#define AFTER_ERROR (5000 * MS_NS)
#define TIME_BYTES  (1ull << 30) /* that much, or twice the window, without a size */

enum job { JOB_NONE, JOB_FOLD, JOB_DUMP };

/* The child's answer, in memory that is shared with it. */
struct outcome {
    bool done;
    int status;
    struct trace_fold_result fold;
    struct error err;
};

struct flight {
    struct flight_window window;
    struct pressure when;
    struct recording *r;
    const char *path;
    void (*say)(void *arg, bool wrong, const char *line);
    void *arg;
    uint64_t released; /* how much of the file was released, from the end of its first chunks on */
    uint64_t size_bytes;    /* the size of the file when the last fold began */
    uint64_t carried_bytes; /* written by the last fold */
    uint64_t from_ns;       /* where the rows that are there begin, about */
    uint64_t next_from_ns;  /* the same, once the fold under way has ended; 0: not known */
    uint64_t next_ns, when_ns;
    enum job wanted, job;
    pid_t child;
    struct outcome *out;
    uint32_t dumps;
    char dump[MLW_PATH_BYTES + 16]; /* the one that is wanted or written */
    enum mlw_room room;
    bool said_error, said_room, said_bound;
};

static int parse_window_part(struct flight_window *w, const char *text, struct error *err)
{
    struct flight_window one = {0};
    if (human_parse_duration(text, &one.ns)) {
        if (one.ns < FLIGHT_LEAST_NS)
            return error_set(err, ERROR_USAGE, "'%s' is too short: 1ms at least", text);
    } else if (!human_parse_size(text, &one.bytes))
        return error_set(err, ERROR_USAGE,
                         "'%s' is neither a duration (30s, 5m, 1h) nor a size (200M, 2G)", text);
    else if (one.bytes < FLIGHT_LEAST_BYTES)
        return error_set(err, ERROR_USAGE, "'%s' is too small: 1M at least", text);
    if ((one.ns && w->ns) || (one.bytes && w->bytes))
        return error_set(err, ERROR_USAGE, "give one duration and one size, such as 5m,2G");
    w->ns += one.ns;
    w->bytes += one.bytes;
    return 0;
}

int flight_parse(struct flight_window *w, const char *text, struct error *err)
{
    *w = (struct flight_window){0};
    const char *const comma = strchr(text, ',');
    char first[64];
    if (!comma)
        return parse_window_part(w, text, err);
    snprintf(first, sizeof first, "%.*s", (int)(comma - text), text);
    return parse_window_part(w, first, err) || parse_window_part(w, comma + 1, err) ? -1 : 0;
}

static uint64_t size_of(const struct flight *f)
{
    struct stat st;
    return fstat(f->r->sink.fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* ---- the bound ---- */

/* How many bytes there may be behind `released` before processes keep calls back. The next fold
 * needs room for the live blocks besides. Without a size, two windows as the program fills them
 * now: then folding does not keep up. */
static uint64_t bound_of(const struct flight *f, uint64_t now_ns, uint64_t held)
{
    const uint64_t carried = f->carried_bytes, bytes = f->window.bytes;
    if (bytes) {
        const uint64_t next = carried / 4 * 5,
                       room = next > bytes / 16 ? next : bytes / 16, /* for the next fold */
            least = carried / 2 * 3 + bytes / 8;
        return bytes > room + least ? bytes - room : least;
    }
    const uint64_t rows = held > carried ? held - carried : 0,
                   span_ns = now_ns > f->from_ns ? now_ns - f->from_ns : 1;
    const double windows = 2 * (double)rows / (double)span_ns * (double)f->window.ns;
    return 2 * carried + (windows > (double)TIME_BYTES ? (uint64_t)windows : TIME_BYTES);
}

/* Written for the processes, which look before they write. */
static void publish(struct flight *f, uint64_t now_ns)
{
    struct mlw_session *s = f->r->shm.session;
    const uint64_t size = size_of(f), held = size > f->released ? size - f->released : 0,
                   bound = f->window.ns || f->window.bytes ? bound_of(f, now_ns, held) : 0;
    __atomic_store_n(&s->file_bytes, size, __ATOMIC_RELAXED);
    __atomic_store_n(&s->released_bytes, f->released, __ATOMIC_RELAXED);
    __atomic_store_n(&s->bound_bytes, bound, __ATOMIC_RELAXED);
    f->room = mlw_room_of(bound, size, f->released);
    if (f->room != MLW_ROOM_FREE && !f->said_bound) {
        char a[HUMAN_TEXT_BYTES], line[200];
        snprintf(
            line, sizeof line,
            "the program writes faster than old calls can be folded: at %s, short-lived blocks "
            "are left out and counted",
            human_size(a, held));
        f->say(f->arg, true, line);
        f->said_bound = true;
    }
}

bool flight_has_room(const struct flight *f) { return !f || f->room == MLW_ROOM_FREE; }

struct flight *flight_open(const struct flight_window *w, const struct pressure *when,
                           struct recording *r, const char *path,
                           void (*say)(void *arg, bool wrong, const char *line), void *arg,
                           struct error *err)
{
    struct flight *f = calloc(1, sizeof *f);
    if (!f) {
        error_memory(err);
        return NULL;
    }
    *f = (struct flight){.window = *w, .when = *when, .r = r, .path = path, .say = say, .arg = arg};
    f->from_ns = clock_monotonic_ns();
    f->released = f->size_bytes = size_of(f);
    f->out = mmap(NULL, sizeof *f->out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f->out == MAP_FAILED) {
        error_system(err, "cannot make room for a result");
        free(f);
        return NULL;
    }
    if ((w->ns || w->bytes) &&
        fallocate(r->sink.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)f->released, 1)) {
        error_system(err,
                     "--last cannot work on this file system, which does not release parts of a "
                     "file; choose another with -o");
        flight_close(f);
        return NULL;
    }
    publish(f, f->from_ns); /* before the program runs */
    return f;
}

/* ---- the child ---- */

/* It reads and appends; the death of `mallow record` is its own. */
static void run_folder(const struct flight *f, const struct trace_fold_how *how, pid_t parent)
    __attribute__((noreturn));
static void run_folder(const struct flight *f, const struct trace_fold_how *how, pid_t parent)
{
    struct outcome *out = f->out;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (f->job == JOB_FOLD)
        out->status = trace_fold(f->r->sink.fd, how, &out->fold, &out->err);
    else {
        struct trust_place place;
        out->status = trust_place_open(&place, f->dump, &out->err) ||
                              trace_seal(f->r->sink.fd, &place, 1, programs_namer(f->r->programs),
                                         NULL, NULL, NULL, &out->err)
                          ? -1
                          : 0;
    }
    out->done = true;
    _exit(0);
}

void flight_start(struct flight *f, uint64_t now_ns, uint64_t clock)
{
    struct trace_fold_how how = {.latest_clock = clock};
    if (f->window.bytes)
        how.keep_bytes = f->window.bytes / 2 > f->carried_bytes
                             ? f->window.bytes / 2 - f->carried_bytes + 1
                             : f->window.bytes / 8;
    if (f->window.ns)
        how.from_monotonic_ns = now_ns > f->window.ns ? now_ns - f->window.ns : 0;
    *f->out = (struct outcome){0};
    f->job = f->wanted;
    f->wanted = JOB_NONE;
    if (f->job == JOB_FOLD)
        f->size_bytes = size_of(f);
    const pid_t parent = getpid();
    f->child = fork();
    if (f->child == 0)
        run_folder(f, &how, parent);
    if (f->child < 0) {
        f->job = JOB_NONE;
        f->next_ns = now_ns + AFTER_ERROR;
        return;
    }
    if (f->job == JOB_FOLD)
        f->next_from_ns = how.from_monotonic_ns;
}

/* ---- the parent ---- */

static void say_folding_failed(struct flight *f, const char *what)
{
    char line[sizeof f->out->err.text + sizeof f->dump + 64];
    snprintf(line, sizeof line, "%s: %s", what,
             f->out->done ? f->out->err.text : "its process was killed");
    f->say(f->arg, true, line);
}

static void release_folder(struct flight *f)
{
    const struct trace_fold_result *k = &f->out->fold;
    const uint64_t size = size_of(f);
    if (f->next_from_ns)
        f->from_ns = f->next_from_ns;
    if (!k->folded)
        return;
    f->carried_bytes = k->written_bytes;
    if (k->needed_from > f->released && k->needed_from <= size &&
        !fallocate(f->r->sink.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)f->released,
                   (off_t)(k->needed_from - f->released)))
        f->released = k->needed_from;
    if (f->window.bytes && k->written_bytes > f->window.bytes / 2 && !f->said_room) {
        char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES], line[200];
        snprintf(line, sizeof line,
                 "the live blocks alone take %s of the file: it stays larger than --last %s",
                 human_size(a, k->written_bytes), human_size(b, f->window.bytes));
        f->say(f->arg, true, line);
        f->said_room = true;
    }
}

static void finish_fold(struct flight *f, uint64_t now_ns)
{
    const bool failed = !f->out->done || f->out->status;
    if (f->job == JOB_DUMP) {
        char line[sizeof f->dump + 64];
        snprintf(line, sizeof line, "wrote %s", f->dump);
        if (failed)
            say_folding_failed(f, "a recording was not written");
        else
            f->say(f->arg, false, line);
    } else if (failed) {
        f->next_ns = now_ns + AFTER_ERROR;
        if (!f->said_error)
            say_folding_failed(
                f, "old calls cannot be folded, so the recording grows up to its bound");
        f->said_error = true;
    } else
        release_folder(f);
    f->job = JOB_NONE;
    f->child = 0;
}

/* FILE.mlw becomes FILE.1.mlw, and so on. */
static void name_dump(struct flight *f)
{
    const size_t n = strlen(f->path);
    const bool usual = n > 4 && !strcmp(f->path + n - 4, ".mlw");
    snprintf(f->dump, sizeof f->dump, "%.*s.%u%s", (int)(usual ? n - 4 : n), f->path, ++f->dumps,
             usual ? ".mlw" : "");
}

/* True if the window has moved far enough, and what would be released is worth it: reading and
 * writing the carried blocks is to cost no more than the rows do. */
static bool fold_is_due(const struct flight *f, uint64_t now_ns)
{
    const uint64_t held = size_of(f) - f->released,
                   rows = held > f->carried_bytes ? held - f->carried_bytes : 0;
    if (now_ns < f->next_ns || rows < LEAST_ROWS)
        return false;
    if (f->window.bytes && held > f->window.bytes / 8 * 5 && rows > f->carried_bytes / 4 &&
        size_of(f) - f->size_bytes > LEAST_ROWS / 4)
        return true;
    return f->window.ns && rows > f->carried_bytes / 2 &&
           now_ns - f->from_ns > f->window.ns + f->window.ns / 4;
}

bool flight_look(struct flight *f, const struct pressure_sizes *sizes, pid_t pid)
{
    const uint64_t now_ns = sizes->now_ns;
    int status;
    if (!f)
        return false;
    if (f->job && waitpid(f->child, &status, WNOHANG) == f->child)
        finish_fold(f, now_ns);
    publish(f, now_ns);
    if (f->when.count && !f->wanted && f->job != JOB_DUMP && now_ns >= f->when_ns) {
        char line[160], text[sizeof line + 32];
        struct limit_groups groups;
        f->when_ns = now_ns + WHEN_NS;
        if (pressure_crossed(&f->when, sizes, pid && limit_groups_of(pid, &groups) ? &groups : NULL,
                             line, sizeof line)) {
            snprintf(text, sizeof text, "%s; writing the recording", line);
            f->say(f->arg, false, text);
            name_dump(f);
            f->wanted = JOB_DUMP;
        }
    }
    if (!f->job && !f->wanted && fold_is_due(f, now_ns))
        f->wanted = JOB_FOLD;
    return !f->job && f->wanted;
}

void flight_close(struct flight *f)
{
    int status;
    if (!f)
        return;
    if (f->job) {
        if (f->job == JOB_FOLD) /* without its last chunk, what it appended counts for nothing */
            kill(f->child, SIGKILL);
        while (waitpid(f->child, &status, 0) < 0 && errno == EINTR)
            ;
        if (f->job == JOB_DUMP)
            finish_fold(f, clock_monotonic_ns());
    }
    munmap(f->out, sizeof *f->out);
    free(f);
}
