/* written.c - Writes segments for processes from outside, from events of static probes, in the
 * layout that the library itself writes. A page is made present before it is written, because
 * /dev/shm may be full. Fields that the reader polls are stored atomically, the counters last. */
#include "watch/written.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arch/page.h"
#include "format/seqlock.h"
#include "format/watch.h"

#define PAGE     ARCH_PAGE_BYTES
#define CHUNK    65536ul
#define MODULES  MLW_WATCH_MODULES_MAX
#define SITES    2048u /* the first is of the stacks that find no room */
#define SAMPLES  16384u
#define FREES    1024u
#define ERRORS   MLW_WATCH_ERRORS_MAX
#define PROBES   64u
#define PLACES   (2 * SAMPLES) /* places for addresses; a power of two */
#define NO_INDEX UINT32_MAX
#define Q8       256
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum table { MODULE, SITE, SAMPLE, FREED, ERROR, TABLES };
static const struct {
    uint32_t count;
    size_t entry;
} plan[TABLES] = {{MODULES, sizeof(struct mlw_watch_module)},
                  {SITES, sizeof(struct mlw_watch_site)},
                  {SAMPLES, sizeof(struct mlw_watch_sample)},
                  {FREES, sizeof(struct mlw_watch_free)},
                  {ERRORS, sizeof(struct mlw_watch_error)}};

/* A process image. Tables are in the segment; what only the writer needs is beside it. */
struct image {
    struct image *next;
    uint32_t pid;
    uint64_t process_ns; /* start of the process */
    struct mlw_watch *head;
    uint8_t *table[TABLES];
    uint64_t bytes;
    uint8_t *there; /* true for each chunk that may be written to */
    bool full;      /* no more can be had */
    uint32_t modules;
    uint32_t *free_list; /* the free list of samples */
    uint32_t free_count;
    uint32_t place[PLACES]; /* sample + 1, by address; 0: none */
};

struct written {
    char directory[PATH_MAX];
    struct image *images;
};

struct written *written_new(const char *directory, struct error *err)
{
    struct written *w = calloc(1, sizeof *w);
    if (!w) {
        error_memory(err);
        return NULL;
    }
    snprintf(w->directory, sizeof w->directory, "%s", directory);
    return w;
}

static void release(struct image *i)
{
    if (i->head)
        munmap(i->head, i->bytes);
    free(i->there);
    free(i->free_list);
    free(i);
}

void written_free(struct written *w)
{
    while (w && w->images) {
        struct image *next = w->images->next;
        release(w->images);
        w->images = next;
    }
    free(w);
}

/* ---- the file ---- */

/* A store into a page that /dev/shm has no room for would end us. */
static bool writable(struct image *i, const void *at, size_t bytes)
{
    uint64_t from = (uint64_t)((const uint8_t *)at - (const uint8_t *)i->head);
    for (uint64_t c = from / CHUNK; c <= (from + bytes - 1) / CHUNK; c++) {
        uint64_t start = c * CHUNK, n = i->bytes - start < CHUNK ? i->bytes - start : CHUNK;
        if (i->there[c])
            continue;
        if (i->full || madvise((uint8_t *)i->head + start, n, MADV_POPULATE_WRITE)) {
            i->full = true;
            if (i->there[0])
                i->head->trouble |= MLW_WATCH_FILE_FULL;
            return false;
        }
        i->there[c] = 1;
    }
    return true;
}

static void *entry(const struct image *i, enum table t, uint32_t index)
{
    return i->table[t] + (size_t)index * plan[t].entry;
}

static void add(uint64_t *to, uint64_t n) { __atomic_store_n(to, *to + n, __ATOMIC_RELAXED); }

static size_t read_into(const char *path, char *to, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t r;
    while (fd >= 0 && n < room - 1 && (r = read(fd, to + n, room - 1 - n)) > 0)
        n += (size_t)r;
    if (fd >= 0)
        close(fd);
    return n;
}

/* Fills the segment's description of the program; the process may be gone. */
static void describe(struct mlw_watch *h, uint32_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    ssize_t n = readlink(path, h->exe, sizeof h->exe - 1);
    if (n < 0)
        snprintf(h->exe, sizeof h->exe, "?");
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    h->command_bytes = read_into(path, h->command, sizeof h->command);
}

