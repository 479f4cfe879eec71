#include "remote/image.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/page.h"
#include "base/array.h"
#include "base/present.h"
#include "base/proc.h"
#include "symbol/program.h"
#include "trust/file.h"

#define PROGRAMS       64u
#define PAGE           ((uint64_t)ARCH_PAGE_BYTES)
#define ABSENT_BYTES   ((uint64_t)320 << 20) /* of files, that are read into memory */
#define SIGRETURN_MOST ((uint64_t)64 << 20)  /* of code, in which it is looked for */
#define DYNAMIC        256u

/* ---- memory ---- */

/* Knowledge of pages, and how much may be read that is not in memory. */
struct asked {
    struct present present;
    const struct module *module; /* whose file is open; NULL: none */
    int fd;
    bool refused;  /* it is no regular file */
    uint64_t size; /* of the file, at the last look */
    uint64_t left; /* bytes of files that may be read into memory */
};

/* The very file that is mapped; -1: it is not to be had. *refused: it is no regular file. */
static int open_module(const struct injected *t, const struct module *m, bool *refused)
{
    struct trust_identity id;
    struct error err = {0};
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)t->handle.pid, m->path);
    int fd = program_open(path, &err);
    *refused = false;
    if (fd >= 0 && trust_identify(fd, &id) && id.device == m->device && id.inode == m->inode)
        return fd;
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < t->region_count; i++) {
        const struct region *r = &t->regions[i];
        if (r->module < 0 || &t->modules[r->module] != m)
            continue;
        snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", (int)t->handle.pid,
                 (unsigned long)r->start, (unsigned long)r->end);
        fd = program_open(path, &err);
        *refused = fd < 0 && err.kind != ERROR_SYSTEM;
        return fd;
    }
    return -1;
}

/* Where the mapping's file has data at or after the address, as far as it is known. */
static uint64_t file_next(const struct injected *t, const struct region *r, uint64_t at)
{
    struct asked *k = t->asked;
    struct stat st;
    if (r->module < 0)
        return r->end; /* shared memory without a file to ask */
    if (k->module != &t->modules[r->module]) {
        if (k->fd >= 0)
            close(k->fd);
        k->module = &t->modules[r->module];
        k->fd = open_module(t, k->module, &k->refused);
    }
    if (k->fd < 0)
        return k->refused ? r->end : at;
    const uint64_t offset = at - r->start + r->offset;
    k->size = fstat(k->fd, &st) ? 0 : (uint64_t)st.st_size;
    if (offset >= k->size)
        return r->end;
    const uint64_t past = trust_past_hole(k->fd, offset, k->size) - offset;
    return past < r->end - at ? at + past : r->end;
}

enum page { PAGE_READ, PAGE_ZEROS, PAGE_NOTHING };

/* How a page is read without making one: those of shared mappings and of files are asked for. Where
 * a file cannot be asked, it is read as far as data that is not in memory may be. */
static enum page page_at(const struct injected *t, uint64_t page)
{
    const struct region *r = injected_region(t, page);
    if (!r)
        return PAGE_NOTHING;
    if ((r->module < 0 && !r->shared) || present_all(&t->asked->present, page, 1))
        return PAGE_READ;
    if (file_next(t, r, page) >= page + PAGE)
        return r->module >= 0 && t->asked->fd >= 0 && page - r->start + r->offset < t->asked->size
                   ? PAGE_ZEROS
                   : PAGE_NOTHING;
    if (t->asked->left < PAGE)
        return PAGE_NOTHING;
    t->asked->left -= PAGE;
    return PAGE_READ;
}

/* Where there may be something at or after the address. */
static uint64_t next_there(const struct injected *t, const struct region *r, uint64_t at)
{
    uint64_t from, to;
    if (present_next(&t->asked->present, at, r->end, &from, &to) == PRESENT_NONE)
        from = r->end;
    const uint64_t data = file_next(t, r, at) / PAGE * PAGE;
    return data < from ? data : from;
}

bool injected_read(const struct injected *t, uint64_t at, void *to, size_t bytes)
{
    const uint64_t end = at + bytes;
    uint8_t *into = to;
    uint64_t run = at; /* [run, page) is to be read */
    if (end < at || !t->asked)
        return false;
    for (uint64_t page = at / PAGE * PAGE; page < end; page += PAGE) {
        const enum page how = page_at(t, page);
        if (how == PAGE_READ)
            continue;
        if (how == PAGE_NOTHING ||
            (page > run && !handle_read(&t->handle, run, into + (run - at), page - run)))
            return false;
        const uint64_t from = page > at ? page : at, until = page + PAGE < end ? page + PAGE : end;
        memset(into + (from - at), 0, until - from);
        run = until;
    }
    return run >= end || handle_read(&t->handle, run, into + (run - at), end - run);
}

