/* redirect.c - the program's bindings: made to lead to ours, and back.
 *
 * What a preload would have done by its place in the search order is done afterwards. Bindings that
 * exist (relocated words of every module, and the dynamic linker's own pointers) are changed where
 * they have the address of one of the functions; those to come (lazy binding, dlopen, dlsym) find
 * ours through the symbol table of the module that defines the function. So each word is changed
 * from a known value to a known value, by one store, and back in the same way.
 *
 * All of it under the dynamic linker's lock: no module comes, goes or is being relocated meanwhile.
 * Other threads run, and may call through a word at any moment: either value is right. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "arch/page.h"
#include "preload/sys.h"
#include "redirect.h"

#define BINDINGS_MAX 48u
#define PAGE         ARCH_PAGE_BYTES

static struct {
    const struct binding *list;
    unsigned count;
    uint64_t original[BINDINGS_MAX]; /* 0: the program has no such function */
    Elf64_Sym *symbol[BINDINGS_MAX]; /* where it is defined */
    uint64_t base[BINDINGS_MAX];     /* of that module */
    uint64_t own;                    /* an address of ours, by which our module is known */
    long changed;
    bool failed, to_ours;
} work;

struct module {
    const struct dl_phdr_info *info;
    Elf64_Sym *symbols;
    const char *names;
    const uint16_t *versions;
    const uint32_t *hash;
    const Elf64_Rela *relocations[2];
    uint64_t bytes[2];
};

/* The loader has added the base to what the dynamic section says, but for the vdso's. */
static uint64_t place(const struct dl_phdr_info *info, uint64_t at)
{
    return at < info->dlpi_addr ? at + info->dlpi_addr : at;
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
        const uint64_t at = place(info, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_SYMTAB: m->symbols = (Elf64_Sym *)at; break;
        case DT_STRTAB: m->names = (const char *)at; break;
        case DT_VERSYM: m->versions = (const uint16_t *)at; break;
        case DT_GNU_HASH: m->hash = (const uint32_t *)at; break;
        case DT_RELA: m->relocations[0] = (const Elf64_Rela *)at; break;
        case DT_RELASZ: m->bytes[0] = d->d_un.d_val; break;
        case DT_JMPREL: m->relocations[1] = (const Elf64_Rela *)at; break;
        case DT_PLTRELSZ: m->bytes[1] = d->d_un.d_val; break;
        default: break;
        }
    }
    return m->symbols && m->names;
}

/* ---- writing ---- */

/* How the loader has left the page of a word of the module; -1: not its memory. */
static int protection(const struct dl_phdr_info *info, uint64_t at)
{
    int now = -1;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && at - start < p->p_memsz)
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

/* The pages that are writable for our sake. */
static struct {
    uint64_t start, end; /* end 0: none */
    int was;
} opened;

static void close_pages(void)
{
    if (opened.end && sys_mprotect((void *)opened.start, opened.end - opened.start, opened.was))
        work.failed = true;
    opened.end = 0;
}

/* Makes the pages that hold [start, end) writable, which the loader has left alike. */
static bool open_pages(const struct dl_phdr_info *info, uint64_t start, uint64_t end)
{
    const int was = protection(info, start);
    if (was < 0)
        return false;
    if (opened.end && start >= opened.start && end <= opened.end)
        return true;
    close_pages();
    if (was & PROT_WRITE)
        return true;
    const uint64_t first = start & ~(PAGE - 1), bytes = ((end + PAGE - 1) & ~(PAGE - 1)) - first;
    if (sys_mprotect((void *)first, bytes, was | PROT_READ | PROT_WRITE))
        return false;
    opened.start = first;
    opened.end = first + bytes;
    opened.was = was;
    return true;
}

static void write_word(const struct dl_phdr_info *info, uint64_t at, uint64_t value)
{
    if (at % sizeof value || !open_pages(info, at, at + sizeof value)) {
        work.failed = true;
        return;
    }
    __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE);
    work.changed++;
}

/* ---- finding ---- */

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    while (*name)
        h = h * 33 + (uint8_t)*name++;
    return h;
}

/* The module's definition of that name, in its default version; NULL: none. */
static Elf64_Sym *defined(const struct module *m, const char *name)
{
    const uint32_t h = gnu_hash(name), buckets = m->hash[0], first = m->hash[1], words = m->hash[2],
                   shift = m->hash[3];
    const uint64_t *bloom = (const uint64_t *)(m->hash + 4);
    const uint32_t *bucket = m->hash + 4 + 2 * (uint64_t)words, *chain = bucket + buckets;
    if (!buckets || !words)
        return 0;
    const uint64_t word = bloom[h / 64 % words];
    if (!(word >> h % 64 & 1) || !(word >> (h >> shift) % 64 & 1))
        return 0;
    uint32_t i = bucket[h % buckets];
    if (i < first)
        return 0;
    for (;; i++) {
        Elf64_Sym *s = &m->symbols[i];
        if ((chain[i - first] | 1) == (h | 1) && s->st_shndx != SHN_UNDEF && s->st_value &&
            ELF64_ST_TYPE(s->st_info) == STT_FUNC && !(m->versions && m->versions[i] & 0x8000) &&
            !strcmp(m->names + s->st_name, name))
            return s;
        if (chain[i - first] & 1)
            return 0;
    }
}

