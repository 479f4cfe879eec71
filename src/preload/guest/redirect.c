/* redirect.c - functions of the allocator behind us that must not be exported.
 *
 * Programs ask by weak references and by dlsym whether the allocator is jemalloc. A library that
 * exported mallocx would answer yes in every process. So where the allocator has such functions,
 * its own symbol table is changed to lead to ours: lookups that come later (lazy binding, dlopen,
 * dlsym) find them. What the loader has bound already is changed in the modules that are there.
 *
 * Called once at the start, while no other thread can be inside the loader for these names. Memory
 * that the loader has made read-only is written to by two calls of mprotect a word. */
#include <link.h>
#include <string.h>

#include "arch/page.h"
#include "preload/guest.h"
#include "preload/sys.h"

#define PAGE ARCH_PAGE_BYTES

struct work {
    const struct redirection *list;
    unsigned count;
    const Elf64_Sym *symbols[REDIRECTIONS_MAX]; /* of the allocator; NULL: not found */
    struct dl_phdr_info allocator;              /* where they are */
    bool failed;
};

struct module {
    const struct dl_phdr_info *info;
    const Elf64_Sym *symbols;
    const char *names;
    const uint32_t *gnu_hash;
    const Elf64_Rela *relocations[2];
    uint64_t bytes[2];
};

/* The loader has added the base to what the dynamic section says, but for the vdso's. */
static const void *place(const struct dl_phdr_info *info, uint64_t at)
{
    return (const void *)(at < info->dlpi_addr ? at + info->dlpi_addr : at);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct module *m)
{
    const Elf64_Dyn *d = 0;
    memset(m, 0, sizeof *m);
    m->info = info;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB: m->symbols = place(info, d->d_un.d_ptr); break;
        case DT_STRTAB: m->names = place(info, d->d_un.d_ptr); break;
        case DT_GNU_HASH: m->gnu_hash = place(info, d->d_un.d_ptr); break;
        case DT_RELA: m->relocations[0] = place(info, d->d_un.d_ptr); break;
        case DT_RELASZ: m->bytes[0] = d->d_un.d_val; break;
        case DT_JMPREL: m->relocations[1] = place(info, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: m->bytes[1] = d->d_un.d_val; break;
        default: break;
        }
    }
    return m->symbols && m->names;
}

static bool holds(const struct dl_phdr_info *info, uint64_t at)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

/* How the loader has left the page of an aligned word of the module; -1: not its memory. */
static int protection(const struct dl_phdr_info *info, uint64_t at)
{
    int now = -1;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type == PT_LOAD && at >= start && at < end)
            now = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
                  (p->p_flags & PF_X ? PROT_EXEC : 0);
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type == PT_GNU_RELRO && at >= (start & ~(PAGE - 1)) && at < (end & ~(PAGE - 1)))
            return now & ~PROT_WRITE;
    }
    return now;
}

/* Other threads may run code and read data in the same page meanwhile. */
static bool write_word(const struct dl_phdr_info *info, uint64_t at, uint64_t value)
{
    const int was = protection(info, at);
    void *page = (void *)(at & ~(PAGE - 1));
    if (was < 0 || at % sizeof value)
        return false;
    if (!(was & PROT_WRITE) && sys_mprotect(page, PAGE, was | PROT_READ | PROT_WRITE))
        return false;
    __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    return was & PROT_WRITE || !sys_mprotect(page, PAGE, was);
}

/* The number of the redirection of that name; count: none. */
static unsigned named(const struct work *w, const char *name)
{
    unsigned i = 0;
    while (i < w->count && strcmp(w->list[i].name, name) != 0)
        i++;
    return i;
}

/* How many symbols the hash table covers, counted from the start of the symbol table. */
static uint32_t symbol_count(const uint32_t *gnu_hash)
{
    const uint32_t buckets = gnu_hash[0], first = gnu_hash[1], bloom = gnu_hash[2];
    const uint32_t *bucket = gnu_hash + 4 + 2 * (uint64_t)bloom, *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return 0;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static int find_symbols(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct work *w = arg;
    struct module m;
    (void)size;
    if (!holds(info, next_facts.start) || !read_dynamic(info, &m) || !m.gnu_hash)
        return 0;
    w->allocator = *info;
    for (uint32_t i = 0, n = symbol_count(m.gnu_hash); i < n; i++) {
        const Elf64_Sym *s = &m.symbols[i];
        if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC)
            continue;
        const unsigned k = named(w, m.names + s->st_name);
        if (k < w->count)
            w->symbols[k] = s;
    }
    return 1;
}

static void change_bound(struct work *w, const struct module *m)
{
    for (unsigned table = 0; table < 2; table++) {
        const Elf64_Rela *r = m->relocations[table];
        for (uint64_t i = 0; r && i < m->bytes[table] / sizeof *r; i++) {
            const uint64_t type = ELF64_R_TYPE(r[i].r_info);
            if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64)
                continue;
            const Elf64_Sym *s = &m->symbols[ELF64_R_SYM(r[i].r_info)];
            const uint64_t at = m->info->dlpi_addr + r[i].r_offset;
            /* a lazy one that is not bound yet will find ours by itself */
            if (protection(m->info, at) < 0 || !holds(&w->allocator, *(const uint64_t *)at))
                continue;
            const unsigned k = named(w, m->names + s->st_name);
            if (k < w->count && w->symbols[k] && *(void *const *)at == *w->list[k].from)
                w->failed |= !write_word(m->info, at, (uint64_t)w->list[k].to);
        }
    }
}

static int change_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct work *w = arg;
    struct module m;
    (void)size;
    if (!holds(info, (uint64_t)w->list[0].to) && !holds(info, next_facts.start) &&
        read_dynamic(info, &m))
        change_bound(w, &m);
    return 0;
}

enum redirected redirect(const struct redirection *list, unsigned count)
{
    struct work w = {.list = list, .count = count};
    if (next_facts.glibc || count > REDIRECTIONS_MAX)
        return REDIRECT_NOTHING;
    dl_iterate_phdr(find_symbols, &w);
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++)
        found += w.symbols[i] != 0;
    if (!found)
        return REDIRECT_NOTHING;
    const uint64_t base = w.allocator.dlpi_addr;
    for (unsigned i = 0; i < count; i++) {
        if (!w.symbols[i])
            continue;
        *list[i].from = (void *)(base + w.symbols[i]->st_value);
        w.failed |= !write_word(&w.allocator, (uint64_t)&w.symbols[i]->st_value,
                                (uint64_t)list[i].to - base);
    }
    if (!w.failed)
        dl_iterate_phdr(change_module, &w);
    return w.failed ? REDIRECT_REFUSED : REDIRECT_DONE;
}
