/* spill.c - Places large arrays in memory up to a bound, and moves the oldest ones to unnamed
 * files at the same addresses. One lock guards the list of arrays. The file's space is reserved
 * first, so that a full disk is an error here and not a signal later. */
#include "heap/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WRITE_BYTES = 16 << 20, SPARES = 4 };

#define LARGE_PAGE_BYTES ((size_t)2 << 20)

struct area {
    uint8_t *start;
    size_t bytes; /* a multiple of LARGE_PAGE_BYTES */
    int fd;       /* -1: in memory */
};

static struct {
    pthread_mutex_t lock;
    struct area *areas; /* the oldest first */
    size_t count, room;
    struct area spares[SPARES]; /* memory of arrays that were given back; it counts as in use */
    uint64_t most;
    unsigned holders;
    int (*file)(struct error *err);
    struct spill_use use;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = UINT64_MAX};

void spill_bound(uint64_t most_bytes, int (*file)(struct error *err))
{
    pthread_mutex_lock(&all.lock);
    all.most = most_bytes;
    all.file = file;
    pthread_mutex_unlock(&all.lock);
}

void spill_used(struct spill_use *use)
{
    pthread_mutex_lock(&all.lock);
    *use = all.use;
    pthread_mutex_unlock(&all.lock);
}

static struct area *area_of(const void *start)
{
    for (size_t i = all.count; i-- > 0;)
        if (all.areas[i].start == start)
            return &all.areas[i];
    return NULL;
}

/* Addresses for an array, aligned for large pages: nothing is there yet. */
static uint8_t *reserve(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes + LARGE_PAGE_BYTES, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    uint8_t *start =
        (uint8_t *)(((uintptr_t)p + LARGE_PAGE_BYTES - 1) & ~(uintptr_t)(LARGE_PAGE_BYTES - 1));
    if (start > p)
        munmap(p, (size_t)(start - p));
    if (start + bytes < p + bytes + LARGE_PAGE_BYTES)
        munmap(start + bytes, (size_t)(p + LARGE_PAGE_BYTES - start));
    return start;
}

/* A file with room for so many bytes. -1: none. */
static int open_file(size_t bytes)
{
    if (!all.file)
        return -1;
    int fd = all.file(&all.use.error);
    if (fd < 0)
        return -1;
    int number = posix_fallocate(fd, 0, (off_t)bytes);
    if (!number)
        return fd;
    close(fd);
    errno = number;
    error_system(&all.use.error, "take %zu MB of a temporary file", bytes >> 20);
    return -1;
}

