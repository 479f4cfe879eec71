/* image.c - Reads the modules, symbols and unwind rules of a running process from its memory and
 * files. Symbol tables come from the process's memory, which is hostile, so each index and
 * length is checked. */
#include "remote/image.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "remote/unwind.h"

#define PROGRAMS 64u
#define DYNAMIC  256u

bool injected_hold(struct injected *t, pid_t pid)
{
    *t = (struct injected){.target = target_look(pid), .wanted = -1};
    return t->target;
}

/* ---- mappings ---- */

static enum module_kind kind_of(const char *path)
{
    static const char *const libc[] = {"libc.so.6", "libc-2.",         "libdl.so.2",
                                       "libdl-2.",  "libpthread.so.0", "libpthread-2."};
    static const char *const unsafe[] = {"libgcc_s.so", "libmallow-"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!strncmp(name, "ld-linux", 8) || !strncmp(name, "ld-2.", 5))
        return MODULE_LINKER;
    for (size_t i = 0; i < sizeof libc / sizeof *libc; i++)
        if (!strncmp(name, libc[i], strlen(libc[i])))
            return MODULE_LIBC;
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if (!strncmp(name, unsafe[i], strlen(unsafe[i])))
            return MODULE_UNSAFE;
    return MODULE_OTHER;
}

static uint64_t hash_of(const struct target_region *r)
{
    return r->inode * 0x9e3779b97f4a7c15u ^ r->device;
}

struct module *injected_module_of(const struct injected *t, const struct target_region *r)
{
    size_t at = INDEX_START;
    if (!r->file || !r->inode)
        return NULL;
    for (uint32_t i; (i = index_next(&t->module_index, hash_of(r), &at)) != INDEX_NONE;)
        if (t->modules[i].inode == r->inode && t->modules[i].device == r->device)
            return &t->modules[i];
    return NULL;
}

/* The same; made if there is none. NULL: out of memory. */
static struct module *add_module(struct injected *t, const struct target_region *r)
{
    struct module *m = injected_module_of(t, r);
    if (m)
        return m;
    if (!ARRAY_ROOM(t->modules, t->module_count + 1, t->module_room) ||
        !index_add(&t->module_index, hash_of(r), (uint32_t)t->module_count))
        return NULL;
    m = &t->modules[t->module_count++];
    *m = (struct module){
        .path = r->file, .device = r->device, .inode = r->inode, .kind = kind_of(r->file)};
    return m;
}

int injected_refresh(struct injected *t)
{
    const int number = target_map(t->target);
    for (size_t i = 0; i < t->module_count; i++)
        t->modules[i].base = t->modules[i].begins = 0;
    for (size_t i = 0; !number && i < t->target->region_count; i++) {
        const struct target_region *r = &t->target->regions[i];
        if (!r->file || !r->inode)
            continue;
        struct module *m = add_module(t, r);
        if (!m)
            return ENOMEM;
        /* A program may map a file of code as data, also one that it runs, and a copy of another.
         */
        if (!r->offset)
            m->begins = r->start;
        if (r->flags & REGION_EXEC && !m->base)
            m->base = m->begins;
    }
    return !number && t->target->cut_regions ? E2BIG : number;
}

void injected_close(struct injected *t)
{
    for (size_t i = 0; i < t->module_count; i++)
        free(t->modules[i].rows);
    free(t->modules);
    index_release(&t->module_index);
    target_close(t->target);
    *t = (struct injected){0};
}

const struct module *injected_module(const struct injected *t, const char *name)
{
    for (size_t i = 0; i < t->module_count; i++) {
        const char *slash = strrchr(t->modules[i].path, '/');
        if (slash && !strncmp(slash + 1, name, strlen(name)) && t->modules[i].base)
            return &t->modules[i];
    }
    return NULL;
}

/* ---- symbols, from the process's memory ---- */

struct tables {
    uint64_t bias, symbols, names, hash, versions;
};

static bool read_tables(const struct injected *t, uint64_t base, struct tables *to)
{
    Elf64_Ehdr head;
    Elf64_Phdr program[PROGRAMS];
    Elf64_Dyn dynamic[DYNAMIC];
    uint64_t first = UINT64_MAX, at = 0, bytes = 0;
    *to = (struct tables){0};
    if (!target_get(t->target, base, &head, sizeof head) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_phnum > PROGRAMS || head.e_phentsize != sizeof *program ||
        !target_get(t->target, base + head.e_phoff, program, head.e_phnum * sizeof *program))
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        if (program[i].p_type == PT_LOAD && first == UINT64_MAX)
            first = program[i].p_vaddr & ~4095ull;
        if (program[i].p_type == PT_DYNAMIC) {
            at = program[i].p_vaddr;
            bytes = program[i].p_memsz;
        }
    }
    to->bias = base - first;
    if (!at || first == UINT64_MAX)
        return false;
    if (bytes > sizeof dynamic)
        bytes = sizeof dynamic;
    if (!target_get(t->target, to->bias + at, dynamic, bytes))
        return false;
    for (size_t i = 0; i < bytes / sizeof *dynamic && dynamic[i].d_tag != DT_NULL; i++) {
        uint64_t value = dynamic[i].d_un.d_ptr;
        if (value < to->bias)
            value += to->bias;
        switch (dynamic[i].d_tag) {
        case DT_SYMTAB: to->symbols = value; break;
        case DT_STRTAB: to->names = value; break;
        case DT_GNU_HASH: to->hash = value; break;
        case DT_VERSYM: to->versions = value; break;
        default: break;
        }
    }
    return to->symbols && to->names && to->hash;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    while (*name)
        h = h * 33 + (uint8_t)*name++;
    return h;
}

