/* facts_write.c - Writes the facts of a file and of its images as sections: descriptions,
 * modules, threads, notes, samples, names and stack nodes. The order of fields is the file
 * format (docs/format.md); facts_read.c must match it. */
#include "trace/sealed/facts.h"
#include "format/row.h"

static void put_fact_text(struct bytes *b, const char *t)
{
    bytes_put_text(b, t, t ? strlen(t) : 0);
}

static void put_texts(struct bytes *b, const char *const *t)
{
    size_t n = 0;
    while (t && t[n])
        n++;
    bytes_put_varint(b, n);
    for (size_t i = 0; i < n; i++)
        put_fact_text(b, t[i]);
}

static void put_section(struct seal_writer *w, struct section *s, unsigned id, struct bytes *b)
{
    if (b->failed)
        s->data.failed = true;
    section_put(w, s, id, SEAL_PART_BYTES, b->data, b->n);
    b->n = 0;
}

void facts_put_file(struct seal_writer *w, struct section *s, const struct file_facts *f)
{
    struct bytes b = {0};
    bytes_put_varint(&b, f->version);
    bytes_put_varint(&b, f->tick_ns);
    bytes_put_varint(&b, f->start_realtime_ns);
    bytes_put_varint(&b, f->damaged_bytes);
    put_fact_text(&b, f->host);
    put_fact_text(&b, f->tool);
    bytes_put_varint(&b, f->kernel_kinds);
    bytes_put_varint(&b, f->lost_kernel_events);
    bytes_put_varint(&b, f->minor);
    if (f->limits.memory || f->limits.address || f->limits.data) {
        bytes_put_varint(&b, f->limits.memory);
        bytes_put_varint(&b, f->limits.address);
        bytes_put_varint(&b, f->limits.data);
    }
    put_section(w, s, SEAL_FACT_FILE, &b);
    bytes_free(&b);
}

static void put_kernel(struct seal_writer *w, struct section *s, const struct trace_image *m,
                       struct bytes *b)
{
    uint64_t time = 0, address = 0;
    for (uint32_t i = 0; i < m->fault_count; i++) {
        const struct trace_fault *k = &m->faults[i];
        bytes_put_varint(b, k->time_ns - time);
        bytes_put_varint(b, k->tid);
        bytes_put_varint(b, mlw_zigzag(k->address - address));
        bytes_put_varint(b, k->stack);
        bytes_put_u8(b, k->what);
        bytes_put_u8(b, k->place);
        time = k->time_ns;
        address = k->address;
    }
    put_section(w, s, SEAL_FACT_FAULTS, b);
    time = 0;
    for (uint32_t i = 0; i < m->level_count; i++) {
        const struct trace_level *k = &m->levels[i];
        const uint64_t v[] = {k->time_ns - time, k->file, k->anonymous, k->swapped, k->shared};
        for (size_t j = 0; j < sizeof v / sizeof *v; j++)
            bytes_put_varint(b, v[j]);
        time = k->time_ns;
    }
    put_section(w, s, SEAL_FACT_LEVELS, b);
    time = 0;
    for (uint32_t i = 0; i < m->moment_count; i++) {
        const struct trace_moment *k = &m->moments[i];
        bytes_put_varint(b, k->time_ns - time);
        bytes_put_varint(b, k->tid);
        bytes_put_u8(b, k->kind);
        bytes_put_u8(b, k->what);
        bytes_put_u8(b, k->values);
        for (unsigned j = 0; j < k->values; j++)
            bytes_put_varint(b, mlw_zigzag((uint64_t)k->value[j]));
        time = k->time_ns;
    }
    put_section(w, s, SEAL_FACT_MOMENTS, b);
}

