#include "export/hdf5_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *hdf5_failure(void) { return failure; }

bool hdf5_bad(hdf5_id id)
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

hdf5_id hdf5_text_type(void)
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

void hdf5_attribute(hdf5_id place, const char *name, uint64_t value)
{
    attribute(place, name, hdf5.u64, &value);
}

void hdf5_attribute_text(hdf5_id place, const char *name, const char *value)
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

void hdf5_table_open(struct hdf5_table *t, hdf5_id place, const char *name,
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

void hdf5_put(struct hdf5_table *t, unsigned column, uint64_t value)
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

void hdf5_put_all(struct hdf5_table *t, unsigned column, const uint64_t *values)
{
    if (!t->failed)
        memcpy(table_place_of(t, column), values, width_of(t, column) * sizeof *values);
}

void hdf5_put_text(struct hdf5_table *t, unsigned column, const char *text)
{
    if (!text)
        text = "";
    if (!t->failed)
        memcpy(table_place_of(t, column), &text, sizeof text);
}

void hdf5_next(struct hdf5_table *t)
{
    if (!t->failed && ++t->waiting == t->room)
        table_flush(t);
}

bool hdf5_table_close(struct hdf5_table *t)
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
