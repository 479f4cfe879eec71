/* raw.c - Scans a raw recording for sound chunks, indexes them by image and stream, and reads
 * the facts that chunks other than events hold. Damage is skipped up to the next chunk whose
 * checksum holds. Of two copies of a chunk one is kept. */
#include "raw.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "carried.h"
#include "base/proc.h"
#include "trust/file.h"

#define WINDOW (1u << 20)

/* A moving view of a file: at least `need` bytes at an offset, or what there is. */
struct window {
    int fd;
    uint64_t size, at;
    struct bytes b;
};

static ssize_t read_raw_at(int fd, void *to, size_t n, uint64_t off)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = pread(fd, (char *)to + done, n - done, (off_t)(off + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        done += (size_t)k;
    }
    return (ssize_t)done;
}

/* NULL on error; *have is how many bytes stand there. */
static const uint8_t *window_view(struct window *w, uint64_t off, size_t need, size_t *have)
{
    uint64_t left = w->size > off ? w->size - off : 0;
    if (need > left)
        need = (size_t)left;
    if (off >= w->at && off - w->at + need <= w->b.n) {
        *have = (size_t)(w->b.n - (off - w->at));
        return w->b.data + (off - w->at);
    }
    size_t want = need > WINDOW ? need : WINDOW;
    if (want > left)
        want = (size_t)left;
    w->b.n = 0;
    if (!bytes_reserve(&w->b, want + 8))
        return NULL;
    ssize_t k = read_raw_at(w->fd, w->b.data, want, off);
    if (k < 0)
        return NULL;
    w->at = off;
    w->b.n = (size_t)k;
    *have = (size_t)k;
    return w->b.data;
}

static bool add_pair(struct raw *r, uint64_t clock, uint64_t ns)
{
    if (!clock || !ns)
        return true;
    if (r->pair_count >= 4096) { /* keep every other one, and the newest */
        for (size_t i = 0; i < r->pair_count / 2; i++)
            r->pairs[i] = r->pairs[i * 2];
        r->pair_count /= 2;
    }
    struct mlw_clock_pair *p = ARRAY_ADD(r->pairs, r->pair_count, r->pair_cap);
    if (!p)
        return false;
    p->clock = clock;
    p->monotonic_ns = ns;
    return true;
}

struct tlv {
    unsigned tag;
    const uint8_t *data;
    size_t n;
};

static bool tlv_next(struct span *s, struct tlv *t)
{
    if (span_left(s) < 8)
        return false;
    t->tag = (unsigned)span_number(s, 2);
    span_number(s, 2);
    uint64_t n = span_number(s, 4);
    t->data = span_take(s, n);
    t->n = (size_t)n;
    if (!t->data)
        return false;
    size_t pad = (size_t)(-n & 7);
    span_take(s, pad < span_left(s) ? pad : span_left(s));
    return true;
}

static uint64_t tlv_number(const struct tlv *t, size_t at, unsigned n)
{
    struct span s = span_of(t->data, t->n);
    span_take(&s, at);
    return span_number(&s, n);
}

/* A text without the NUL that may end it. */
static char *tlv_text(struct raw *r, const struct tlv *t)
{
    return arena_text(&r->arena, t->data, strnlen((const char *)t->data, t->n));
}

static bool add_note(const char ***notes, size_t *n, size_t *cap, const char *text)
{
    if (!text)
        return false;
    for (size_t i = 0; i < *n; i++)
        if (!strcmp((*notes)[i], text))
            return true;
    const char **a = *notes;
    const char **p = ARRAY_ADD(a, *n, *cap);
    if (a)
        *notes = a;
    if (!p)
        return false;
    *p = text;
    return true;
}

