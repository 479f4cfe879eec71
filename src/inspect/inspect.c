/* inspect.c - see inspect.h. What a file says about itself; the judgement is in judge.c. */
#include "inspect/inspect.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"
#include "symbol/program.h"

/* ---- finding the file ---- */

static int refuse_program(struct error *err, int number, const char *name, const char *why)
{
    error_set(err, ERROR_SYSTEM, "%s: %s", name, why);
    err->number = number;
    return -1;
}

/* Takes `path` when it is a regular file that may be executed. Returns 0 or an errno. */
static int try_path(const char *path, struct inspect *r)
{
    struct stat st;
    if (strlen(path) >= sizeof r->path)
        return ENAMETOOLONG;
    if (stat(path, &st))
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode) || access(path, X_OK))
        return EACCES;
    strcpy(r->path, path);
    return 0;
}

static int find_in_path(const char *name, struct inspect *r, struct error *err)
{
    const char *p = getenv("PATH");
    bool forbidden = false;
    if (!p)
        p = "/bin:/usr/bin";
    for (;;) {
        size_t n = strcspn(p, ":");
        char path[PATH_MAX];
        int length = n ? snprintf(path, sizeof path, "%.*s/%s", (int)n, p, name)
                       : snprintf(path, sizeof path, "./%s", name);
        if (length > 0 && (size_t)length < sizeof path) {
            int bad = try_path(path, r);
            if (!bad)
                return 0;
            forbidden |= bad == EACCES;
        }
        if (!p[n])
            break;
        p += n + 1;
    }
    if (forbidden)
        return refuse_program(err, EACCES, name, "found in PATH, but it may not be executed");
    return refuse_program(err, ENOENT, name, "no such program in PATH");
}

static int find_program_file(const char *name, struct inspect *r, struct error *err)
{
    if (!strchr(name, '/'))
        return find_in_path(name, r, err);
    int bad = try_path(name, r);
    if (!bad)
        return 0;
    if (bad == EISDIR)
        return refuse_program(err, EACCES, name, "is a directory, not a program");
    return refuse_program(err, bad, name,
                          bad == EACCES ? "may not be executed (chmod +x?)" : strerror(bad));
}

/* ---- scripts ---- */

/* When the file starts with `#!`, puts its interpreter's path into `out` and returns true. */
static bool script_interpreter(int fd, char out[PATH_MAX])
{
    char line[PATH_MAX];
    ssize_t n = pread(fd, line, sizeof line - 1, 0);
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = 0;
    char *p = line + 2;
    p += strspn(p, " \t");
    size_t length = strcspn(p, " \t\n");
    if (!length || length >= PATH_MAX)
        return false;
    memcpy(out, p, length);
    out[length] = 0;
    /* `#!/usr/bin/env NAME` (or `env -S NAME`) runs what env finds. */
    if (strcmp(path_base_name(out), "env") != 0)
        return true;
    p += length;
    for (;;) {
        p += strspn(p, " \t");
        length = strcspn(p, " \t\n");
        if (!length || (*p != '-' && !memchr(p, '=', length)))
            break;
        p += length;
    }
    if (length) {
        memcpy(out, p, length);
        out[length] = 0;
    }
    return true;
}

/* ---- privileges ---- */

/* Would executing the file put the loader into secure mode (AT_SECURE)? */
static bool gains_privileges(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        return true;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
        return true;
    char capability[64];
    return getuid() != 0 && fgetxattr(fd, "security.capability", capability, sizeof capability) > 0;
}

/* ---- ELF ---- */

static bool one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(name, *list))
            return true;
    return false;
}

static void look_at_symbol(const char *name, bool exported, struct inspect *r)
{
    static const char *const mallocs[] = {"malloc", "__libc_malloc", NULL};
    static const struct {
        const char *symbol, *what;
    } bundled[] = {{"_rjem_malloc", "jemalloc (_rjem_malloc)"},
                   {"je_malloc", "jemalloc (je_malloc)"},
                   {"mi_malloc", "mimalloc (mi_malloc)"},
                   {"tc_malloc", "tcmalloc (tc_malloc)"},
                   {"_mi_heap_main", "mimalloc"},
                   {"dlmalloc", "dlmalloc"},
                   {"rpmalloc", "rpmalloc"}};
    if (one_of(name, mallocs)) {
        r->defines_malloc = true;
        r->exports_malloc |= exported;
    }
    for (size_t i = 0; i < sizeof bundled / sizeof *bundled && !*r->own_allocator; i++)
        if (!strcmp(name, bundled[i].symbol))
            snprintf(r->own_allocator, sizeof r->own_allocator, "%s", bundled[i].what);
}

