/* segment.c - Reads the shared memory of a watched process by pread, and checks every offset and
 * count. A record counts if its version is the same before and after the copy; one that changes
 * is read again. */
#include "watch/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/page.h"

#define LEAST_BYTES ARCH_PAGE_BYTES
#define CHUNK_BYTES 65536u

/* The size of each table's entries, and how many the library can make. */
static const struct {
    uint32_t bytes, most;
} kinds[SEGMENT_TABLES] = {
    [SEGMENT_MODULES] = {sizeof(struct mlw_watch_module), MLW_WATCH_MODULES_MAX},
    [SEGMENT_SITES] = {sizeof(struct mlw_watch_site), MLW_WATCH_SITES(MLW_WATCH_MEMORY_MAX)},
    [SEGMENT_SAMPLES] = {sizeof(struct mlw_watch_sample), MLW_WATCH_SAMPLES(MLW_WATCH_MEMORY_MAX)},
    [SEGMENT_FREES] = {sizeof(struct mlw_watch_free), MLW_WATCH_FREES(MLW_WATCH_MEMORY_MAX)},
    [SEGMENT_ERRORS] = {sizeof(struct mlw_watch_error), MLW_WATCH_ERRORS_MAX},
};

/* ---- opening ---- */

static uint64_t end_of(const struct segment *s, int t)
{
    return s->table[t].offset + (uint64_t)s->table[t].count * kinds[t].bytes;
}

static int check(struct segment *s, const char *path, struct error *err)
{
    const struct mlw_watch *h = &s->head;
    const uint32_t claimed[SEGMENT_TABLES][2] = {{h->modules, h->module_offset},
                                                 {h->sites, h->site_offset},
                                                 {h->samples, h->sample_offset},
                                                 {h->frees, h->free_offset},
                                                 {h->errors, h->error_offset}};
    if (h->version != MLW_WATCH_VERSION)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s was written by another version of libmallow-watch.so (%u, not %u)",
                         path, h->version, MLW_WATCH_VERSION);
    for (int t = 0; t < SEGMENT_TABLES; t++) {
        s->table[t].count = claimed[t][0];
        s->table[t].offset = claimed[t][1];
        if (claimed[t][0] > kinds[t].most)
            return error_set(err, ERROR_FORMAT,
                             "%s is damaged: it claims a larger table than there can be", path);
        if (claimed[t][1] < LEAST_BYTES || claimed[t][1] % 8 || end_of(s, t) > s->bytes)
            return error_set(err, ERROR_FORMAT, "%s is damaged: a table lies outside the file",
                             path);
        for (int o = 0; o < t; o++)
            if (s->table[o].offset < end_of(s, t) && s->table[t].offset < end_of(s, o))
                return error_set(err, ERROR_FORMAT, "%s is damaged: its tables overlap", path);
    }
    return 0;
}

/* The strings of the head end. */
static void end_strings(struct mlw_watch *h)
{
    h->exe[sizeof h->exe - 1] = 0;
    h->command[sizeof h->command - 1] = 0;
}

static int open_by(struct segment *s, int dir, const char *path, bool link, struct error *err)
{
    /* The owner is checked by the caller that trusts it. One name: it is not a link to another
     * file; those without a name are read by their link. */
    const struct trust_rule rule = {.what = "the shared memory of a process,",
                                    .owners = TRUST_ANYBODY,
                                    .most_bytes = MLW_WATCH_FILE_MAX,
                                    .one_name = true,
                                    .follow = link};
    struct stat st;
    *s = (struct segment){.fd = -1};
    s->fd = trust_open(dir, path, TRUST_WRITE, &rule, err);
    s->writable = s->fd >= 0;
    if (s->fd < 0 && err->kind == ERROR_SYSTEM &&
        (err->number == EACCES || err->number == EPERM || err->number == EROFS))
        s->fd = trust_open(dir, path, TRUST_READ, &rule, err);
    if (s->fd < 0)
        return -1;
    if (!trust_identify(s->fd, &s->identity) || fstat(s->fd, &st))
        return error_system(err, "cannot look at %s", path);
    s->bytes = (uint64_t)st.st_size;
    /* The magic first: when it is there, all else is. */
    if (s->bytes < LEAST_BYTES ||
        trust_read(s->fd, &s->head.magic, sizeof s->head.magic, 0) < sizeof s->head.magic ||
        !s->head.magic || trust_read(s->fd, &s->head, sizeof s->head, 0) < sizeof s->head)
        return 1;
    end_strings(&s->head);
    if (s->head.magic != MLW_WATCH_MAGIC)
        return error_set(err, ERROR_FORMAT, "%s is not the shared memory of a watched process",
                         path);
    return check(s, path, err);
}

