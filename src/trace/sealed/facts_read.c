#include "facts.h"
#include "format/row.h"
#include "numbers.h"

static bool load(int fd, const struct section_head *h, unsigned id, ZSTD_DCtx *z,
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

static int damaged(struct error *err)
{
    return error_set(err, ERROR_FORMAT, "a section of facts is damaged");
}

int facts_read_file(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                    struct file_facts *f, struct error *err)
{
    struct bytes b = {0}, scratch = {0};
    struct span s;
    int status = -1;
    if (load(fd, h, SEAL_FACT_FILE, z, &scratch, &b, &s, err)) {
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
        status = s.bad ? damaged(err) : 0;
    }
    bytes_free(&b);
    bytes_free(&scratch);
    return status;
}

/* How many records a stream holds at most is bounded by its bytes; arrays are made for that. */
#define RECORDS(ptr, count, stream_id, least_bytes)                                                \
    if (!load(fd, h, stream_id, z, &scratch, &b, &s, err))                                         \
        goto out;                                                                                  \
    (ptr) = arena_alloc(a, (span_left(&s) / (least_bytes) + 1) * sizeof *(ptr));                   \
    if (!(ptr)) {                                                                                  \
        error_memory_for(err, "reading facts");                                                    \
        goto out;                                                                                  \
    }                                                                                              \
    for ((count) = 0; span_left(&s) >= (least_bytes) && !s.bad; (count)++)

/* What `record --with` added. */
static int read_kernel(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                       struct trace_image *m, struct error *err)
{
    struct bytes b = {0}, scratch = {0};
    struct span s;
    int status = -1;
    uint64_t time = 0, address = 0;
    struct trace_fault *faults;
    RECORDS(faults, m->fault_count, SEAL_FACT_FAULTS, 6)
    {
        struct trace_fault *k = &faults[m->fault_count];
        k->time_ns = time += span_varint(&s);
        k->tid = (uint32_t)span_varint(&s);
        k->address = address += mlw_unzigzag(span_varint(&s));
        k->stack = (uint32_t)span_varint(&s); /* store.c knows how many there are */
        k->what = (uint8_t)span_number(&s, 1);
        k->place = (uint8_t)span_number(&s, 1);
        if (k->place >= MLW_PLACES)
            k->place = MLW_PLACE_UNKNOWN;
    }
    m->faults = faults;
    if (s.bad)
        goto bad;
    time = 0;
    struct trace_level *levels;
    RECORDS(levels, m->level_count, SEAL_FACT_LEVELS, 5)
    {
        struct trace_level *k = &levels[m->level_count];
        k->time_ns = time += span_varint(&s);
        k->file = span_varint(&s);
        k->anonymous = span_varint(&s);
        k->swapped = span_varint(&s);
        k->shared = span_varint(&s);
    }
    m->levels = levels;
    if (s.bad)
        goto bad;
    time = 0;
    struct trace_moment *moments;
    RECORDS(moments, m->moment_count, SEAL_FACT_MOMENTS, 5)
    {
        struct trace_moment *k = &moments[m->moment_count];
        k->time_ns = time += span_varint(&s);
        k->tid = (uint32_t)span_varint(&s);
        k->kind = (uint8_t)span_number(&s, 1);
        k->what = (uint8_t)span_number(&s, 1);
        k->values = (uint8_t)span_number(&s, 1);
        s.bad |= k->values > MLW_KERNEL_VALUES;
        for (unsigned i = 0; i < k->values && !s.bad; i++)
            k->value[i] = (int64_t)mlw_unzigzag(span_varint(&s));
    }
    m->moments = moments;
    if (s.bad)
        goto bad;
    status = 0;
    goto out;
bad:
    damaged(err);
out:
    bytes_free(&b);
    bytes_free(&scratch);
    return status;
}

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
    bool has_environment = span_varint(s) == 1;
    const char *const *environment = texts(s, a);
    m->environment = has_environment ? environment : NULL;
    m->notes = texts(s, a);
    m->attached = s->p < s->end && !s->bad;
    if (m->attached) {
        m->before_blocks = span_varint(s) - 1;
        m->before_bytes = span_varint(s) - 1;
    }
}

static void take_module(struct span *s, struct arena *a, struct trace_module *k)
{
    k->start = span_varint(s);
    k->end = span_varint(s);
    k->bias = span_varint(s);
    k->loaded_ns = span_varint(s);
    k->gone_ns = span_varint(s) - 1; /* 0: UINT64_MAX */
    const uint8_t *id = span_text(s, &k->build_id_bytes);
    k->build_id = (const uint8_t *)arena_text(a, id, k->build_id_bytes);
    k->path = text(s, a);
    s->bad |= !k->build_id;
}

static void take_note(struct span *s, struct arena *a, struct trace_event_note *k)
{
    k->time_ns = span_varint(s);
    k->thread = (uint32_t)(span_varint(s) - 1); /* 0: UINT32_MAX */
    k->control = (uint8_t)span_varint(s);
    k->label = text(s, a);
}

static int read_names(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                      struct trace_image *m, struct error *err)
{
    struct bytes b = {0}, scratch = {0};
    struct span s;
    int status = -1;
    struct trace_name *names;
    RECORDS(names, m->name_count, SEAL_FACT_NAMES, 15)
    {
        struct trace_name *k = &names[m->name_count];
        k->pc = span_number(&s, 8);
        k->line = (uint32_t)span_number(&s, 4);
        k->inlined = span_number(&s, 1) == 1;
        k->function = ended_text(&s, a);
        k->file = ended_text(&s, a);
    }
    m->names = names;
    status = s.bad ? damaged(err) : 0;
out:
    bytes_free(&b);
    bytes_free(&scratch);
    return status;
}

