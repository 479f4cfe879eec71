/* hdf5.c - a recording as an HDF5 file: each event as a row of numbers, and beside them what they
 * refer to. A group for each process, in it a group for each table, in it a dataset for each
 * column.
 *
 * The file gets its name when it is complete. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/event_name.h"
#include "base/cmdline.h"
#include "export/hdf5_library.h"
#include "export/job.h"
#include "export/slices.h"
#include "trust/place.h"

/* A group of an HDF5 file whose datasets are the columns of one table, as long as
 * one another, compressed, written a run of rows at a time.
 *
 * Owns: the rows that are not yet in the file, and the first failure. Single-threaded. */

#define HDF5_COLUMNS 12u

struct hdf5_column {
    const char *name;
    enum hdf5_kind { HDF5_U8, HDF5_U32, HDF5_U64, HDF5_TEXT } kind;
    uint32_t width; /* values in a row; 0 is 1 */
    hdf5_id type;   /* 0: that of the kind; else an enumeration of HDF5_U8 */
};

struct hdf5_table { /* private */
    hdf5_id group;
    struct {
        struct hdf5_column is;
        hdf5_id set;
        unsigned bytes; /* the width of a value */
        char *rows;     /* [room][width] values */
    } columns[HDF5_COLUMNS];
    unsigned count;
    uint64_t room, waiting, written;
    bool failed;
};

#define ROWS_LEAST 64u
#define ROWS_MOST  32768u

static char failure[256];

static int first_word(unsigned n, const struct hdf5_error *error, void *arg)
{
    (void)arg;
    if (!n && error->description)
        snprintf(failure, sizeof failure, "%.200s", error->description);
    return 0;
}

/* The library's message about the first failure; "" when there was none. */
static const char *hdf5_failure(void) { return failure; }

/* Notes a failure when `id` is negative; returns whether it is. */
static bool hdf5_bad(hdf5_id id)
{
    const int cause = errno;
    if (id < 0 && !*failure) {
        hdf5.Ewalk2(HDF5_DEFAULT, HDF5_INNERMOST_FIRST, first_word, NULL);
        /* the library says which of its steps failed, not why */
        const bool disk = cause == ENOSPC || cause == EDQUOT || cause == EFBIG || cause == EIO;
        const size_t n = strlen(failure);
        if (!n || disk)
            snprintf(failure + n, sizeof failure - n, "%s%s", n ? ": " : "", strerror(cause));
    }
    return id < 0;
}

/* A type for text of any length; to be closed with hdf5.Tclose. */
static hdf5_id hdf5_text_type(void)
{
    const hdf5_id type = hdf5.Tcopy(hdf5.text);
    if (!hdf5_bad(type) && !hdf5_bad(hdf5.Tset_size(type, HDF5_VARIABLE)))
        hdf5_bad(hdf5.Tset_cset(type, HDF5_UTF8));
    return type;
}

static void attribute(hdf5_id place, const char *name, hdf5_id type, const void *value)
{
    const hdf5_id space = hdf5.Screate(HDF5_SCALAR);
    if (hdf5_bad(space))
        return;
    const hdf5_id a = hdf5.Acreate2(place, name, type, space, HDF5_DEFAULT, HDF5_DEFAULT);
    if (!hdf5_bad(a)) {
        hdf5_bad(hdf5.Awrite(a, type, value));
        hdf5_bad(hdf5.Aclose(a));
    }
    hdf5.Sclose(space);
}

static void hdf5_attribute(hdf5_id place, const char *name, uint64_t value)
{
    attribute(place, name, hdf5.u64, &value);
}

static void hdf5_attribute_text(hdf5_id place, const char *name, const char *value)
{
    const hdf5_id type = hdf5_text_type();
    if (!value)
        value = "";
    attribute(place, name, type, &value);
    hdf5.Tclose(type);
}

/* --- tables --- */

static unsigned width_of(const struct hdf5_table *t, unsigned column)
{
    return t->columns[column].is.width ? t->columns[column].is.width : 1;
}