static bool make_file(struct image *i, const char *path)
{
    uint64_t offset[TABLES], at = PAGE;
    for (int t = 0; t < TABLES; t++) {
        offset[t] = at;
        at += (plan[t].count * plan[t].entry + PAGE - 1) & ~(PAGE - 1);
    }
    i->bytes = at;
    i->there = calloc(at / CHUNK + 1, 1);
    i->free_list = calloc(SAMPLES, sizeof *i->free_list);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    void *p = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, (off_t)at))
        p = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (p != MAP_FAILED)
        i->head = p;
    if (!i->there || !i->free_list || !i->head || !writable(i, i->head, PAGE)) {
        unlink(path);
        return false;
    }
    for (int t = 0; t < TABLES; t++)
        i->table[t] = (uint8_t *)p + offset[t];
    struct mlw_watch *h = i->head;
    h->version = MLW_WATCH_VERSION;
    h->file_bytes = at;
    h->modules = MODULES;
    h->module_offset = (uint32_t)offset[MODULE];
    h->sites = SITES;
    h->site_offset = (uint32_t)offset[SITE];
    h->samples = SAMPLES;
    h->sample_offset = (uint32_t)offset[SAMPLE];
    h->frees = FREES;
    h->free_offset = (uint32_t)offset[FREED];
    h->errors = ERRORS;
    h->error_offset = (uint32_t)offset[ERROR];
    return true;
}

/* image_ns: when it began, which names the file: of an exec later than the process itself. */
static struct image *new_image(struct written *w, const struct written_who *who, uint64_t image_ns)
{
    char path[PATH_MAX + 64];
    struct timespec real, now;
    struct image *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    snprintf(path, sizeof path, "%s/%u-%llu", w->directory, who->pid, (unsigned long long)image_ns);
    if (!make_file(i, path)) {
        release(i);
        return NULL;
    }
    struct mlw_watch *h = i->head;
    i->pid = h->pid = who->pid;
    i->process_ns = who->start_ns;
    h->ppid = who->ppid;
    h->start_ns = image_ns;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ago = (now.tv_sec - (int64_t)(image_ns / 1000000000)) * 1000000000 + now.tv_nsec -
                  (int64_t)(image_ns % 1000000000);
    h->start_realtime_ns =
        (uint64_t)((int64_t)real.tv_sec * 1000000000 + (int64_t)real.tv_nsec - ago);
    h->settings.enabled = 1;
    describe(h, who->pid);
    struct mlw_watch_site *rest = entry(i, SITE, 0);
    if (writable(i, rest, sizeof *rest)) {
        const uint32_t rest_version = seqlock_begin(&rest->version);
        rest->hash = 1;
        rest->stack.flags = MLW_WATCH_STACK_NO_ROOM;
        seqlock_end(&rest->version, rest_version);
    }
    h->state = MLW_WATCH_LIVE;
    __atomic_store_n(&h->magic, MLW_WATCH_MAGIC, __ATOMIC_RELEASE);
    i->next = w->images;
    w->images = i;
    return i;
}

static struct image **find(struct written *w, const struct written_who *who)
{
    struct image **at = &w->images;
    while (*at && (*at)->pid != who->pid)
        at = &(*at)->next;
    return at;
}

static void forget(struct image **at)
{
    struct image *i = *at;
    *at = i->next;
    release(i);
}

/* The image that runs in the process; NULL: none is known. make: begins one, at `when`. */
static struct image *image_of(struct written *w, const struct written_who *who, bool make)
{
    struct image **at = find(w, who);
    uint64_t image_ns = who->start_ns;
    if (*at && (*at)->process_ns != who->start_ns) {
        forget(at); /* another process had that id; its end was lost */
        at = find(w, who);
    } else if (*at && (*at)->head->state == MLW_WATCH_EXEC) {
        if (!make)
            return NULL;
        image_ns = who->time_ns;
        forget(at);
        return new_image(w, who, image_ns);
    }
    return *at || !make ? *at : new_image(w, who, image_ns);
}

/* ---- stacks ---- */

