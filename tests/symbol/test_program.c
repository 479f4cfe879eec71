/* test_program.c - what an ELF file may claim before a library maps it. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/program.h"

/* A file of this process's, of so many sections; the number is in the first one if it is large. */
static int file_of(uint64_t sections)
{
    const bool large = sections >= SHN_LORESERVE;
    const Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_shoff = sizeof head,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = large ? 0 : (Elf64_Half)sections};
    const Elf64_Shdr first = {.sh_size = large ? sections : 0};
    const int fd = memfd_create("program", MFD_CLOEXEC);
    assert_int_equal(write(fd, &head, sizeof head), sizeof head);
    assert_int_equal(write(fd, &first, sizeof first), sizeof first);
    assert_int_equal(ftruncate(fd, (off_t)(sizeof head + sections * sizeof first)), 0);
    return fd;
}

static void test_sections(void **state)
{
    struct error err = {0};
    (void)state;
    const int few = program_to_map(file_of(30), &err), most = program_to_map(file_of(65536), &err);
    assert_true(few >= 0 && most >= 0);
    close(few);
    close(most);
    assert_int_equal(program_to_map(file_of(65537), &err), -1);
    assert_string_equal(err.text, "it has more than 65536 sections");
    assert_int_equal(program_to_map(file_of(1u << 24), &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
