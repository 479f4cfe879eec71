/* programs.c - see programs.h. */
#include "record/programs.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/path.h"
#include "base/proc.h"
#include "format/file_id.h"
#include "symbol/program.h"
#include "symbol/symbol.h"

enum { FILES_MOST = 1024, FRAMES_MOST = 64 };
#define BYTES_MOST ((uint64_t)4 << 30)

struct held {
    char *path;
    int fd;
    struct stat st;
};

struct programs {
    pthread_mutex_t lock;
    struct held *at; /* under the lock */
    size_t count, room;
    uint64_t bytes;
    bool final; /* under the lock */
    struct symbols *symbols;
    bool tried; /* to have them */
    struct trace_namer namer;
};

static const char *const temporary[] = {"/tmp/", "/var/tmp/", "/dev/shm/", "/run/", NULL};

/* The path without what the kernel says behind it of a file that was removed. */
static void plain_path(const char *path, char *to, size_t room)
{
    snprintf(to, room, "%s", path);
    path_take_deleted(to);
}

void programs_hold(struct programs *p, int fd, const struct stat *st, const char *path)
{
    char plain[4096];
    if (!p || !S_ISREG(st->st_mode) || *path != '/')
        return;
    pthread_mutex_lock(&p->lock);
    plain_path(path, plain, sizeof plain);
    for (size_t i = 0; i < p->count; i++)
        if (p->at[i].st.st_ino == st->st_ino && p->at[i].st.st_dev == st->st_dev &&
            !strcmp(p->at[i].path, plain)) {
            pthread_mutex_unlock(&p->lock);
            return;
        }
    if (p->count < FILES_MOST && (uint64_t)st->st_size <= BYTES_MOST - p->bytes &&
        ARRAY_ROOM(p->at, p->count + 1, p->room)) {
        struct held h = {.path = strdup(plain), .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .st = *st};
        if (h.path && h.fd >= 0) {
            p->at[p->count++] = h;
            p->bytes += (uint64_t)st->st_size;
        } else {
            if (h.fd >= 0)
                close(h.fd);
            free(h.path);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

void programs_hold_program(struct programs *p, pid_t pid)
{
    char path[4096], place[64];
    struct error ignored;
    struct stat st;
    snprintf(place, sizeof place, "/proc/%d/exe", (int)pid);
    const int fd = program_open(place, &ignored);
    if (fd < 0)
        return;
    if (!fstat(fd, &st) && proc_link(pid, "exe", path, sizeof path) > 0)
        programs_hold(p, fd, &st, path);
    close(fd);
}

void programs_final(struct programs *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->final = true;
    pthread_mutex_unlock(&p->lock);
}

/* ---- for sealing ---- */

/* For the lookup: the n-th file that was mapped by the path. */
static int held_file(void *arg, const char *path, unsigned n)
{
    struct programs *p = arg;
    int fd = -1;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && fd < 0; i++)
        if (!strcmp(p->at[i].path, path) && !n--)
            fd = p->at[i].fd;
    pthread_mutex_unlock(&p->lock);
    return fd;
}

static bool is_there(const struct held *h)
{
    struct stat st;
    return !stat(h->path, &st) && st.st_ino == h->st.st_ino && st.st_dev == h->st.st_dev &&
           st.st_size == h->st.st_size && st.st_mtim.tv_sec == h->st.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == h->st.st_mtim.tv_nsec;
}

/* True: a file that was mapped by the path is held, and is not what the path leads to now. */
static bool is_wanted(void *arg, const struct trace_module *m)
{
    struct programs *p = arg;
    char plain[4096];
    bool wanted = false;
    plain_path(m->path, plain, sizeof plain);
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && !wanted; i++)
        if (!strcmp(p->at[i].path, plain)) {
            wanted = !is_there(&p->at[i]);
            for (size_t k = 0; !p->final && temporary[k]; k++)
                wanted |= !strncmp(plain, temporary[k], strlen(temporary[k]));
        }
    pthread_mutex_unlock(&p->lock);
    return wanted;
}

static size_t name_at(void *arg, const struct trace_module *m, uint64_t pc, bool is_return,
                      struct trace_name *names, size_t max)
{
    struct programs *p = arg;
    struct symbol_frame found[FRAMES_MOST];
    struct mlw_file_id id = {0};
    const struct symbol_options how = {.no_debuginfod = true, .held = held_file, .held_arg = p};
    struct error ignored;
    if (!p->tried) {
        p->tried = true;
        p->symbols = symbols_new(&how, &ignored);
    }
    if (!p->symbols)
        return 0;
    const bool has_id = !mlw_file_id_read(m->build_id, m->build_id_bytes, &id);
    const struct symbol_module module = {.path = m->path,
                                         .build_id = has_id ? m->build_id : NULL,
                                         .build_id_bytes = has_id ? m->build_id_bytes : 0,
                                         .file_bytes = id.size_bytes,
                                         .file_mtime_ns = id.mtime_ns,
                                         .start = m->start,
                                         .end = m->end,
                                         .bias = m->bias};
    max = max < FRAMES_MOST ? max : FRAMES_MOST;
    const size_t n = symbols_lookup(p->symbols, &module, 0, pc, is_return, found, max);
    if (!found[n - 1].function)
        return 0;
    for (size_t i = 0; i < n; i++)
        names[i] = (struct trace_name){.pc = pc,
                                       .function = found[i].function ? found[i].function : "",
                                       .file = found[i].file ? found[i].file : "",
                                       .line = found[i].line,
                                       .inlined = found[i].inlined && i + 1 < n};
    return n;
}

/* ---- */

struct programs *programs_new(void)
{
    struct programs *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    p->namer = (struct trace_namer){.wanted = is_wanted, .name = name_at, .arg = p};
    return p;
}

const struct trace_namer *programs_namer(struct programs *p) { return p ? &p->namer : NULL; }

void programs_free(struct programs *p)
{
    if (!p)
        return;
    symbols_free(p->symbols);
    for (size_t i = 0; i < p->count; i++) {
        close(p->at[i].fd);
        free(p->at[i].path);
    }
    free(p->at);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
