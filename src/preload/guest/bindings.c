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

struct set {
    const struct binding *list;
    unsigned count;
    enum bindings_where where;
    bool behind;                     /* our module has been passed */
    uint64_t original[BINDINGS_MAX]; /* 0: the program has no such function */
    uint64_t base[BINDINGS_MAX];     /* the base of the module that defines it */
    uint64_t lowest, highest;        /* bounds of the originals */
    uint64_t own;                    /* an address of ours, by which our module is known */
    struct module_pages pages;
    bool to_ours;
};
/* The allocator's functions; and the C library's, where another allocator stands before them. */
static struct set program, libc;

/* ---- finding ---- */

static bool is_file(const struct dl_phdr_info *info, const char *begin)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    return slash && !strncmp(slash + 1, begin, strlen(begin));
}

static int find_in_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct set *w = arg;
    struct module m;
    (void)size;
    if (module_holds(info, w->own)) {
        w->behind = true;
        return 0;
    }
    if ((w->where != BINDINGS_FIRST && !w->behind) ||
        (w->where == BINDINGS_LIBC && !is_file(info, "libc.so")) || !module_read(info, &m))
        return 0;
    for (unsigned i = 0; i < w->count; i++) {
        if (w->original[i])
            continue;
        const struct binding *b = &w->list[i];
        const Elf64_Sym *s = module_default(&m, b->name);
        if (!s && b->original) /* libc_malloc_debug.so has other versions alone (next.c) */
            s = module_function(&m, b->name, 0);
        if (!s)
            continue;
        const uint64_t at = info->dlpi_addr + s->st_value;
        w->base[i] = info->dlpi_addr;
        w->original[i] = at;
        w->lowest = !w->lowest || at < w->lowest ? at : w->lowest;
        w->highest = at > w->highest ? at : w->highest;
    }
    return 0;
}

static bool find_module(struct set *w, enum bindings_where where)
{
    w->own = (uint64_t)w->list[0].to;
    w->where = where;
    if (w->count > BINDINGS_MAX)
        return false;
    dl_iterate_phdr(find_in_object, w); /* in the order in which names are searched for */
    for (unsigned i = 0; i < w->count; i++)
        if (w->list[i].needed && !w->original[i])
            return false;
    return true;
}

bool bindings_find(enum bindings_where where)
{
    program.list = entry_bindings(&program.count);
    if (!find_module(&program, where))
        return false;
    for (unsigned i = 0; i < program.count; i++) {
        const struct binding *b = &program.list[i];
        if (b->original && program.original[i] &&
            (uint64_t)next_behind(b->original) != program.original[i])
            return false;
    }
    return true;
}

void *bindings_original(const char *name)
{
    for (unsigned i = 0; i < program.count; i++)
        if (!strcmp(program.list[i].name, name))
            return (void *)program.original[i];
    return 0;
}

/* Behind us stand ours, too, once the bindings have been changed. */
void *next_symbol(const char *name)
{
    void *f = bindings_original(name);
    if (!f)
        f = next_later(name);
    if (!f)
        f = module_behind(name);
    return f ? f : dlsym(RTLD_NEXT, name);
}

/* ---- changing ---- */

static uint64_t from(const struct set *w, unsigned i)
{
    return w->to_ours ? w->original[i] : (uint64_t)w->list[i].to;
}

static uint64_t to(const struct set *w, unsigned i)
{
    return w->to_ours ? (uint64_t)w->list[i].to : w->original[i];
}

/* The number of the binding that a word of this value has to do with; count: none. */
static unsigned bound_number(const struct set *w, uint64_t value)
{
    unsigned i = 0;
    if (w->to_ours && (value < w->lowest || value > w->highest))
        return w->count;
    while (i < w->count && !(w->original[i] && value == from(w, i)))
        i++;
    return i;
}

static bool object_is_allocator(const struct set *w, const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < w->count; i++)
        if (w->original[i] && w->base[i] == info->dlpi_addr)
            return true;
    return false;
}

static void change_relocated(struct set *w, const struct module *m)
{
    for (unsigned table = 0; table < 2; table++) {
        for (uint64_t i = 0; i < m->count[table]; i++) {
            const uint64_t at = module_word(m, &m->relocations[table][i]);
            if (!at || !module_holds(m->info, at))
                continue;
            const unsigned k = bound_number(w, *(const volatile uint64_t *)at);
            if (k < w->count)
                module_write(&w->pages, m->info, at, to(w, k));
        }
    }
}

