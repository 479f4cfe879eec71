/* program.c - Opens ELF files of any owner. A file that its owner could truncate is copied
 * before it is mapped. A file that claims more sections than a bound is refused, because libelf
 * allocates memory for each. */
#include "symbol/program.h"

#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "trust/file.h"

/* The largest file of another user that is copied; code of larger ones has no names. */
#define COPY_BYTES_MAX ((uint64_t)1 << 30)
#define SECTIONS_MOST  65536u

int program_open(const char *path, struct error *err) { return trust_open_any(path, err); }

/* libelf makes a description of each section that a file claims to have. A number that is too large
 * for the header is in the first section. */
static bool has_too_many_sections(int fd)
{
    Elf64_Ehdr head;
    Elf64_Shdr first;
    return pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
           !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_ident[EI_CLASS] == ELFCLASS64 &&
           head.e_shoff && !head.e_shnum && head.e_shoff <= INT64_MAX &&
           pread(fd, &first, sizeof first, (off_t)head.e_shoff) == (ssize_t)sizeof first &&
           first.sh_size > SECTIONS_MOST;
}

int program_to_map(int fd, struct error *err)
{
    const int stable = trust_stable(fd, COPY_BYTES_MAX, err);
    if (stable < 0 || !has_too_many_sections(stable))
        return stable;
    close(stable);
    return error_set(err, ERROR_UNSUPPORTED, "it has more than %u sections", SECTIONS_MOST);
}

bool program_is_of_another(int fd)
{
    /* Only copies are sealed, and memory files that another user sealed. */
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & F_SEAL_SHRINK;
}

bool program_leads_elsewhere(Dwarf *dwarf)
{
    const char *name;
    const void *id;
    return dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id) > 0;
}