static int read_file_chunk(struct raw *r, struct span s, struct error *err)
{
    struct tlv t;
    while (tlv_next(&s, &t)) {
        switch (t.tag) {
        case MLW_TLV_VERSION:
            if (tlv_number(&t, 0, 4) > MLW_FORMAT_VERSION)
                return error_set(err, ERROR_UNSUPPORTED,
                                 "the recording has format version %u, this mallow reads up to %u: "
                                 "use a later mallow",
                                 (unsigned)tlv_number(&t, 0, 4), MLW_FORMAT_VERSION);
            r->routed |= tlv_number(&t, 0, 4) >= MLW_FORMAT_ROUTED;
            break;
        case MLW_TLV_CLOCK_KIND: r->clock_kind = (uint32_t)tlv_number(&t, 0, 4); break;
        case MLW_TLV_START:
            r->start_clock = tlv_number(&t, 0, 8);
            r->start_monotonic_ns = tlv_number(&t, 8, 8);
            r->start_realtime_ns = tlv_number(&t, 16, 8);
            add_pair(r, r->start_clock, r->start_monotonic_ns);
            break;
        case MLW_TLV_HOST: r->host = tlv_text(r, &t); break;
        case MLW_TLV_TOOL: r->tool = tlv_text(r, &t); break;
        case MLW_TLV_KERNEL: r->kernel.kinds = (uint32_t)tlv_number(&t, 0, 4); break;
        case MLW_TLV_LIMITS:
            r->limits = (struct mlw_limits){tlv_number(&t, 0, 8), tlv_number(&t, 8, 8),
                                            tlv_number(&t, 16, 8)};
            break;
        case MLW_TLV_LAST:
            r->carried.on = true;
            r->carried.last_ns = tlv_number(&t, 0, 8);
            r->carried.last_bytes = tlv_number(&t, 8, 8);
            break;
        case MLW_TLV_NOTE:
            add_note(&r->notes, &r->note_count, &r->note_cap, tlv_text(r, &t));
            break;
        default: break;
        }
    }
    r->has_file = true;
    return 0;
}

/* PROCESS and END: facts of an image. */
static void read_image_chunk(struct raw *r, struct raw_image *im, const struct mlw_chunk *c,
                             struct span s)
{
    struct tlv t;
    uint64_t lost = 0;
    while (tlv_next(&s, &t)) {
        switch (t.tag) {
        case MLW_TLV_VERSION: r->routed |= tlv_number(&t, 0, 4) >= MLW_FORMAT_ROUTED; break;
        case MLW_TLV_PPID: im->ppid = (uint32_t)tlv_number(&t, 0, 4); break;
        case MLW_TLV_START:
            im->start_clock = tlv_number(&t, 0, 8);
            im->start_monotonic_ns = tlv_number(&t, 8, 8);
            im->start_realtime_ns = tlv_number(&t, 16, 8);
            /* No pair: a forked image's clock was read before the fork, its nanoseconds after. */

            raw_see_clock(im, im->start_clock);
            break;
        case MLW_TLV_COMMAND:
            im->command = arena_text(&r->arena, t.data, t.n);
            im->command_bytes = im->command ? t.n : 0;
            break;
        case MLW_TLV_TITLE:
            im->title = arena_text(&r->arena, t.data, t.n);
            im->title_bytes = im->title ? t.n : 0;
            break;
        case MLW_TLV_COMM: im->comm = tlv_text(r, &t); break;
        case MLW_TLV_EXE: im->exe = tlv_text(r, &t); break;
        case MLW_TLV_SETTINGS: /* in the place of all */
        case MLW_TLV_ENVIRONMENT:
            im->environment = arena_text(&r->arena, t.data, t.n);
            im->environment_bytes = im->environment ? t.n : 0;
            im->has_environment = t.tag == MLW_TLV_ENVIRONMENT;
            im->has_settings = true;
            break;
        case MLW_TLV_ALLOCATOR: im->allocator = tlv_text(r, &t); break;
        case MLW_TLV_STACKS: im->stack_mode = (uint32_t)tlv_number(&t, 0, 4); break;
        case MLW_TLV_SESSION: im->session = tlv_text(r, &t); break;
        case MLW_TLV_FORKED_FROM: im->forked_from = tlv_number(&t, 0, 8); break;
        case MLW_TLV_ATTACHED:
            im->attached = true;
            im->before_blocks = tlv_number(&t, 0, 8);
            im->before_bytes = tlv_number(&t, 8, 8);
            break;
        case MLW_TLV_PAGE_BYTES: im->page_bytes = (uint32_t)tlv_number(&t, 0, 4); break;
        case MLW_TLV_END: {
            /* An end may be written by the process itself and by its parent: the later chunk has
             * the exit status; an exec or exit that the process announced itself is not undone by
             * an unknown one. */
            uint32_t how = (uint32_t)tlv_number(&t, 8, 4);
            im->end_clock = tlv_number(&t, 0, 8);
            if (how != MLW_END_UNKNOWN) {
                im->end_how = how;
                im->end_status = (uint32_t)tlv_number(&t, 12, 4);
                im->ended = true;
            }
            raw_see_clock(im, im->end_clock);
            break;
        }
        case MLW_TLV_LOST: lost += tlv_number(&t, 0, 8); break;
        case MLW_TLV_OWN:
            if (tlv_number(&t, 0, 8) > im->own_bytes)
                im->own_bytes = tlv_number(&t, 0, 8);
            break;
        case MLW_TLV_NOTE:
            add_note(&im->notes, &im->note_count, &im->note_cap, tlv_text(r, &t));
            break;
        case MLW_TLV_NAMES: bytes_put(&im->names, t.data, t.n); break;
        default: break;
        }
    }
    if (lost > im->lost_reported)
        im->lost_reported = lost;
    im->pid = c->pid;
    if (c->type == MLW_CHUNK_PROCESS && !im->described) {
        im->described = true;
        im->early_notes = im->note_count;
    }
}

