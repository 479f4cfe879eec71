/* Rows of unwind tables: those that libdw finds in real files, and a function of millions of rows,
 * which takes one pass. */
#include "symbol/unwindrows.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    ROWS = 4000000, /* a pass for each row takes hours; all in one pass, a second */
    HANGS_SECONDS = 200,
    ROW_BYTES = 3,
    CODE_AT = 0x1000,
    TABLES_AT = CODE_AT + ROWS + 0x1000,
    REGISTER_BP = 6,
    REGISTER_SP = 7
};

/* ---- as libdw has them ---- */

static int32_t offset_of(const Dwarf_Op *op)
{
    return op->atom == DW_OP_bregx ? (int32_t)op->number2 : (int32_t)op->number;
}

static int register_of(const Dwarf_Op *op)
{
    if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
        return op->atom - DW_OP_breg0;
    return op->atom == DW_OP_bregx ? (int)op->number : -1;
}

/* 0 where rbp is as the caller had it. */
static int32_t saved_bp(Dwarf_Frame *frame)
{
    Dwarf_Op room[3], *ops = NULL;
    size_t n = 0;
    if (dwarf_frame_register(frame, REGISTER_BP, room, &ops, &n) || n < 2)
        return 0;
    return (int32_t)ops[1].number;
}

static uint64_t address_of(Elf *elf, uint64_t offset)
{
    size_t n = 0;
    GElf_Phdr p;
    elf_getphdrnum(elf, &n);
    for (size_t i = 0; i < n; i++)
        if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_LOAD && p.p_flags & PF_X &&
            offset - p.p_offset < p.p_filesz)
            return offset - p.p_offset + p.p_vaddr;
    return UINT64_MAX;
}

/* How many rows were compared. */
static size_t compare(const char *path)
{
    struct unwind_row *rows = NULL;
    size_t count = 0, compared = 0;
    struct error err = {0};
    assert_int_equal(unwind_rows_read(path, &rows, &count, &err), 0);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    Dwarf_CFI *cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
    assert_non_null(cfi);
    for (size_t i = 0; i < count; i++) {
        const struct unwind_row *r = &rows[i];
        Dwarf_Frame *frame = NULL;
        Dwarf_Op *ops = NULL;
        size_t n = 0;
        assert_true(!i || r[-1].offset < r->offset);
        if (r->rule != UNWIND_SP && r->rule != UNWIND_BP)
            continue;
        assert_int_equal(dwarf_cfi_addrframe(cfi, address_of(elf, r->offset), &frame), 0);
        assert_int_equal(dwarf_frame_cfa(frame, &ops, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(register_of(ops), r->rule == UNWIND_SP ? REGISTER_SP : REGISTER_BP);
        assert_int_equal(offset_of(ops), r->cfa_offset);
        assert_int_equal(saved_bp(frame), r->bp_offset);
        free(frame);
        compared++;
    }
    dwarf_cfi_end(cfi);
    elf_end(elf);
    close(fd);
    free(rows);
    return compared;
}

static int compare_module(struct dl_phdr_info *module, size_t bytes, void *compared)
{
    (void)bytes;
    if (strchr(module->dlpi_name, '/'))
        *(size_t *)compared += compare(module->dlpi_name);
    return 0;
}

static void test_as_libdw(void **state)
{
    size_t compared = compare("/proc/self/exe");
    (void)state;
    dl_iterate_phdr(compare_module, &compared);
    assert_true(compared > 10000);
}

/* ---- one function of many rows ---- */

static void put(uint8_t **at, const void *bytes, size_t n)
{
    memcpy(*at, bytes, n);
    *at += n;
}

static void put_4(uint8_t **at, uint32_t v) { put(at, &v, sizeof v); }

/* Each instruction of its has another row: the stack pointer is 16 and 8 below the frame by turns.
 */
static size_t make_tables(uint8_t *begin)
{
    static const uint8_t cie[] = {1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0};
    uint8_t *at = begin;
    const uint32_t header = 20, fde = header + 4 + sizeof cie + 4;
    put(&at, "\x01\x1b\x03\x3b", 4);
    put_4(&at, header - 4); /* to .eh_frame, from here */
    put_4(&at, 1);
    put_4(&at, (uint32_t)CODE_AT - (uint32_t)TABLES_AT);
    put_4(&at, fde);
    put_4(&at, 4 + sizeof cie);
    put_4(&at, 0);
    put(&at, cie, sizeof cie);
    put_4(&at, 13 + ROWS * ROW_BYTES);
    put_4(&at, (uint32_t)(at - begin) - header); /* back to the CIE */
    put_4(&at, (uint32_t)CODE_AT - (uint32_t)(TABLES_AT + (at - begin)));
    put_4(&at, ROWS + 1);
    put(&at, "", 1);
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint8_t row[ROW_BYTES] = {DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset,
                                        i & 1 ? 8 : 16};
        put(&at, row, sizeof row);
    }
    put_4(&at, 0);
    return (size_t)(at - begin);
}

static void test_one_pass(void **state)
{
    char path[] = "/tmp/test-unwindrows-XXXXXX";
    uint8_t *tables = malloc((size_t)ROWS * ROW_BYTES + 1024);
    struct unwind_row *rows = NULL;
    size_t count = 0;
    struct error err = {0};
    const int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0 && tables);
    const size_t bytes = make_tables(tables);
    struct {
        Elf64_Ehdr e;
        Elf64_Phdr p[3];
    } file = {.e = {.e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof(Elf64_Ehdr),
                    .e_ehsize = sizeof(Elf64_Ehdr),
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 3}};
    memcpy(file.e.e_ident, ELFMAG "\x02\x01\x01", 7);
    file.p[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                             .p_flags = PF_R | PF_X,
                             .p_offset = CODE_AT,
                             .p_vaddr = CODE_AT,
                             .p_filesz = ROWS + 1,
                             .p_memsz = ROWS + 1};
    file.p[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                             .p_flags = PF_R,
                             .p_offset = TABLES_AT,
                             .p_vaddr = TABLES_AT,
                             .p_filesz = bytes,
                             .p_memsz = bytes};
    file.p[2] = file.p[1];
    file.p[2].p_type = PT_GNU_EH_FRAME;
    assert_int_equal(pwrite(fd, &file, sizeof file, 0), sizeof file);
    assert_int_equal(pwrite(fd, tables, bytes, TABLES_AT), bytes);
    alarm(HANGS_SECONDS);
    assert_int_equal(unwind_rows_read(path, &rows, &count, &err), 0);
    alarm(0);
    unlink(path);
    close(fd);
    assert_int_equal(count, ROWS + 1);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].offset, CODE_AT + i);
        assert_int_equal(rows[i].rule, UNWIND_SP);
        assert_int_equal(rows[i].cfa_offset, i & 1 ? 16 : 8);
    }
    free(rows);
    free(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_libdw),
        cmocka_unit_test(test_one_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
