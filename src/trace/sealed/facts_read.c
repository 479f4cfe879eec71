/* facts_read.c - Reads the sections of facts and nodes that facts_write.c writes, and those of
 * earlier versions. Counts are bounded by the bytes of their stream before anything is
 * allocated, because the file may be damaged. */
#include "facts.h"
#include "format/file_id.h"
#include "format/row.h"
#include "numbers.h"

static bool load_section(int fd, const struct section_head *h, unsigned id, ZSTD_DCtx *z,
                         struct bytes *scratch, struct bytes *b, struct span *s, struct error *err)
{
    int k = section_read(fd, h, id, SEAL_PART_BYTES, SEAL_STREAM_MAX, z, scratch, b, err);
    if (k < 0)
        return false;
    *s = span_of(b->data, b->n);
    return true;
}

static const char *text(struct span *s, struct arena *a)
{
    size_t n;
    const uint8_t *p = span_text(s, &n);
    const char *t = arena_text(a, p, p ? strnlen((const char *)p, n) : 0);
    if (!t)
        s->bad = true;
    return t ? t : "";
}

static const char *const *texts(struct span *s, struct arena *a)
{
    uint64_t n = span_varint(s);
    if (n > span_left(s)) { /* each takes a byte at least */
        s->bad = true;
        n = 0;
    }
    const char **t = arena_alloc(a, ((size_t)n + 1) * sizeof *t);
    if (!t) {
        s->bad = true;
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        t[i] = text(s, a);
    return t;
}

/* A text up to the NUL that ends it. */
static const char *ended_text(struct span *s, struct arena *a)
{
    size_t left = (size_t)span_left(s), n = 0;
    const uint8_t *p = span_take(s, left);
    while (p && n < left && p[n])
        n++;
    const char *t = p && n < left ? arena_text(a, p, n) : NULL;
    if (!t) {
        s->bad = true;
        return "";
    }
    *s = span_of(p + n + 1, left - n - 1);
    return t;
}

static int facts_damaged(struct error *err)
{
    return error_set(err, ERROR_FORMAT, "a section of facts is damaged");
}

int facts_read_file(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                    struct file_facts *f, struct error *err)
{
    struct bytes b = {0}, scratch = {0};
    struct span s;
    int status = -1;
    if (load_section(fd, h, SEAL_FACT_FILE, z, &scratch, &b, &s, err)) {
        f->version = span_varint(&s);
        f->tick_ns = span_varint(&s);
        f->start_realtime_ns = span_varint(&s);
        f->damaged_bytes = span_varint(&s);
        f->host = text(&s, a);
        f->tool = text(&s, a);
        f->kernel_kinds = f->lost_kernel_events = f->minor = 0;
        if (span_left(&s)) { /* earlier writers end here */
            f->kernel_kinds = span_varint(&s);
            f->lost_kernel_events = span_varint(&s);
        }
        if (span_left(&s))
            f->minor = span_varint(&s);
        f->limits = (struct mlw_limits){0};
        if (span_left(&s)) {
            f->limits.memory = span_varint(&s);
            f->limits.address = span_varint(&s);
            f->limits.data = span_varint(&s);
        }
        status = s.bad ? facts_damaged(err) : 0;
    }
    bytes_free(&b);
    bytes_free(&scratch);
    return status;
}

/* The streams of an image are read one after the other. */
struct facts {
    int fd;
    const struct section_head *head;
    ZSTD_DCtx *z;
    struct bytes bytes, scratch;
    struct span s; /* the rest of the stream that is read */
    struct arena *arena;
    const struct trace_image *image;
    uint64_t time, address; /* the record before, where differences are kept */
    struct error *err;
};

/* Fills a record of a stream, which was all zero. Marks r->s as bad at its end. */
typedef void take_record(struct facts *r, void *record);

static bool load_stream(struct facts *r, unsigned id)
{
    r->time = r->address = 0;
    return load_section(r->fd, r->head, id, r->z, &r->scratch, &r->bytes, &r->s, r->err);
}

/* All records of a stream, each of at least `least_bytes` there: how many there can be is bounded
 * by its bytes, and the array is made for that. NULL when it fails. */
static void *records(struct facts *r, unsigned id, size_t least_bytes, size_t record_bytes,
                     take_record *take, uint32_t *count)
{
    if (!load_stream(r, id))
        return NULL;
    const size_t room = (span_left(&r->s) / least_bytes + 1) * record_bytes;
    char *all = arena_alloc(r->arena, room);
    if (!all) {
        error_memory_for(r->err, "reading facts");
        return NULL;
    }
    memset(all, 0, room);
    for (*count = 0; span_left(&r->s) >= least_bytes && !r->s.bad; (*count)++)
        take(r, all + *count * record_bytes);
    if (!r->s.bad)
        return all;
    *count = 0;
    facts_damaged(r->err);
    return NULL;
}

#define RECORDS(r, id, least_bytes, take, of, count)                                               \
    records(r, SEAL_FACT_##id, least_bytes, sizeof *(of), take, count)

static void take_description(struct span *s, struct arena *a, struct image_facts *f)
{
    struct trace_image *m = &f->image;
    m->id = span_varint(s);
    m->pid = (uint32_t)span_varint(s);
    m->ppid = (uint32_t)span_varint(s);
    m->forked_from = (uint32_t)(span_varint(s) - 1);
    m->inherited = span_varint(s);
    m->stack_mode = (uint32_t)span_varint(s);
    m->start_ns = span_varint(s);
    m->end_ns = span_varint(s);
    m->end_how = (uint32_t)span_varint(s);
    m->end_status = (uint32_t)span_varint(s);
    m->complete = span_varint(s) == 1;
    m->events = span_varint(s);
    m->calls = span_varint(s);
    m->lost_calls = span_varint(s);
    m->max_slots = (uint32_t)span_varint(s);
    m->stacks = (uint32_t)span_varint(s);
    m->own_bytes = span_varint(s);
    f->first_block = span_varint(s);
    f->tick_ns = span_varint(s);
    m->exe = text(s, a);
    m->allocator = text(s, a);
    m->command = texts(s, a);
    const uint64_t stored = span_varint(s);
    const char *const *settings = texts(s, a);
    m->environment = stored == FACTS_ENVIRONMENT ? settings : NULL;
    m->settings = stored == FACTS_ENVIRONMENT || stored == FACTS_SETTINGS ? settings : NULL;
    m->notes = texts(s, a);
    m->attached = s->p < s->end && !s->bad;
    if (m->attached) {
        m->before_blocks = span_varint(s) - 1;
        m->before_bytes = span_varint(s) - 1;
    }
}

static void take_fact_module(struct facts *r, void *record)
{
    struct trace_module *k = record;
    struct span *s = &r->s;
    k->start = span_varint(s);
    k->end = span_varint(s);
    k->bias = span_varint(s);
    k->loaded_ns = span_varint(s);
    k->gone_ns = span_varint(s) - 1; /* 0: UINT64_MAX */
    const uint8_t *id = span_text(s, &k->build_id_bytes);
    k->build_id = (const uint8_t *)arena_text(r->arena, id, k->build_id_bytes);
    k->path = text(s, r->arena);
    s->bad |= !k->build_id;
    struct mlw_file_id_summed file;
    k->file_bytes = k->file_mtime_ns = k->file_sum = 0;
    if (!s->bad && mlw_file_id_read(k->build_id, k->build_id_bytes, &file)) {
        k->file_bytes = file.id.size_bytes;
        k->file_mtime_ns = file.id.mtime_ns;
        k->file_sum = file.sum;
        k->build_id_bytes = 0;
    }
}

static void take_thread(struct facts *r, void *record)
{
    struct trace_thread *k = record;
    k->tid = (uint32_t)span_varint(&r->s);
    k->start_ns = span_varint(&r->s);
    k->end_ns = span_varint(&r->s);
    k->ended = span_varint(&r->s) == 1;
    k->calls = span_varint(&r->s);
    k->lost_calls = span_varint(&r->s);
    k->name = text(&r->s, r->arena);
}

/* Its thread may not be known yet. */
static void take_any_note(struct facts *r, struct trace_event_note *k)
{
    k->time_ns = span_varint(&r->s);
    k->thread = (uint32_t)(span_varint(&r->s) - 1); /* 0: UINT32_MAX */
    k->control = (uint8_t)span_varint(&r->s);
    k->label = text(&r->s, r->arena);
}

static void take_fact_note(struct facts *r, void *record)
{
    struct trace_event_note *k = record;
    take_any_note(r, k);
    if (k->thread >= r->image->thread_count)
        k->thread = UINT32_MAX;
}

static void take_resident(struct facts *r, void *record)
{
    struct mlw_resident *k = record;
    k->clock = span_varint(&r->s);
    k->vmsize = span_varint(&r->s);
    k->rss = span_varint(&r->s);
    k->rss_shared = span_varint(&r->s);
}

static void take_split(struct facts *r, void *record)
{
    struct mlw_split *k = record;
    struct span *s = &r->s;
    k->clock = span_varint(s);
    k->heap = span_varint(s);
    k->arenas = span_varint(s);
    k->anonymous = span_varint(s);
    k->stacks = span_varint(s);
    k->files = span_varint(s);
    k->shared = span_varint(s);
    k->recorder = span_varint(s);
    k->other = span_varint(s);
    k->swapped = span_varint(s);
}

static void take_name(struct facts *r, void *record)
{
    struct trace_name *k = record;
    k->pc = span_number(&r->s, 8);
    k->line = (uint32_t)span_number(&r->s, 4);
    k->inlined = span_number(&r->s, 1) == 1;
    k->function = ended_text(&r->s, r->arena);
    k->file = ended_text(&r->s, r->arena);
}

static void take_fault(struct facts *r, void *record)
{
    struct trace_fault *k = record;
    struct span *s = &r->s;
    k->time_ns = r->time += span_varint(s);
    k->tid = (uint32_t)span_varint(s);
    k->address = r->address += mlw_unzigzag(span_varint(s));
    k->stack = (uint32_t)span_varint(s); /* store.c knows how many there are */
    k->what = (uint8_t)span_number(s, 1);
    k->place = (uint8_t)span_number(s, 1);
    if (k->place >= MLW_PLACES)
        k->place = MLW_PLACE_UNKNOWN;
}

static void take_level(struct facts *r, void *record)
{
    struct trace_level *k = record;
    k->time_ns = r->time += span_varint(&r->s);
    k->file = span_varint(&r->s);
    k->anonymous = span_varint(&r->s);
    k->swapped = span_varint(&r->s);
    k->shared = span_varint(&r->s);
}

static void take_moment(struct facts *r, void *record)
{
    struct trace_moment *k = record;
    struct span *s = &r->s;
    k->time_ns = r->time += span_varint(s);
    k->tid = (uint32_t)span_varint(s);
    k->kind = (uint8_t)span_number(s, 1);
    k->what = (uint8_t)span_number(s, 1);
    k->values = (uint8_t)span_number(s, 1);
    s->bad |= k->values > MLW_KERNEL_VALUES;
    for (unsigned i = 0; i < k->values && !s->bad; i++)
        k->value[i] = (int64_t)mlw_unzigzag(span_varint(s));
}

static bool read_names(struct facts *r, struct trace_image *m)
{
    m->names = RECORDS(r, NAMES, 15, take_name, m->names, &m->name_count);
    return m->names != NULL;
}

/* Reads the fields of splits that earlier writers did not write. */
static bool more_of_splits(struct facts *r, struct mlw_split *splits, uint32_t count)
{
    if (!load_stream(r, SEAL_FACT_SPLITS_MORE))
        return false;
    for (uint32_t i = 0; i < count && span_left(&r->s) >= 2 && !r->s.bad; i++) {
        splits[i].mapped = span_varint(&r->s);
        splits[i].huge = span_varint(&r->s);
    }
    for (uint32_t i = 0; i < count && span_left(&r->s) && !r->s.bad; i++)
        splits[i].lazy = span_varint(&r->s);
    for (uint32_t i = 0; i < count && span_left(&r->s) && !r->s.bad; i++)
        splits[i].hugetlb = span_varint(&r->s);
    for (uint32_t i = 0; i < count && span_left(&r->s) >= 2 && !r->s.bad; i++) {
        splits[i].forked = span_varint(&r->s);
        splits[i].proportional = span_varint(&r->s);
    }
    return !r->s.bad || (facts_damaged(r->err), false);
}

/* Earlier writers wrote none of it. */
static bool read_called(struct facts *r, struct trace_image *m)
{
    if (!load_stream(r, SEAL_FACT_CALLED))
        return false;
    if (!span_left(&r->s))
        return true;
    m->title = texts(&r->s, r->arena);
    m->comm = text(&r->s, r->arena);
    if (r->s.bad)
        return facts_damaged(r->err), false;
    if (!m->title[0])
        m->title = NULL;
    if (!*m->comm)
        m->comm = NULL;
    return true;
}

static bool read_fact_image(struct facts *r, struct image_facts *f)
{
    struct trace_image *m = &f->image;
    if (!load_stream(r, SEAL_FACT_IMAGE))
        return false;
    take_description(&r->s, r->arena, f);
    if (r->s.bad)
        return facts_damaged(r->err), false;
    struct mlw_split *splits = NULL;
    return (m->modules = RECORDS(r, MODULES, 7, take_fact_module, m->modules, &m->module_count)) &&
           (m->threads = RECORDS(r, THREADS, 7, take_thread, m->threads, &m->thread_count)) &&
           (m->event_notes =
                RECORDS(r, NOTES, 4, take_fact_note, m->event_notes, &m->note_count)) &&
           (m->resident =
                RECORDS(r, RESIDENT, 4, take_resident, m->resident, &m->resident_count)) &&
           (m->splits = splits = RECORDS(r, SPLITS, 10, take_split, splits, &m->split_count)) &&
           more_of_splits(r, splits, m->split_count) && read_names(r, m) && read_called(r, m) &&
           (m->faults = RECORDS(r, FAULTS, 6, take_fault, m->faults, &m->fault_count)) &&
           (m->levels = RECORDS(r, LEVELS, 5, take_level, m->levels, &m->level_count)) &&
           (m->moments = RECORDS(r, MOMENTS, 5, take_moment, m->moments, &m->moment_count));
}

int facts_read_image(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                     struct image_facts *f, struct error *err)
{
    memset(f, 0, sizeof *f);
    struct facts r = {.fd = fd, .head = h, .z = z, .arena = a, .image = &f->image, .err = err};
    const bool done = read_fact_image(&r, f);
    bytes_free(&r.bytes);
    bytes_free(&r.scratch);
    return done ? 0 : -1;
}

/* --- of EARLY sections --- */

static int read_early_threads(struct span *s, struct arena *a, struct early_facts *e)
{
    struct trace_image *m = &e->f.image;
    while (span_left(s) && !s->bad) {
        uint64_t index = span_varint(s);
        struct trace_thread t = {.tid = (uint32_t)span_varint(s)};
        t.start_ns = t.end_ns = span_varint(s);
        t.name = text(s, a);
        if (s->bad || index >= SEAL_THREADS_MAX)
            return -1;
        while (m->thread_count <= index) {
            if (!ARRAY_ROOM(e->threads, (size_t)m->thread_count + 1, e->threads_cap))
                return -1;
            e->threads[m->thread_count++] = (struct trace_thread){.name = ""};
        }
        e->threads[index] = t;
    }
    return s->bad ? -1 : 0;
}

static int read_early(struct facts *r, struct early_facts *e)
{
    struct trace_image *m = &e->f.image;
    if (r->head->header.number != e->sections)
        return facts_damaged(r->err);
    if (!load_stream(r, SEAL_FACT_IMAGE))
        return -1;
    if (span_left(&r->s)) {
        struct image_facts f = {0};
        take_description(&r->s, r->arena, &f);
        if (r->s.bad || !read_names(r, &f.image))
            return facts_damaged(r->err);
        f.image.module_count = m->module_count;
        f.image.thread_count = m->thread_count;
        e->f = f; /* and without the notes so far: they were forgotten, or there are none */
    } else if (!e->sections) {
        return facts_damaged(r->err);
    }
    e->sections++;
    if (!load_stream(r, SEAL_FACT_MODULES))
        return -1;
    while (span_left(&r->s)) {
        struct trace_module k = {0};
        take_fact_module(r, &k);
        if (r->s.bad || !ARRAY_ROOM(e->modules, (size_t)m->module_count + 1, e->modules_cap))
            return facts_damaged(r->err);
        e->modules[m->module_count++] = k;
    }
    if (!load_stream(r, SEAL_FACT_EARLY_THREADS))
        return -1;
    if (read_early_threads(&r->s, r->arena, e))
        return facts_damaged(r->err);
    if (!load_stream(r, SEAL_FACT_NOTES))
        return -1;
    while (span_left(&r->s)) {
        struct trace_event_note k = {0};
        take_any_note(r, &k);
        if (r->s.bad || !ARRAY_ROOM(e->notes, (size_t)m->note_count + 1, e->notes_cap))
            return facts_damaged(r->err);
        e->notes[m->note_count++] = k;
    }
    return 0;
}

int facts_read_early(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                     struct early_facts *e, struct error *err)
{
    struct facts r = {.fd = fd, .head = h, .z = z, .arena = a, .image = &e->f.image, .err = err};
    const int status = read_early(&r, e);
    if (status) /* those behind it would number modules wrongly */
        e->sections = UINT64_MAX;
    bytes_free(&r.bytes);
    bytes_free(&r.scratch);
    return status;
}

static int to_arena(struct arena *a, void *from, size_t bytes, const void **to)
{
    void *p = arena_alloc(a, bytes + 1);
    if (p && bytes)
        memcpy(p, from, bytes);
    free(from);
    *to = p;
    return p ? 0 : -1;
}

int early_facts_finish(struct early_facts *e, struct arena *a)
{
    struct trace_image *m = &e->f.image;
    for (uint32_t i = 0; i < m->note_count; i++)
        if (e->notes[i].thread >= m->thread_count)
            e->notes[i].thread = UINT32_MAX;
    const void *modules, *threads, *notes;
    int status = to_arena(a, e->modules, m->module_count * sizeof *e->modules, &modules);
    status |= to_arena(a, e->threads, m->thread_count * sizeof *e->threads, &threads);
    status |= to_arena(a, e->notes, m->note_count * sizeof *e->notes, &notes);
    m->modules = modules;
    m->threads = threads;
    m->event_notes = notes;
    e->modules = NULL;
    e->threads = NULL;
    e->notes = NULL;
    return status;
}

/* --- of NODES sections --- */

int facts_read_nodes(int fd, const struct section_head *h, ZSTD_DCtx *z,
                     struct trace_frame_node *nodes, uint32_t count, struct error *err)
{
    struct bytes scratch = {0}, flags = {0};
    struct numbers c = {0};
    int status = -1;
    uint64_t first = h->header.number;
    uint64_t *v = NULL;
    if (section_read(fd, h, SEAL_FACT_FLAGS, SEAL_PART_BYTES, SEAL_NODES_MAX, z, &scratch, &flags,
                     err) < 0)
        goto out;
    size_t n = flags.n;
    if (!first || first > count || n > count - first + 1) {
        facts_damaged(err);
        goto out;
    }
    if (!(v = malloc((n + 1) * sizeof *v))) {
        error_memory_for(err, "reading facts");
        goto out;
    }
    struct trace_frame_node *to = nodes + first;
    if (numbers_load(&c, fd, h, SEAL_FACT_PARENT, n, z, &scratch, err) ||
        numbers_take_u64(&c, v, n))
        goto out;
    for (size_t i = 0; i < n; i++) {
        uint64_t p = v[i] ? first + i - mlw_unzigzag(v[i] - 1) : 0;
        to[i].parent = p <= count ? (uint32_t)p : 0;
        to[i].flags = flags.data[i];
    }
    if (numbers_load(&c, fd, h, SEAL_FACT_MODULE, n, z, &scratch, err) ||
        numbers_take_u64(&c, v, n))
        goto out;
    for (size_t i = 0; i < n; i++)
        to[i].module = v[i] <= TRACE_MODULES_MOST ? v[i] & TRACE_MODULES_MOST : 0;
    if (numbers_load(&c, fd, h, SEAL_FACT_PC, n, z, &scratch, err) || numbers_take_u64(&c, v, n))
        goto out;
    uint64_t pcs[256] = {0};
    for (size_t i = 0; i < n; i++) {
        uint64_t *pc = &pcs[to[i].module & 255];
        to[i].pc = *pc += mlw_unzigzag(v[i]);
    }
    status = 0;
out:
    free(v);
    numbers_free(&c);
    bytes_free(&scratch);
    bytes_free(&flags);
    return status;
}