static void put_description(struct seal_writer *w, struct section *s, const struct image_facts *f,
                            struct bytes *b)
{
    const struct trace_image *m = &f->image;
    const uint64_t numbers[] = {
        m->id,        m->pid,
        m->ppid,      m->forked_from == UINT32_MAX ? 0 : (uint64_t)m->forked_from + 1,
        m->inherited, m->stack_mode,
        m->start_ns,  m->end_ns,
        m->end_how,   m->end_status,
        m->complete,  m->events,
        m->calls,     m->lost_calls,
        m->max_slots, m->stacks,
        m->own_bytes, f->first_block,
        f->tick_ns};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        bytes_put_varint(b, numbers[i]);
    put_fact_text(b, m->exe);
    put_fact_text(b, m->allocator);
    put_texts(b, m->command);
    bytes_put_varint(b, m->environment ? FACTS_ENVIRONMENT : m->settings ? FACTS_SETTINGS : 0);
    put_texts(b, m->settings);
    put_texts(b, m->notes);
    if (m->attached) {
        bytes_put_varint(b, m->before_blocks + 1); /* 0: not known */
        bytes_put_varint(b, m->before_bytes + 1);
    }
    put_section(w, s, SEAL_FACT_IMAGE, b);
}

static void put_fact_modules(struct seal_writer *w, struct section *s, const struct trace_image *m,
                             struct bytes *b)
{
    for (uint32_t i = 0; i < m->module_count; i++) {
        const struct trace_module *k = &m->modules[i];
        bytes_put_varint(b, k->start);
        bytes_put_varint(b, k->end);
        bytes_put_varint(b, k->bias);
        bytes_put_varint(b, k->loaded_ns);
        bytes_put_varint(b, k->gone_ns == UINT64_MAX ? 0 : k->gone_ns + 1);
        bytes_put_text(b, k->build_id, k->build_id_bytes);
        put_fact_text(b, k->path);
    }
    put_section(w, s, SEAL_FACT_MODULES, b);
}

static void put_notes(struct seal_writer *w, struct section *s, const struct trace_image *m,
                      struct bytes *b)
{
    for (uint32_t i = 0; i < m->note_count; i++) {
        const struct trace_event_note *k = &m->event_notes[i];
        bytes_put_varint(b, k->time_ns);
        bytes_put_varint(b, k->thread == UINT32_MAX ? 0 : (uint64_t)k->thread + 1);
        bytes_put_varint(b, k->control);
        put_fact_text(b, k->label);
    }
    put_section(w, s, SEAL_FACT_NOTES, b);
}

static void put_names(struct seal_writer *w, struct section *s, const struct image_facts *f,
                      struct bytes *b)
{
    bytes_put(b, f->names, f->names_bytes);
    put_section(w, s, SEAL_FACT_NAMES, b);
}

void facts_put_early(struct seal_writer *w, struct section *s, const struct image_facts *f,
                     bool described, const uint32_t *threads)
{
    const struct trace_image *m = &f->image;
    struct bytes b = {0};
    if (described) {
        put_description(w, s, f, &b);
        put_names(w, s, f, &b);
    }
    put_fact_modules(w, s, m, &b);
    for (uint32_t i = 0; i < m->thread_count; i++) {
        bytes_put_varint(&b, threads[i]);
        bytes_put_varint(&b, m->threads[i].tid);
        bytes_put_varint(&b, m->threads[i].start_ns);
        put_fact_text(&b, m->threads[i].name);
    }
    put_section(w, s, SEAL_FACT_EARLY_THREADS, &b);
    put_notes(w, s, m, &b);
    bytes_free(&b);
}