/* A chunk was added that is no copy. */
static void stream_grown(struct raw *r, struct raw_stream *st)
{
    r->odd |= st->chunk[st->held - 1].sequence < st->chunks; /* another of those that were read */
    while (st->chunks < st->held && st->chunk[st->chunks].sequence == st->chunks &&
           st->chunk[st->chunks].first_call == st->ready_calls) {
        const struct raw_chunk *k = &st->chunk[st->chunks];
        if (!st->chunks++)
            st->first_clock = k->base_clock;
        st->ready_calls += k->calls;
        r->ready_calls += k->calls;
    }
}

static bool read_events_chunk(struct raw *r, const struct mlw_chunk *c, uint64_t offset)
{
    struct raw_image *im = raw_image_of(r, c->image);
    if (!im)
        return false;
    if (!im->pid)
        im->pid = c->pid;
    raw_see_clock(im, c->base_clock);
    raw_see_clock(im, c->pair_clock);
    struct raw_stream *st = raw_stream_of(r, c->image, c->thread, c->lane);
    if (!st)
        return false;
    if (!st->pieces++ && !st->tid)
        st->tid = c->tid;
    if (!(c->flags & MLW_CHUNK_INTERIM) && c->sequence >= st->whole)
        st->whole = c->sequence + 1;
    if (c->lost_calls > st->lost_calls)
        st->lost_calls = c->lost_calls;
    const bool interim = c->flags & MLW_CHUNK_INTERIM;
    struct raw_chunk *k = r->growing && interim ? ARRAY_ADD(st->copy, st->copies, st->copy_room)
                                                : ARRAY_ADD(st->chunk, st->held, st->chunk_room);
    if (!k)
        return false;
    k->offset = offset;
    k->first_call = c->first_call;
    k->base_clock = c->base_clock;
    k->sequence = c->sequence;
    k->payload_bytes = c->payload_bytes;
    k->calls = c->calls;
    k->interim = interim;
    if (r->growing && !interim)
        stream_grown(r, st);
    return add_pair(r, c->pair_clock, c->pair_monotonic_ns);
}

