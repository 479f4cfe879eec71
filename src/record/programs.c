/* programs.c - Holds the files of recorded programs open, and looks up names in them when their
 * paths lead elsewhere at sealing. A lock guards the list of files, because sealing runs in
 * another thread. Number and size of the held files are bounded. */
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
#include "symbol/contents.h"
#include "symbol/functions.h"
#include "symbol/program.h"
#include "symbol/symbol.h"

enum { FILES_MOST = 1024, FRAMES_MOST = 64 };
#define BYTES_MOST ((uint64_t)4 << 30)

struct held {
    char *path;
    int fd;
    struct stat st;
    uint64_t sum; /* over its contents, when it was first held; 0: it has a build-id */
};

/* A file without a build-id that is not held, when a recording of it was sealed. */
struct summed {
    char *path;
    struct mlw_file_id id;
    uint64_t sum; /* 0: it was not there any more */
};

struct programs {
    pthread_mutex_t lock;
    struct held *at; /* under the lock */
    size_t count, room;
    uint64_t bytes;
    bool final;              /* under the lock */
    struct symbols *symbols; /* from here on of the thread that seals */
    bool tried;              /* to have them */
    struct summed *summed;
    size_t summed_count, summed_room;
    struct trace_namer namer;
};

static const char *const temporary[] = {"/tmp/", "/var/tmp/", "/dev/shm/", "/run/", NULL};

/* The path without what the kernel says behind it of a file that was removed. */
static void strip_deleted(const char *path, char *to, size_t room)
{
    snprintf(to, room, "%s", path);
    path_take_deleted(to);
}

/* Under the lock. */
static bool file_is_held(const struct programs *p, const struct stat *st, const char *plain)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->at[i].st.st_ino == st->st_ino && p->at[i].st.st_dev == st->st_dev &&
            !strcmp(p->at[i].path, plain))
            return true;
    return false;
}

/* 0 for a file that has a build-id. */
static uint64_t sum_of_unnamed(int fd, const struct stat *st)
{
    char place[64];
    uint8_t id[64];
    snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
    return functions_build_id(place, id, sizeof id) ? 0 : contents_sum(fd, (uint64_t)st->st_size);
}

void programs_hold(struct programs *p, int fd, const struct stat *st, const char *path)
{
    char plain[4096];
    if (!p || !S_ISREG(st->st_mode) || *path != '/')
        return;
    strip_deleted(path, plain, sizeof plain);
    pthread_mutex_lock(&p->lock);
    const bool held = file_is_held(p, st, plain);
    pthread_mutex_unlock(&p->lock);
    if (held)
        return;
    const uint64_t sum = sum_of_unnamed(fd, st); /* reads: sealing does not wait for it */
    pthread_mutex_lock(&p->lock);
    if (p->count < FILES_MOST && (uint64_t)st->st_size <= BYTES_MOST - p->bytes &&
        ARRAY_ROOM(p->at, p->count + 1, p->room)) {
        struct held h = {
            .path = strdup(plain), .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .st = *st, .sum = sum};
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

static bool held_is_there(const struct held *h)
{
    struct stat st;
    return !stat(h->path, &st) && st.st_ino == h->st.st_ino && st.st_dev == h->st.st_dev &&
           st.st_size == h->st.st_size && st.st_mtim.tv_sec == h->st.st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == h->st.st_mtim.tv_nsec;
}

/* True: a file that was mapped by the path is held, and is not what the path leads to now. */
static bool module_is_wanted(void *arg, const struct trace_module *m)
{
    struct programs *p = arg;
    char plain[4096];
    bool wanted = false;
    strip_deleted(m->path, plain, sizeof plain);
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && !wanted; i++)
        if (!strcmp(p->at[i].path, plain)) {
            wanted = !held_is_there(&p->at[i]);
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
    struct mlw_file_id_summed id = {.sum = 0};
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
                                         .file_bytes = id.id.size_bytes,
                                         .file_mtime_ns = id.id.mtime_ns,
                                         .file_sum = id.sum,
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

/* True if it is the file that the library saw. */
static bool is_file_of_id(const struct stat *st, const struct mlw_file_id *id)
{
    return (uint64_t)st->st_size == id->size_bytes &&
           (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec ==
               id->mtime_ns;
}

/* The process may have been gone before its file could be held. */
static uint64_t sum_by_path(const char *path, const struct mlw_file_id *id)
{
    struct error ignored;
    struct stat st;
    const int fd = program_open(path, &ignored);
    if (fd < 0)
        return 0;
    const uint64_t sum =
        !fstat(fd, &st) && is_file_of_id(&st, id) ? contents_sum(fd, id->size_bytes) : 0;
    close(fd);
    return sum;
}

/* Many processes may have the module. */
static uint64_t sum_now(struct programs *p, const char *path, const struct mlw_file_id *id)
{
    for (size_t i = 0; i < p->summed_count; i++) {
        const struct summed *k = &p->summed[i];
        if (k->id.size_bytes == id->size_bytes && k->id.mtime_ns == id->mtime_ns &&
            !strcmp(k->path, path))
            return k->sum;
    }
    if (p->summed_count == FILES_MOST ||
        !ARRAY_ROOM(p->summed, p->summed_count + 1, p->summed_room))
        return 0;
    struct summed *k = &p->summed[p->summed_count];
    *k = (struct summed){.path = strdup(path), .id = *id};
    if (!k->path)
        return 0;
    p->summed_count++;
    return k->sum = sum_by_path(path, id);
}

static uint64_t module_sum(void *arg, const struct trace_module *m)
{
    struct programs *p = arg;
    struct mlw_file_id_summed id;
    char plain[4096];
    uint64_t sum = 0;
    if (!mlw_file_id_read(m->build_id, m->build_id_bytes, &id))
        return 0;
    strip_deleted(m->path, plain, sizeof plain);
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && !sum; i++)
        if (is_file_of_id(&p->at[i].st, &id.id) && !strcmp(p->at[i].path, plain))
            sum = p->at[i].sum;
    pthread_mutex_unlock(&p->lock);
    return sum ? sum : sum_now(p, plain, &id.id);
}

/* ---- */

struct programs *programs_new(void)
{
    struct programs *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    p->namer = (struct trace_namer){
        .wanted = module_is_wanted, .name = name_at, .sum = module_sum, .arg = p};
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
    for (size_t i = 0; i < p->summed_count; i++)
        free(p->summed[i].path);
    free(p->summed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