void facts_put_image(struct seal_writer *w, struct section *s, const struct image_facts *f)
{
    const struct trace_image *m = &f->image;
    struct bytes b = {0};
    put_description(w, s, f, &b);
    put_fact_modules(w, s, m, &b);
    for (uint32_t i = 0; i < m->thread_count; i++) {
        const struct trace_thread *k = &m->threads[i];
        bytes_put_varint(&b, k->tid);
        bytes_put_varint(&b, k->start_ns);
        bytes_put_varint(&b, k->end_ns);
        bytes_put_varint(&b, k->ended);
        bytes_put_varint(&b, k->calls);
        bytes_put_varint(&b, k->lost_calls);
        put_fact_text(&b, k->name);
    }
    put_section(w, s, SEAL_FACT_THREADS, &b);
    put_notes(w, s, m, &b);
    for (uint32_t i = 0; i < m->resident_count; i++) {
        const struct mlw_resident *k = &m->resident[i];
        bytes_put_varint(&b, k->clock);
        bytes_put_varint(&b, k->vmsize);
        bytes_put_varint(&b, k->rss);
        bytes_put_varint(&b, k->rss_shared);
    }
    put_section(w, s, SEAL_FACT_RESIDENT, &b);
    for (uint32_t i = 0; i < m->split_count; i++) {
        const struct mlw_split *k = &m->splits[i];
        const uint64_t v[] = {k->clock, k->heap,   k->arenas,   k->anonymous, k->stacks,
                              k->files, k->shared, k->recorder, k->other,     k->swapped};
        for (size_t j = 0; j < sizeof v / sizeof *v; j++)
            bytes_put_varint(&b, v[j]);
    }
    put_section(w, s, SEAL_FACT_SPLITS, &b);
    for (uint32_t i = 0; i < m->split_count; i++) {
        bytes_put_varint(&b, m->splits[i].mapped);
        bytes_put_varint(&b, m->splits[i].huge);
    }
    for (uint32_t i = 0; i < m->split_count; i++)
        bytes_put_varint(&b, m->splits[i].lazy);
    for (uint32_t i = 0; i < m->split_count; i++)
        bytes_put_varint(&b, m->splits[i].hugetlb);
    for (uint32_t i = 0; i < m->split_count; i++) {
        bytes_put_varint(&b, m->splits[i].forked);
        bytes_put_varint(&b, m->splits[i].proportional);
    }
    put_section(w, s, SEAL_FACT_SPLITS_MORE, &b);
    if (m->title || m->comm) {
        put_texts(&b, m->title);
        put_fact_text(&b, m->comm);
        put_section(w, s, SEAL_FACT_CALLED, &b);
    }
    put_names(w, s, f, &b);
    put_kernel(w, s, m, &b);
    bytes_free(&b);
}

int facts_write_nodes(struct seal_writer *w, uint32_t image, const struct trace_frame_node *nodes,
                      uint32_t first, uint32_t n, struct error *err)
{
    struct section s = {0};
    struct bytes scratch = {0};
    uint64_t *v = malloc(((size_t)n + 1) * sizeof *v);
    if (!v)
        return error_memory_for(err, "sealing");
    section_begin(&s, SEAL_NODES, image, first);
    for (uint32_t i = 0; i < n; i++)
        v[i] = nodes[i].parent ? 1 + mlw_zigzag((uint64_t)first + i - nodes[i].parent) : 0;
    section_put_u64(w, &s, SEAL_FACT_PARENT, v, n, &scratch);
    for (uint32_t i = 0; i < n; i++)
        v[i] = nodes[i].module;
    section_put_u64(w, &s, SEAL_FACT_MODULE, v, n, &scratch);
    uint64_t pcs[256] = {0}; /* by the low byte of the module's number */
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *pc = &pcs[nodes[i].module & 255];
        v[i] = mlw_zigzag(nodes[i].pc - *pc);
        *pc = nodes[i].pc;
    }
    section_put_u64(w, &s, SEAL_FACT_PC, v, n, &scratch);
    /* The flags give the number of nodes: one byte each, never left out. */
    uint8_t *flags = (uint8_t *)v;
    for (uint32_t i = 0; i < n; i++)
        flags[i] = (uint8_t)nodes[i].flags;
    section_put(w, &s, SEAL_FACT_FLAGS, SEAL_PART_BYTES, flags, n);
    int status = section_write(w, &s, err);
    free(v);
    bytes_free(&scratch);
    bytes_free(&s.data);
    return status;
}
