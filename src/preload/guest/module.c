/* module.c - Reads the symbols and relocations of loaded modules, inside dl_iterate_phdr, which
 * keeps modules from coming and going. It allocates nothing and makes no system call. */
#include <string.h>

#include "preload/guest/module.h"

/* The loader has added the base to what the dynamic section says, but for the vdso's. */
static uint64_t dynamic_address(const struct dl_phdr_info *info, uint64_t at)
{
    return at < info->dlpi_addr ? at + info->dlpi_addr : at;
}

bool module_read(const struct dl_phdr_info *info, struct module *m)
{
    const Elf64_Dyn *d = 0;
    uint64_t relative = 0;
    memset(m, 0, sizeof *m);
    m->info = info;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        const uint64_t at = dynamic_address(info, d->d_un.d_ptr), n = d->d_un.d_val;
        switch (d->d_tag) {
        case DT_SYMTAB: m->symbols = (Elf64_Sym *)at; break;
        case DT_STRTAB: m->names = (const char *)at; break;
        case DT_VERSYM: m->versions = (const uint16_t *)at; break;
        case DT_GNU_HASH: m->hash = (const uint32_t *)at; break;
        case DT_RELA: m->relocations[0] = (const Elf64_Rela *)at; break;
        case DT_RELASZ: m->count[0] = n / sizeof(Elf64_Rela); break;
        case DT_RELACOUNT: relative = n; break;
        case DT_JMPREL: m->relocations[1] = (const Elf64_Rela *)at; break;
        case DT_PLTRELSZ: m->count[1] = n / sizeof(Elf64_Rela); break;
        default: break;
        }
    }
    for (unsigned i = 0; i < 2; i++)
        m->count[i] = m->relocations[i] ? m->count[i] : 0;
    if (relative <= m->count[0]) { /* they stand first, and name no symbol */
        m->relocations[0] += relative;
        m->count[0] -= relative;
    }
    return m->symbols && m->names;
}

bool module_holds(const struct dl_phdr_info *info, uint64_t at)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

static uint32_t hash_symbol_name(const char *name)
{
    uint32_t h = 5381;
    while (*name)
        h = h * 33 + (uint8_t)*name++;
    return h;
}

Elf64_Sym *module_function(const struct module *m, const char *name, const Elf64_Sym *before)
{
    if (!m->hash)
        return 0;
    const uint32_t h = hash_symbol_name(name), buckets = m->hash[0], first = m->hash[1],
                   words = m->hash[2], shift = m->hash[3];
    const uint64_t *bloom = (const uint64_t *)(m->hash + 4);
    const uint32_t *bucket = m->hash + 4 + 2 * (uint64_t)words, *chain = bucket + buckets;
    if (!buckets || !words)
        return 0;
    const uint64_t word = bloom[h / 64 % words];
    if (!(word >> h % 64 & 1) || !(word >> (h >> shift) % 64 & 1))
        return 0;
    uint32_t i = before ? (uint32_t)(before - m->symbols) : bucket[h % buckets];
    if (i < first || (before && chain[i++ - first] & 1))
        return 0;
    for (;; i++) {
        Elf64_Sym *s = &m->symbols[i];
        if ((chain[i - first] | 1) == (h | 1) && module_defines(s) &&
            !strcmp(m->names + s->st_name, name))
            return s;
        if (chain[i - first] & 1)
            return 0;
    }
}

Elf64_Sym *module_default(const struct module *m, const char *name)
{
    Elf64_Sym *s = 0;
    while ((s = module_function(m, name, s)) && m->versions && m->versions[s - m->symbols] & 0x8000)
        ;
    return s;
}

struct search {
    struct module_wanted *list;
    unsigned count, found;
    bool behind; /* our module has been passed */
};

static int search_in(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char own;
    struct search *s = (struct search *)arg;
    struct module m;
    (void)size;
    if (module_holds(info, (uint64_t)&own)) {
        s->behind = true;
        return 0;
    }
    if (!s->behind || !module_read(info, &m))
        return 0;
    for (unsigned i = 0; i < s->count; i++) {
        const Elf64_Sym *f = s->list[i].found ? 0 : module_default(&m, s->list[i].name);
        if (f) {
            s->list[i].found = (void *)(info->dlpi_addr + f->st_value);
            s->found++;
        }
    }
    return s->found == s->count;
}

void module_behind_all(struct module_wanted *list, unsigned count)
{
    struct search s = {.list = list, .count = count};
#ifdef MALLOW_ATTACHED
    s.behind = true;
#endif
    dl_iterate_phdr(search_in, &s);
}

void *module_behind(const char *name)
{
    struct module_wanted one = {.name = name};
    module_behind_all(&one, 1);
    return one.found;
}

uint32_t module_symbols(const struct module *m)
{
    if (!m->hash)
        return 0;
    const uint32_t buckets = m->hash[0], first = m->hash[1], words = m->hash[2];
    const uint32_t *bucket = m->hash + 4 + 2 * (uint64_t)words, *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return 0;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

uint64_t module_word(const struct module *m, const Elf64_Rela *r)
{
    const uint64_t type = ELF64_R_TYPE(r->r_info), at = m->info->dlpi_addr + r->r_offset;
    return (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64) &&
                   at % sizeof at == 0
               ? at
               : 0;
}