static uint32_t module_of(struct image *i, const struct written_frame *f, uint64_t now)
{
    struct mlw_watch_module *m;
    size_t id_bytes = f->build_id_bytes <= sizeof m->build_id ? f->build_id_bytes : 0;
    for (uint32_t k = 0; k < i->modules; k++) {
        m = entry(i, MODULE, k);
        if (!strncmp(m->path, f->path, sizeof m->path - 1) && m->build_id_bytes == id_bytes &&
            (!id_bytes || !memcmp(m->build_id, f->build_id, id_bytes)))
            return k + 1;
    }
    m = entry(i, MODULE, i->modules);
    if (i->modules == MODULES || !writable(i, m, sizeof *m))
        return 0;
    const uint32_t m_version = seqlock_begin(&m->version);
    m->state = MLW_WATCH_MODULE_MAPPED;
    m->end = ARCH_ADDRESS_END; /* addresses are the file's own */
    m->since_ns = now;
    m->build_id_bytes = (uint32_t)id_bytes;
    if (id_bytes)
        memcpy(m->build_id, f->build_id, id_bytes);
    snprintf(m->path, sizeof m->path, "%s", f->path);
    seqlock_end(&m->version, m_version);
    return ++i->modules;
}

static void spell(struct image *i, const struct written_stack *from, uint64_t now,
                  struct mlw_watch_stack *to)
{
    memset(to, 0, sizeof *to);
    for (size_t k = 0; k < from->count && to->frames < MLW_WATCH_FRAMES; k++) {
        const struct written_frame *f = &from->frames[k];
        uint64_t module = f->path ? module_of(i, f, now) : 0;
        to->frame[to->frames++] = MLW_WATCH_FRAME_PC(f->address) | module << 48;
    }
    if (from->count > MLW_WATCH_FRAMES)
        to->flags |= MLW_WATCH_STACK_CUT;
}

static uint64_t hash_of(const struct mlw_watch_stack *s)
{
    uint64_t h = s->frames * 0x9e3779b97f4a7c15 ^ s->flags;
    for (uint32_t k = 0; k < s->frames; k++) {
        h = (h ^ s->frame[k]) * 0xd6e8feb86659fd93;
        h ^= h >> 32;
    }
    return h > 1 ? h : 2;
}

/* The site of a stack; 0, the one of what finds no room, when there is none. */
static uint32_t site_of(struct image *i, const struct written_stack *stack, uint64_t now)
{
    struct mlw_watch_stack s;
    spell(i, stack, now, &s);
    uint64_t hash = hash_of(&s);
    for (uint32_t k = 0; k < PROBES; k++) {
        uint32_t index = 1 + (uint32_t)((hash + k) % (SITES - 1));
        struct mlw_watch_site *site = entry(i, SITE, index);
        if (!writable(i, site, sizeof *site))
            break;
        if (site->version && (site->hash != hash || memcmp(&site->stack, &s, sizeof s) != 0))
            continue;
        if (!site->version) {
            const uint32_t site_version = seqlock_begin(&site->version);
            site->hash = hash;
            site->stack = s;
            seqlock_end(&site->version, site_version);
        }
        site->used_ns = now;
        return index;
    }
    add(&i->head->counters.crowded, 1);
    return 0;
}

/* ---- blocks by address ---- */

static uint32_t home(uint64_t address)
{
    return (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15 >> 32) & (PLACES - 1);
}

static uint64_t address_at(const struct image *i, uint32_t place)
{
    return ((struct mlw_watch_sample *)entry(i, SAMPLE, i->place[place] - 1))->address;
}

/* The place of an address, or the empty one where it would be. */
static uint32_t place_of(const struct image *i, uint64_t address)
{
    uint32_t at = home(address);
    while (i->place[at] && address_at(i, at) != address)
        at = (at + 1) & (PLACES - 1);
    return at;
}

/* Empties a place; what stood behind it because of it moves up. */
static void vacate(struct image *i, uint32_t hole)
{
    for (uint32_t at = (hole + 1) & (PLACES - 1); i->place[at]; at = (at + 1) & (PLACES - 1)) {
        uint32_t from = home(address_at(i, at));
        if (((at - from) & (PLACES - 1)) < ((at - hole) & (PLACES - 1)))
            continue;
        i->place[hole] = i->place[at];
        hole = at;
    }
    i->place[hole] = 0;
}