/* One sound chunk. 0, or -1 with *err. */
static int read_chunk(struct raw *r, const struct mlw_chunk *c, const uint8_t *payload,
                      uint64_t offset, struct error *err)
{
    struct span s = span_of(payload, c->payload_bytes);
    bool ok = carried_note(r, c, payload, offset);
    if (!ok)
        return error_memory_for(err, "indexing the recording");
    switch (c->type) {
    case MLW_CHUNK_FILE: return read_file_chunk(r, s, err);
    case MLW_CHUNK_EVENTS: ok = read_events_chunk(r, c, offset); break;
    case MLW_CHUNK_PROCESS:
    case MLW_CHUNK_END: {
        struct raw_image *im = raw_image_of(r, c->image);
        if ((ok = im != NULL))
            read_image_chunk(r, im, c, s);
        if (im && c->type == MLW_CHUNK_PROCESS)
            im->process_offset = offset;
        ok = ok && add_pair(r, c->pair_clock, c->pair_monotonic_ns);
        break;
    }
    case MLW_CHUNK_RESIDENT: {
        struct raw_image *im = raw_image_of(r, c->image);
        ok = im != NULL;
        while (ok && span_left(&s) >= sizeof(struct mlw_resident)) {
            struct mlw_resident *x = ARRAY_ADD(im->residents, im->resident_count, im->resident_cap);
            if ((ok = x != NULL))
                memcpy(x, span_take(&s, sizeof *x), sizeof *x);
        }
        break;
    }
    case MLW_CHUNK_SPLIT: {
        struct raw_image *im = raw_image_of(r, c->image);
        struct tlv t;
        ok = im != NULL;
        while (ok && tlv_next(&s, &t))
            if (t.tag == MLW_TLV_SPLIT && t.n >= MLW_SPLIT_LEAST) {
                struct mlw_split *x = ARRAY_ADD(im->splits, im->split_count, im->split_cap);
                if ((ok = x != NULL)) {
                    memset(x, 0, sizeof *x);
                    memcpy(x, t.data, t.n < sizeof *x ? t.n : sizeof *x);
                }
            }
        break;
    }
    case MLW_CHUNK_CLOCK:
        while (ok && span_left(&s) >= 16) {
            const uint64_t clock = span_number(&s, 8), ns = span_number(&s, 8);
            if (!r->early_pair.clock && r->start_clock &&
                ns >= r->start_monotonic_ns + RAW_EARLY_NS && clock > r->start_clock)
                r->early_pair = (struct mlw_clock_pair){clock, ns};
            ok = add_pair(r, clock, ns);
        }
        break;
    case MLW_CHUNK_MARK: {
        struct tlv t;
        struct raw_image *im = c->image ? raw_image_of(r, c->image) : NULL;
        ok = !c->image || im;
        while (ok && tlv_next(&s, &t))
            if (t.tag == MLW_TLV_LABEL) {
                struct raw_mark *m = im ? ARRAY_ADD(im->marks, im->mark_count, im->mark_cap)
                                        : ARRAY_ADD(r->marks, r->mark_count, r->mark_cap);
                if ((ok = m != NULL)) {
                    m->clock = c->pair_clock ? c->pair_clock : c->base_clock;
                    m->label = tlv_text(r, &t);
                }
            }
        break;
    }
    case MLW_CHUNK_KERNEL:
        ok = kernel_read(&r->kernel, s);
        if (c->lost_calls > r->kernel.lost)
            r->kernel.lost = c->lost_calls;
        break;
    default: break; /* from a later writer: nothing that we must know */
    }
    return ok ? 0 : error_memory_for(err, "indexing the recording");
}

/* Is there a sound chunk at the start of p? */
static bool chunk_plausible(const uint8_t *p, size_t have, uint64_t left, struct mlw_chunk *c)
{
    if (have < sizeof *c)
        return false;
    memcpy(c, p, sizeof *c);
    return c->magic == MLW_CHUNK_MAGIC && c->header_bytes == sizeof *c &&
           c->payload_bytes <= MLW_CHUNK_MAX && c->payload_bytes <= left - sizeof *c;
}