static void read_program_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
                                 struct inspect *r)
{
    bool dynamic = header->sh_type == SHT_DYNSYM;
    if (!header->sh_entsize)
        return;
    for (Elf_Data *data = NULL; (data = elf_getdata(section, data));) {
        size_t count = data->d_size / header->sh_entsize;
        for (size_t i = 0; i < count && i <= INT_MAX; i++) {
            GElf_Sym symbol;
            if (!gelf_getsym(data, (int)i, &symbol))
                break;
            if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF)
                continue;
            const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
            if (name)
                look_at_symbol(name, dynamic && GELF_ST_BIND(symbol.st_info) != STB_LOCAL, r);
        }
    }
}

static void look_at_needed(const char *library, struct inspect *r)
{
    static const char *const allocators[] = {"libjemalloc", "libtcmalloc",  "libmimalloc",
                                             "libsnmalloc", "librpmalloc",  "libtbbmalloc",
                                             "libhoard",    "libtcmalloc_", NULL};
    static const char *const sanitizers[] = {"libasan.",         "libtsan.",         "liblsan.",
                                             "libclang_rt.asan", "libclang_rt.tsan", NULL};
    for (const char *const *a = allocators; *a; a++)
        if (!strncmp(library, *a, strlen(*a)) && !*r->linked_allocator)
            snprintf(r->linked_allocator, sizeof r->linked_allocator, "%s", library);
    for (const char *const *a = sanitizers; *a; a++)
        if (!strncmp(library, *a, strlen(*a)) && !*r->linked_sanitizer)
            snprintf(r->linked_sanitizer, sizeof r->linked_sanitizer, "%s", library);
}

/* Reads DT_NEEDED and DT_SONAME. */
static void read_dynamic(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, struct inspect *r)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || !header->sh_entsize)
        return;
    size_t count = data->d_size / header->sh_entsize;
    for (size_t i = 0; i < count && i <= INT_MAX; i++) {
        GElf_Dyn dyn;
        if (!gelf_getdyn(data, (int)i, &dyn) || dyn.d_tag == DT_NULL)
            break;
        const char *text = NULL;
        if (dyn.d_tag == DT_SYMBOLIC || (dyn.d_tag == DT_FLAGS && dyn.d_un.d_val & DF_SYMBOLIC))
            r->is_symbolic = true;
        if (dyn.d_tag == DT_NEEDED || dyn.d_tag == DT_SONAME)
            text = elf_strptr(elf, header->sh_link, dyn.d_un.d_val);
        if (!text)
            continue;
        if (dyn.d_tag == DT_NEEDED)
            look_at_needed(text, r);
        else if (!strncmp(text, "ld-linux", 8))
            r->is_loader = true;
    }
}

static void read_sections(Elf *elf, struct inspect *r)
{
    size_t names = 0;
    bool have_names = elf_getshdrstrndx(elf, &names) == 0;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header))
            continue;
        const char *name = have_names ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && !strcmp(name, ".go.buildinfo"))
            r->is_go = true;
        if (header.sh_type == SHT_SYMTAB)
            r->has_symbols = true;
        if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
            read_program_symbols(elf, section, &header, r);
        else if (header.sh_type == SHT_DYNAMIC)
            read_dynamic(elf, section, &header, r);
    }
}

static void read_segments(Elf *elf, int fd, struct inspect *r)
{
    size_t count = 0;
    if (elf_getphdrnum(elf, &count))
        return;
    for (size_t i = 0; i < count && i <= INT_MAX; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_INTERP)
            continue;
        size_t size =
            segment.p_filesz < sizeof r->interpreter ? segment.p_filesz : sizeof r->interpreter - 1;
        ssize_t n = pread(fd, r->interpreter, size, (off_t)segment.p_offset);
        r->interpreter[n > 0 ? n : 0] = 0;
    }
}