static uint32_t take_sample(struct image *i)
{
    if (i->free_count)
        return i->free_list[--i->free_count];
    uint32_t index = i->head->samples_used;
    if (index == SAMPLES || !writable(i, entry(i, SAMPLE, index), plan[SAMPLE].entry))
        return NO_INDEX;
    return index;
}

/* ---- events ---- */

static uint64_t blocks_q8(uint64_t size, uint64_t weight)
{
    return size ? (weight * Q8 + size / 2) / size : 0;
}

/* The period follows from a weight, unless that is the size. */
static void note_period(struct image *i, uint64_t size, uint64_t weight)
{
    if (!size || weight <= size + size / 4)
        return;
    double period = -(double)size / log1p(-(double)size / (double)weight);
    double before = (double)i->head->settings.period;
    if (fabs(period - before) > before / 256) /* weights are rounded */
        __atomic_store_n(&i->head->settings.period, (uint64_t)(period + .5), __ATOMIC_RELAXED);
}

static void end_sample(struct image *i, const struct written_who *who, uint32_t place,
                       uint32_t kind, uint64_t new_size, const struct written_stack *stack);

void written_sample(struct written *w, const struct written_who *who, uint64_t address,
                    uint64_t size, uint64_t weight, uint64_t drawn, const struct written_stack *s)
{
    struct image *i = image_of(w, who, true);
    if (!i)
        return;
    uint32_t place = place_of(i, address);
    if (i->place[place]) /* its release was lost */
        end_sample(i, who, place, MLW_WATCH_FREE, 0, NULL);
    struct mlw_watch_counters *n = &i->head->counters;
    uint32_t index = take_sample(i);
    if (index == NO_INDEX) {
        add(&n->dropped_full, 1);
        add(&n->dropped_weight, weight);
        return;
    }
    uint32_t at = site_of(i, s, who->time_ns);
    struct mlw_watch_site *site = entry(i, SITE, at);
    struct mlw_watch_sample *b = entry(i, SAMPLE, index);
    note_period(i, size, weight);
    add(&site->samples, 1);
    add(&site->bytes, size);
    add(&site->weight, weight);
    add(&site->blocks_q8, blocks_q8(size, weight));
    site->live++;
    const uint32_t b_version = seqlock_begin(&b->version);
    b->flags = MLW_WATCH_SAMPLE_LIVE;
    b->address = address;
    b->size = size;
    b->weight = weight;
    b->drawn = drawn;
    b->time_ns = who->time_ns;
    b->site = at;
    b->site_version = site->version;
    b->tid = who->tid;
    seqlock_end(&b->version, b_version);
    if (index == i->head->samples_used)
        __atomic_store_n(&i->head->samples_used, index + 1, __ATOMIC_RELEASE);
    i->place[place_of(i, address)] = index + 1;
    add(&n->drawn_bytes, drawn);
    add(&n->samples, 1);
    add(&n->sample_bytes, size);
    add(&n->sample_weight, weight);
}

static void note_free(struct image *i, const struct mlw_watch_sample *b,
                      const struct written_who *who, uint32_t kind, uint64_t new_size,
                      uint32_t free_site)
{
    uint64_t number = i->head->next_free;
    struct mlw_watch_free *f = entry(i, FREED, (uint32_t)(number % FREES));
    if (writable(i, f, sizeof *f)) {
        const uint32_t f_version = seqlock_begin(&f->version);
        f->kind = kind;
        f->number = number;
        f->address = b->address;
        f->size = b->size;
        f->weight = b->weight;
        f->allocated_ns = b->time_ns;
        f->freed_ns = who->time_ns;
        f->new_size = new_size;
        f->site = b->site;
        f->site_version = b->site_version;
        f->free_site = free_site;
        f->free_site_version = free_site == NO_INDEX
                                   ? 0
                                   : ((struct mlw_watch_site *)entry(i, SITE, free_site))->version;
        f->allocated_tid = b->tid;
        f->freed_tid = who->tid;
        seqlock_end(&f->version, f_version);
    }
    __atomic_store_n(&i->head->next_free, number + 1, __ATOMIC_RELEASE);
}

