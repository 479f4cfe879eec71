/* bindings.c - the program's bindings: made to lead to ours, and back.
 *
 * Bindings that exist (relocated words of every module, and the dynamic linker's own pointers) are
 * changed where they have the address of one of the functions; those to come (lazy binding, dlopen,
 * dlsym) find ours through the symbol table of the module that defines the function. So each word
 * is changed from a known value to a known value, by one store, and back in the same way.
 *
 * All of it under a lock of the dynamic linker's: no module comes or goes meanwhile. Other threads
 * run, and may call through a word at any moment: either value is right. */
#include <dlfcn.h>
#include <string.h>

#include "preload/guest/bindings.h"
#include "preload/guest/module.h"

static struct {
    const struct binding *list;
    unsigned count;
    enum bindings_where where;
    bool behind;                     /* our module has been passed */
    uint64_t original[BINDINGS_MAX]; /* 0: the program has no such function */
    uint64_t base[BINDINGS_MAX];     /* of the module that defines it */
    uint64_t lowest, highest;        /* of the originals */
    uint64_t own;                    /* an address of ours, by which our module is known */
    struct module_pages pages;
    bool to_ours;
} work;

/* ---- finding ---- */

static int find_in(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module m;
    (void)size, (void)arg;
    if (module_holds(info, work.own)) {
        work.behind = true;
        return 0;
    }
    if ((work.where == BINDINGS_BEHIND && !work.behind) || !module_read(info, &m))
        return 0;
    for (unsigned i = 0; i < work.count; i++) {
        if (work.original[i])
            continue;
        const struct binding *b = &work.list[i];
        const Elf64_Sym *s = module_default(&m, b->name);
        if (!s && b->original) /* libc_malloc_debug.so has other versions alone (next.c) */
            s = module_function(&m, b->name, 0);
        if (!s)
            continue;
        const uint64_t at = info->dlpi_addr + s->st_value;
        work.base[i] = info->dlpi_addr;
        work.original[i] = at;
        work.lowest = !work.lowest || at < work.lowest ? at : work.lowest;
        work.highest = at > work.highest ? at : work.highest;
    }
    return 0;
}

bool bindings_find(enum bindings_where where)
{
    work.list = entry_bindings(&work.count);
    work.own = (uint64_t)work.list[0].to;
    work.where = where;
    if (work.count > BINDINGS_MAX)
        return false;
    dl_iterate_phdr(find_in, 0); /* in the order in which names are searched for */
    for (unsigned i = 0; i < work.count; i++) {
        const struct binding *b = &work.list[i];
        if (b->needed && !work.original[i])
            return false;
        if (b->original && work.original[i] &&
            (uint64_t)next_behind(b->original) != work.original[i])
            return false;
    }
    return true;
}

void *bindings_original(const char *name)
{
    for (unsigned i = 0; i < work.count; i++)
        if (!strcmp(work.list[i].name, name))
            return (void *)work.original[i];
    return 0;
}

/* Behind us stand ours, too, once the bindings have been changed. */
void *next_symbol(const char *name)
{
    void *f = bindings_original(name);
    if (!f)
        f = module_behind(name);
    return f ? f : dlsym(RTLD_NEXT, name);
}

/* ---- changing ---- */

static uint64_t from(unsigned i)
{
    return work.to_ours ? work.original[i] : (uint64_t)work.list[i].to;
}

static uint64_t to(unsigned i)
{
    return work.to_ours ? (uint64_t)work.list[i].to : work.original[i];
}

/* The number of the binding that a word of this value has to do with; count: none. */
static unsigned bound(uint64_t value)
{
    unsigned i = 0;
    if (work.to_ours && (value < work.lowest || value > work.highest))
        return work.count;
    while (i < work.count && !(work.original[i] && value == from(i)))
        i++;
    return i;
}

static bool is_allocator(const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < work.count; i++)
        if (work.original[i] && work.base[i] == info->dlpi_addr)
            return true;
    return false;
}

