/* unwindrows.c - see unwindrows.h. The functions come from the table of .eh_frame_hdr, which is
 * sorted; the rows of each from libdw. */
#include "symbol/unwindrows.h"

#include "arch/system.h"
#include "base/array.h"
#include "symbol/program.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REGISTER_BP = 6, REGISTER_SP = 7, REGISTER_RA = 16, SEGMENTS_MAX = 32 };

struct segment {
    uint64_t address, offset, bytes;
};

struct reading {
    Elf *elf;
    Dwarf_CFI *cfi;
    struct segment segment[SEGMENTS_MAX];
    size_t segments;
    struct unwind_row *row;
    size_t rows, room;
    bool no_memory;
};

/* The file offset of an address that is in the file, else UINT64_MAX. */
static uint64_t offset_of(const struct reading *r, uint64_t address)
{
    for (size_t i = 0; i < r->segments; i++)
        if (address - r->segment[i].address < r->segment[i].bytes)
            return address - r->segment[i].address + r->segment[i].offset;
    return UINT64_MAX;
}

static void put(struct reading *r, uint64_t address, struct unwind_row row)
{
    row.offset = offset_of(r, address);
    if (row.offset == UINT64_MAX || r->no_memory)
        return;
    if (r->rows) {
        const struct unwind_row *last = &r->row[r->rows - 1];
        if (last->rule == row.rule && last->cfa_offset == row.cfa_offset &&
            last->bp_offset == row.bp_offset && last->offset < row.offset)
            return; /* goes on as before */
    }
    if (!ARRAY_ROOM(r->row, r->rows + 1, r->room)) {
        r->no_memory = true;
        return;
    }
    r->row[r->rows++] = row;
}

/* Whether the operation is register + offset, for one of two registers. */
static bool is_register(const Dwarf_Op *op, unsigned number, int64_t *offset)
{
    if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
        *offset = (int64_t)op->number;
        return (unsigned)(op->atom - DW_OP_breg0) == number;
    }
    if (op->atom == DW_OP_bregx) {
        *offset = (int64_t)op->number2;
        return op->number == number;
    }
    return false;
}

/* Where a register was saved, from the CFA. */
static bool saved_at(const Dwarf_Op *ops, size_t n, int64_t *offset)
{
    if (n == 1 && ops[0].atom == DW_OP_call_frame_cfa) {
        *offset = 0;
        return true;
    }
    if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst) {
        *offset = (int64_t)ops[1].number;
        return true;
    }
    return false;
}

static struct unwind_row reduce(Dwarf_Frame *frame, bool is_signal)
{
    const struct unwind_row none = {.rule = UNWIND_NONE};
    struct unwind_row row = {.rule = UNWIND_NONE};
    Dwarf_Op memory[3], *ops = NULL;
    size_t n = 0;
    int64_t offset;
    if (is_signal)
        return (struct unwind_row){.rule = UNWIND_SIGNAL};
    if (dwarf_frame_register(frame, REGISTER_RA, memory, &ops, &n))
        return none;
    if (n == 0 && ops == memory) /* undefined; NULL would be: as it was */
        return (struct unwind_row){.rule = UNWIND_END};
    if (!saved_at(ops, n, &offset) || offset != -8)
        return none;
    if (dwarf_frame_cfa(frame, &ops, &n) || n == 0)
        return none;
    if (n == 1 && is_register(ops, REGISTER_SP, &offset))
        row.rule = UNWIND_SP;
    else if (n == 1 && is_register(ops, REGISTER_BP, &offset))
        row.rule = UNWIND_BP;
    else if (n == 2 && is_register(ops, REGISTER_BP, &offset) && ops[1].atom == DW_OP_deref)
        row.rule = UNWIND_REALIGNED;
    else if (n > 2 && is_register(ops, REGISTER_SP, &offset) && offset == 8 &&
             is_register(ops + 1, REGISTER_RA, &offset))
        return (struct unwind_row){.rule = UNWIND_PLT};
    else
        return none;
    if (offset < INT32_MIN || offset > INT32_MAX)
        return none;
    row.cfa_offset = (int32_t)offset;
    if (row.rule == UNWIND_REALIGNED)
        return row;
    if (dwarf_frame_register(frame, REGISTER_BP, memory, &ops, &n) == 0 && n &&
        saved_at(ops, n, &offset) && offset < 0 && offset > INT32_MIN)
        row.bp_offset = (int32_t)offset;
    return row;
}

/* The rows of the function at `start`; `next` is where another begins. */
static void read_function(struct reading *r, uint64_t start, uint64_t next)
{
    for (uint64_t pc = start; pc < next && !r->no_memory;) {
        Dwarf_Frame *frame = NULL;
        Dwarf_Addr from = pc, to = next;
        bool is_signal = false;
        if (dwarf_cfi_addrframe(r->cfi, pc, &frame)) {
            put(r, pc, (struct unwind_row){.rule = UNWIND_NONE});
            return; /* a gap between functions */
        }
        int is = dwarf_frame_info(frame, &from, &to, &is_signal);
        /* The rule of a signal frame holds from the byte before the function on. */
        if (is >= 0 && from < to && to > pc)
            put(r, pc, reduce(frame, is_signal));
        free(frame);
        if (is < 0 || to <= pc)
            return;
        pc = to;
    }
}

