/* joins.c - whether a program that is about to run will load us.
 *
 * Looked at are programs that a child runs which shares our memory (vfork, posix_spawn): it never
 * joins the recording, so its rows would not be missed. */
#include <elf.h>
#include <string.h>

#include "recorder.h"

/* Static, or for another machine. */
static bool is_foreign(int fd)
{
    enum { PROGRAMS = 32 };
    Elf64_Ehdr head;
    Elf64_Phdr program[PROGRAMS];
    if (sys_pread64(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return false; /* a script, whose interpreter is another file */
    if (head.e_ident[EI_CLASS] != ELFCLASS64)
        return true;
    const unsigned n = head.e_phnum < PROGRAMS ? head.e_phnum : PROGRAMS;
    const long bytes = (long)(n * sizeof *program);
    if (head.e_phentsize != sizeof *program ||
        sys_pread64(fd, program, (size_t)bytes, (off_t)head.e_phoff) != bytes)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (program[i].p_type == PT_INTERP)
            return false;
    return true;
}

static bool will_join(const char *path)
{
    struct stat st;
    long fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0)
        return true; /* it will hardly be executed */
    bool other = false;
    if (!sys_fstat((int)fd, &st) && S_ISREG(st.st_mode))
        other = (st.st_mode & S_ISUID && st.st_uid != (uid_t)sys_geteuid()) || is_foreign((int)fd);
    sys_close((int)fd);
    return !other;
}

/* Others are looked for in PATH. */
static bool has_slash(const char *path)
{
    while (*path && *path != '/')
        path++;
    return *path;
}

void joins_note(const char *path)
{
    struct mlw_process *p = recorder.process;
    if (!wiped.control || recorder.off || !p || sys_closed || !path || !has_slash(path) ||
        recorder.session->options & MLW_OPT_NO_FOLLOW || will_join(path))
        return;
    if (__atomic_fetch_add(&p->unjoined, 1, __ATOMIC_RELAXED))
        return;
    size_t n = strnlen(path, sizeof p->unjoined_path - 1);
    memcpy(p->unjoined_path, path, n);
    p->unjoined_path[n] = 0;
}