static void make_column(struct hdf5_table *t, unsigned i)
{
    static const unsigned bytes[] = {
        [HDF5_U8] = 1, [HDF5_U32] = 4, [HDF5_U64] = 8, [HDF5_TEXT] = sizeof(char *)};
    const enum hdf5_kind kind = t->columns[i].is.kind;
    const hdf5_id types[] = {
        [HDF5_U8] = hdf5.u8, [HDF5_U32] = hdf5.u32, [HDF5_U64] = hdf5.u64, [HDF5_TEXT] = 0};
    const uint32_t width = width_of(t, i);
    const int rank = width > 1 ? 2 : 1;
    t->columns[i].bytes = bytes[kind];
    t->columns[i].rows = calloc(t->room, (size_t)width * bytes[kind]);
    if (!t->columns[i].is.type)
        t->columns[i].is.type = kind == HDF5_TEXT ? hdf5_text_type() : types[kind];
    const hdf5_id space = hdf5.Screate_simple(rank, (const uint64_t[]){0, width},
                                              (const uint64_t[]){HDF5_UNLIMITED, width});
    const hdf5_id list = hdf5.Pcreate(hdf5.dataset_creation);
    bool bad = !t->columns[i].rows || hdf5_bad(space) || hdf5_bad(list) ||
               hdf5_bad(hdf5.Pset_chunk(list, rank, (const uint64_t[]){t->room, width}));
    /* names are short and differ; the library can be built without the filter */
    if (!bad && kind != HDF5_TEXT && hdf5.Zfilter_avail(HDF5_DEFLATE) > 0)
        bad = hdf5_bad(hdf5.Pset_shuffle(list)) || hdf5_bad(hdf5.Pset_deflate(list, 4));
    if (!bad)
        t->columns[i].set = hdf5.Dcreate2(t->group, t->columns[i].is.name, t->columns[i].is.type,
                                          space, HDF5_DEFAULT, list, HDF5_DEFAULT);
    t->failed |= bad || hdf5_bad(t->columns[i].set);
    if (list >= 0)
        hdf5.Pclose(list);
    if (space >= 0)
        hdf5.Sclose(space);
}

/* The group `name` of `place` with these columns, about `rows` long. Failures show at
 * hdf5_table_close. */
static void hdf5_table_open(struct hdf5_table *t, hdf5_id place, const char *name,
                            const struct hdf5_column *columns, unsigned count, uint64_t rows)
{
    *t = (struct hdf5_table){.count = count};
    t->room = rows < ROWS_LEAST ? ROWS_LEAST : rows < ROWS_MOST ? rows : ROWS_MOST;
    t->group = hdf5.Gcreate2(place, name, HDF5_DEFAULT, HDF5_DEFAULT, HDF5_DEFAULT);
    t->failed = hdf5_bad(t->group);
    for (unsigned i = 0; i < count; i++) {
        t->columns[i].is = columns[i];
        t->columns[i].set = -1;
        if (!t->failed)
            make_column(t, i);
    }
}

static void write_column(struct hdf5_table *t, unsigned i)
{
    const uint64_t size[] = {t->written + t->waiting, width_of(t, i)};
    const uint64_t start[] = {t->written, 0}, count[] = {t->waiting, size[1]};
    const hdf5_id set = t->columns[i].set;
    t->failed |= hdf5_bad(hdf5.Dset_extent(set, size));
    const hdf5_id file = hdf5.Dget_space(set);
    const hdf5_id memory = hdf5.Screate_simple(size[1] > 1 ? 2 : 1, count, NULL);
    t->failed |= hdf5_bad(file) || hdf5_bad(memory) ||
                 hdf5_bad(hdf5.Sselect_hyperslab(file, HDF5_SET, start, NULL, count, NULL)) ||
                 hdf5_bad(hdf5.Dwrite(set, t->columns[i].is.type, memory, file, HDF5_DEFAULT,
                                      t->columns[i].rows));
    if (memory >= 0)
        hdf5.Sclose(memory);
    if (file >= 0)
        hdf5.Sclose(file);
}

static void table_flush(struct hdf5_table *t)
{
    for (unsigned i = 0; i < t->count && t->waiting && !t->failed; i++)
        write_column(t, i);
    t->written += t->waiting;
    t->waiting = 0;
}

static char *table_place_of(struct hdf5_table *t, unsigned column)
{
    return t->columns[column].rows +
           (size_t)t->waiting * width_of(t, column) * t->columns[column].bytes;
}

/* Sets values of the row that is next: one, all of a wide column, a text that stays where it is
 * until the table is closed. */