/* True if symbol i is defined, of that name, and in its default version. */
static bool is_symbol(const struct injected *t, const struct tables *k, uint32_t i,
                      const char *name, Elf64_Sym *s)
{
    char text[64];
    uint16_t version = 0;
    const size_t n = strlen(name) + 1;
    return n <= sizeof text && target_get(t->target, k->symbols + i * sizeof *s, s, sizeof *s) &&
           s->st_shndx != SHN_UNDEF && s->st_value &&
           (ELF64_ST_TYPE(s->st_info) == STT_FUNC || ELF64_ST_TYPE(s->st_info) == STT_OBJECT) &&
           target_get(t->target, k->names + s->st_name, text, n) && !memcmp(text, name, n) &&
           (!k->versions ||
            (target_get(t->target, k->versions + i * 2ull, &version, 2) && !(version & 0x8000)));
}

uint64_t injected_symbol(const struct injected *t, uint64_t base, const char *name, uint64_t *bytes)
{
    struct tables k;
    uint32_t head[4], i;
    Elf64_Sym s;
    if (!read_tables(t, base, &k) || !target_get(t->target, k.hash, head, sizeof head) || !head[0])
        return 0;
    const uint32_t h = gnu_hash(name);
    const uint64_t buckets = k.hash + 16 + 8ull * head[2], chain = buckets + 4ull * head[0];
    if (!target_get(t->target, buckets + 4ull * (h % head[0]), &i, sizeof i) || i < head[1])
        return 0;
    for (unsigned steps = 0; steps < 4096; steps++, i++) {
        uint32_t link;
        if (!target_get(t->target, chain + 4ull * (i - head[1]), &link, sizeof link))
            return 0;
        if ((link | 1) == (h | 1) && is_symbol(t, &k, i, name, &s)) {
            if (bytes)
                *bytes = s.st_size;
            return k.bias + s.st_value;
        }
        if (link & 1)
            return 0;
    }
    return 0;
}

uint64_t injected_function(const struct injected *t, enum module_kind kind, const char *name,
                           uint64_t *bytes)
{
    for (size_t i = 0; i < t->module_count; i++) {
        const struct module *m = &t->modules[i];
        const uint64_t at =
            m->kind == kind && m->base ? injected_symbol(t, m->base, name, bytes) : 0;
        const struct target_region *r = at ? target_region_at(t->target, at) : NULL;
        if (r && r->flags & REGION_EXEC) /* in the module, or where we have led it */
            return at;
    }
    return 0;
}

uint64_t injected_errno(const struct injected *t)
{
    static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}, load[] = {0x48, 0x8b, 0x05},
                         add[] = {0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0};
    uint8_t code[32];
    int32_t distance;
    uint64_t offset, at = injected_function(t, MODULE_LIBC, "__errno_location", NULL);
    const uint8_t *c = code;
    if (!at || !target_get(t->target, at, code, sizeof code))
        return 0;
    if (!memcmp(c, mark, sizeof mark))
        c += sizeof mark;
    if (memcmp(c, load, sizeof load) != 0 || memcmp(c + 7, add, sizeof add) != 0)
        return 0;
    memcpy(&distance, c + 3, 4);
    at += (uint64_t)(c - code) + 7 + (uint64_t)(int64_t)distance;
    return target_get(t->target, at, &offset, 8) ? offset : 0;
}

/* ---- unwind tables ---- */

static void read_rows(const struct injected *t, struct module *m)
{
    char path[64];
    struct error ignored;
    int fd = -1;
    m->looked = true;
    for (size_t i = 0; i < t->target->region_count && fd < 0; i++)
        if (injected_module_of(t, &t->target->regions[i]) == m)
            fd = target_open_mapped(t->target, &t->target->regions[i], &ignored);
    if (fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (unwind_rows_read(path, &m->rows, &m->row_count, &ignored)) {
        m->rows = NULL;
        m->row_count = 0;
    }
    close(fd);
}

bool injected_learn(struct injected *t)
{
    if (t->wanted < 0)
        return false;
    read_rows(t, &t->modules[t->wanted]);
    t->wanted = -1;
    return true;
}

const struct unwind_row *injected_rule(struct injected *t, uint64_t pc, enum module_kind *kind)
{
    const struct target_region *r = target_region_at(t->target, pc);
    struct module *m = r && r->flags & REGION_EXEC ? injected_module_of(t, r) : NULL;
    if (!m)
        return NULL;
    *kind = m->kind;
    if (m->looked)
        return unwind_row_at(m->rows, m->row_count, pc - r->start + r->offset);
    t->wanted = (int)(m - t->modules);
    return NULL;
}