/* True if the bytes at p may become a chunk when those behind them are written. */
static bool is_unfinished(const uint8_t *p, size_t have, uint64_t left)
{
    struct mlw_chunk c;
    if (left < sizeof c)
        return true;
    memcpy(&c, p, have < sizeof c ? have : sizeof c);
    return have >= sizeof c && c.magic == MLW_CHUNK_MAGIC && c.header_bytes == sizeof c &&
           c.payload_bytes <= MLW_CHUNK_MAX && c.payload_bytes > left - sizeof c;
}

/* From r->file_bytes on, to `to`. */
static int grow_raw(struct raw *r, uint64_t to, struct error *err)
{
    struct window w = {.fd = r->fd, .size = to};
    int status = 0;
    while (!status && !r->odd && r->file_bytes < to) {
        size_t have;
        struct mlw_chunk c;
        const uint64_t off = r->file_bytes;
        const uint8_t *p = window_view(&w, off, sizeof c, &have);
        if (!p || !have) {
            status = error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
            break;
        }
        if (!chunk_plausible(p, have, to - off, &c)) {
            r->odd = !is_unfinished(p, have, to - off);
            break;
        }
        p = window_view(&w, off, sizeof c + c.payload_bytes, &have);
        if (p && have >= sizeof c + c.payload_bytes &&
            mlw_chunk_checksum(&c, p + sizeof c) == c.checksum) {
            status = read_chunk(r, &c, p + sizeof c, off, err);
            r->file_bytes += sizeof c + c.payload_bytes;
        } else {
            r->odd = true;
        }
    }
    bytes_free(&w.b);
    return status;
}

static int scan_chunks(struct raw *r, int fd, uint64_t flag,
                       void (*progress)(void *, uint64_t, uint64_t), void *arg, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_system(err, "cannot look at the recording");
    struct window w = {.fd = fd, .size = (uint64_t)st.st_size};
    r->file_bytes += w.size;
    int status = 0;
    uint64_t off = 0, reported = 0;
    while (!status && off < w.size) {
        size_t have;
        struct mlw_chunk c;
        const uint8_t *p = window_view(&w, off, sizeof c, &have);
        if (!p || !have) {
            status = p ? error_set(err, ERROR_FORMAT, "the recording shrank while it was read")
                       : error_system(err, "cannot read the recording");
            break;
        }
        uint64_t left = w.size - off;
        if (chunk_plausible(p, have, left, &c)) {
            p = window_view(&w, off, sizeof c + c.payload_bytes, &have);
            if (p && have >= sizeof c + c.payload_bytes &&
                mlw_chunk_checksum(&c, p + sizeof c) == c.checksum) {
                status = read_chunk(r, &c, p + sizeof c, off | flag, err);
                off += sizeof c + c.payload_bytes;
                if (progress && off - reported > (16u << 20))
                    progress(arg, (reported = off) / RAW_SCAN_SHARE, w.size);
                continue;
            }
            p = window_view(&w, off, sizeof c, &have);
            if (!p)
                continue;
        }
        /* damage: on to the next magic */
        static const uint8_t magic[4] = {'M', 'L', 'C', '1'};
        const uint8_t *q = have > 1 ? memmem(p + 1, have - 1, magic, 4) : NULL;
        const size_t zeros = r->carried.on && have ? carried_zeros(p, have) : 0;
        if (zeros) { /* the released part of the file: no damage */
            off = trust_past_hole(fd, off + zeros, w.size);
            continue;
        }
        uint64_t skip = q ? (uint64_t)(q - p) : have > 3 ? have - 3 : have;
        if (!q)
            skip = trust_past_hole(fd, off + skip, w.size) - off;
        if (!q && off + have >= w.size)
            skip = left;
        r->damaged_bytes += skip;
        off += skip;
    }
    bytes_free(&w.b);
    return status;
}