static void change_relocated(const struct module *m)
{
    for (unsigned table = 0; table < 2; table++) {
        for (uint64_t i = 0; i < m->count[table]; i++) {
            const uint64_t at = module_word(m, &m->relocations[table][i]);
            if (!at || !module_holds(m->info, at))
                continue;
            const unsigned k = bound(*(const volatile uint64_t *)at);
            if (k < work.count)
                module_write(&work.pages, m->info, at, to(k));
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
            const unsigned k = bound(*(const volatile uint64_t *)at);
            if (k < work.count)
                module_write(&work.pages, info, at, to(k));
        }
    }
}

static bool is_linker(const struct dl_phdr_info *info)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    return slash && !strncmp(slash, "/ld-linux", 9);
}

/* Symbols of one module that are to be changed, and into which binding. */
struct changes {
    Elf64_Sym *symbol[3 * BINDINGS_MAX];
    uint8_t binding[3 * BINDINGS_MAX];
    unsigned count;
};
static struct changes changes;

/* Every version of that name which leads to the function. */
static void add_symbols(const struct module *m, const char *name, unsigned k)
{
    const uint64_t value = from(k) - m->info->dlpi_addr;
    Elf64_Sym *s = 0;
    while ((s = module_function(m, name, s)))
        if (s->st_value == value && changes.count < sizeof changes.binding) {
            changes.symbol[changes.count] = s;
            changes.binding[changes.count++] = (uint8_t)k;
        }
}

/* Those to come find what the symbol table says. glibc has further names for its functions, and
 * allocators that stand for it have them, too. In a process that runs these call themselves by such
 * names, and would be seen twice. */
static void change_symbols(const struct module *m)
{
    const uint64_t base = m->info->dlpi_addr;
    uint64_t low = UINT64_MAX, high = 0;
    changes.count = 0;
    for (unsigned k = 0; k < work.count; k++) {
        char further[32] = "__libc_";
        const char *name = work.list[k].name;
        if (!work.original[k] || work.base[k] != base)
            continue;
        add_symbols(m, name, k);
        if ((!next_facts.glibc && work.where == BINDINGS_FIRST) ||
            strlen(name) >= sizeof further - strlen(further))
            continue;
        strcpy(further + strlen(further), name);
        add_symbols(m, further, k);
        if (!strcmp(name, "free"))
            add_symbols(m, "cfree", k);
    }
    for (unsigned i = 0; i < changes.count; i++) {
        const uint64_t at = (uint64_t)changes.symbol[i];
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    if (!changes.count)
        return;
    if (!module_open(&work.pages, m->info, low, high + sizeof(Elf64_Sym))) {
        work.pages.failed = true;
        return;
    }
    for (unsigned i = 0; i < changes.count; i++)
        module_write(&work.pages, m->info, (uint64_t)&changes.symbol[i]->st_value,
                     to(changes.binding[i]) - base);
}

static int change_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct module m;
    (void)size, (void)arg;
    if (module_holds(info, work.own) || !module_read(info, &m))
        return 0;
    const bool allocator = is_allocator(info);
    if (allocator)
        change_symbols(&m);
    if (!(work.where == BINDINGS_BEHIND && (allocator || is_linker(info))))
        change_relocated(&m);
    if (work.where == BINDINGS_FIRST && is_linker(info))
        change_linker(info);
    module_close(&work.pages);
    return 0;
}

long bindings_change(bool to_ours)
{
    memset(&work.pages, 0, sizeof work.pages);
    work.to_ours = to_ours;
    dl_iterate_phdr(change_module, 0);
    return work.pages.failed ? -1 : work.pages.changed;
}

enum bindings_led bindings_lead(void)
{
    if (!bindings_find(BINDINGS_BEHIND))
        return BINDINGS_BETWEEN;
    if (bindings_change(true) >= 0)
        return BINDINGS_LED;
    bindings_change(false);
    return BINDINGS_REFUSED;
}