static void read_elf(int fd, struct inspect *r)
{
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    GElf_Ehdr header;
    if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header)) {
        elf_end(elf);
        return;
    }
    r->is_elf = true;
    r->bits = gelf_getclass(elf) == ELFCLASS32 ? 32 : 64;
    r->machine = header.e_machine;
    read_segments(elf, fd, r);
    read_sections(elf, r);
    r->is_static = !*r->interpreter && !r->is_loader;
    r->is_musl = !strncmp(path_base_name(r->interpreter), "ld-musl", 7);
    elf_end(elf);
}

/* musl's loader is its C library as well, and only its name says so. */
static void be_musls_loader(struct inspect *r)
{
    const char *name = path_base_name(r->path);
    if (!r->is_elf || *r->interpreter || !r->exports_malloc ||
        (strncmp(name, "ld-musl", 7) != 0 && strcmp(name, "libc.so") != 0))
        return;
    r->is_loader = r->is_musl = true;
    r->is_static = false;
    snprintf(r->interpreter, sizeof r->interpreter, "%s", r->path);
}

/* ---- all together ---- */

void inspect_open(int fd, struct inspect *result)
{
    memset(result, 0, sizeof *result);
    result->is_secure = gains_privileges(fd);
    read_elf(fd, result);
}

int inspect_program(const char *name, struct inspect *result, struct error *err)
{
    enum { SCRIPTS_MAX = 5 }; /* as many as the kernel follows */
    memset(result, 0, sizeof *result);
    if (!*name)
        return refuse_program(err, ENOENT, "''", "the program's name is empty");
    char next[PATH_MAX];
    for (int depth = 0;; depth++) {
        if (find_program_file(depth ? next : name, result, err)) {
            if (depth)
                error_prefix(err, "%s: its interpreter", result->script);
            return -1;
        }
        int fd = program_open(result->path, err);
        if (fd < 0) /* may be executed, not read: nothing more can be known */
            return err->kind == ERROR_SYSTEM && err->number == EACCES ? 0 : -1;
        bool script = script_interpreter(fd, next);
        if (!script) {
            result->is_secure = gains_privileges(fd);
            read_elf(fd, result);
            be_musls_loader(result);
        } else if (!*result->script)
            strcpy(result->script, result->path);
        close(fd);
        if (!script)
            return 0;
        if (depth == SCRIPTS_MAX)
            return refuse_program(err, ELOOP, name, "too many scripts that run scripts");
    }
}

/* ---- programs that a loader is given ---- */

/* The first of a loader's arguments that is neither an option nor the value of one; NULL: none. */
static const char *loaded_by(char *const arguments[])
{
    static const char *const with_value[] = {
        "--library-path",         "--preload",           "--audit", "--argv0", "--inhibit-rpath",
        "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask", NULL};
    for (char *const *a = arguments; *a; a++) {
        if ((*a)[0] != '-' || (*a)[1] != '-')
            return *a;
        if ((*a)[2] == 0) /* "--" is the end of musl's options */
            return a[1];
        if (one_of(*a, with_value) && !*++a)
            break;
    }
    return NULL;
}

int inspect_command(char *const argv[], struct inspect *result, struct error *err)
{
    struct error ignored;
    if (inspect_program(argv[0], result, err))
        return -1;
    const char *program = result->is_loader ? loaded_by(argv + 1) : NULL;
    if (!program || !strchr(program, '/')) /* else it looks among libraries */
        return 0;
    const int fd = program_open(program, &ignored);
    if (fd < 0)
        return 0; /* the loader will say */
    static struct inspect loader;
    loader = *result;
    inspect_open(fd, result);
    close(fd);
    result->is_secure = false;
    result->is_musl = loader.is_musl;
    snprintf(result->path, sizeof result->path, "%s", program);
    strcpy(result->script, loader.script);
    strcpy(result->interpreter, loader.path);
    return 0;
}