int raw_open(struct raw *r, int fd, void (*progress)(void *, uint64_t, uint64_t), void *arg,
             struct error *err)
{
    memset(r, 0, sizeof *r);
    r->fd = fd;
    r->second_fd = -1;
    r->clock_kind = MLW_CLOCK_TSC;
    if (scan_chunks(r, fd, 0, progress, arg, err)) {
        raw_close(r);
        return -1;
    }
    if (!r->has_file && !r->image_count) {
        error_set(err, ERROR_FORMAT, "not a mallow recording: no sound chunk in %llu bytes",
                  (unsigned long long)r->file_bytes);
        raw_close(r);
        return -1;
    }
    return 0;
}

void raw_grow_begin(struct raw *r, int fd)
{
    memset(r, 0, sizeof *r);
    r->fd = fd;
    r->second_fd = -1;
    r->clock_kind = MLW_CLOCK_TSC;
    r->growing = true;
}

int raw_add(struct raw *r, int fd, struct error *err)
{
    r->growing = false;
    uint64_t bytes = r->file_bytes;
    if (scan_chunks(r, fd, RAW_SECOND_FILE, NULL, NULL, err))
        return -1;
    r->file_bytes = bytes;
    r->second_fd = fd;
    return 0;
}

static void raw_stream_free(struct raw_stream *st)
{
    free(st->chunk);
    free(st->copy);
}

int raw_grow(struct raw *r, uint64_t to, struct error *err)
{
    const size_t streams = r->stream_count;
    if (grow_raw(r, to, err))
        return -1;
    raw_find_parents(r);
    return streams != r->stream_count ? raw_sort_streams(r, err) : 0;
}

void raw_close(struct raw *r)
{
    for (size_t i = 0; i < r->image_count; i++) {
        free(r->images[i].notes);
        bytes_free(&r->images[i].names);
        free(r->images[i].residents);
        free(r->images[i].splits);
        free(r->images[i].marks);
    }
    kernel_free(&r->kernel);
    carried_free(&r->carried);
    free(r->images);
    for (size_t i = 0; i < r->stream_count; i++)
        raw_stream_free(r->met[i]);
    free(r->met);
    free(r->streams);
    free(r->pairs);
    free(r->marks);
    free(r->notes);
    pair_map_free(&r->image_map);
    pair_map_free(&r->stream_map);
    arena_free(&r->arena);
    memset(r, 0, sizeof *r);
}

int raw_probe(int fd, struct error *err)
{
    uint8_t buf[4096];
    static const uint8_t magic[4] = {'M', 'L', 'C', '1'}, sealed[4] = {'M', 'L', 'S', '1'};
    ssize_t k = read_raw_at(fd, buf, sizeof buf, 0);
    if (k < 0)
        return error_system(err, "cannot read the recording");
    /* a sealed one may have the magic of the other in a text */
    return k >= 4 && memcmp(buf, sealed, 4) != 0 && memmem(buf, (size_t)k, magic, 4) != NULL;
}

/* A zombie is dead. Its parent may never ask for it, as some first processes of containers. */
static bool lives(pid_t pid)
{
    if (kill(pid, 0) && errno != EPERM)
        return false;
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return true;
    const bool dead = proc_fd_has_ended(fd);
    close(fd);
    return !dead;
}

void raw_note_living(struct raw *r)
{
    struct utsname u;
    if (r->host && !uname(&u)) { /* "sysname release machine": another kernel, another machine */
        char here[sizeof u.sysname + sizeof u.release + sizeof u.machine + 3];
        size_t n = 0;
        const char *part[3] = {u.sysname, u.release, u.machine};
        for (int i = 0; i < 3; i++) {
            size_t k = strlen(part[i]);
            if (i)
                here[n++] = ' ';
            memcpy(here + n, part[i], k);
            n += k;
        }
        here[n] = 0;
        if (strcmp(here, r->host))
            return;
    }
    for (size_t i = 0; i < r->image_count; i++) {
        struct raw_image *im = &r->images[i];
        im->alive = !im->ended && im->pid && lives((pid_t)im->pid);
    }
}

bool raw_is_live(const struct raw *r)
{
    for (size_t i = 0; i < r->image_count; i++)
        if (r->images[i].alive && !r->images[i].recovered)
            return true;
    return false;
}