bool injected_write(const struct injected *t, uint64_t at, const void *from, size_t bytes)
{
    return handle_write(&t->handle, at, from, bytes);
}

void injected_hold(struct injected *t, pid_t pid)
{
    *t = (struct injected){.wanted = -1};
    handle_open(&t->handle, pid);
    if ((t->asked = calloc(1, sizeof *t->asked))) {
        *t->asked = (struct asked){.fd = -1, .left = ABSENT_BYTES};
        present_open(&t->asked->present, pid);
    }
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

static int module_of(struct injected *t, const struct proc_mapping *m)
{
    if (!m->inode)
        return -1;
    const uint64_t hash = m->inode * 0x9e3779b97f4a7c15u ^ m->device;
    size_t at = INDEX_START;
    for (uint32_t i; (i = index_next(&t->module_index, hash, &at)) != INDEX_NONE;)
        if (t->modules[i].inode == m->inode && t->modules[i].device == m->device)
            return (int)i;
    if (t->asked)
        t->asked->module = NULL; /* modules may move */
    if (!ARRAY_ROOM(t->modules, t->module_count + 1, t->module_room))
        return -2;
    struct module *k = &t->modules[t->module_count];
    *k = (struct module){
        .path = strdup(m->path), .device = m->device, .inode = m->inode, .kind = kind_of(m->path)};
    if (!k->path || !index_add(&t->module_index, hash, (uint32_t)t->module_count)) {
        free(k->path);
        return -2;
    }
    return (int)t->module_count++;
}

int injected_refresh(struct injected *t)
{
    struct proc_maps maps;
    struct proc_mapping m;
    int number = 0;
    t->region_count = 0;
    for (size_t i = 0; i < t->module_count; i++)
        t->modules[i].base = t->modules[i].begins = 0;
    if (!proc_maps_open(&maps, t->handle.pid))
        return errno;
    while (!number && proc_maps_next(&maps, &m)) {
        const int module = module_of(t, &m);
        if (t->region_count == INJECTED_REGIONS_MOST)
            number = E2BIG;
        else if (module == -2 || !ARRAY_ROOM(t->regions, t->region_count + 1, t->region_room))
            number = ENOMEM;
        if (number)
            break;
        /* A program may map a file of code as data, also one that it runs, and a copy of another.
         */
        if (module >= 0 && !m.offset)
            t->modules[module].begins = m.start;
        if (module >= 0 && m.mode[2] == 'x' && !t->modules[module].base)
            t->modules[module].base = t->modules[module].begins;
        t->regions[t->region_count++] = (struct region){.start = m.start,
                                                        .end = m.end,
                                                        .offset = m.offset,
                                                        .read = m.mode[0] == 'r',
                                                        .write = m.mode[1] == 'w',
                                                        .execute = m.mode[2] == 'x',
                                                        .shared = m.mode[3] == 's',
                                                        .stack = !strcmp(m.path, "[stack]"),
                                                        .module = module};
    }
    if (!number && !t->region_count)
        number = errno == EACCES || errno == EPERM ? errno : ESRCH;
    proc_maps_close(&maps);
    return number;
}

void injected_close(struct injected *t)
{
    for (size_t i = 0; i < t->module_count; i++) {
        free(t->modules[i].path);
        free(t->modules[i].rows);
    }
    free(t->modules);
    free(t->regions);
    handle_close(&t->handle);
    index_release(&t->module_index);
    if (t->asked) {
        present_close(&t->asked->present);
        if (t->asked->fd >= 0)
            close(t->asked->fd);
    }
    free(t->asked);
}

const struct region *injected_region(const struct injected *t, uint64_t address)
{
    size_t low = 0, high = t->region_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (t->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->region_count && t->regions[low].start <= address ? &t->regions[low] : NULL;
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
    if (!injected_read(t, base, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phnum > PROGRAMS ||
        head.e_phentsize != sizeof *program ||
        !injected_read(t, base + head.e_phoff, program, head.e_phnum * sizeof *program))
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
    if (!injected_read(t, to->bias + at, dynamic, bytes))
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

/* Whether symbol i is defined, of that name, and in its default version. */
static bool is_symbol(const struct injected *t, const struct tables *k, uint32_t i,
                      const char *name, Elf64_Sym *s)
{
    char text[64];
    uint16_t version = 0;
    const size_t n = strlen(name) + 1;
    return n <= sizeof text && injected_read(t, k->symbols + i * sizeof *s, s, sizeof *s) &&
           s->st_shndx != SHN_UNDEF && s->st_value &&
           (ELF64_ST_TYPE(s->st_info) == STT_FUNC || ELF64_ST_TYPE(s->st_info) == STT_OBJECT) &&
           injected_read(t, k->names + s->st_name, text, n) && !memcmp(text, name, n) &&
           (!k->versions ||
            (injected_read(t, k->versions + i * 2ull, &version, 2) && !(version & 0x8000)));
}

uint64_t injected_symbol(const struct injected *t, uint64_t base, const char *name, uint64_t *bytes)
{
    struct tables k;
    uint32_t head[4], i;
    Elf64_Sym s;
    if (!read_tables(t, base, &k) || !injected_read(t, k.hash, head, sizeof head) || !head[0])
        return 0;
    const uint32_t h = gnu_hash(name);
    const uint64_t buckets = k.hash + 16 + 8ull * head[2], chain = buckets + 4ull * head[0];
    if (!injected_read(t, buckets + 4ull * (h % head[0]), &i, sizeof i) || i < head[1])
        return 0;
    for (unsigned steps = 0; steps < 4096; steps++, i++) {
        uint32_t link;
        if (!injected_read(t, chain + 4ull * (i - head[1]), &link, sizeof link))
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
        const struct region *r = at ? injected_region(t, at) : NULL;
        if (r && r->execute) /* in the module, or where we have led it */
            return at;
    }
    return 0;
}

uint64_t injected_errno(const struct injected *t, uint64_t fs_base)
{
    static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}, load[] = {0x48, 0x8b, 0x05},
                         add[] = {0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0};
    uint8_t code[32];
    int32_t distance;
    uint64_t offset, at = injected_function(t, MODULE_LIBC, "__errno_location", NULL);
    const uint8_t *c = code;
    if (!at || !injected_read(t, at, code, sizeof code))
        return 0;
    if (!memcmp(c, mark, sizeof mark))
        c += sizeof mark;
    if (memcmp(c, load, sizeof load) != 0 || memcmp(c + 7, add, sizeof add) != 0)
        return 0;
    memcpy(&distance, c + 3, 4);
    at += (uint64_t)(c - code) + 7 + (uint64_t)(int64_t)distance;
    return injected_read(t, at, &offset, 8) ? fs_base + offset : 0;
}

uint64_t injected_sigreturn(const struct injected *t)
{
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    uint8_t text[PAGE + sizeof code - 1]; /* it may stand on two pages */
    uint64_t left = SIGRETURN_MOST;
    for (size_t i = 0; i < t->region_count; i++) {
        const struct region *r = &t->regions[i];
        if (!r->execute || r->module < 0 || t->modules[r->module].kind != MODULE_LIBC)
            continue;
        for (uint64_t at = r->start; left && (at = next_there(t, r, at)) < r->end; at += PAGE) {
            size_t n = r->end - at < sizeof text ? r->end - at : sizeof text;
            left -= PAGE;
            if (!injected_read(t, at, text, n) && !injected_read(t, at, text, n = PAGE))
                continue;
            const uint8_t *p = memmem(text, n, code, sizeof code);
            if (p)
                return at + (uint64_t)(p - text);
        }
    }
    return 0;
}

/* ---- unwind tables ---- */

static void read_rows(const struct injected *t, struct module *m)
{
    char path[64];
    struct error ignored;
    m->looked = true;
    bool refused;
    const int fd = open_module(t, m, &refused);
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
    const struct region *r = injected_region(t, pc);
    if (!r || !r->execute || r->module < 0)
        return NULL;
    struct module *m = &t->modules[r->module];
    *kind = m->kind;
    if (!m->looked) {
        t->wanted = r->module;
        return NULL;
    }
    const uint64_t offset = pc - r->start + r->offset;
    size_t low = 0, high = m->row_count;
    while (low < high) { /* the last that begins at or before it */
        const size_t middle = (low + high) / 2;
        if (m->rows[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &m->rows[low - 1] : NULL;
}
