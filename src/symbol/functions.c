/* functions.c - Lists the functions and variables of an ELF file with their file offsets, and
 * reads its segments, build-id, debug link and interpreter. A name stays an offset into the text
 * until the list is complete, because the text moves as it grows. */
#include "symbol/functions.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/system.h"
#include "base/array.h"
#include "symbol/locate.h"
#include "symbol/program.h"

struct reading {
    struct functions *f;
    Elf *main; /* whose segments give the offsets */
    unsigned which;
    bool no_memory;
};

static bool file_offset(Elf *elf, uint64_t address, uint64_t *offset)
{
    size_t n = 0;
    GElf_Phdr p;
    if (elf_getphdrnum(elf, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_LOAD &&
            address - p.p_vaddr < p.p_filesz) {
            *offset = address - p.p_vaddr + p.p_offset;
            return true;
        }
    return false;
}

/* The name is kept as an offset into the text until the list is complete, as the text moves. */
static void put_function(struct reading *r, const char *name, const GElf_Sym *symbol,
                         uint64_t offset, bool exported, bool data)
{
    struct functions *f = r->f;
    size_t length = strcspn(name, "@");
    if (f->text_bytes + length + 1 > f->text_room) {
        size_t room = (f->text_room + length + 4096) * 2;
        char *more = realloc(f->text, room);
        if (!more) {
            r->no_memory = true;
            return;
        }
        f->text = more;
        f->text_room = room;
    }
    if (!ARRAY_ROOM(f->at, f->count + 1, f->room)) {
        r->no_memory = true;
        return;
    }
    memcpy(f->text + f->text_bytes, name, length);
    f->text[f->text_bytes + length] = 0;
    f->at[f->count++] = (struct function){.name = (const char *)f->text_bytes, // NOLINT
                                          .offset = offset,
                                          .address = symbol->st_value,
                                          .bytes = symbol->st_size,
                                          .exported = exported,
                                          .data = data};
    f->text_bytes += length + 1;
}

static void read_table(struct reading *r, Elf *elf, Elf_Scn *section, const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || !header->sh_entsize)
        return;
    for (size_t i = 1; i < header->sh_size / header->sh_entsize && !r->no_memory; i++) {
        GElf_Sym s;
        if (!gelf_getsym(data, (int)i, &s))
            break;
        int type = GELF_ST_TYPE(s.st_info);
        bool is_data = type == STT_OBJECT;
        if ((type != STT_FUNC && !(is_data && r->which & FUNCTIONS_DATA)) ||
            s.st_shndx == SHN_UNDEF || !s.st_value)
            continue;
        const char *name = elf_strptr(elf, header->sh_link, s.st_name);
        uint64_t offset = 0;
        if (!name || !*name || (!file_offset(r->main, s.st_value, &offset) && !is_data))
            continue;
        put_function(r, name, &s, offset, header->sh_type == SHT_DYNSYM, is_data);
    }
}

static bool read_symbol_tables(struct reading *r, Elf *elf, unsigned type)
{
    Elf_Scn *section = NULL;
    bool found = false;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && header.sh_type == type) {
            read_table(r, elf, section, &header);
            found = true;
        }
    }
    return found;
}

/* .symtab of the separate debug file, when there is one. */
static void read_debug(struct reading *r, const char *path)
{
    struct locate locate;
    struct locate_notes notes = {{0}};
    struct located debug = {.fd = -1};
    if (locate_init(&locate, NULL))
        return;
    if (locate_debug(&locate, r->main, path, &debug, &notes) == 0 && debug.fd >= 0) {
        Elf *elf = elf_begin(debug.fd, ELF_C_READ_MMAP, NULL);
        if (elf)
            read_symbol_tables(r, elf, SHT_SYMTAB);
        elf_end(elf);
        close(debug.fd);
        free(debug.path);
    }
    locate_done(&locate);
}

