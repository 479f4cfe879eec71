/* module.c - Reads the ELF headers of each mapped file from the target's memory, and checks
 * them. A core may lack the pages of a file. The file named in it is then believed only if its
 * build-id or its shape matches. */
#include "heap/module.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/system.h"
#include "arch/page.h"
#include "base/array.h"
#include "symbol/program.h"

enum { HEADERS_MAX = 64, NOTE_BYTES_MAX = 4096 };

/* Reads of the target's memory, or of a file (fd >= 0, at offsets). */
static bool get(struct target *t, int fd, uint64_t at, void *into, size_t bytes)
{
    if (fd >= 0)
        return at < INT64_MAX && pread(fd, into, bytes, (off_t)at) == (ssize_t)bytes;
    return target_read(t, at, into, bytes) == bytes;
}

static size_t find_build_id(struct target *t, int fd, uint64_t at, uint64_t bytes, uint8_t *id)
{
    uint8_t data[NOTE_BYTES_MAX];
    if (bytes > sizeof data)
        bytes = sizeof data;
    if (!get(t, fd, at, data, bytes))
        return 0;
    for (uint64_t p = 0; p + sizeof(Elf64_Nhdr) <= bytes;) {
        Elf64_Nhdr n;
        memcpy(&n, data + p, sizeof n);
        uint64_t name = p + sizeof n, desc = name + (((uint64_t)n.n_namesz + 3) & ~3ULL);
        if (desc > bytes || n.n_descsz > bytes - desc)
            break;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(data + name, "GNU", 4) &&
            n.n_descsz && n.n_descsz <= MODULE_ID_BYTES_MAX) {
            memcpy(id, data + desc, n.n_descsz);
            return n.n_descsz;
        }
        p = desc + (((uint64_t)n.n_descsz + 3) & ~3ULL);
    }
    return 0;
}

static size_t read_headers(struct target *t, int fd, uint64_t at, Elf64_Phdr p[HEADERS_MAX],
                           uint16_t *type)
{
    Elf64_Ehdr e;
    if (!get(t, fd, at, &e, sizeof e) || memcmp(e.e_ident, ELFMAG, SELFMAG) ||
        e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != ARCH_ELF_MACHINE ||
        (e.e_type != ET_DYN && e.e_type != ET_EXEC) || e.e_phentsize != sizeof *p || !e.e_phnum ||
        e.e_phnum > HEADERS_MAX || e.e_phoff > 1 << 20)
        return 0;
    *type = e.e_type;
    return get(t, fd, at + e.e_phoff, p, e.e_phnum * sizeof *p) ? e.e_phnum : 0;
}

/* The first mapping of a file begins at `start`, at offset 0 of the file. */
static bool read_module(struct target *t, int fd, struct module *m)
{
    Elf64_Phdr p[HEADERS_MAX];
    uint16_t type = 0;
    size_t n = read_headers(t, fd, fd >= 0 ? 0 : m->start, p, &type);
    bool first = true;
    for (size_t i = 0; i < n; i++)
        if (p[i].p_type == PT_LOAD && first) {
            m->bias = m->start - (p[i].p_vaddr & ~(uint64_t)(TARGET_PAGE_BYTES - 1));
            first = false;
        }
    if (first || (type == ET_EXEC && m->bias))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = m->bias + p[i].p_vaddr;
        if (p[i].p_memsz > (uint64_t)1 << 40 || at >> ARCH_ADDRESS_BITS ||
            (at + p[i].p_memsz) >> ARCH_ADDRESS_BITS)
            continue;
        if (p[i].p_type == PT_LOAD && at + p[i].p_memsz > m->end)
            m->end = at + p[i].p_memsz;
        if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_W && m->data_count < MODULE_DATA_MAX)
            m->data[m->data_count++] = (struct module_range){at, at + p[i].p_memsz};
        if (p[i].p_type == PT_TLS)
            m->tls_bytes = p[i].p_memsz;
        if (p[i].p_type == PT_NOTE && !m->build_id_bytes)
            m->build_id_bytes =
                find_build_id(t, fd, fd >= 0 ? p[i].p_offset : at, p[i].p_filesz, m->build_id);
    }
    return true;
}

/* For a core: opens the file it names; what it holds is proved afterwards. */
static int open_named(const char *path)
{
    struct error ignored;
    return *path == '/' ? program_open(path, &ignored) : -1;
}

/* For a core: the same file is proved by its build-id, where the core holds the header; a file
 * whose header the core does not hold is believed if it has the right shape. */
static bool read_core_module(struct target *t, struct module *m)
{
    struct module of_memory = *m, of_file = *m;
    bool in_core = read_module(t, -1, &of_memory);
    int fd = open_named(m->path);
    bool in_file = fd >= 0 && read_module(t, fd, &of_file);
    bool same =
        in_file &&
        (!in_core || (of_memory.build_id_bytes == of_file.build_id_bytes &&
                      !memcmp(of_memory.build_id, of_file.build_id, of_file.build_id_bytes)));
    if (!same && fd >= 0)
        close(fd);
    target_core_file(t, m->path, same ? fd : -1);
    if (!in_core && !same)
        return false;
    *m = in_core ? of_memory : of_file;
    return true;
}

int modules_read(struct modules *modules, struct target *t)
{
    *modules = (struct modules){0};
    size_t room = 0, tried = 0;
    for (size_t i = 0; i < t->region_count; i++) {
        const struct target_region *r = &t->regions[i];
        if (!r->file || r->offset || r->flags & REGION_SHARED)
            continue;
        struct module m = {.path = r->file, .start = r->start, .end = r->end, .first_end = r->end};
        const char *slash = strrchr(m.path, '/');
        m.name = slash && slash[1] ? slash + 1 : m.path;
        if (modules->count >= MODULES_MAX || ++tried > MODULES_TRIED_MAX) {
            t->cut_modules = true;
            break;
        }
        if (!(t->source == TARGET_CORE ? read_core_module(t, &m) : read_module(t, -1, &m)))
            continue;
        if (modules->count && modules->at[modules->count - 1].end > m.start)
            continue; /* the same file again, within the extent of the one before */
        if (!ARRAY_ROOM(modules->at, modules->count + 1, room)) {
            modules_release(modules);
            return -1;
        }
        modules->at[modules->count++] = m;
    }
    return 0;
}

void modules_release(struct modules *m)
{
    free(m->at);
    *m = (struct modules){0};
}

const struct module *modules_at(const struct modules *m, uint64_t address)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->at[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->count && m->at[low].start <= address ? &m->at[low] : NULL;
}