static int by_offset(const void *a, const void *b)
{
    const struct unwind_row *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_address(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The table of .eh_frame_hdr: version 1, addresses relative to it in 4 bytes, sorted. */
static uint64_t *function_starts(struct reading *r, uint64_t address, const uint8_t *p,
                                 size_t bytes, size_t *count)
{
    enum { DATA_RELATIVE_4 = DW_EH_PE_datarel | DW_EH_PE_sdata4 };
    if (bytes < 12 || p[0] != 1 || p[2] != DW_EH_PE_udata4 || p[3] != DATA_RELATIVE_4)
        return NULL;
    uint32_t n;
    memcpy(&n, p + 8, sizeof n);
    if (n > (bytes - 12) / 8)
        n = (uint32_t)((bytes - 12) / 8);
    uint64_t *start = calloc((size_t)n + 1, sizeof *start);
    if (!start) {
        r->no_memory = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        int32_t relative;
        memcpy(&relative, p + 12 + (size_t)i * 8, sizeof relative);
        start[i] = address + (uint64_t)(int64_t)relative;
    }
    qsort(start, n, sizeof *start, by_address);
    *count = n;
    return start;
}

/* Without that table (static programs have none): the functions that .eh_frame itself lists, whose
 * addresses are mostly relative to where they stand, in 4 bytes. */
static uint64_t *listed_starts(struct reading *r, const GElf_Shdr *section, const Elf_Data *data,
                               size_t *count)
{
    const char *ident = elf_getident(r->elf, NULL);
    const uint8_t *bytes = data->d_buf;
    uint64_t *start = NULL;
    size_t n = 0, room = 0;
    Dwarf_Off at = 0, next = 0;
    Dwarf_CFI_Entry entry;
    for (; dwarf_next_cfi((const unsigned char *)ident, (Elf_Data *)(uintptr_t)data, true, at,
                          &next, &entry) == 0;
         at = next) {
        const bool is_common = dwarf_cfi_cie_p(&entry);
        const uint8_t *p = is_common ? NULL : entry.fde.start;
        int32_t relative;
        if (!p || entry.fde.end - p < (ptrdiff_t)sizeof relative)
            continue;
        if (!ARRAY_ROOM(start, n + 1, room)) {
            r->no_memory = true;
            break;
        }
        memcpy(&relative, p, sizeof relative);
        start[n++] = section->sh_addr + (uint64_t)(p - bytes) + (uint64_t)(int64_t)relative;
    }
    if (n > 1)
        qsort(start, n, sizeof *start, by_address);
    *count = n;
    return start;
}

static uint64_t segment_end(const struct reading *r, uint64_t address)
{
    for (size_t i = 0; i < r->segments; i++)
        if (address - r->segment[i].address < r->segment[i].bytes)
            return r->segment[i].address + r->segment[i].bytes;
    return address;
}

/* Where functions begin, as the tables say. header: of .eh_frame_hdr, empty when there is none. */
static uint64_t *starts_of(struct reading *r, const GElf_Phdr *header, size_t *count)
{
    Elf_Data *data;
    GElf_Shdr section;
    size_t names = 0;
    if (header->p_filesz) {
        data =
            elf_getdata_rawchunk(r->elf, (int64_t)header->p_offset, header->p_filesz, ELF_T_BYTE);
        return data ? function_starts(r, header->p_vaddr, data->d_buf, data->d_size, count) : NULL;
    }
    if (elf_getshdrstrndx(r->elf, &names))
        return NULL;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(r->elf, scn));) {
        const char *name =
            gelf_getshdr(scn, &section) ? elf_strptr(r->elf, names, section.sh_name) : NULL;
        if (name && !strcmp(name, ".eh_frame") && (data = elf_rawdata(scn, NULL)) && data->d_buf)
            return listed_starts(r, &section, data, count);
    }
    return NULL;
}

static void read_all(struct reading *r, const GElf_Phdr *header)
{
    if (!(r->cfi = dwarf_getcfi_elf(r->elf)))
        return;
    size_t n = 0;
    uint64_t *start = starts_of(r, header, &n);
    for (size_t i = 0; start && i < n; i++) {
        uint64_t end = segment_end(r, start[i]);
        if (i + 1 < n && start[i + 1] < end)
            end = start[i + 1];
        read_function(r, start[i], end);
    }
    free(start);
    if (r->rows)
        qsort(r->row, r->rows, sizeof *r->row, by_offset);
    dwarf_cfi_end(r->cfi);
}

int unwind_rows_read(const char *path, struct unwind_row **rows, size_t *count, struct error *err)
{
    struct reading r = {0};
    *rows = NULL;
    *count = 0;
    elf_version(EV_CURRENT);
    int fd = program_open(path, err);
    if (fd < 0)
        return -1;
    GElf_Ehdr header;
    size_t programs = 0;
    r.elf = elf_begin(fd, ELF_C_READ, NULL);
    if (!r.elf || !gelf_getehdr(r.elf, &header) || header.e_machine != ARCH_ELF_MACHINE ||
        elf_getphdrnum(r.elf, &programs)) {
        elf_end(r.elf);
        close(fd);
        return error_set(err, ERROR_FORMAT, "%s is no x86-64 ELF file", path);
    }
    GElf_Phdr p, tables = {0};
    for (size_t i = 0; i < programs; i++) {
        if (!gelf_getphdr(r.elf, (int)i, &p))
            continue;
        if (p.p_type == PT_LOAD && p.p_flags & PF_X && r.segments < SEGMENTS_MAX)
            r.segment[r.segments++] = (struct segment){p.p_vaddr, p.p_offset, p.p_filesz};
        if (p.p_type == PT_GNU_EH_FRAME)
            tables = p;
    }
    read_all(&r, &tables);
    elf_end(r.elf);
    close(fd);
    if (r.no_memory) {
        free(r.row);
        return error_memory_for(err, "the unwind tables of %s", path);
    }
    *rows = r.row;
    *count = r.rows;
    return 0;
}