static int compare_function_offsets(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    if (x->data != y->data)
        return x->data - y->data;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->exported != y->exported)
        return y->exported - x->exported;
    size_t under_x = strspn(x->name, "_"), under_y = strspn(y->name, "_");
    if (under_x != under_y)
        return under_x < under_y ? -1 : 1;
    size_t length_x = strlen(x->name), length_y = strlen(y->name);
    if (length_x != length_y)
        return length_x < length_y ? -1 : 1;
    return strcmp(x->name, y->name);
}

static Elf *open_elf(const char *path, int *fd, struct error *err)
{
    elf_version(EV_CURRENT);
    *fd = program_open(path, err);
    if (*fd < 0)
        return NULL;
    GElf_Ehdr header;
    Elf *elf = elf_begin(*fd, ELF_C_READ, NULL);
    if (elf && gelf_getehdr(elf, &header) && header.e_machine == ARCH_ELF_MACHINE)
        return elf;
    elf_end(elf);
    close(*fd);
    error_set(err, ERROR_FORMAT, "%s is not an x86-64 ELF file", path);
    return NULL;
}

int functions_read(const char *path, unsigned which, struct functions *f, struct error *err)
{
    struct reading r = {.f = f, .which = which};
    int fd;
    *f = (struct functions){0};
    r.main = open_elf(path, &fd, err);
    if (!r.main)
        return -1;
    if (which & FUNCTIONS_EXPORTED)
        read_symbol_tables(&r, r.main, SHT_DYNSYM);
    if (which & FUNCTIONS_LOCAL && !read_symbol_tables(&r, r.main, SHT_SYMTAB) &&
        !(which & FUNCTIONS_ALONE))
        read_debug(&r, path);
    elf_end(r.main);
    close(fd);
    if (r.no_memory) {
        functions_release(f);
        return error_memory_for(err, "the symbols of %s", path);
    }
    for (size_t i = 0; i < f->count; i++)
        f->at[i].name = f->text + (size_t)f->at[i].name;
    if (f->count)
        qsort(f->at, f->count, sizeof *f->at, compare_function_offsets);
    return 0;
}

void functions_release(struct functions *f)
{
    free(f->at);
    free(f->text);
    *f = (struct functions){0};
}

const struct function *functions_find(const struct functions *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->at[i].name, name))
            return &f->at[i];
    return NULL;
}

void functions_unique(struct functions *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++)
        if (!kept || f->at[kept - 1].offset != f->at[i].offset ||
            f->at[kept - 1].data != f->at[i].data)
            f->at[kept++] = f->at[i];
    f->count = kept;
}

/* The loaded segments of a file, one after the other. */
struct loads {
    Elf *elf; /* NULL: it cannot be read */
    int fd;
    size_t next, count;
    GElf_Phdr segment; /* the current one */
};

static void loads_open(struct loads *l, const char *path)
{
    struct error ignored;
    *l = (struct loads){.fd = -1};
    l->elf = open_elf(path, &l->fd, &ignored);
    if (l->elf && elf_getphdrnum(l->elf, &l->count))
        l->count = 0;
}

/* Makes the next one current. False: there is none. */
static bool loads_next(struct loads *l)
{
    while (l->next < l->count)
        if (gelf_getphdr(l->elf, (int)l->next++, &l->segment) && l->segment.p_type == PT_LOAD)
            return true;
    return false;
}

/* The bytes of the current one in the file but the first `skip`; NULL: there are none. */
static const Elf_Data *loads_bytes(const struct loads *l, uint64_t skip)
{
    const GElf_Phdr *p = &l->segment;
    const Elf_Data *d = p->p_filesz > skip
                            ? elf_getdata_rawchunk(l->elf, (int64_t)(p->p_offset + skip),
                                                   p->p_filesz - skip, ELF_T_BYTE)
                            : NULL;
    return d && d->d_buf ? d : NULL;
}

static void loads_close(struct loads *l)
{
    if (!l->elf)
        return;
    elf_end(l->elf);
    close(l->fd);
}

