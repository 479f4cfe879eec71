/* store.c - Opens a sealed recording: finds its sections, reads the facts of all images, and
 * orders images and blocks. Missing facts are rebuilt from EARLY sections and from the blocks.
 * Links between stack nodes that form a cycle are cut. */
#include "store.h"

#include "format/chunk.h"
#include "format/row.h"
#include "trust/file.h"

#include <sys/stat.h>

struct found {
    uint64_t offset;
    uint32_t image; /* index */
};

struct opening {
    struct store *s;
    struct pair_map by_number;
    struct store_image *details;
    struct trace_image *images;
    size_t n, details_cap, images_cap;
    struct found *nodes, *early;
    size_t node_count, node_cap, early_count, early_cap;
    ZSTD_DCtx *z;
    bool has_file;
    struct stat as_found;
};

/* The index of the image with this number in the file; SIZE_MAX without memory. */
static size_t image_of_number(struct opening *o, uint32_t number)
{
    uint32_t *at = pair_map_at(&o->by_number, number, 0);
    if (!at)
        return SIZE_MAX;
    if (!*at) {
        size_t k = o->n;
        if (!ARRAY_ROOM(o->details, k + 1, o->details_cap) ||
            !ARRAY_ROOM(o->images, k + 1, o->images_cap))
            return SIZE_MAX;
        o->details[k] = (struct store_image){.number = number};
        o->images[k] = (struct trace_image){.forked_from = UINT32_MAX};
        o->n++;
        *at = (uint32_t)o->n;
    }
    return *at - 1;
}

static int take_file(struct opening *o, const struct section_head *h, struct error *err)
{
    struct file_facts f;
    struct store *s = o->s;
    if (h->header.type == SEAL_END)
        s->has_end = true;
    if (facts_read_file(s->fd, h, o->z, &s->arena, &f, err)) {
        s->info.damaged_bytes += h->header.payload_bytes;
        return 0;
    }
    if (f.version > SEAL_VERSION)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the recording has sealed version %llu, this mallow reads up to %u: use a "
                         "later mallow",
                         (unsigned long long)f.version, SEAL_VERSION);
    if (!o->has_file) {
        o->has_file = true;
        s->tick_ns = f.tick_ns;
        s->info.start_realtime_ns = f.start_realtime_ns;
        s->info.damaged_bytes += f.damaged_bytes;
        s->info.host = f.host;
        s->info.tool = f.tool;
        s->info.kernel_kinds = (uint32_t)f.kernel_kinds;
        s->info.lost_kernel_events = f.lost_kernel_events;
        s->info.limits = f.limits;
    }
    return 0;
}

static int store_no_memory(struct error *err)
{
    return error_memory_for(err, "opening the recording");
}

static int take_section(struct opening *o, const struct section_head *h, struct error *err)
{
    struct store *s = o->s;
    const struct seal_header *k = &h->header;
    if (k->type == SEAL_FILE || k->type == SEAL_END)
        return take_file(o, h, err);
    if (k->type != SEAL_BLOCK && k->type != SEAL_NODES && k->type != SEAL_IMAGE &&
        k->type != SEAL_EARLY)
        return 0; /* from a later writer */
    size_t i = image_of_number(o, k->image);
    if (i == SIZE_MAX)
        return store_no_memory(err);
    struct store_image *d = &o->details[i];
    switch (k->type) {
    case SEAL_BLOCK: {
        const struct seal_block *b = &h->block;
        if (!b->events || b->events > SEAL_BLOCK_MAX || b->allocs > b->events ||
            b->new_slots > b->allocs || b->free_slots > b->used_slots ||
            (uint64_t)b->used_slots + b->new_slots >= UINT32_MAX - 16 ||
            b->used_slots > b->first_event || b->threads > b->events || !b->threads ||
            b->last_tick < b->first_tick) {
            s->info.damaged_runs++;
            return 0;
        }
        struct store_block *x = ARRAY_ADD(d->blocks, d->block_count, d->block_cap);
        if (!x)
            return store_no_memory(err);
        x->offset = h->offset;
        x->number = k->number;
        x->first_event = b->first_event;
        x->first_tick = b->first_tick;
        x->last_tick = b->last_tick;
        x->events = b->events;
        x->calls = b->calls;
        x->used_slots = b->used_slots;
        x->new_slots = b->new_slots;
        d->routed |= section_stream(h, SEAL_COL_ROUTE, SEAL_PART_BYTES) != NULL;
        return 0;
    }
    case SEAL_NODES:
    case SEAL_EARLY: {
        struct found *f = k->type == SEAL_NODES ? ARRAY_ADD(o->nodes, o->node_count, o->node_cap)
                                                : ARRAY_ADD(o->early, o->early_count, o->early_cap);
        if (!f)
            return store_no_memory(err);
        f->offset = h->offset;
        f->image = (uint32_t)i;
        return 0;
    }
    default: {
        struct image_facts f;
        if (facts_read_image(s->fd, h, o->z, &s->arena, &f, err)) {
            s->info.damaged_bytes += k->payload_bytes;
            return 0;
        }
        o->images[i] = f.image;
        d->has_facts = true;
        d->first_block = f.first_block;
        d->tick_ns = f.tick_ns;
        return 0;
    }
    }
}