static void hdf5_put(struct hdf5_table *t, unsigned column, uint64_t value)
{
    if (t->failed)
        return;
    char *to = table_place_of(t, column);
    const uint32_t word = (uint32_t)value;
    switch (t->columns[column].bytes) {
    case 1: *to = (char)(uint8_t)value; break;
    case 4: memcpy(to, &word, sizeof word); break;
    default: memcpy(to, &value, sizeof value); break;
    }
}

static void hdf5_put_all(struct hdf5_table *t, unsigned column, const uint64_t *values)
{
    if (!t->failed)
        memcpy(table_place_of(t, column), values, width_of(t, column) * sizeof *values);
}

static void hdf5_put_text(struct hdf5_table *t, unsigned column, const char *text)
{
    if (!text)
        text = "";
    if (!t->failed)
        memcpy(table_place_of(t, column), &text, sizeof text);
}

/* The row is complete. */
static void hdf5_next(struct hdf5_table *t)
{
    if (!t->failed && ++t->waiting == t->room)
        table_flush(t);
}

/* True if all arrived. */
static bool hdf5_table_close(struct hdf5_table *t)
{
    table_flush(t);
    for (unsigned i = 0; i < t->count; i++) {
        if (t->columns[i].set >= 0)
            t->failed |= hdf5_bad(hdf5.Dclose(t->columns[i].set));
        if (t->columns[i].is.kind == HDF5_TEXT && t->columns[i].is.type > 0)
            hdf5.Tclose(t->columns[i].is.type);
        free(t->columns[i].rows);
    }
    if (t->group >= 0)
        hdf5.Gclose(t->group);
    return !t->failed;
}

enum { SLICES = 1000 };

struct hdf5_out {
    struct export_job *job;
    hdf5_id file, process; /* the group of the process */
    hdf5_id calls, kinds;  /* enumerations */
    const struct trace_image *image;
    struct names *names;
    struct slices slices;
    struct hdf5_table events, series;
    bool failed;
};

static int hdf5_fail(const struct hdf5_out *o, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "cannot write the HDF5 file %s: %s", o->job->output,
                     *hdf5_failure() ? hdf5_failure() : "out of memory");
}

/* --- tables beside the events --- */

static void hdf5_put_threads(struct hdf5_out *o)
{
    static const struct hdf5_column columns[] = {{"tid", HDF5_U32},
                                                 {"name", HDF5_TEXT},
                                                 {"start_ns", HDF5_U64},
                                                 {"end_ns", HDF5_U64},
                                                 {"calls", HDF5_U64}};
    struct hdf5_table t;
    hdf5_table_open(&t, o->process, "threads", columns, 5, o->image->thread_count);
    for (uint32_t i = 0; i < o->image->thread_count; i++) {
        const struct trace_thread *thread = &o->image->threads[i];
        hdf5_put(&t, 0, thread->tid);
        hdf5_put_text(&t, 1, thread->name);
        hdf5_put(&t, 2, thread->start_ns);
        hdf5_put(&t, 3, thread->end_ns);
        hdf5_put(&t, 4, thread->calls);
        hdf5_next(&t);
    }
    o->failed |= !hdf5_table_close(&t);
}

static void hdf5_put_resident(struct hdf5_out *o)
{
    static const struct hdf5_column columns[] = {{"time_ns", HDF5_U64},
                                                 {"vmsize_bytes", HDF5_U64},
                                                 {"rss_bytes", HDF5_U64},
                                                 {"shared_bytes", HDF5_U64}};
    struct hdf5_table t;
    hdf5_table_open(&t, o->process, "resident", columns, 4, o->image->resident_count);
    for (uint32_t i = 0; i < o->image->resident_count; i++) {
        const struct mlw_resident *r = &o->image->resident[i];
        if (!selection_has_time(&o->job->options->select, r->clock))
            continue;
        hdf5_put(&t, 0, r->clock);
        hdf5_put(&t, 1, r->vmsize);
        hdf5_put(&t, 2, r->rss);
        hdf5_put(&t, 3, r->rss_shared);
        hdf5_next(&t);
    }
    o->failed |= !hdf5_table_close(&t);
}