static int find_in(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module m;
    (void)size, (void)arg;
    if (protection(info, work.own) >= 0 || !read_dynamic(info, &m) || !m.hash)
        return 0;
    for (unsigned i = 0; i < work.count; i++) {
        Elf64_Sym *s = work.original[i] ? 0 : defined(&m, work.list[i].name);
        if (!s)
            continue;
        work.symbol[i] = s;
        work.base[i] = info->dlpi_addr;
        work.original[i] = info->dlpi_addr + s->st_value;
    }
    return 0;
}

bool redirect_find(void)
{
    work.list = entry_bindings(&work.count);
    work.own = (uint64_t)work.list[0].to;
    if (work.count > BINDINGS_MAX)
        return false;
    dl_iterate_phdr(find_in, 0); /* in the order in which names are searched for */
    for (unsigned i = 0; i < work.count; i++) {
        const struct binding *b = &work.list[i];
        if (b->needed && !work.original[i])
            return false;
        /* an allocator in front of libc's, or a wrapper: blocks would be two allocators' */
        if (b->original && work.original[i] && (uint64_t)*b->original != work.original[i])
            return false;
    }
    return true;
}

void *redirect_original(const char *name)
{
    for (unsigned i = 0; i < work.count; i++)
        if (!strcmp(work.list[i].name, name))
            return (void *)work.original[i];
    return 0;
}

/* RTLD_NEXT would find ours. */
void *next_symbol(const char *name)
{
    void *original = redirect_original(name);
    return original ? original : dlsym(RTLD_NEXT, name);
}

/* ---- changing ---- */

/* What a word that has this value is to have instead; 0: it stays. */
static uint64_t instead(uint64_t value)
{
    for (unsigned i = 0; i < work.count; i++) {
        const uint64_t ours = (uint64_t)work.list[i].to, theirs = work.original[i];
        if (theirs && value == (work.to_ours ? theirs : ours))
            return work.to_ours ? ours : theirs;
    }
    return 0;
}

static void change_relocated(const struct module *m)
{
    for (unsigned table = 0; table < 2; table++) {
        const Elf64_Rela *r = m->relocations[table];
        for (uint64_t i = 0; r && i < m->bytes[table] / sizeof *r; i++) {
            const uint64_t type = ELF64_R_TYPE(r[i].r_info);
            if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64)
                continue;
            const uint64_t at = m->info->dlpi_addr + r[i].r_offset;
            if (protection(m->info, at) < 0 || at % sizeof at)
                continue;
            const uint64_t value = instead(*(const volatile uint64_t *)at);
            if (value)
                write_word(m->info, at, value);
        }
    }
}

/* The dynamic linker keeps the four functions in words that it has found by itself. */
static void change_linker(const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = (info->dlpi_addr + p->p_vaddr + 7) & ~7ull,
                       end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
        for (uint64_t at = start; p->p_type == PT_GNU_RELRO && at + 8 <= end; at += 8) {
            const uint64_t value = instead(*(const volatile uint64_t *)at);
            if (value)
                write_word(info, at, value);
        }
    }
}

static bool is_linker(const struct dl_phdr_info *info)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    return slash && !strncmp(slash, "/ld-linux", 9);
}

/* Those to come find what the symbol table says. */
static void change_symbols(const struct dl_phdr_info *info)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (unsigned i = 0; i < work.count; i++) {
        const uint64_t at = (uint64_t)work.symbol[i];
        if (!at || protection(info, at) < 0)
            continue;
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    if (!high || !open_pages(info, low, high + sizeof(Elf64_Sym))) {
        work.failed |= high != 0;
        return;
    }
    for (unsigned i = 0; i < work.count; i++) {
        const uint64_t to = work.to_ours ? (uint64_t)work.list[i].to : work.original[i];
        if (work.symbol[i] && protection(info, (uint64_t)work.symbol[i]) >= 0)
            write_word(info, (uint64_t)&work.symbol[i]->st_value, to - work.base[i]);
    }
    close_pages();
}

static int change_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module m;
    (void)size, (void)arg;
    if (protection(info, work.own) >= 0 || !read_dynamic(info, &m))
        return 0;
    change_symbols(info);
    change_relocated(&m);
    if (is_linker(info))
        change_linker(info);
    close_pages();
    return 0;
}

long redirect_all(bool to_ours)
{
    work.changed = 0;
    work.failed = false;
    work.to_ours = to_ours;
    dl_iterate_phdr(change_module, 0);
    return work.failed ? -1 : work.changed;
}