static int compare_image_numbers(const void *a, const void *b)
{
    const struct store_block *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* No node may be its own caller, through however many others: such links are cut. */
static int cut_rings(struct trace_frame_node *nodes, uint32_t n)
{
    uint32_t *walk = calloc((size_t)n + 1, sizeof *walk); /* 0 new, else the walk that met it */
    if (!walk)
        return -1;
    for (uint32_t i = 1; i <= n; i++) {
        if (walk[i])
            continue;
        for (uint32_t k = i; k; k = nodes[k].parent) {
            walk[k] = i;
            uint32_t p = nodes[k].parent;
            if (!p || (walk[p] && walk[p] != i))
                break;
            if (walk[p] == i) {
                nodes[k].parent = 0;
                nodes[k].flags |= MLW_NODE_TRUNCATED;
                break;
            }
        }
    }
    free(walk);
    return 0;
}

static int read_nodes(struct opening *o, struct error *err)
{
    struct store *s = o->s;
    struct section_head h;
    /* How many there are: as the sections that were found say. */
    uint32_t *count = calloc(o->n + 1, sizeof *count);
    if (!count)
        return store_no_memory(err);
    for (size_t i = 0; i < o->node_count; i++) {
        const struct seal_stream *t;
        if (section_head_read(s->fd, o->nodes[i].offset, s->file_bytes, &h, err) != 1 ||
            !(t = section_stream(&h, SEAL_FACT_FLAGS, SEAL_PART_BYTES)) || !t->raw_bytes ||
            t->raw_bytes > SEAL_NODES_MAX || !h.header.number || h.header.number > UINT32_MAX / 2)
            continue;
        uint32_t last = (uint32_t)h.header.number + t->raw_bytes - 1;
        /* sections come in order; a lost one may leave a gap no longer than itself */
        uint32_t *c = &count[o->nodes[i].image];
        if (last > *c && (h.header.number <= (uint64_t)*c + 1 ||
                          h.header.number <= (uint64_t)*c + 1 + s->info.damaged_bytes * 16))
            *c = last;
    }
    for (size_t i = 0; i < o->n; i++) {
        struct trace_image *m = &o->images[i];
        struct trace_frame_node *nodes =
            arena_alloc(&s->arena, ((size_t)count[i] + 1) * sizeof *nodes);
        if (!nodes) {
            free(count);
            return store_no_memory(err);
        }
        for (uint32_t k = 1; k <= count[i]; k++)
            nodes[k].flags = MLW_NODE_TRUNCATED;
        m->stacks = count[i];
        m->nodes = nodes;
        struct trace_fault *faults = (struct trace_fault *)m->faults;
        for (uint32_t k = 0; k < m->fault_count; k++)
            if (faults[k].stack > m->stacks)
                faults[k].stack = 0;
    }
    for (size_t i = 0; i < o->node_count; i++) {
        struct trace_image *m = &o->images[o->nodes[i].image];
        struct error ignored;
        if (section_head_read(s->fd, o->nodes[i].offset, s->file_bytes, &h, &ignored) == 1 &&
            facts_read_nodes(s->fd, &h, o->z, (struct trace_frame_node *)m->nodes, m->stacks,
                             &ignored))
            s->info.damaged_bytes += h.header.payload_bytes;
    }
    int status = 0;
    for (size_t i = 0; i < o->n && !status; i++) {
        struct trace_image *m = &o->images[i];
        struct trace_frame_node *nodes = (struct trace_frame_node *)m->nodes;
        bool behind = false;
        for (uint32_t k = 1; k <= m->stacks; k++) {
            if (nodes[k].parent > m->stacks)
                nodes[k].parent = 0;
            if (nodes[k].module > m->module_count)
                nodes[k].module = 0;
            behind |= nodes[k].parent >= k;
        }
        /* Where callers come first, as they are written, there are none. */
        if (behind)
            status = cut_rings(nodes, m->stacks) ? store_no_memory(err) : 0;
    }
    free(count);
    return status;
}

/* The threads that the blocks of an image name: one past the highest. */
static uint32_t threads_of_blocks(struct opening *o, const struct store_image *d)
{
    struct bytes scratch = {0}, b = {0};
    uint32_t threads = 0;
    for (size_t k = 0; k < d->block_count; k++) {
        struct section_head h;
        struct error ignored;
        if (section_head_read(o->s->fd, d->blocks[k].offset, o->s->file_bytes, &h, &ignored) == 1 &&
            section_read(o->s->fd, &h, SEAL_COL_THREADS, SEAL_PART_BYTES, SEAL_STREAM_MAX, o->z,
                         &scratch, &b, &ignored) == 1) {
            struct span p = span_of(b.data, b.n);
            while (span_left(&p)) {
                uint64_t t = span_varint(&p);
                if (t < SEAL_THREADS_MAX && t >= threads)
                    threads = (uint32_t)t + 1;
            }
        }
    }
    bytes_free(&scratch);
    bytes_free(&b);
    return threads;
}

/* The list with one more text behind; NULL without memory. */
static const char *const *with_note(struct arena *a, const char *const *notes, const char *note)
{
    size_t n = 0;
    while (notes && notes[n])
        n++;
    const char **t = arena_alloc(a, (n + 2) * sizeof *t);
    if (!t)
        return NULL;
    if (n)
        memcpy(t, notes, n * sizeof *t);
    t[n] = note;
    return t;
}

/* An image whose facts are lost: rebuilt from the EARLY sections and its blocks. */
static int make_up(struct opening *o, size_t i, struct error *err)
{
    struct store *s = o->s;
    struct trace_image *m = &o->images[i];
    struct store_image *d = &o->details[i];
    static const char *const none[] = {NULL};
    struct early_facts e = {0};
    for (size_t k = 0; k < o->early_count; k++) {
        struct section_head h;
        struct error ignored;
        if (o->early[k].image == i &&
            section_head_read(s->fd, o->early[k].offset, s->file_bytes, &h, &ignored) == 1 &&
            facts_read_early(s->fd, &h, o->z, &s->arena, &e, &ignored))
            s->info.damaged_bytes += h.header.payload_bytes;
    }
    if (early_facts_finish(&e, &s->arena))
        return store_no_memory(err);
    bool described = e.f.image.command != NULL;
    if (!described) {
        e.f.image.exe = e.f.image.allocator = "";
        e.f.image.command = none;
        e.f.image.forked_from = UINT32_MAX;
    }
    *m = e.f.image;
    m->notes =
        with_note(&s->arena, m->notes,
                  described ? "the part of the recording that says how this process ended is lost"
                            : "the part of the recording that describes this process is lost");
    m->complete = false;
    m->end_how = MLW_END_UNKNOWN;
    m->end_status = 0;
    m->events = m->calls = 0;
    d->first_block = e.f.first_block;
    d->tick_ns = e.f.tick_ns ? e.f.tick_ns : s->tick_ns;
    for (size_t k = 0; k < d->block_count; k++) {
        m->events += d->blocks[k].events;
        m->calls += d->blocks[k].calls;
    }
    uint32_t threads = threads_of_blocks(o, d);
    threads = threads > m->thread_count ? threads : m->thread_count;
    struct trace_thread *t = arena_alloc(&s->arena, (threads + 1) * sizeof *t);
    if (!t || !m->notes)
        return store_no_memory(err);
    if (m->thread_count)
        memcpy(t, m->threads, m->thread_count * sizeof *t);
    for (uint32_t k = m->thread_count; k < threads; k++)
        t[k].name = "";
    m->threads = t;
    m->thread_count = threads;
    if (d->block_count) {
        if (!described)
            m->start_ns = (uint64_t)((unsigned __int128)d->blocks[0].first_tick * d->tick_ns >> 32);
        m->end_ns =
            (uint64_t)((unsigned __int128)d->blocks[d->block_count - 1].last_tick * d->tick_ns >>
                       32);
        if (m->end_ns < m->start_ns)
            m->end_ns = m->start_ns;
    }
    return 0;
}

/* Drops void and doubled blocks, counts the events missing between the others, and the slots. The
 * first events are the inherited ones: as many as there are. */
static void check_blocks(struct store *s, struct trace_image *m, struct store_image *d)
{
    if (d->block_count > 1)
        qsort(d->blocks, d->block_count, sizeof *d->blocks, compare_image_numbers);
    size_t n = 0;
    for (size_t i = 0; i < d->block_count; i++)
        if (d->blocks[i].number >= d->first_block &&
            (!n || d->blocks[n - 1].number != d->blocks[i].number))
            d->blocks[n++] = d->blocks[i];
    d->block_count = n;
    uint64_t events = 0, calls = 0, slots = 0, most = 0, tick = 0, inherited = 0;
    for (size_t i = 0; i < n; i++) {
        struct store_block *b = &d->blocks[i];
        if (b->first_event < m->inherited)
            inherited += m->inherited - b->first_event < b->events ? m->inherited - b->first_event
                                                                   : b->events;
        events += b->events;
        calls += b->calls;
        slots += b->events;
        /* Slots cannot outnumber the events, those in lost parts included. */
        /* Time goes on, and fits 64 bits in nanoseconds. */
        bool timely = b->first_tick >= tick && b->last_tick >> 62 == 0 &&
                      (unsigned __int128)b->last_tick * d->tick_ns >> 96 == 0;
        if (b->used_slots > slots + s->info.damaged_bytes * 64 || !timely) {
            b->damaged = true;
            s->info.damaged_runs++;
            continue;
        }
        tick = b->last_tick;
        if ((uint64_t)b->used_slots + b->new_slots > most)
            most = (uint64_t)b->used_slots + b->new_slots;
    }
    if (!d->has_facts) {
        m->calls = calls;
    } else if (calls < m->calls) {
        m->lost_calls += m->calls - calls;
        m->calls = calls;
    }
    if (events != m->events)
        m->complete = false;
    m->events = events;
    m->inherited = inherited;
    m->max_slots = (uint32_t)most;
}

struct place {
    uint64_t start;
    uint32_t index;
};

static int compare_opening_starts(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Images by start, and `forked_from` from numbers of the file to places among them. */
static int order_images(struct opening *o, struct error *err)
{
    struct store *s = o->s;
    size_t n = o->n;
    struct place *p = calloc(n + 1, sizeof *p);
    uint32_t *place_of = calloc(n + 1, sizeof *place_of);
    s->images = calloc(n + 1, sizeof *s->images);
    s->details = calloc(n + 1, sizeof *s->details);
    if (!p || !place_of || !s->images || !s->details) {
        free(p);
        free(place_of);
        return store_no_memory(err);
    }
    for (size_t i = 0; i < n; i++)
        p[i] = (struct place){o->images[i].start_ns, (uint32_t)i};
    if (n > 1)
        qsort(p, n, sizeof *p, compare_opening_starts);
    for (size_t i = 0; i < n; i++) {
        place_of[p[i].index] = (uint32_t)i;
        s->images[i] = o->images[p[i].index];
        s->images[i].routed = o->details[p[i].index].routed;
        s->details[i] = o->details[p[i].index];
        o->details[p[i].index].blocks = NULL;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t f = s->images[i].forked_from;
        uint32_t k = f == UINT32_MAX ? UINT32_MAX : pair_map_get(&o->by_number, f, 0);
        s->images[i].forked_from = k == UINT32_MAX || place_of[k] == i ? UINT32_MAX : place_of[k];
    }
    s->info.images = s->images;
    s->info.image_count = (uint32_t)n;
    free(p);
    free(place_of);
    return 0;
}

/* True if the bytes from `at` on, which are no sound section, can be one of the index whose writer
 * did not come to its end; or another reader is writing an index. */
static bool is_torn_index(const struct opening *o, uint64_t at, uint64_t end)
{
    const struct seal_header index = {.magic = SEAL_MAGIC, .type = SEAL_INDEX};
    uint8_t begin[offsetof(struct seal_header, streams)];
    const size_t n = end - at < sizeof begin ? (size_t)(end - at) : sizeof begin;
    struct stat now;
    if (trust_read(o->s->fd, begin, n, at) == n && !memcmp(begin, &index, n))
        return true;
    return !fstat(o->s->fd, &now) && (now.st_size != o->as_found.st_size ||
                                      now.st_mtim.tv_sec != o->as_found.st_mtim.tv_sec ||
                                      now.st_mtim.tv_nsec != o->as_found.st_mtim.tv_nsec);
}

/* A sound section of the index. False without memory. */
static bool take_kept(struct store *s, const struct section_head *h)
{
    struct store_kept *k = ARRAY_ADD(s->kept, s->kept_count, s->kept_cap);
    if (!k)
        return false;
    *k = (struct store_kept){.offset = h->offset,
                             .bytes = h->header.header_bytes + h->header.payload_bytes,
                             .image = h->header.image,
                             .kind = h->header.number,
                             .made_of = h->header.made_of,
                             .made_by = h->header.made_by,
                             .key = h->header.key};
    return true;
}

/* All sections, one behind the other. Behind END stands the index: it is no part of the recording,
 * so a part of it that is not whole is no damage. */
static int take_sections(struct opening *o, struct error *err)
{
    struct store *s = o->s;
    struct section_head h;
    bool ended = false; /* by END: there is nothing behind it but an index */
    for (uint64_t at = 0; at < s->file_bytes;) {
        int k = section_head_read(s->fd, at, s->file_bytes, &h, err);
        if (k < 0)
            return -1;
        if (!k) {
            uint64_t next = section_find(s->fd, at + 1, s->file_bytes, &h);
            const bool torn = ended && is_torn_index(o, at, next);
            s->kept_torn |= torn;
            s->info.damaged_bytes += torn ? 0 : next - at;
            ended = torn;
            at = next;
            if (at >= s->file_bytes)
                break;
        }
        const uint64_t end = at + h.header.header_bytes + h.header.payload_bytes;
        if (ended && h.header.type == SEAL_INDEX) {
            if (!take_kept(s, &h))
                return store_no_memory(err);
        } else {
            if (take_section(o, &h, err))
                return -1;
            s->made_of =
                mlw_checksum_part(s->made_of, &h.header.checksum, sizeof h.header.checksum);
            s->recorded_bytes = end;
            s->kept_count = 0;
            ended = h.header.type == SEAL_END;
        }
        at = end;
    }
    if (!ended)
        s->recorded_bytes = s->file_bytes;
    s->info.file_bytes = s->recorded_bytes;
    s->may_keep = ended;
    return 0;
}

int store_open(struct store *s, int fd, struct error *err)
{
    struct opening o = {.s = s};
    *s = (struct store){.fd = fd, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (fstat(fd, &o.as_found))
        return error_system(err, "cannot look at the recording");
    s->file_bytes = (uint64_t)o.as_found.st_size;
    s->info.file_bytes = s->file_bytes;
    s->info.sealed = true;
    s->info.host = s->info.tool = "";
    int status = -1;
    if (!(o.z = ZSTD_createDCtx())) {
        store_no_memory(err);
        goto out;
    }
    if (take_sections(&o, err))
        goto out;
    if (!o.n && !o.has_file) {
        error_set(err, ERROR_FORMAT, "not a mallow recording: no sound section in %llu bytes",
                  (unsigned long long)s->file_bytes);
        goto out;
    }
    s->info.torn = !s->has_end;
    for (size_t i = 0; i < o.n; i++) {
        if (!o.details[i].has_facts && make_up(&o, i, err))
            goto out;
        if (!o.details[i].tick_ns)
            o.details[i].tick_ns = s->tick_ns;
        if (!o.has_file)
            s->tick_ns = o.details[i].tick_ns;
        check_blocks(s, &o.images[i], &o.details[i]);
        if (!s->has_end || s->info.damaged_runs)
            o.images[i].complete = false;
    }
    if (read_nodes(&o, err) || order_images(&o, err))
        goto out;
    s->info.tick_ns_x1000 = (uint64_t)((unsigned __int128)s->tick_ns * 1000 >> 32);
    status = 0;
out:
    ZSTD_freeDCtx(o.z);
    for (size_t i = 0; o.details && i < o.n; i++)
        free(o.details[i].blocks);
    free(o.details);
    free(o.images);
    free(o.nodes);
    free(o.early);
    pair_map_free(&o.by_number);
    if (status)
        store_close(s);
    return status;
}

void store_close(struct store *s)
{
    for (uint32_t i = 0; s->details && i < s->info.image_count; i++)
        free(s->details[i].blocks);
    free(s->kept);
    free(s->details);
    free(s->images);
    arena_free(&s->arena);
    memset(s, 0, sizeof *s);
}
