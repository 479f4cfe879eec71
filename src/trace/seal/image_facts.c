/* image_facts.c - Collects the facts of an image: stack nodes with their callers, threads,
 * notes, samples and the end. Facts that name events are written before those events, so that a
 * torn file can still be read. */
#include "format/file_id.h"
#include "image_impl.h"

static int facts_no_memory(struct error *err) { return error_memory_for(err, "sealing"); }

/* --- what names the events, written before them --- */

int image_thread_due(struct image_work *g, uint32_t thread)
{
    if (g->threads[thread].due)
        return 0;
    uint32_t *t = ARRAY_ADD(g->early.threads, g->early.thread_count, g->early.thread_cap);
    if (!t)
        return -1;
    *t = thread;
    g->threads[thread].due = true;
    return 0;
}

static int write_again(struct image_work *g, uint32_t dense)
{
    uint32_t *u = ARRAY_ADD(g->early.unknown, g->early.unknown_count, g->early.unknown_cap);
    if (u)
        *u = dense;
    return u ? 0 : -1;
}

int image_node_changed(struct image_work *g, uint32_t id)
{
    const struct node *n = nodes_find(&g->nodes, id);
    const uint32_t dense = n ? n->dense : 0;
    return dense && dense <= g->early.nodes ? write_again(g, dense) : 0;
}

/* A node by the recorder's id: the image's own, else that of an ancestor. */
static const struct node *find_node(const struct image_work *g, uint32_t id)
{
    for (; g; g = g->parent) {
        const struct node *n = nodes_find(&g->nodes, id);
        if (n && n->known)
            return n;
    }
    return NULL;
}

/* The node of a dense id; its caller gets an id as well. 1, 0 when its row was not seen (yet), or
 * that of its module, -1 without memory. */
static int describe_node(struct image_work *g, uint32_t dense, struct trace_frame_node *t)
{
    const struct node *found = find_node(g, g->used[dense]);
    *t = (struct trace_frame_node){.flags = MLW_NODE_TRUNCATED};
    if (!found)
        return 0;
    const struct node n = *found; /* the caller's id may move all nodes */
    t->parent = image_dense_id(g, n.parent);
    if (t->parent == UINT32_MAX)
        return -1;
    t->pc = n.pc;
    t->flags = n.flags;
    uint32_t m = n.module ? pair_map_get(&g->module_map, n.module, 0) : UINT32_MAX;
    t->module = m < TRACE_MODULES_MOST ? (m + 1) & TRACE_MODULES_MOST : 0;
    return !n.module || t->module;
}

const struct node *image_node_of(const struct image_work *g, uint32_t dense, uint32_t *module)
{
    const struct node *n = find_node(g, g->used[dense]);
    const uint32_t m = n && n->module ? pair_map_get(&g->module_map, n->module, 0) : UINT32_MAX;
    *module = m < g->module_count ? m + 1 : 0;
    return n;
}

static int put_fact_nodes(struct image_work *g, const struct trace_frame_node *nodes,
                          uint32_t first, uint32_t n, struct error *err)
{
    struct seal_writer *w = block_writer_lend(g->blocks, err);
    return w ? facts_write_nodes(w, g->number, nodes, first, n, err) : -1;
}

/* Nodes that were written before their content was known: of two with one id, the later counts. */
static int rewrite_nodes(struct image_work *g, struct error *err)
{
    struct image_early *e = &g->early;
    size_t kept = 0;
    for (size_t i = 0; i < e->unknown_count; i++) {
        struct trace_frame_node node;
        int known = describe_node(g, e->unknown[i], &node);
        if (known < 0)
            return facts_no_memory(err);
        if (!known)
            e->unknown[kept++] = e->unknown[i];
        else if (put_fact_nodes(g, &node, e->unknown[i], 1, err))
            return -1;
    }
    e->unknown_count = kept;
    return 0;
}

/* Writes the nodes of all stacks that are used and not in the file, with their callers. */
static int write_nodes(struct image_work *g, struct error *err)
{
    struct image_early *e = &g->early;
    if (rewrite_nodes(g, err))
        return -1;
    struct trace_frame_node *t = NULL;
    int status = 0;
    while (!status && e->nodes + 1 < g->used_count) {
        uint32_t first = e->nodes + 1, n = 0;
        if (!t && !(t = malloc(SEAL_NODES_MAX * sizeof *t)))
            return facts_no_memory(err);
        /* callers get ids behind the last: there may be more now */
        while (!status && n < SEAL_NODES_MAX && first + n < g->used_count) {
            int known = describe_node(g, first + n, &t[n]);
            if (known < 0 || (!known && write_again(g, first + n)))
                status = facts_no_memory(err);
            n++;
        }
        status = status ? status : put_fact_nodes(g, t, first, n, err);
        e->nodes += n;
    }
    free(t);
    return status;
}