int facts_read_image(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                     struct image_facts *f, struct error *err)
{
    struct bytes b = {0}, scratch = {0};
    struct span s;
    int status = -1;
    struct trace_image *m = &f->image;
    memset(f, 0, sizeof *f);
    if (!load(fd, h, SEAL_FACT_IMAGE, z, &scratch, &b, &s, err))
        goto out;
    take_description(&s, a, f);
    if (s.bad) {
        damaged(err);
        goto out;
    }
    struct trace_module *modules;
    RECORDS(modules, m->module_count, SEAL_FACT_MODULES, 7)
    {
        take_module(&s, a, &modules[m->module_count]);
    }
    m->modules = modules;
    if (s.bad)
        goto bad;
    struct trace_thread *threads;
    RECORDS(threads, m->thread_count, SEAL_FACT_THREADS, 7)
    {
        struct trace_thread *k = &threads[m->thread_count];
        k->tid = (uint32_t)span_varint(&s);
        k->start_ns = span_varint(&s);
        k->end_ns = span_varint(&s);
        k->ended = span_varint(&s) == 1;
        k->calls = span_varint(&s);
        k->lost_calls = span_varint(&s);
        k->name = text(&s, a);
    }
    m->threads = threads;
    if (s.bad)
        goto bad;
    struct trace_event_note *notes;
    RECORDS(notes, m->note_count, SEAL_FACT_NOTES, 4)
    {
        struct trace_event_note *k = &notes[m->note_count];
        take_note(&s, a, k);
        if (k->thread >= m->thread_count)
            k->thread = UINT32_MAX;
    }
    m->event_notes = notes;
    if (s.bad)
        goto bad;
    struct mlw_resident *resident;
    RECORDS(resident, m->resident_count, SEAL_FACT_RESIDENT, 4)
    {
        struct mlw_resident *k = &resident[m->resident_count];
        k->clock = span_varint(&s);
        k->vmsize = span_varint(&s);
        k->rss = span_varint(&s);
        k->rss_shared = span_varint(&s);
    }
    m->resident = resident;
    if (s.bad)
        goto bad;
    struct mlw_split *splits;
    RECORDS(splits, m->split_count, SEAL_FACT_SPLITS, 10)
    {
        struct mlw_split *k = &splits[m->split_count];
        k->clock = span_varint(&s);
        k->heap = span_varint(&s);
        k->arenas = span_varint(&s);
        k->anonymous = span_varint(&s);
        k->stacks = span_varint(&s);
        k->files = span_varint(&s);
        k->shared = span_varint(&s);
        k->recorder = span_varint(&s);
        k->other = span_varint(&s);
        k->swapped = span_varint(&s);
        k->mapped = k->huge = 0;
    }
    m->splits = splits;
    if (s.bad)
        goto bad;
    if (load(fd, h, SEAL_FACT_SPLITS_MORE, z, &scratch, &b, &s, err)) /* not of earlier writers */
        for (uint32_t i = 0; i < m->split_count && span_left(&s) >= 2 && !s.bad; i++) {
            splits[i].mapped = span_varint(&s);
            splits[i].huge = span_varint(&s);
        }
    else
        goto out;
    if (s.bad)
        goto bad;
    status = read_names(fd, h, z, a, m, err) || read_kernel(fd, h, z, a, m, err) ? -1 : 0;
    goto out;
bad:
    damaged(err);
out:
    bytes_free(&b);
    bytes_free(&scratch);
    return status;
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

int facts_read_early(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                     struct early_facts *e, struct error *err)
{
    struct bytes b = {0}, scratch = {0};
    struct span s;
    int status = -1;
    struct trace_image *m = &e->f.image;
    if (h->header.number != e->sections) {
        damaged(err);
        goto out;
    }
    if (!load(fd, h, SEAL_FACT_IMAGE, z, &scratch, &b, &s, err))
        goto out;
    if (span_left(&s)) {
        struct image_facts f = {0};
        take_description(&s, a, &f);
        if (s.bad || read_names(fd, h, z, a, &f.image, err))
            goto bad;
        f.image.module_count = m->module_count;
        f.image.thread_count = m->thread_count;
        e->f = f; /* and without the notes so far: they were forgotten, or there are none */
    } else if (!e->sections) {
        goto bad;
    }
    e->sections++;
    if (!load(fd, h, SEAL_FACT_MODULES, z, &scratch, &b, &s, err))
        goto out;
    while (span_left(&s)) {
        struct trace_module k;
        take_module(&s, a, &k);
        if (s.bad || !ARRAY_ROOM(e->modules, (size_t)m->module_count + 1, e->modules_cap))
            goto bad;
        e->modules[m->module_count++] = k;
    }
    if (!load(fd, h, SEAL_FACT_EARLY_THREADS, z, &scratch, &b, &s, err))
        goto out;
    if (read_early_threads(&s, a, e))
        goto bad;
    if (!load(fd, h, SEAL_FACT_NOTES, z, &scratch, &b, &s, err))
        goto out;
    while (span_left(&s)) {
        struct trace_event_note k;
        take_note(&s, a, &k);
        if (s.bad || !ARRAY_ROOM(e->notes, (size_t)m->note_count + 1, e->notes_cap))
            goto bad;
        e->notes[m->note_count++] = k;
    }
    status = 0;
    goto out;
bad:
    damaged(err);
out:
    if (status) /* those behind it would number modules wrongly */
        e->sections = UINT64_MAX;
    bytes_free(&b);
    bytes_free(&scratch);
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
        damaged(err);
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
        to[i].module = (uint32_t)v[i];
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
