/* unwindrows.c - see unwindrows.h. The functions come from the table of .eh_frame_hdr, which is
 * sorted; the rows of each from its instructions, in one pass. The file may be another user's and
 * change while it is read, so nothing of it is believed, and each part is read once. */
#include "symbol/unwindrows.h"

#include "arch/system.h"
#include "base/array.h"
#include "symbol/callframes.h"
#include "symbol/program.h"
#include "trust/file.h"

#include <dwarf.h>
#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SEGMENTS_MAX = 32,
    PROGRAMS_MAX = 256,
    TABLE_BYTES_MOST = 256 << 20, /* the most of each table */
    FUNCTIONS_MOST = 1 << 23,
    ROWS_MOST = 1 << 24
};

struct segment {
    uint64_t address, offset, bytes;
};

struct function {
    uint64_t start, fde; /* addresses */
};

struct reading {
    int fd;
    struct segment segment[SEGMENTS_MAX], data[SEGMENTS_MAX]; /* segments of code; all */
    size_t segments, datas;
    struct function *function;
    size_t functions, function_room;
    struct unwind_row *row;
    size_t rows, room;
    bool no_memory;
};

/* The file offset of an address that is in the file, else UINT64_MAX. */
static uint64_t unwind_file_offset(const struct reading *r, uint64_t address)
{
    for (size_t i = 0; i < r->segments; i++)
        if (address - r->segment[i].address < r->segment[i].bytes)
            return address - r->segment[i].address + r->segment[i].offset;
    return UINT64_MAX;
}

static void put_unwind_row(struct reading *r, uint64_t address, struct unwind_row row)
{
    row.offset = unwind_file_offset(r, address);
    if (row.offset == UINT64_MAX || r->no_memory)
        return;
    if (r->rows) {
        const struct unwind_row *last = &r->row[r->rows - 1];
        if (last->rule == row.rule && last->cfa_offset == row.cfa_offset &&
            last->bp_offset == row.bp_offset && last->offset < row.offset)
            return; /* goes on as before */
    }
    if (r->rows >= ROWS_MOST)
        return;
    if (!ARRAY_ROOM(r->row, r->rows + 1, r->room)) {
        r->no_memory = true;
        return;
    }
    r->row[r->rows++] = row;
}

