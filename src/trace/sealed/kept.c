/* kept.c - Reads parts of the index behind a sealed recording, and prepares new ones. A part
 * counts only if it was made for this recording by a compatible version. A part that is not
 * sound is ignored. */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "format/chunk.h"

uint64_t kept_made_by(void)
{
    return mlw_checksum_part(KEPT_VERSION, MALLOW_VERSION, sizeof MALLOW_VERSION - 1);
}

static bool kept_holds(const struct store *s, const struct store_kept *k)
{
    return k->made_of == s->made_of && k->made_by == kept_made_by();
}

#define RAW_MOST (4u << 10) /* raw bytes of a stored one */

/* ---- reading ---- */

/* The column of counts, into r->columns. */
static bool read_kept_counts(struct kept_reading *r)
{
    struct error ignored;
    if (section_read(r->fd, &r->head, KEPT_COUNTS, SEAL_PART_BYTES, KEPT_COLUMNS_MOST * 20, r->z,
                     &r->scratch, &r->bytes, &ignored) != 1)
        return false;
    struct span p = span_of(r->bytes.data, r->bytes.n);
    /* As with streams, the memory that a reader takes is bounded by the bytes of the file. */
    const uint64_t most = (r->head.header.payload_bytes + 64) * RAW_MOST;
    while (span_left(&p) && !p.bad) {
        const uint64_t id = span_varint(&p), n = span_varint(&p);
        if (r->column_count == KEPT_COLUMNS_MOST || id > UINT8_MAX || n > most ||
            n > SEAL_STREAM_MAX)
            return false;
        r->columns[r->column_count++] = (struct kept_column){(unsigned)id, n};
    }
    return !p.bad;
}

/* Another reader may have written an index since the file was opened. */
static bool is_still(const struct seal_header *h, const struct store_kept *k)
{
    return h->type == SEAL_INDEX && h->image == k->image && h->number == k->kind &&
           h->made_of == k->made_of && h->made_by == k->made_by && h->key == k->key;
}

bool kept_open(struct kept_reading *r, const struct store *s, uint32_t image, uint64_t kind,
               uint64_t key)
{
    struct error ignored;
    const struct store_kept *found = NULL;
    memset(r, 0, sizeof *r);
    for (size_t i = 0; s->may_keep && i < s->kept_count; i++) {
        const struct store_kept *k = &s->kept[i];
        if (k->kind == kind && k->key == key && k->image == s->details[image].number &&
            kept_holds(s, k))
            found = k; /* the last counts */
    }
    r->fd = s->fd;
    if (found && (r->z = ZSTD_createDCtx()) &&
        section_head_read(s->fd, found->offset, s->file_bytes, &r->head, &ignored) == 1 &&
        is_still(&r->head.header, found) && read_kept_counts(r))
        return true;
    kept_close(r);
    return false;
}

void kept_close(struct kept_reading *r)
{
    ZSTD_freeDCtx(r->z);
    numbers_free(&r->numbers);
    bytes_free(&r->scratch);
    bytes_free(&r->bytes);
    memset(r, 0, sizeof *r);
}

uint64_t kept_count(const struct kept_reading *r, unsigned column)
{
    for (size_t i = 0; i < r->column_count; i++)
        if (r->columns[i].id == column)
            return r->columns[i].n;
    return 0;
}

bool kept_numbers(struct kept_reading *r, unsigned column, uint64_t *to, size_t n)
{
    struct error ignored;
    return kept_count(r, column) == n &&
           !numbers_load(&r->numbers, r->fd, &r->head, column, n, r->z, &r->scratch, &ignored) &&
           !numbers_take_u64(&r->numbers, to, n) && !r->numbers.bad;
}

#define ROWS 1024u /* that are taken at a time */

bool kept_table(struct kept_reading *r, unsigned first, unsigned columns, size_t n,
                trace_kept_take *take, void *arg)
{
    struct error ignored;
    struct numbers *of = calloc(columns + 1, sizeof *of);
    uint64_t *room = malloc(((size_t)columns * ROWS + 1) * sizeof *room);
    uint64_t *values[TRACE_KEPT_COLUMNS];
    bool fits = of && room && columns <= TRACE_KEPT_COLUMNS;
    for (unsigned c = 0; c < columns && fits; c++) {
        values[c] = room + (size_t)c * ROWS;
        fits = kept_count(r, first + c) == n &&
               !numbers_load(&of[c], r->fd, &r->head, first + c, n, r->z, &r->scratch, &ignored);
    }
    for (size_t at = 0; at < n && fits; at += ROWS) {
        const size_t rows = n - at < ROWS ? n - at : ROWS;
        for (unsigned c = 0; c < columns && fits; c++)
            fits = !numbers_take_u64(&of[c], values[c], rows);
        fits = fits && take(arg, at, rows, values);
    }
    for (unsigned c = 0; of && c < columns; c++) {
        fits = fits && !of[c].bad;
        numbers_free(&of[c]);
    }
    free(of);
    free(room);
    return fits;
}

const uint8_t *kept_bytes(struct kept_reading *r, unsigned column)
{
    struct error ignored;
    const uint64_t n = kept_count(r, column);
    const bool there = section_read(r->fd, &r->head, column, SEAL_PART_BYTES, SEAL_STREAM_MAX, r->z,
                                    &r->scratch, &r->bytes, &ignored) == 1;
    return there && r->bytes.n == n ? r->bytes.data : NULL;
}

/* ---- making ---- */

bool kept_begin(struct kept_making *k, const struct store *s, uint32_t image, uint64_t kind,
                uint64_t key)
{
    struct error ignored;
    memset(k, 0, sizeof *k);
    if (seal_writer_open(&k->writer, -1, &ignored))
        return false;
    section_begin(&k->section, SEAL_INDEX, s->details[image].number, kind);
    k->section.header.made_of = s->made_of;
    k->section.header.made_by = kept_made_by();
    k->section.header.key = key;
    return true;
}

static void count_kept(struct kept_making *k, unsigned column, size_t n)
{
    bytes_put_varint(&k->counts, column);
    bytes_put_varint(&k->counts, n);
}

void kept_put_numbers(struct kept_making *k, unsigned column, const uint64_t *v, size_t n)
{
    count_kept(k, column, n);
    section_put_u64(&k->writer, &k->section, column, v, n, &k->scratch);
}

void kept_put_bytes(struct kept_making *k, unsigned column, const void *data, size_t n)
{
    count_kept(k, column, n);
    section_put(&k->writer, &k->section, column, SEAL_PART_BYTES, data, n);
}

bool kept_end(struct kept_making *k)
{
    section_put(&k->writer, &k->section, KEPT_COUNTS, SEAL_PART_BYTES, k->counts.data, k->counts.n);
    seal_writer_close(&k->writer);
    bytes_free(&k->scratch);
    return !k->section.data.failed && !k->counts.failed;
}

void kept_drop(struct kept_making *k)
{
    seal_writer_close(&k->writer);
    bytes_free(&k->section.data);
    bytes_free(&k->counts);
    bytes_free(&k->scratch);
}