static void put_marks(struct hdf5_out *o)
{
    static const struct hdf5_column columns[] = {
        {"time_ns", HDF5_U64}, {"thread", HDF5_U32}, {"label", HDF5_TEXT}};
    struct hdf5_table t;
    hdf5_table_open(&t, o->process, "marks", columns, 3, o->image->note_count);
    for (uint32_t i = 0; i < o->image->note_count; i++) {
        const struct trace_event_note *n = &o->image->event_notes[i];
        if (n->control || !selection_has_time(&o->job->options->select, n->time_ns))
            continue;
        hdf5_put(&t, 0, n->time_ns);
        hdf5_put(&t, 1, n->thread);
        hdf5_put_text(&t, 2, n->label);
        hdf5_next(&t);
    }
    o->failed |= !hdf5_table_close(&t);
}

/* Rows stand by the number of the stack; the first is of none. */
static void hdf5_put_stacks(struct hdf5_out *o)
{
    static const struct hdf5_column columns[] = {
        {"parent", HDF5_U32}, {"address", HDF5_U64}, {"module", HDF5_TEXT}};
    static const struct hdf5_column frame_columns[] = {{"stack", HDF5_U32}, {"name", HDF5_U32}};
    const struct trace_image *image = o->image;
    struct hdf5_table t, frames;
    hdf5_table_open(&t, o->process, "stacks", columns, 3, image->stacks);
    hdf5_table_open(&frames, o->process, "frames", frame_columns, 2, image->stacks);
    hdf5_next(&t);
    for (uint32_t i = 1; i <= image->stacks; i++) {
        const struct trace_frame_node *node = trace_node(image, i);
        const uint32_t *ids;
        const size_t n = names_of(o->names, i, &ids);
        hdf5_put(&t, 0, node->parent);
        hdf5_put(&t, 1, node->pc);
        hdf5_put_text(&t, 2,
                      node->module && node->module <= image->module_count
                          ? image->modules[node->module - 1].path
                          : NULL);
        hdf5_next(&t);
        for (size_t k = 0; k < n; k++) {
            hdf5_put(&frames, 0, i);
            hdf5_put(&frames, 1, ids[k]);
            hdf5_next(&frames);
        }
    }
    o->failed |= !hdf5_table_close(&t);
    o->failed |= !hdf5_table_close(&frames);
}

/* After hdf5_put_stacks, which asks for all of them. */
static void hdf5_put_names(struct hdf5_out *o)
{
    static const struct hdf5_column columns[] = {{"function", HDF5_TEXT},
                                                 {"file", HDF5_TEXT},
                                                 {"line", HDF5_U32},
                                                 {"module", HDF5_TEXT},
                                                 {"inlined", HDF5_U8}};
    struct hdf5_table t;
    const uint32_t n = names_count(o->names);
    hdf5_table_open(&t, o->process, "names", columns, 5, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct name_frame *f = names_frame(o->names, i);
        hdf5_put_text(&t, 0, f->function);
        hdf5_put_text(&t, 1, f->file);
        hdf5_put(&t, 2, f->line);
        hdf5_put_text(&t, 3, f->module);
        hdf5_put(&t, 4, f->inlined);
        hdf5_next(&t);
    }
    o->failed |= !hdf5_table_close(&t);
}

/* --- events and slices --- */

enum {
    TIME,
    THREAD,
    CALL,
    KIND,
    ADDRESS,
    SIZE,
    USABLE,
    SLOT,
    ARGUMENT,
    PATH,
    STACK,
    EVENT_COLUMNS
};

static void open_events(struct hdf5_out *o)
{
    const struct hdf5_column columns[EVENT_COLUMNS] = {[TIME] = {"time_ns", HDF5_U64},
                                                       [THREAD] = {"thread", HDF5_U32},
                                                       [CALL] = {"call", HDF5_U8, 1, o->calls},
                                                       [KIND] = {"kind", HDF5_U8, 1, o->kinds},
                                                       [ADDRESS] = {"address", HDF5_U64},
                                                       [SIZE] = {"size_bytes", HDF5_U64},
                                                       [USABLE] = {"usable_bytes", HDF5_U64},
                                                       [SLOT] = {"slot", HDF5_U32},
                                                       [ARGUMENT] = {"argument", HDF5_U64},
                                                       [PATH] = {"path", HDF5_U8},
                                                       [STACK] = {"stack", HDF5_U32}};
    hdf5_table_open(&o->events, o->process, "events", columns, EVENT_COLUMNS, o->image->events);
}