static int compare_fact_times(const void *a, const void *b)
{
    const struct trace_event_note *x = a, *y = b;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* Event notes of the image: its own rows from number `first` on, marks set from outside, marks of
 * the whole recording. The marks are those of clocks from `from` to `until`, or of the whole
 * recording, to the image's last. */
static struct trace_event_note *gather_notes(struct image_work *g, size_t first, uint64_t from,
                                             uint64_t until, uint32_t *n)
{
    const struct raw *r = g->recording;
    size_t most = g->note_count + g->raw->mark_count + r->mark_count;
    struct trace_event_note *t = calloc(most + 1, sizeof *t);
    size_t k = 0;
    for (size_t i = first; t && i < g->note_count; i++)
        t[k++] = (struct trace_event_note){.time_ns = timebase_ns(g->time, g->notes[i].clock),
                                           .thread = g->notes[i].thread,
                                           .control = g->notes[i].control,
                                           .label = g->notes[i].label};
    for (int outside = 0; t && outside < 2; outside++) {
        const struct raw_mark *m = outside ? r->marks : g->raw->marks;
        size_t count = outside ? r->mark_count : g->raw->mark_count;
        for (size_t i = 0; i < count; i++)
            if (m[i].clock >= from && m[i].clock >= g->marks_from &&
                m[i].clock <= (outside ? g->last_clock : until))
                t[k++] = (struct trace_event_note){.time_ns = timebase_ns(g->time, m[i].clock),
                                                   .thread = UINT32_MAX,
                                                   .label = m[i].label};
    }
    *n = (uint32_t)k;
    if (t && k > 1)
        qsort(t, k, sizeof *t, compare_fact_times);
    return t;
}

size_t image_outside_marks(const struct image_work *g, uint64_t until)
{
    const struct raw *r = g->recording;
    size_t n = 0;
    for (int outside = 0; outside < 2; outside++) {
        const struct raw_mark *m = outside ? r->marks : g->raw->marks;
        const size_t count = outside ? r->mark_count : g->raw->mark_count;
        for (size_t i = 0; i < count; i++)
            n += m[i].clock <= until;
    }
    return n;
}

bool image_marks_hold(const struct image_work *g)
{
    return !g->early.marks_until ||
           g->early.outside == image_outside_marks(g, g->early.marks_until);
}

static struct trace_thread *gather_threads(struct image_work *g, uint64_t *lost)
{
    uint32_t n = g->raw->threads;
    struct trace_thread *t = calloc((size_t)n + 1, sizeof *t);
    for (uint32_t i = 0; t && i < n; i++) {
        const struct image_thread *k = &g->threads[i];
        t[i].name = k->name;
        t[i].start_ns = timebase_ns(g->time, k->start);
        t[i].end_ns = timebase_ns(g->time, k->end > k->start ? k->end : k->start);
        t[i].ended = k->ended;
        t[i].calls = k->calls;
    }
    for (uint32_t i = 0; t && i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        t[s->thread_index].tid = s->tid;
        t[s->thread_index].lost_calls += s->lost_calls;
        *lost += s->gap_calls; /* missing chunks, whatever the recorder said */
    }
    for (uint32_t i = 0; t && i < n; i++) {
        /* The head of a chunk and LOST rows say the same; either may be missing. */
        if (g->threads[i].lost_said > t[i].lost_calls)
            t[i].lost_calls = g->threads[i].lost_said;
        *lost += t[i].lost_calls;
    }
    for (uint32_t i = 0; t && i < g->raw->streams; i++) {
        const struct raw_stream *s = g->streams[g->raw->first_stream + i];
        t[s->thread_index].lost_calls += s->gap_calls;
    }
    return t;
}

/* Either may have been cut. */
static bool is_other_title(const struct raw_image *raw)
{
    const size_t n = raw->title_bytes < raw->command_bytes ? raw->title_bytes : raw->command_bytes;
    return n && memcmp(raw->title, raw->command, n) != 0;
}

/* Describes the image's process; `lost` calls. early: only facts of its beginning, so that it
 * does not matter when the recording is sealed. */
static int describe_image_facts(struct image_work *g, struct image_facts *f, bool early,
                                uint64_t lost, struct error *err)
{
    const struct raw_image *raw = g->raw;
    const struct raw *r = g->recording;
    const size_t notes = early ? raw->early_notes : raw->note_count;
    struct trace_image *m = &f->image;
    *f = (struct image_facts){.first_block = g->first_block, .tick_ns = g->time->tick_ns};
    m->id = raw->id;
    m->pid = raw->pid;
    m->ppid = raw->ppid;
    m->forked_from = g->parent_number;
    m->inherited = g->inherited;
    m->exe = raw->exe;
    if (!early && raw->title && is_other_title(raw))
        m->title = arena_pieces(&g->arena, raw->title, raw->title_bytes);
    m->comm = early ? NULL : raw->comm;
    m->allocator = raw->allocator;
    m->command = arena_pieces(&g->arena, raw->command, raw->command_bytes);
    m->settings = raw->has_settings
                      ? arena_pieces(&g->arena, raw->environment, raw->environment_bytes)
                      : NULL;
    m->environment = raw->has_environment ? m->settings : NULL;
    const char **texts = arena_alloc(&g->arena, (notes + r->note_count + 2) * sizeof *texts);
    if (!m->command || !texts || (raw->has_settings && !m->settings))
        return facts_no_memory(err);
    if (r->note_count)
        memcpy(texts, r->notes, r->note_count * sizeof *texts);
    if (notes)
        memcpy(texts + r->note_count, raw->notes, notes * sizeof *texts);
    texts[r->note_count + notes] = g->carry_note;
    m->notes = texts;
    m->stack_mode = raw->stack_mode;
    m->start_ns = timebase_ns(g->time, g->start_clock);
    m->end_ns = timebase_ns(g->time, g->last_clock);
    if (m->end_ns < m->start_ns)
        m->end_ns = m->start_ns;
    m->events = block_writer_events(g->blocks);
    m->calls = g->calls;
    m->lost_calls = lost;
    m->max_slots = g->live.used;
    m->stacks = g->used_count ? (uint32_t)g->used_count - 1 : 0;
    m->own_bytes = early ? 0 : raw->own_bytes;
    m->attached = raw->attached;
    m->before_blocks = raw->before_blocks;
    m->before_bytes = raw->before_bytes;
    f->names = raw->names.data;
    f->names_bytes = raw->names.failed ? 0 : raw->names.n;
    return 0;
}

static int write_early(struct image_work *g, struct error *err)
{
    struct image_early *e = &g->early;
    struct image_facts f = {0};
    struct section s = {0};
    uint32_t n = (uint32_t)e->thread_count;
    uint64_t from = e->marks_until ? e->marks_until + 1 : g->start_clock;
    struct trace_event_note *notes =
        gather_notes(g, e->notes, from, g->last_clock, &f.image.note_count);
    struct trace_thread *threads = calloc((size_t)n + 1, sizeof *threads);
    int status = notes && threads ? 0 : facts_no_memory(err);
    bool due = n || f.image.note_count || e->modules < g->module_count || !e->described;
    if (status || !due)
        goto out;
    uint32_t note_count = f.image.note_count;
    if (!e->described && describe_image_facts(g, &f, true, 0, err)) {
        status = -1;
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct image_thread *k = &g->threads[e->threads[i]];
        threads[i] = (struct trace_thread){
            .tid = k->tid, .name = k->name, .start_ns = timebase_ns(g->time, k->start)};
        k->due = false;
    }
    f.image.modules = g->modules ? g->modules + e->modules : NULL;
    f.image.module_count = (uint32_t)(g->module_count - e->modules);
    f.image.threads = threads;
    f.image.thread_count = n;
    f.image.event_notes = notes;
    f.image.note_count = note_count;
    struct seal_writer *w = block_writer_lend(g->blocks, err);
    if (!w) {
        status = -1;
        goto out;
    }
    section_begin(&s, SEAL_EARLY, g->number, e->sections);
    facts_put_early(w, &s, &f, !e->described, e->threads);
    status = section_write(w, &s, err);
    e->sections++;
    e->described = true;
    e->modules = g->module_count;
    e->thread_count = 0;
    e->notes = g->note_count;
    if (g->last_clock > e->marks_until)
        e->marks_until = g->last_clock;
    e->outside = image_outside_marks(g, e->marks_until);
out:
    free(notes);
    free(threads);
    bytes_free(&s.data);
    return status;
}

int image_names_write(struct image_work *g, struct error *err)
{
    return write_early(g, err) || write_nodes(g, err) ? -1 : 0;
}

/* --- the facts --- */

/* Samples from the image's start on, with their times. 0 or -1. */
static int gather_sizes(const struct image_work *g, struct mlw_resident **resident,
                        struct mlw_split **splits, struct trace_image *m)
{
    const struct raw_image *raw = g->raw;
    *resident = malloc((raw->resident_count + 1) * sizeof **resident);
    *splits = malloc((raw->split_count + 1) * sizeof **splits);
    if (!*resident || !*splits)
        return -1;
    for (size_t i = 0; i < raw->resident_count; i++)
        if (raw->residents[i].clock >= g->start_clock) {
            (*resident)[m->resident_count] = raw->residents[i];
            (*resident)[m->resident_count++].clock = timebase_ns(g->time, raw->residents[i].clock);
        }
    for (size_t i = 0; i < raw->split_count; i++)
        if (raw->splits[i].clock >= g->start_clock) {
            (*splits)[m->split_count] = raw->splits[i];
            (*splits)[m->split_count++].clock = timebase_ns(g->time, raw->splits[i].clock);
        }
    m->resident = *resident;
    m->splits = *splits;
    return 0;
}

static void describe_image_end(struct image_work *g, struct trace_image *m)
{
    const struct raw_image *raw = g->raw;
    uint64_t end = raw->end_clock > g->last_clock ? raw->end_clock : g->last_clock;
    if (!raw->end_clock && raw->last_clock > end)
        end = raw->last_clock;
    m->end_ns = timebase_ns(g->time, end);
    if (m->end_ns < m->start_ns)
        m->end_ns = m->start_ns;
    m->end_how = raw->end_how;
    m->end_status = raw->end_status;
    m->complete = raw->ended && !m->lost_calls && raw->described &&
                  (raw->end_how == MLW_END_EXIT || raw->end_how == MLW_END_EXEC);
}

/* Files without a build-id get a sum over their contents, where the namer has them. */
static int identify_files(struct image_work *g, const struct trace_namer *namer, struct error *err)
{
    for (size_t i = 0; namer->sum && i < g->module_count; i++) {
        struct trace_module *m = &g->modules[i];
        struct mlw_file_id_summed id;
        if (!mlw_file_id_read(m->build_id, m->build_id_bytes, &id) || id.sum ||
            !(id.sum = namer->sum(namer->arg, m)))
            continue;
        id.id.magic = MLW_FILE_ID_SUMMED;
        const char *bytes = arena_text(&g->arena, &id, sizeof id);
        if (!bytes)
            return error_set(err, ERROR_MEMORY, "no memory");
        m->build_id = (const uint8_t *)bytes;
        m->build_id_bytes = sizeof id;
    }
    return 0;
}

int image_finish(struct image_work *g, struct image_totals *totals, struct error *err)
{
    struct section s = {0};
    struct image_facts f;
    struct trace_image *m = &f.image;
    struct mlw_resident *resident = NULL;
    struct mlw_split *splits = NULL;
    struct bytes names = {0};
    uint64_t lost = 0;
    uint32_t note_count;
    if (write_nodes(g, err))
        return -1;
    struct trace_thread *threads = gather_threads(g, &lost);
    struct trace_event_note *notes = gather_notes(g, 0, g->start_clock, UINT64_MAX, &note_count);
    int status = -1;
    lost += feed_unreadable(g->feed);
    if (g->raw->lost_reported > lost)
        lost = g->raw->lost_reported;
    if (describe_image_facts(g, &f, false, lost, err))
        goto out;
    describe_image_end(g, m);
    if (g->recording->namer && identify_files(g, g->recording->namer, err))
        goto out;
    if (!f.names_bytes && g->recording->namer) {
        if (image_name(g, g->recording->namer, &names, err))
            goto out;
        f.names = names.data;
        f.names_bytes = names.n;
    }
    m->module_count = (uint32_t)g->module_count;
    m->modules = g->modules;
    m->thread_count = g->raw->threads;
    if (!m->thread_count && g->inherited &&
        threads) { /* a fork that ended before its thread said anything */
        m->thread_count = 1;
        threads[0].tid = g->raw->pid;
        threads[0].start_ns = threads[0].end_ns = timebase_ns(g->time, g->start_clock);
    }
    m->threads = threads;
    m->event_notes = notes;
    m->note_count = note_count;
    faulted_until(g->faulted, UINT64_MAX);
    if (!threads || !notes || gather_sizes(g, &resident, &splits, m) ||
        faulted_failed(g->faulted) ||
        !image_kernel_facts(&g->kernel, g->faulted, g->time, g->reset_clock, m)) {
        facts_no_memory(err);
        goto out;
    }
    struct seal_writer *w = block_writer_lend(g->blocks, err);
    if (!w)
        goto out;
    section_begin(&s, SEAL_IMAGE, g->number, 0);
    facts_put_image(w, &s, &f);
    /* The last block comes behind: all that names its events is here by now. */
    if (section_write(w, &s, err) || block_writer_flush(g->blocks, err))
        goto out;
    totals->events += m->events;
    totals->calls += m->calls;
    totals->lost_calls += lost;
    status = 0;
out:
    free(threads);
    free(notes);
    free(resident);
    free(splits);
    image_kernel_facts_free(m);
    bytes_free(&names);
    bytes_free(&s.data);
    return status;
}