static void end_sample(struct image *i, const struct written_who *who, uint32_t place,
                       uint32_t kind, uint64_t new_size, const struct written_stack *stack)
{
    uint32_t index = i->place[place] - 1;
    struct mlw_watch_sample *b = entry(i, SAMPLE, index);
    struct mlw_watch_site *site = entry(i, SITE, b->site);
    struct mlw_watch_counters *n = &i->head->counters;
    uint64_t us = who->time_ns > b->time_ns ? (who->time_ns - b->time_ns) / 1000 : 0, byte_us;
    if (__builtin_mul_overflow(b->weight, us, &byte_us))
        byte_us = UINT64_MAX >> 8;
    vacate(i, place);
    add(&site->freed_samples, 1);
    add(&site->freed_bytes, b->size);
    add(&site->freed_weight, b->weight);
    add(&site->freed_blocks_q8, blocks_q8(b->size, b->weight));
    add(&site->freed_byte_us, byte_us);
    add(&site->freed_elsewhere, b->tid != who->tid);
    site->live--;
    note_free(i, b, who, kind, new_size, stack ? site_of(i, stack, who->time_ns) : NO_INDEX);
    const uint32_t b_version = seqlock_begin(&b->version);
    b->flags = 0;
    seqlock_end(&b->version, b_version);
    i->free_list[i->free_count++] = index;
    add(&n->frees, 1);
    add(&n->free_bytes, b->size);
    add(&n->free_weight, b->weight);
    add(&n->reallocs, kind == MLW_WATCH_REALLOC);
}

void written_release(struct written *w, const struct written_who *who, uint64_t address,
                     uint32_t kind, uint64_t new_size, const struct written_stack *s)
{
    struct image *i = image_of(w, who, false);
    uint32_t place = i ? place_of(i, address) : 0;
    if (i && i->place[place])
        end_sample(i, who, place, kind, new_size, s);
}

void written_error(struct written *w, const struct written_who *who, uint32_t kind, uint32_t flags,
                   uint64_t access_address, uint64_t address, uint64_t size,
                   const struct written_stack *s)
{
    struct image *i = image_of(w, who, true);
    if (!i)
        return;
    uint64_t number = i->head->next_error;
    struct mlw_watch_error *e = entry(i, ERROR, (uint32_t)(number % ERRORS));
    uint32_t sample = i->place[place_of(i, address)];
    if (!writable(i, e, sizeof *e))
        return;
    const uint32_t e_version = seqlock_begin(&e->version);
    memset((uint8_t *)e + sizeof e->version, 0, sizeof *e - sizeof e->version);
    e->kind = kind;
    e->flags = flags & ~(uint32_t)MLW_WATCH_ERROR_FREED; /* the probe does not say by whom */
    e->number = number;
    e->time_ns = who->time_ns;
    e->access_address = access_address;
    e->address = address;
    e->size = size;
    e->offset = flags & MLW_WATCH_ERROR_BLOCK ? (int64_t)(access_address - address) : 0;
    e->tid = who->tid;
    spell(i, s, who->time_ns, &e->access);
    if (sample) {
        const struct mlw_watch_sample *b = entry(i, SAMPLE, sample - 1);
        e->allocated_ns = b->time_ns;
        e->allocated_tid = b->tid;
        e->allocation = ((struct mlw_watch_site *)entry(i, SITE, b->site))->stack;
    }
    seqlock_end(&e->version, e_version);
    __atomic_store_n(&i->head->next_error, number + 1, __ATOMIC_RELEASE);
    add(&i->head->counters.errors, 1);
}

void written_exec(struct written *w, const struct written_who *who)
{
    struct image *i = image_of(w, who, false);
    if (i)
        __atomic_store_n(&i->head->state, MLW_WATCH_EXEC, __ATOMIC_RELEASE);
}

void written_exit(struct written *w, const struct written_who *who, uint32_t wait_status)
{
    struct image **at = find(w, who);
    if (!*at)
        return;
    struct mlw_watch *h = (*at)->head;
    uint32_t signal = wait_status & 0x7f;
    h->exit_status = signal ? signal : wait_status >> 8 & 0xff;
    __atomic_store_n(&h->state, signal ? MLW_WATCH_KILLED : MLW_WATCH_EXITED, __ATOMIC_RELEASE);
    forget(at);
}