size_t functions_segments(const char *path, struct elf_segment *segments, size_t max)
{
    struct loads l;
    size_t n = 0;
    loads_open(&l, path);
    while (n < max && loads_next(&l))
        if (l.segment.p_flags & PF_X)
            segments[n++] =
                (struct elf_segment){l.segment.p_vaddr, l.segment.p_offset, l.segment.p_filesz};
    loads_close(&l);
    return n;
}

uint64_t functions_text(const char *path, const char *text, size_t bytes)
{
    struct loads l;
    uint64_t address = 0;
    loads_open(&l, path);
    while (!address && loads_next(&l)) {
        const Elf_Data *d = l.segment.p_flags & PF_W ? NULL : loads_bytes(&l, 0);
        const char *at = d ? memmem(d->d_buf, d->d_size, text, bytes) : NULL;
        if (at)
            address = l.segment.p_vaddr + (uint64_t)(at - (const char *)d->d_buf);
    }
    loads_close(&l);
    return address;
}

/* How many places among the segment's bytes hold these; *at: the last one, from its start on. */
static size_t count_places(const Elf_Data *d, const void *begins, size_t bytes, uint64_t *at)
{
    size_t n = 0;
    for (size_t i = 0; i + bytes <= d->d_size; i += 8)
        if (!memcmp((const char *)d->d_buf + i, begins, bytes)) {
            *at = i;
            n++;
        }
    return n;
}

uint64_t functions_variable(const char *path, const void *begins, size_t bytes)
{
    struct loads l;
    size_t found = 0;
    uint64_t address = 0, at = 0;
    loads_open(&l, path);
    while (loads_next(&l)) {
        const uint64_t skip = -l.segment.p_vaddr & 7; /* to a multiple of 8 in memory */
        const Elf_Data *d = l.segment.p_flags & PF_W ? loads_bytes(&l, skip) : NULL;
        const size_t here = d ? count_places(d, begins, bytes, &at) : 0;
        if (here)
            address = l.segment.p_vaddr + skip + at;
        found += here;
    }
    loads_close(&l);
    return found == 1 ? address : 0;
}

size_t functions_build_id(const char *path, uint8_t *id, size_t room)
{
    struct error ignored;
    const void *bits = NULL;
    int fd;
    Elf *elf = open_elf(path, &fd, &ignored);
    if (!elf)
        return 0;
    ssize_t n = dwelf_elf_gnu_build_id(elf, &bits);
    if (n < 0 || (size_t)n > room)
        n = 0;
    if (n)
        memcpy(id, bits, (size_t)n);
    elf_end(elf);
    close(fd);
    return (size_t)n;
}

bool functions_debug_link(const char *path, char *name, size_t room)
{
    struct error ignored;
    GElf_Word crc;
    int fd;
    Elf *elf = open_elf(path, &fd, &ignored);
    const char *link = elf ? dwelf_elf_gnu_debuglink(elf, &crc) : NULL;
    bool good = link && *link && !strchr(link, '/') && strlen(link) < room;
    if (good)
        snprintf(name, room, "%s", link);
    if (elf) {
        elf_end(elf);
        close(fd);
    }
    return good;
}

bool functions_interpreter(const char *file, char *path, size_t room)
{
    struct error err;
    int fd;
    size_t n = 0;
    bool found = false;
    Elf *elf = open_elf(file, &fd, &err);
    if (!elf)
        return false;
    GElf_Phdr p;
    if (elf_getphdrnum(elf, &n))
        n = 0;
    for (size_t i = 0; i < n && !found; i++) {
        if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_INTERP || p.p_filesz > room)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)p.p_offset, p.p_filesz, ELF_T_BYTE);
        if (data && data->d_size && !((const char *)data->d_buf)[data->d_size - 1]) {
            memcpy(path, data->d_buf, data->d_size);
            found = true;
        }
    }
    elf_end(elf);
    close(fd);
    return found;
}
