#include "watch/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAST_BYTES 4096u
#define MOST_BYTES  (1ull << 32) /* more than any bound of memory gives */

/* A table that lies within the file, or NULL. */
static const void *table(const struct segment *s, uint32_t offset, uint32_t count, size_t entry)
{
    if (offset < LEAST_BYTES || offset % 8 || offset > s->bytes ||
        (uint64_t)count * entry > s->bytes - offset)
        return NULL;
    return (const char *)s->head + offset;
}

static int check(struct segment *s, struct error *err)
{
    const struct mlw_watch *h = s->head;
    if (h->version != MLW_WATCH_VERSION)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s was written by another version of libmallow-watch.so (%u, not %u)",
                         s->path, h->version, MLW_WATCH_VERSION);
    s->modules = h->modules;
    s->sites = h->sites;
    s->samples = h->samples;
    s->frees = h->frees;
    s->errors = h->errors;
    s->module = table(s, h->module_offset, s->modules, sizeof *s->module);
    s->site = table(s, h->site_offset, s->sites, sizeof *s->site);
    s->sample = table(s, h->sample_offset, s->samples, sizeof *s->sample);
    s->freed = table(s, h->free_offset, s->frees, sizeof *s->freed);
    s->error = table(s, h->error_offset, s->errors, sizeof *s->error);
    if (!s->module || !s->site || !s->sample || !s->freed || !s->error)
        return error_set(err, ERROR_FORMAT, "%s is damaged: a table lies outside the file",
                         s->path);
    return 0;
}

int segment_open(struct segment *s, const char *path, struct error *err)
{
    *s = (struct segment){0};
    if ((size_t)snprintf(s->path, sizeof s->path, "%s", path) >= sizeof s->path)
        return error_set(err, ERROR_USAGE, "the path of the shared memory is too long");
    int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK, fd = open(path, O_RDWR | flags);
    bool writable = fd >= 0;
    if (!writable && (errno == EACCES || errno == EPERM || errno == EROFS))
        fd = open(path, O_RDONLY | flags);
    if (fd < 0)
        return error_system(err, "cannot open the shared memory of the process, %s", path);
    struct stat st;
    if (fstat(fd, &st)) {
        error_system(err, "cannot ask for the size of %s", path);
        close(fd);
        return -1;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MOST_BYTES) {
        close(fd);
        return error_set(err, ERROR_FORMAT, "%s is not the shared memory of a watched process",
                         path);
    }
    if (st.st_size < (off_t)LEAST_BYTES) {
        close(fd);
        return 1;
    }
    s->bytes = (size_t)st.st_size;
    void *all = mmap(NULL, s->bytes, PROT_READ, MAP_SHARED, fd, 0), *first = MAP_FAILED;
    if (all != MAP_FAILED && writable)
        first = mmap(NULL, LEAST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (all == MAP_FAILED)
        return error_system(err, "cannot map %s", path);
    s->head = all;
    if (first != MAP_FAILED)
        s->settings = &((struct mlw_watch *)first)->settings;
    uint64_t magic = __atomic_load_n(&s->head->magic, __ATOMIC_ACQUIRE);
    int status = 0;
    if (!magic)
        status = 1;
    else if (magic != MLW_WATCH_MAGIC)
        status =
            error_set(err, ERROR_FORMAT, "%s is not the shared memory of a watched process", path);
    else
        status = check(s, err);
    if (status)
        segment_close(s);
    return status;
}

void segment_close(struct segment *s)
{
    if (s->settings)
        munmap((char *)s->settings - offsetof(struct mlw_watch, settings), LEAST_BYTES);
    if (s->head)
        munmap((void *)(uintptr_t)s->head, s->bytes);
    s->settings = NULL;
    s->head = NULL;
}

/* Word by word, each read once, from memory that changes. */
static void copy_words(void *to, const void *from, size_t bytes)
{
    uint64_t *t = to;
    const uint64_t *f = from;
    for (size_t i = 0; i < bytes / 8; i++)
        t[i] = __atomic_load_n(&f[i], __ATOMIC_RELAXED);
}

/* A record that begins with its version. */
static enum segment_copy copy_record(void *to, const void *from, size_t bytes)
{
    const uint32_t *version = from;
    for (int tries = 0; tries < 8; tries++) {
        uint32_t before = __atomic_load_n(version, __ATOMIC_ACQUIRE);
        if (!before)
            return SEGMENT_NONE;
        if (before & 1)
            continue;
        copy_words(to, from, bytes);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(version, __ATOMIC_RELAXED) == before)
            return SEGMENT_WHOLE;
    }
    return SEGMENT_TORN;
}