static int hdf5_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                          struct error *err)
{
    struct hdf5_out *o = arg;
    struct hdf5_table *t = &o->events;
    slices_add(&o->slices, f, b);
    for (size_t i = 0; i < b->n; i++) {
        if (!job_event_passes(f, b, i))
            continue;
        hdf5_put(t, TIME, b->time_ns[i]);
        hdf5_put(t, THREAD, b->thread[i]);
        hdf5_put(t, CALL, *event_name(b->op[i]) == '?' ? 0 : b->op[i]);
        hdf5_put(t, KIND, b->kind[i]);
        hdf5_put(t, ADDRESS, b->address[i]);
        hdf5_put(t, SIZE, b->size[i]);
        hdf5_put(t, USABLE, b->kind[i] == TRACE_ALLOC ? b->usable[i] : 0);
        hdf5_put(t, SLOT, b->slot[i]);
        hdf5_put(t, ARGUMENT, b->argument[i]);
        hdf5_put(t, PATH, b->path[i]);
        hdf5_put(t, STACK, b->stack[i]);
        hdf5_next(t);
        o->job->result->samples++;
    }
    return t->failed ? hdf5_fail(o, err) : 0;
}

static void hdf5_close_slice(void *arg, const struct slice *s)
{
    struct hdf5_out *o = arg;
    struct hdf5_table *t = &o->series;
    const uint64_t values[] = {s->end_ns < o->slices.to_ns ? s->end_ns : o->slices.to_ns,
                               s->calls,
                               s->live_blocks,
                               s->live_bytes,
                               s->most_bytes,
                               s->rss_bytes,
                               s->vmsize_bytes};
    for (unsigned i = 0; i < 7; i++)
        hdf5_put(t, i, values[i]);
    hdf5_put_all(t, 7, s->chunks);
    hdf5_put_all(t, 8, s->chunk_bytes);
    hdf5_next(t);
}

static void open_series(struct hdf5_out *o)
{
    static const struct hdf5_column columns[] = {{"time_ns", HDF5_U64},
                                                 {"calls", HDF5_U64},
                                                 {"live_blocks", HDF5_U64},
                                                 {"ideal_rss_bytes", HDF5_U64},
                                                 {"most_ideal_rss_bytes", HDF5_U64},
                                                 {"rss_bytes", HDF5_U64},
                                                 {"vmsize_bytes", HDF5_U64},
                                                 {"chunks", HDF5_U64, SLICE_CLASSES},
                                                 {"chunk_bytes", HDF5_U64, SLICE_CLASSES}};
    static const struct hdf5_column bounds[] = {{"to_bytes", HDF5_U64}};
    struct hdf5_table t;
    hdf5_table_open(&t, o->process, "chunk_sizes", bounds, 1, SLICE_CLASSES);
    for (unsigned k = 0; k < SLICE_CLASSES; k++) {
        hdf5_put(&t, 0, slice_class_bytes(k));
        hdf5_next(&t);
    }
    o->failed |= !hdf5_table_close(&t);
    hdf5_table_open(&o->series, o->process, "series", columns, 9, SLICES);
}

static int put_events(struct hdf5_out *o, uint32_t index, struct error *err)
{
    open_events(o);
    open_series(o);
    o->slices = (struct slices){.arg = o, .close = hdf5_close_slice, .count = SLICES};
    int status = slices_begin(&o->slices, o->image, o->job->options, err);
    if (!status)
        status = job_events(o->job, index, o->names, hdf5_add_batch, o, err);
    if (!status)
        slices_end(&o->slices);
    slices_release(&o->slices);
    o->failed |= !hdf5_table_close(&o->events);
    o->failed |= !hdf5_table_close(&o->series);
    return status;
}

static void hdf5_put_process(struct hdf5_out *o)
{
    const struct trace_image *m = o->image;
    struct buffer command = {0};
    cmdline_append(&command, m->exe, m->command, false);
    hdf5_attribute(o->process, "pid", m->pid);
    hdf5_attribute(o->process, "ppid", m->ppid);
    hdf5_attribute_text(o->process, "command", buffer_text(&command));
    hdf5_attribute_text(o->process, "exe", m->exe);
    hdf5_attribute_text(o->process, "allocator", m->allocator);
    hdf5_attribute(o->process, "start_ns", m->start_ns);
    hdf5_attribute(o->process, "end_ns", m->end_ns);
    hdf5_attribute(o->process, "lost_calls", m->lost_calls);
    buffer_release(&command);
}