static int compare_row_offsets(const void *a, const void *b)
{
    const struct unwind_row *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int compare_fde_starts(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* ---- the file ---- */

/* Bytes of the file from an offset on, at most `most`; zeros where it has no data. NULL: nothing,
 * or no memory. */
static uint8_t *read_file_bytes(struct reading *r, uint64_t offset, uint64_t most, size_t *count)
{
    struct stat st;
    if (fstat(r->fd, &st) || offset >= (uint64_t)st.st_size)
        return NULL;
    const uint64_t size = (uint64_t)st.st_size;
    if (most > size - offset)
        most = size - offset;
    if (most > TABLE_BYTES_MOST)
        most = TABLE_BYTES_MOST;
    uint8_t *bytes = calloc(most + 1, 1);
    if (!bytes)
        r->no_memory = true;
    for (uint64_t at = trust_past_hole(r->fd, offset, size); bytes && at < offset + most;) {
        const off_t hole = lseek(r->fd, (off_t)at, SEEK_HOLE);
        const uint64_t end =
            hole > (off_t)at && (uint64_t)hole < offset + most ? (uint64_t)hole : offset + most;
        if (trust_read(r->fd, bytes + (at - offset), end - at, at) != end - at)
            break;
        at = trust_past_hole(r->fd, end, size);
    }
    *count = most;
    return bytes;
}

static const struct segment *segment_at(const struct segment *s, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (address - s[i].address < s[i].bytes)
            return &s[i];
    return NULL;
}

/* The bytes from an address on, as far as its segment goes. */
static uint8_t *read_address(struct reading *r, uint64_t address, size_t *count)
{
    const struct segment *s = segment_at(r->data, r->datas, address);
    const uint64_t within = s ? address - s->address : 0;
    return s ? read_file_bytes(r, s->offset + within, s->bytes - within, count) : NULL;
}

static bool is_elf(const Elf64_Ehdr *e)
{
    return !memcmp(e->e_ident, ELFMAG, SELFMAG) && e->e_ident[EI_CLASS] == ELFCLASS64 &&
           e->e_ident[EI_DATA] == ELFDATA2LSB && e->e_machine == ARCH_ELF_MACHINE;
}

/* *tables: of .eh_frame_hdr, where there is one. */
static bool read_load_segments(struct reading *r, const Elf64_Ehdr *e, Elf64_Phdr *tables)
{
    Elf64_Phdr p[PROGRAMS_MAX];
    const size_t n = e->e_phnum < PROGRAMS_MAX ? e->e_phnum : PROGRAMS_MAX;
    if (n && (e->e_phentsize != sizeof *p || e->e_phoff > INT64_MAX / 2 ||
              trust_read(r->fd, p, n * sizeof *p, e->e_phoff) != n * sizeof *p))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct segment s = {p[i].p_vaddr, p[i].p_offset, p[i].p_filesz};
        const bool sound = s.offset <= INT64_MAX / 2 && s.bytes <= INT64_MAX / 2;
        if (p[i].p_type == PT_GNU_EH_FRAME)
            *tables = p[i];
        if (p[i].p_type != PT_LOAD || !sound)
            continue;
        if (r->datas < SEGMENTS_MAX)
            r->data[r->datas++] = s;
        if (p[i].p_flags & PF_X && r->segments < SEGMENTS_MAX)
            r->segment[r->segments++] = s;
    }
    return true;
}

/* ---- where functions begin ---- */

static bool add_unwind_function(struct reading *r, uint64_t start, uint64_t fde)
{
    if (r->functions >= FUNCTIONS_MOST ||
        !ARRAY_ROOM(r->function, r->functions + 1, r->function_room)) {
        r->no_memory |= r->functions < FUNCTIONS_MOST;
        return false;
    }
    r->function[r->functions++] = (struct function){start, fde};
    return true;
}

/* The table of .eh_frame_hdr: version 1, addresses relative to it in 4 bytes, sorted. *frames:
 * where .eh_frame begins. */
static void table_functions(struct reading *r, uint64_t address, const uint8_t *p, size_t bytes,
                            uint64_t *frames)
{
    enum {
        DATA_RELATIVE_4 = DW_EH_PE_datarel | DW_EH_PE_sdata4,
        HERE_RELATIVE_4 = DW_EH_PE_pcrel | DW_EH_PE_sdata4
    };
    int32_t begin;
    if (bytes < 12 || p[0] != 1 || p[1] != HERE_RELATIVE_4 || p[2] != DW_EH_PE_udata4 ||
        p[3] != DATA_RELATIVE_4)
        return;
    uint32_t n;
    memcpy(&begin, p + 4, sizeof begin);
    *frames = address + 4 + (uint64_t)(int64_t)begin;
    memcpy(&n, p + 8, sizeof n);
    if (n > (bytes - 12) / 8)
        n = (uint32_t)((bytes - 12) / 8);
    for (uint32_t i = 0; i < n; i++) {
        int32_t relative[2];
        memcpy(relative, p + 12 + (size_t)i * 8, sizeof relative);
        if (!add_unwind_function(r, address + (uint64_t)(int64_t)relative[0],
                                 address + (uint64_t)(int64_t)relative[1]))
            return;
    }
}

/* Without that table (static programs have none): .eh_frame, by the names of sections. */
static uint8_t *frame_section(struct reading *r, const Elf64_Ehdr *e, uint64_t *address,
                              size_t *count)
{
    size_t bytes, names_bytes;
    if (e->e_shentsize != sizeof(Elf64_Shdr) || !e->e_shnum || e->e_shoff > INT64_MAX / 2 ||
        e->e_shstrndx >= e->e_shnum)
        return NULL;
    uint8_t *headers = read_file_bytes(r, e->e_shoff, e->e_shnum * sizeof(Elf64_Shdr), &bytes),
            *names = NULL, *found = NULL;
    Elf64_Shdr s;
    const size_t n = headers ? bytes / sizeof s : 0;
    if (e->e_shstrndx < n) {
        memcpy(&s, headers + e->e_shstrndx * sizeof s, sizeof s);
        names = s.sh_offset <= INT64_MAX / 2
                    ? read_file_bytes(r, s.sh_offset, s.sh_size, &names_bytes)
                    : NULL;
    }
    for (size_t i = 0; names && i < n && !found; i++) {
        memcpy(&s, headers + i * sizeof s, sizeof s);
        if (s.sh_name < names_bytes && !strcmp((const char *)names + s.sh_name, ".eh_frame") &&
            s.sh_offset <= INT64_MAX / 2 && s.sh_type != SHT_NOBITS) {
            *address = s.sh_addr;
            found = read_file_bytes(r, s.sh_offset, s.sh_size, count);
        }
    }
    free(names);
    free(headers);
    return found;
}

static void take_row(void *arg, uint64_t address, const struct unwind_row *row)
{
    put_unwind_row(arg, address, *row);
}

static uint64_t segment_end(const struct reading *r, uint64_t address)
{
    const struct segment *s = segment_at(r->segment, r->segments, address);
    return s ? s->address + s->bytes : address;
}

/* The tables; NULL: there are none. */
static uint8_t *read_unwind_tables(struct reading *r, const Elf64_Ehdr *e, const Elf64_Phdr *tables,
                                   struct callframes *c)
{
    uint64_t address = 0;
    size_t count = 0;
    uint8_t *frames;
    if (tables->p_filesz) {
        uint8_t *header = tables->p_offset <= INT64_MAX / 2
                              ? read_file_bytes(r, tables->p_offset, tables->p_filesz, &count)
                              : NULL;
        if (header)
            table_functions(r, tables->p_vaddr, header, count, &address);
        free(header);
        frames = r->functions ? read_address(r, address, &count) : NULL;
        if (frames)
            callframes_begin(c, frames, count, address);
        return frames;
    }
    frames = frame_section(r, e, &address, &count);
    if (!frames)
        return NULL;
    callframes_begin(c, frames, count, address);
    uint64_t start, fde;
    for (size_t at = 0;
         callframes_next(c, &at, &start, &fde) && add_unwind_function(r, start, fde);)
        ;
    return frames;
}

static void read_all_frames(struct reading *r, const Elf64_Ehdr *e, const Elf64_Phdr *tables)
{
    struct callframes c;
    uint8_t *frames = read_unwind_tables(r, e, tables, &c);
    if (!frames)
        return;
    if (r->functions > 1)
        qsort(r->function, r->functions, sizeof *r->function, compare_fde_starts);
    for (size_t i = 0; i < r->functions && r->rows < ROWS_MOST && !r->no_memory; i++) {
        uint64_t end = segment_end(r, r->function[i].start);
        if (i + 1 < r->functions && r->function[i + 1].start < end)
            end = r->function[i + 1].start;
        if (end > r->function[i].start)
            callframes_function(&c, r->function[i].start, r->function[i].fde, end, take_row, r);
    }
    free(frames);
    if (r->rows)
        qsort(r->row, r->rows, sizeof *r->row, compare_row_offsets);
}

int unwind_rows_read(const char *path, struct unwind_row **rows, size_t *count, struct error *err)
{
    struct reading r = {.fd = program_open(path, err)};
    Elf64_Ehdr e;
    Elf64_Phdr tables = {0};
    *rows = NULL;
    *count = 0;
    if (r.fd < 0)
        return -1;
    const bool is = trust_read(r.fd, &e, sizeof e, 0) == sizeof e && is_elf(&e) &&
                    read_load_segments(&r, &e, &tables);
    if (is)
        read_all_frames(&r, &e, &tables);
    close(r.fd);
    free(r.function);
    if (!is)
        return error_set(err, ERROR_FORMAT, "%s is not an x86-64 ELF file", path);
    if (r.no_memory || r.rows >= ROWS_MOST) {
        const bool too_many = !r.no_memory;
        free(r.row);
        if (too_many)
            return error_set(err, ERROR_UNSUPPORTED, "%s has more unwind tables than are read",
                             path);
        return error_memory_for(err, "the unwind tables of %s", path);
    }
    *rows = r.row;
    *count = r.rows;
    return 0;
}