/* The dynamic linker keeps the four functions in words that it has found by itself. */
static void change_linker(struct set *w, const struct dl_phdr_info *info)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *p = &info->dlpi_phdr[i];
        const uint64_t start = (info->dlpi_addr + p->p_vaddr + 7) & ~7ull,
                       end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
        for (uint64_t at = start; p->p_type == PT_GNU_RELRO && at + 8 <= end; at += 8) {
            const unsigned k = bound_number(w, *(const volatile uint64_t *)at);
            if (k < w->count)
                module_write(&w->pages, info, at, to(w, k));
        }
    }
}

/* Symbols of one module that are to be changed, and into which binding. */
struct changes {
    Elf64_Sym *symbol[3 * BINDINGS_MAX];
    uint8_t binding[3 * BINDINGS_MAX];
    unsigned count;
};
static struct changes changes;

/* Every version of that name which leads to the function. */
static void add_binding_symbols(const struct set *w, const struct module *m, const char *name,
                                unsigned k)
{
    const uint64_t value = from(w, k) - m->info->dlpi_addr;
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
static void change_symbols(struct set *w, const struct module *m)
{
    const uint64_t base = m->info->dlpi_addr;
    uint64_t low = UINT64_MAX, high = 0;
    changes.count = 0;
    for (unsigned k = 0; k < w->count; k++) {
        char further[32] = "__libc_";
        const char *name = w->list[k].name;
        if (!w->original[k] || w->base[k] != base)
            continue;
        add_binding_symbols(w, m, name, k);
        if ((!next_facts.glibc && w->where == BINDINGS_FIRST) ||
            strlen(name) >= sizeof further - strlen(further))
            continue;
        strcpy(further + strlen(further), name);
        add_binding_symbols(w, m, further, k);
        if (!strcmp(name, "free"))
            add_binding_symbols(w, m, "cfree", k);
    }
    for (unsigned i = 0; i < changes.count; i++) {
        const uint64_t at = (uint64_t)changes.symbol[i];
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    if (!changes.count)
        return;
    if (!module_open(&w->pages, m->info, low, high + sizeof(Elf64_Sym))) {
        w->pages.failed = true;
        return;
    }
    for (unsigned i = 0; i < changes.count; i++)
        module_write(&w->pages, m->info, (uint64_t)&changes.symbol[i]->st_value,
                     to(w, changes.binding[i]) - base);
}

static int change_module_bindings(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct set *w = arg;
    struct module m;
    (void)size;
    if (module_holds(info, w->own) || !module_read(info, &m))
        return 0;
    const bool allocator = object_is_allocator(w, info);
    if (allocator)
        change_symbols(w, &m);
    if (w->where == BINDINGS_FIRST ||
        !(allocator || object_is_allocator(&program, info) || is_file(info, "ld-linux")))
        change_relocated(w, &m);
    if (w->where == BINDINGS_FIRST && is_file(info, "ld-linux"))
        change_linker(w, info);
    module_close(&w->pages);
    return 0;
}

static long change(struct set *w, bool to_ours)
{
    memset(&w->pages, 0, sizeof w->pages);
    w->to_ours = to_ours;
    dl_iterate_phdr(change_module_bindings, w);
    return w->pages.failed ? -1 : w->pages.changed;
}

long bindings_change(bool to_ours) { return change(&program, to_ours); }

enum bindings_led bindings_lead(void)
{
    if (!bindings_find(BINDINGS_BEHIND))
        return BINDINGS_BETWEEN;
    if (bindings_change(true) >= 0)
        return BINDINGS_LED;
    bindings_change(false);
    return BINDINGS_REFUSED;
}

void bindings_lead_libc(const struct binding *list, unsigned count)
{
    libc.list = list;
    libc.count = count;
    if (!find_module(&libc, BINDINGS_LIBC))
        return;
    for (unsigned i = 0; i < count; i++)
        *list[i].original = (void *)libc.original[i];
    if (change(&libc, true) < 0)
        change(&libc, false);
}