static int hdf5_write_image(struct hdf5_out *o, uint32_t index, struct error *err)
{
    char name[32];
    o->image = &trace_info(o->job->trace)->images[index];
    snprintf(name, sizeof name, "process_%u", index);
    o->process = hdf5.Gcreate2(o->file, name, HDF5_DEFAULT, HDF5_DEFAULT, HDF5_DEFAULT);
    if (hdf5_bad(o->process))
        return hdf5_fail(o, err);
    o->names = names_new(o->job->symbols, o->image, err);
    int status = o->names ? 0 : -1;
    if (!status) {
        hdf5_put_process(o);
        hdf5_put_threads(o);
        hdf5_put_resident(o);
        put_marks(o);
        hdf5_put_stacks(o);
        hdf5_put_names(o);
        status = put_events(o, index, err);
        if (!status && names_failed(o->names))
            status = error_memory_for(err, "names");
    }
    names_free(o->names);
    hdf5.Gclose(o->process);
    return status || (!o->failed && !*hdf5_failure()) ? status : hdf5_fail(o, err);
}

/* --- the file --- */

/* An enumeration; numbers without a meaning are not in it. */
static hdf5_id names_of_values(const char *(*name)(unsigned), unsigned count)
{
    const hdf5_id type = hdf5.Tenum_create(hdf5.u8);
    for (unsigned i = 0; i < count && type >= 0; i++) {
        const uint8_t value = (uint8_t)i;
        if (*name(i) != '?')
            hdf5_bad(hdf5.Tenum_insert(type, name(i), &value));
    }
    hdf5_bad(type);
    return type;
}

static const char *call_name(unsigned op) { return op ? event_name(op) : "none"; }

static int hdf5_fill_file(struct hdf5_out *o, struct error *err)
{
    const struct trace_info *info = trace_info(o->job->trace);
    int status = 0;
    o->calls = names_of_values(call_name, MLW_OP_COUNT);
    o->kinds = names_of_values(event_kind_name, TRACE_OTHER + 1);
    hdf5_attribute_text(o->file, "exporter", "mallow " MALLOW_VERSION);
    hdf5_attribute_text(o->file, "recording", o->job->recording);
    hdf5_attribute_text(o->file, "host", info->host);
    hdf5_attribute(o->file, "start_realtime_ns", info->start_realtime_ns);
    if (*hdf5_failure())
        status = hdf5_fail(o, err);
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (job_has(o->job, &info->images[i]))
            status = hdf5_write_image(o, i, err);
    if (o->calls >= 0)
        hdf5.Tclose(o->calls);
    if (o->kinds >= 0)
        hdf5.Tclose(o->kinds);
    return status;
}

/* The one driver of files that asks nothing of the path but to open it: the draft has no name. */
static hdf5_id create_file(const struct trust_whole *whole)
{
    char path[TRUST_WHOLE_PATH_BYTES];
    trust_whole_path(whole, path);
    const hdf5_id access = hdf5.Pcreate(hdf5.file_access);
    hdf5_id file = -1;
    if (!hdf5_bad(access) && !hdf5_bad(hdf5.Pset_fapl_stdio(access)))
        file = hdf5.Fcreate(path, HDF5_TRUNCATE, HDF5_DEFAULT, access);
    hdf5_bad(file);
    if (access >= 0)
        hdf5.Pclose(access);
    return file;
}

int export_hdf5(struct export_job *job, struct error *err)
{
    struct hdf5_out *o = calloc(1, sizeof *o);
    const char *why = hdf5_load();
    struct trust_whole whole;
    int status = -1;
    if (why) {
        free(o);
        return error_set(err, ERROR_FORMAT,
                         "cannot load libhdf5: %s (on Debian, hdf5-tools has it)", why);
    }
    if (!o)
        return error_memory(err);
    if (trust_whole_open(&whole, job->output, err)) {
        free(o);
        return trust_unreachable(err, "cannot write", job->output);
    }
    o->job = job;
    o->file = create_file(&whole);
    if (o->file < 0) {
        hdf5_fail(o, err);
    } else {
        status = hdf5_fill_file(o, err);
        if (hdf5_bad(hdf5.Fclose(o->file)) && !status)
            status = hdf5_fail(o, err);
    }
    if (trust_whole_close(&whole, status == 0, err))
        status = -1;
    free(o);
    return status;
}
