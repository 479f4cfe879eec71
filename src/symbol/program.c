/* program.c - see program.h. */
#include "symbol/program.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <sys/types.h>

#include "trust/file.h"

/* The largest file of another user that is copied; code of larger ones has no names. */
#define COPY_BYTES_MAX ((uint64_t)1 << 30)

int program_open(const char *path, struct error *err) { return trust_open_any(path, err); }

int program_to_map(int fd, struct error *err) { return trust_stable(fd, COPY_BYTES_MAX, err); }

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