static bool write_all(int fd, const uint8_t *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t want = bytes - done < WRITE_BYTES ? bytes - done : WRITE_BYTES;
        ssize_t n = pwrite(fd, from + done, want, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static void count_file(size_t bytes)
{
    all.use.file_bytes += bytes;
    if (all.use.file_bytes > all.use.most_file_bytes)
        all.use.most_file_bytes = all.use.file_bytes;
}

/* An array that is in memory goes to a file, where it stands. */
static bool move_out(struct area *a)
{
    int fd = open_file(a->bytes);
    if (fd >= 0 && write_all(fd, a->start, a->bytes) &&
        mmap(a->start, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
            MAP_FAILED) {
        a->fd = fd;
        all.use.memory_bytes -= a->bytes;
        count_file(a->bytes);
        return true;
    }
    if (fd >= 0)
        close(fd);
    return false;
}

/* --- memory that was given back --- */

static void drop_spare(struct area *s)
{
    if (s->start) {
        munmap(s->start, s->bytes);
        all.use.memory_bytes -= s->bytes;
    }
    *s = (struct area){0};
}

/* Clearing memory costs less than new memory from the kernel. */
static void keep_spare(struct area gone)
{
    struct area *to = &all.spares[0];
    for (size_t i = 1; i < SPARES; i++)
        if (all.spares[i].bytes < to->bytes)
            to = &all.spares[i];
    drop_spare(to);
    *to = gone;
}

/* Memory for an array of so many bytes, or of more, down to a half; all zeros. */
static bool take_spare(struct area *a)
{
    struct area *best = NULL;
    for (size_t i = 0; i < SPARES; i++) {
        struct area *s = &all.spares[i];
        if (s->bytes >= a->bytes && s->bytes / 2 <= a->bytes && (!best || s->bytes < best->bytes))
            best = s;
    }
    if (!best)
        return false;
    if (best->bytes > a->bytes)
        munmap(best->start + a->bytes, best->bytes - a->bytes);
    all.use.memory_bytes -= best->bytes - a->bytes;
    a->start = best->start;
    a->fd = -1;
    *best = (struct area){0};
    memset(a->start, 0, a->bytes);
    return true;
}

static void drop_spares(void)
{
    for (size_t i = 0; i < SPARES; i++)
        drop_spare(&all.spares[i]);
}

/* True if there is room in memory for so many bytes; makes it, but not of `kept`. */
static bool make_room(size_t bytes, const uint8_t *kept)
{
    if (all.use.memory_bytes + bytes > all.most)
        drop_spares();
    while (all.use.memory_bytes + bytes > all.most) {
        struct area *oldest = NULL;
        for (size_t i = 0; i < all.count && !oldest && bytes <= all.most; i++)
            if (all.areas[i].fd < 0 && all.areas[i].start != kept && !all.holders)
                oldest = &all.areas[i];
        if (!oldest || !move_out(oldest))
            return false;
    }
    return true;
}

static void *refuse(size_t bytes)
{
    all.use.refused_bytes = bytes;
    return NULL;
}

/* At `start`, which is reserved: in memory where there is room for it, else in a file. */
static bool fill(struct area *a)
{
    a->fd = -1;
    if (make_room(a->bytes, NULL) &&
        mmap(a->start, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, 0) != MAP_FAILED) {
        (void)madvise(a->start, a->bytes, MADV_HUGEPAGE); /* only asked for */
        all.use.memory_bytes += a->bytes;
        return true;
    }
    a->fd = open_file(a->bytes);
    if (a->fd < 0 || mmap(a->start, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fd,
                          0) == MAP_FAILED) {
        if (a->fd >= 0)
            close(a->fd);
        return false;
    }
    count_file(a->bytes);
    return true;
}

static void *make(size_t bytes)
{
    struct area a = {.bytes = bytes};
    if (!ARRAY_ROOM(all.areas, all.count + 1, all.room))
        return refuse(bytes);
    if (!take_spare(&a)) {
        a.start = reserve(bytes);
        if (a.start && !fill(&a)) {
            munmap(a.start, bytes);
            a.start = NULL;
        }
    }
    if (!a.start)
        return refuse(bytes);
    all.areas[all.count++] = a;
    return a.start;
}

/* Larger or smaller, at other addresses if need be. */
static bool resize(struct area *a, size_t bytes)
{
    const size_t more = bytes > a->bytes ? bytes - a->bytes : 0;
    const size_t less = bytes < a->bytes ? a->bytes - bytes : 0;
    if (a->fd < 0 && more && !make_room(more, a->start) && !move_out(a))
        return false;
    if (a->fd >= 0 && more) {
        int number = posix_fallocate(a->fd, (off_t)a->bytes, (off_t)more);
        errno = number;
        if (number) {
            error_system(&all.use.error, "take %zu MB more of a temporary file", more >> 20);
            return false;
        }
    }
    uint8_t *moved = mremap(a->start, a->bytes, bytes, 0);
    if (moved == MAP_FAILED) {
        uint8_t *place = reserve(bytes);
        moved = place ? mremap(a->start, a->bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place)
                      : MAP_FAILED;
        if (moved == MAP_FAILED) {
            if (place)
                munmap(place, bytes);
            return false;
        }
    }
    a->start = moved;
    a->bytes = bytes;
    if (a->fd < 0) {
        all.use.memory_bytes += more;
        all.use.memory_bytes -= less;
        return true;
    }
    if (less && ftruncate(a->fd, (off_t)bytes))
        return true; /* the disk has room enough */
    count_file(more);
    all.use.file_bytes -= less;
    return true;
}

void *spill_grow(void *old, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes > SIZE_MAX / 2)
        return NULL;
    pthread_mutex_lock(&all.lock);
    struct area *a = old ? area_of(old) : NULL;
    void *grown = NULL;
    const bool small = new_bytes < SPILL_LEAST_BYTES;
    const size_t whole = (new_bytes + LARGE_PAGE_BYTES - 1) & ~(LARGE_PAGE_BYTES - 1);
    if (a && small)
        grown = old;
    else if (a)
        grown = a->bytes == whole || resize(a, whole) ? a->start : refuse(whole);
    else if (!small && (grown = make(whole)) && old) {
        memcpy(grown, old, old_bytes < new_bytes ? old_bytes : new_bytes);
        free(old);
    }
    pthread_mutex_unlock(&all.lock);
    if (!a && small) {
        grown = realloc(old, new_bytes ? new_bytes : 1);
        if (grown && !old)
            memset(grown, 0, new_bytes);
    }
    return grown;
}

void *spill_zeros(size_t n, size_t element_bytes)
{
    return n > SIZE_MAX / element_bytes ? NULL : spill_grow(NULL, 0, n * element_bytes);
}

/* By half once it is large: an array that grows is not copied. */
void *spill_room(void *array, size_t needed, size_t *room, size_t most, size_t element_bytes)
{
    if (array && needed <= *room)
        return array;
    size_t next = array_next(needed, *room, most, element_bytes);
    const size_t half = *room + *room / 2;
    if (*room * element_bytes >= SPILL_LEAST_BYTES && half >= needed && half < next)
        next = half;
    void *grown =
        next ? spill_grow(array, array ? *room * element_bytes : 0, next * element_bytes) : NULL;
    if (grown)
        *room = next;
    return grown;
}

void spill_renew(const void *array)
{
    pthread_mutex_lock(&all.lock);
    struct area *a = area_of(array);
    if (a) {
        const struct area newest = *a;
        memmove(a, a + 1, (size_t)(all.areas + all.count - 1 - a) * sizeof *a);
        all.areas[all.count - 1] = newest;
    }
    pthread_mutex_unlock(&all.lock);
}

static void add_holders(unsigned n)
{
    pthread_mutex_lock(&all.lock);
    all.holders += n;
    pthread_mutex_unlock(&all.lock);
}

void spill_hold(void) { add_holders(1); }

void spill_release(void) { add_holders(-1U); }

void spill_free(void *array)
{
    struct area gone = {.start = NULL, .fd = -1};
    if (!array)
        return;
    pthread_mutex_lock(&all.lock);
    struct area *a = area_of(array);
    if (a) {
        gone = *a;
        all.count--;
        memmove(a, a + 1, (size_t)(all.areas + all.count - a) * sizeof *a);
        if (gone.fd < 0)
            keep_spare(gone);
        else
            all.use.file_bytes -= gone.bytes;
    }
    if (a && !all.count) { /* nothing is left behind */
        drop_spares();
        free(all.areas);
        all.areas = NULL;
        all.room = 0;
    }
    pthread_mutex_unlock(&all.lock);
    if (!gone.start)
        free(array);
    if (gone.fd >= 0) {
        munmap(gone.start, gone.bytes);
        close(gone.fd);
    }
}
