/* hdf5_table.h - a group of an HDF5 file whose datasets are the columns of one table, as long as
 * one another, compressed, written a run of rows at a time.
 *
 * Owns: the rows that are not yet in the file, and the first failure. Single-threaded. */
#ifndef MALLOW_EXPORT_HDF5_TABLE_H
#define MALLOW_EXPORT_HDF5_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "export/hdf5_library.h"

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

/* The library's message about the first failure; "" when there was none. */
const char *hdf5_failure(void);
/* Notes a failure when `id` is negative; returns whether it is. */
bool hdf5_bad(hdf5_id id);

/* A type for text of any length; to be closed with hdf5.Tclose. */
hdf5_id hdf5_text_type(void);
void hdf5_attribute(hdf5_id place, const char *name, uint64_t value);
void hdf5_attribute_text(hdf5_id place, const char *name, const char *value);

/* The group `name` of `place` with these columns, about `rows` long. Failures show at
 * hdf5_table_close. */
void hdf5_table_open(struct hdf5_table *t, hdf5_id place, const char *name,
                     const struct hdf5_column *columns, unsigned count, uint64_t rows);
/* Sets values of the row that is next: one, all of a wide column, a text that stays where it is
 * until the table is closed. */
void hdf5_put(struct hdf5_table *t, unsigned column, uint64_t value);
void hdf5_put_all(struct hdf5_table *t, unsigned column, const uint64_t *values);
void hdf5_put_text(struct hdf5_table *t, unsigned column, const char *text);
/* The row is complete. */
void hdf5_next(struct hdf5_table *t);
/* True if all arrived. */
bool hdf5_table_close(struct hdf5_table *t);

#endif