static int open_or_close(struct segment *s, int dir, const char *path, bool link, struct error *err)
{
    int status = open_by(s, dir, path, link, err);
    if (status)
        segment_close(s);
    return status;
}

int segment_open(struct segment *s, int dir, const char *path, struct error *err)
{
    return open_or_close(s, dir, path, false, err);
}

int segment_open_link(struct segment *s, const char *path, struct error *err)
{
    return open_or_close(s, AT_FDCWD, path, true, err);
}

void segment_close(struct segment *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void segment_refresh(struct segment *s)
{
    static _Alignas(64) struct mlw_watch now;
    const size_t changing = offsetof(struct mlw_watch, exe);
    if (trust_read(s->fd, &now, changing, 0) < changing)
        return;
    s->head.state = now.state;
    s->head.trouble = now.trouble;
    s->head.unguarded = now.unguarded;
    s->head.exit_status = now.exit_status;
    s->head.samples_used = now.samples_used;
    s->head.next_free = now.next_free;
    s->head.next_error = now.next_error;
    s->head.period_now = now.period_now;
    s->head.settings = now.settings;
    s->head.counters = now.counters;
}

/* ---- records ---- */

static uint64_t place(const struct segment *s, enum segment_table t, uint32_t index)
{
    return s->table[t].offset + (uint64_t)index * kinds[t].bytes;
}

/* All zeros, never used, where the file ends. */
static void read_at(const struct segment *s, void *to, size_t bytes, uint64_t offset)
{
    size_t n = trust_read(s->fd, to, bytes, offset);
    memset((char *)to + n, 0, bytes - n);
}

/* A record begins with its version, which is the same before and after a copy that is whole. */
static enum segment_copy judge(uint32_t before, uint32_t copied, uint32_t after)
{
    if (!copied && !before && !after)
        return SEGMENT_NONE;
    return before & 1 || before != copied || copied != after ? SEGMENT_TORN : SEGMENT_WHOLE;
}

static enum segment_copy copy_record(const struct segment *s, enum segment_table t, uint32_t index,
                                     void *to)
{
    enum segment_copy c = SEGMENT_NONE;
    if (index >= s->table[t].count)
        return c;
    for (int tries = 0; tries < 8; tries++) {
        uint32_t before, copied, after;
        read_at(s, &before, sizeof before, place(s, t, index));
        read_at(s, to, kinds[t].bytes, place(s, t, index));
        read_at(s, &after, sizeof after, place(s, t, index));
        memcpy(&copied, to, sizeof copied);
        c = judge(before, copied, after);
        if (c != SEGMENT_TORN)
            break;
    }
    return c;
}

static void bound_stack(struct mlw_watch_stack *s)
{
    if (s->frames > MLW_WATCH_FRAMES)
        s->frames = MLW_WATCH_FRAMES;
}

enum segment_copy segment_module(const struct segment *s, uint32_t index,
                                 struct mlw_watch_module *out)
{
    enum segment_copy c = copy_record(s, SEGMENT_MODULES, index, out);
    if (c == SEGMENT_NONE)
        return c;
    out->path[sizeof out->path - 1] = 0;
    if (out->build_id_bytes > sizeof out->build_id)
        out->build_id_bytes = 0;
    return c;
}

enum segment_copy segment_site(const struct segment *s, uint32_t index, struct mlw_watch_site *out)
{
    enum segment_copy c = copy_record(s, SEGMENT_SITES, index, out);
    if (c != SEGMENT_NONE)
        bound_stack(&out->stack);
    return c;
}

enum segment_copy segment_error(const struct segment *s, uint64_t number,
                                struct mlw_watch_error *out)
{
    const uint32_t count = s->table[SEGMENT_ERRORS].count;
    if (!count)
        return SEGMENT_NONE;
    enum segment_copy c = copy_record(s, SEGMENT_ERRORS, (uint32_t)(number % count), out);
    if (c != SEGMENT_WHOLE)
        return c;
    bound_stack(&out->access);
    bound_stack(&out->allocation);
    bound_stack(&out->release);
    return out->number != number ? SEGMENT_NONE : c;
}

bool segment_sample_holds(const struct segment *s, uint32_t index, uint32_t version)
{
    uint32_t now;
    read_at(s, &now, sizeof now, place(s, SEGMENT_SAMPLES, index));
    return now == version;
}

/* ---- many records ---- */

/* The entry of `first`.. in which the next written byte of the file lies; `end` when none does. */
static uint32_t skip_holes(const struct segment *s, enum segment_table t, uint32_t first,
                           uint32_t end)
{
    const uint64_t at = place(s, t, first);
    off_t data = lseek(s->fd, (off_t)at, SEEK_DATA);
    if (data < 0)
        return errno == ENXIO ? end : first;
    if ((uint64_t)data <= at)
        return first;
    const uint64_t skipped = ((uint64_t)data - at) / kinds[t].bytes;
    return skipped < end - first ? first + (uint32_t)skipped : end;
}

/* A record that changed while its chunk was read is read again by itself. */
static uint32_t take_again(const struct segment *s, enum segment_table t, uint32_t index,
                           segment_take *take, void *arg)
{
    static union {
        struct mlw_watch_module module;
        struct mlw_watch_site site;
        struct mlw_watch_error error;
        uint64_t words[sizeof(struct mlw_watch_error) / 8];
    } record;
    enum segment_copy c = copy_record(s, t, index, &record);
    if (c == SEGMENT_WHOLE && t == SEGMENT_SITES)
        bound_stack(&record.site.stack);
    if (c == SEGMENT_WHOLE)
        take(arg, index, &record);
    return c == SEGMENT_TORN;
}

uint32_t segment_each(const struct segment *s, enum segment_table t, uint32_t first, uint32_t count,
                      segment_take *take, void *arg)
{
    static _Alignas(64) uint8_t before[CHUNK_BYTES], copy[CHUNK_BYTES], after[CHUNK_BYTES];
    const uint32_t bytes = kinds[t].bytes, most = CHUNK_BYTES / bytes;
    uint32_t torn = 0, end = s->table[t].count;
    if (first >= end)
        return 0;
    if (count < end - first)
        end = first + count;
    while ((first = skip_holes(s, t, first, end)) < end) {
        const uint32_t n = end - first < most ? end - first : most;
        read_at(s, before, (size_t)n * bytes, place(s, t, first));
        read_at(s, copy, (size_t)n * bytes, place(s, t, first));
        read_at(s, after, (size_t)n * bytes, place(s, t, first));
        for (uint32_t i = 0; i < n; i++) {
            uint32_t v[3];
            void *record = copy + (size_t)i * bytes;
            memcpy(&v[0], before + (size_t)i * bytes, sizeof v[0]);
            memcpy(&v[1], record, sizeof v[1]);
            memcpy(&v[2], after + (size_t)i * bytes, sizeof v[2]);
            enum segment_copy c = judge(v[0], v[1], v[2]);
            if (c == SEGMENT_WHOLE && t == SEGMENT_SITES)
                bound_stack(&((struct mlw_watch_site *)record)->stack);
            if (c == SEGMENT_WHOLE)
                take(arg, first + i, record);
            else if (c == SEGMENT_TORN)
                torn += take_again(s, t, first + i, take, arg);
        }
        first += n;
    }
    return torn;
}

struct freed {
    segment_take_free *take;
    void *arg;
    uint64_t first, end; /* numbers */
    uint64_t taken;
};

static void take_free(void *arg, uint32_t index, const void *record)
{
    struct freed *f = arg;
    const struct mlw_watch_free *call = record;
    (void)index;
    if (call->number < f->first || call->number >= f->end)
        return;
    f->taken++;
    f->take(f->arg, call);
}

void segment_each_free(const struct segment *s, uint64_t first, uint64_t end,
                       segment_take_free *take, void *arg, uint64_t *missed)
{
    const uint32_t count = s->table[SEGMENT_FREES].count;
    *missed = 0;
    if (end <= first)
        return;
    if (end - first > count) {
        *missed = end - first - count;
        first = end - count;
    }
    struct freed f = {take, arg, first, end, 0};
    if (count && end > first) {
        const uint32_t from = (uint32_t)(first % count), n = (uint32_t)(end - first);
        const uint32_t straight = n < count - from ? n : count - from;
        segment_each(s, SEGMENT_FREES, from, straight, take_free, &f);
        segment_each(s, SEGMENT_FREES, 0, n - straight, take_free, &f);
        *missed += n > f.taken ? n - f.taken : 0;
    }
}

/* ---- settings ---- */

static bool put(const struct segment *s, size_t field, const void *value, size_t bytes)
{
    const size_t at = offsetof(struct mlw_watch, settings) + field;
    return !value || pwrite(s->fd, value, bytes, (off_t)at) == (ssize_t)bytes;
}

#define PUT(field)                                                                                 \
    put(s, offsetof(struct mlw_watch_settings, field), change->field, sizeof *change->field)

bool segment_change(struct segment *s, const struct segment_change *change)
{
    struct stat st;
    uint32_t epoch;
    if (!s->writable || fstat(s->fd, &st) || st.st_size < (off_t)LEAST_BYTES ||
        !(PUT(period) && PUT(enabled) && PUT(guard_share) && PUT(guard_side) && PUT(on_error) &&
          PUT(reader_pid)))
        return false;
    /* Last: it says that the others changed. */
    const size_t at = offsetof(struct mlw_watch, settings.epoch);
    read_at(s, &epoch, sizeof epoch, at);
    epoch++;
    return put(s, offsetof(struct mlw_watch_settings, epoch), &epoch, sizeof epoch);
}

const struct segment_unguarded segment_unguarded[SEGMENT_UNGUARDED] = {
    {"bindings", "calls that go past the preloaded symbols cannot be led to the library"},
    {"wrapper", "another library stands between it and the allocator"},
    {"namespace", "a second namespace of libraries (dlmopen) has a libc of its own"},
    {"allocator", "its allocator is not one whose functions are all known"},
    {"attached", "the watch came while it ran"},
};

bool segment_parse_share(const char *text, uint32_t *share)
{
    char *end_of;
    double v = strtod(text, &end_of);
    if (!strcmp(text, "off") || !strcmp(text, "all")) {
        *share = *text == 'o' ? 0 : MLW_WATCH_SHARE_ALL;
        return true;
    }
    if (end_of == text || strspn(text, "0123456789.") != (size_t)(end_of - text))
        return false;
    if (!strcmp(end_of, "%"))
        v /= 100;
    else if (*end_of)
        return false;
    if (!(v >= 0 && v <= 1))
        return false;
    *share = (uint32_t)(v * MLW_WATCH_SHARE_ALL + 0.5);
    if (v > 0 && !*share)
        *share = 1;
    return true;
}
