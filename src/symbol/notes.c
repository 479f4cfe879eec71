/* notes.c - Parses the notes in .note.stapsdt into static probes. Every length is checked
 * against the section, because the file may be damaged or hostile. */
#include "symbol/notes.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "symbol/program.h"

enum { NOTE_TYPE = 3, HEADER_BYTES = 12, ADDRESSES = 3 };

static uint32_t word32(const char *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

static size_t padded(size_t n) { return (n + 3) & ~(size_t)3; }

/* The string at *at, which ends before `end`; moves behind it. NULL: it does not end. */
static const char *take_string(const char **at, const char *end)
{
    const char *start = *at, *stop = memchr(start, 0, (size_t)(end - start));
    if (!stop)
        return NULL;
    *at = stop + 1;
    return start;
}

static int put_static_probe(struct static_probes *p, uint64_t **bases, const char *description,
                            size_t bytes)
{
    const char *at = description + sizeof(uint64_t[ADDRESSES]), *end = description + bytes;
    uint64_t address[ADDRESSES];
    if (bytes < sizeof address)
        return 0;
    memcpy(address, description, sizeof address);
    const char *provider = take_string(&at, end);
    const char *name = provider ? take_string(&at, end) : NULL;
    const char *arguments = name ? take_string(&at, end) : NULL;
    if (!arguments)
        return 0;
    size_t base_room = p->room;
    if (!ARRAY_ROOM(*bases, p->count + 1, base_room) || !ARRAY_ROOM(p->at, p->count + 1, p->room))
        return -1;
    (*bases)[p->count] = address[1];
    p->at[p->count++] = (struct static_probe){.provider = provider,
                                              .name = name,
                                              .arguments = arguments,
                                              .address = address[0],
                                              .semaphore_offset = address[2]};
    return 0;
}

int static_probes_parse(const void *data, size_t bytes, struct static_probes *p, uint64_t **bases)
{
    *p = (struct static_probes){.text = malloc(bytes + 1)};
    *bases = NULL;
    if (!p->text)
        return -1;
    memcpy(p->text, data, bytes);
    size_t at = 0;
    while (bytes - at >= HEADER_BYTES) {
        size_t name = word32(p->text + at), description = word32(p->text + at + 4);
        uint32_t type = word32(p->text + at + 8);
        size_t left = bytes - at - HEADER_BYTES;
        if (name > left || padded(name) > left || description > left - padded(name))
            break;
        const char *owner = p->text + at + HEADER_BYTES, *content = owner + padded(name);
        if (type == NOTE_TYPE && name == sizeof "stapsdt" && !memcmp(owner, "stapsdt", name) &&
            put_static_probe(p, bases, content, description)) {
            free(*bases);
            *bases = NULL;
            static_probes_release(p);
            return -1;
        }
        size_t whole = HEADER_BYTES + padded(name) + padded(description);
        if (whole > bytes - at)
            break;
        at += whole;
    }
    return 0;
}

void static_probes_release(struct static_probes *p)
{
    free(p->at);
    free(p->text);
    *p = (struct static_probes){0};
}

static uint64_t elf_offset(Elf *elf, uint64_t address)
{
    size_t n = 0;
    GElf_Phdr p;
    if (elf_getphdrnum(elf, &n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_LOAD && address - p.p_vaddr < p.p_memsz)
            return address - p.p_vaddr + p.p_offset;
    return 0;
}

/* The section of that name; its address in *address. */
static Elf_Scn *find_elf_section(Elf *elf, const char *wanted, uint64_t *address)
{
    size_t names = 0;
    Elf_Scn *s = NULL;
    if (elf_getshdrstrndx(elf, &names))
        return NULL;
    while ((s = elf_nextscn(elf, s))) {
        GElf_Shdr header;
        if (!gelf_getshdr(s, &header))
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name && !strcmp(name, wanted)) {
            *address = header.sh_addr;
            return s;
        }
    }
    return NULL;
}

int static_probes_read(const char *path, struct static_probes *p, struct error *err)
{
    *p = (struct static_probes){0};
    elf_version(EV_CURRENT);
    int fd = program_open(path, err);
    if (fd < 0)
        return -1;
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    uint64_t ignored, base = 0, *bases = NULL;
    Elf_Scn *notes = elf ? find_elf_section(elf, ".note.stapsdt", &ignored) : NULL;
    Elf_Scn *moved = elf ? find_elf_section(elf, ".stapsdt.base", &base) : NULL;
    Elf_Data *data = notes ? elf_rawdata(notes, NULL) : NULL;
    int bad = 0;
    if (data && data->d_buf && static_probes_parse(data->d_buf, data->d_size, p, &bases))
        bad = error_memory_for(err, "the probes of %s", path);
    for (size_t i = 0; i < p->count; i++) {
        uint64_t by = moved ? base - bases[i] : 0;
        p->at[i].address += by;
        p->at[i].offset = elf_offset(elf, p->at[i].address);
        if (p->at[i].semaphore_offset)
            p->at[i].semaphore_offset = elf_offset(elf, p->at[i].semaphore_offset + by);
    }
    free(bases);
    elf_end(elf);
    close(fd);
    return bad;
}