static void bound_stack(struct mlw_watch_stack *s)
{
    if (s->frames > MLW_WATCH_FRAMES)
        s->frames = MLW_WATCH_FRAMES;
}

enum segment_copy segment_module(const struct segment *s, uint32_t index,
                                 struct mlw_watch_module *out)
{
    if (index >= s->modules)
        return SEGMENT_NONE;
    enum segment_copy c = copy_record(out, &s->module[index], sizeof *out);
    out->path[sizeof out->path - 1] = 0;
    if (out->build_id_bytes > sizeof out->build_id)
        out->build_id_bytes = 0;
    return c;
}

enum segment_copy segment_site(const struct segment *s, uint32_t index, struct mlw_watch_site *out)
{
    if (index >= s->sites)
        return SEGMENT_NONE;
    enum segment_copy c = copy_record(out, &s->site[index], sizeof *out);
    bound_stack(&out->stack);
    return c;
}

enum segment_copy segment_sample(const struct segment *s, uint32_t index,
                                 struct mlw_watch_sample *out)
{
    return index < s->samples ? copy_record(out, &s->sample[index], sizeof *out) : SEGMENT_NONE;
}

enum segment_copy segment_free(const struct segment *s, uint64_t number, struct mlw_watch_free *out)
{
    if (!s->frees)
        return SEGMENT_NONE;
    enum segment_copy c = copy_record(out, &s->freed[number % s->frees], sizeof *out);
    return c == SEGMENT_WHOLE && out->number != number ? SEGMENT_NONE : c;
}

enum segment_copy segment_error(const struct segment *s, uint64_t number,
                                struct mlw_watch_error *out)
{
    if (!s->errors)
        return SEGMENT_NONE;
    enum segment_copy c = copy_record(out, &s->error[number % s->errors], sizeof *out);
    bound_stack(&out->access);
    bound_stack(&out->allocation);
    bound_stack(&out->release);
    return c == SEGMENT_WHOLE && out->number != number ? SEGMENT_NONE : c;
}

bool segment_sample_holds(const struct segment *s, uint32_t index, uint32_t version)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&s->sample[index].version, __ATOMIC_RELAXED) == version;
}

void segment_counters(const struct segment *s, struct mlw_watch_counters *out)
{
    copy_words(out, &s->head->counters, sizeof *out);
}

bool segment_change(struct segment *s, const struct segment_change *change)
{
    struct mlw_watch_settings *to = s->settings;
    if (!to)
        return false;
    if (change->period)
        __atomic_store_n(&to->period, *change->period, __ATOMIC_RELAXED);
    if (change->enabled)
        __atomic_store_n(&to->enabled, *change->enabled, __ATOMIC_RELAXED);
    if (change->guard_share)
        __atomic_store_n(&to->guard_share, *change->guard_share, __ATOMIC_RELAXED);
    if (change->on_error)
        __atomic_store_n(&to->on_error, *change->on_error, __ATOMIC_RELAXED);
    if (change->reader_pid)
        __atomic_store_n(&to->reader_pid, *change->reader_pid, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->epoch, 1, __ATOMIC_RELEASE);
    return true;
}
