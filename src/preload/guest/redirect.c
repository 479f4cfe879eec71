/* redirect.c - functions of the allocator behind us that must not be exported.
 *
 * Programs ask by weak references and by dlsym whether the allocator is jemalloc. A library that
 * exported mallocx would answer yes in every process. So where the allocator has such functions,
 * its own symbol table is changed to lead to ours: lookups that come later (lazy binding, dlopen,
 * dlsym) find them. What the loader has bound already is changed in the modules that are there.
 *
 * Called once at the start, while no other thread can be inside the loader for these names. Memory
 * that the loader has made read-only is written to by two calls of mprotect a word. */
#include <string.h>

#include "preload/guest/module.h"

struct work {
    const struct redirection *list;
    unsigned count;
    Elf64_Sym *symbols[REDIRECTIONS_MAX]; /* the symbols of the allocator; NULL: not found */
    struct dl_phdr_info allocator;        /* where they are */
    struct module_pages pages;
};

/* The number of the redirection of that name; count: none. */
static unsigned named(const struct work *w, const char *name)
{
    unsigned i = 0;
    while (i < w->count && strcmp(w->list[i].name, name) != 0)
        i++;
    return i;
}

static int find_symbols(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct work *w = arg;
    struct module m;
    (void)size;
    if (!module_holds(info, next_facts.start) || !module_read(info, &m) || !m.hash)
        return 0;
    w->allocator = *info;
    for (uint32_t i = m.hash[1], n = module_symbols(&m); i < n; i++) {
        Elf64_Sym *s = &m.symbols[i];
        if (!module_defines(s))
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
        for (uint64_t i = 0; i < m->count[table]; i++) {
            const Elf64_Rela *r = &m->relocations[table][i];
            const uint64_t at = module_word(m, r);
            /* a lazy one that is not bound yet will find ours by itself */
            if (!at || !module_holds(m->info, at) ||
                !module_holds(&w->allocator, *(const uint64_t *)at))
                continue;
            const unsigned k = named(w, m->names + m->symbols[ELF64_R_SYM(r->r_info)].st_name);
            if (k < w->count && w->symbols[k] && *(void *const *)at == *w->list[k].from)
                module_write(&w->pages, m->info, at, (uint64_t)w->list[k].to);
        }
    }
}

static int redirect_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct work *w = arg;
    struct module m;
    (void)size;
    if (!module_holds(info, (uint64_t)w->list[0].to) && !module_holds(info, next_facts.start) &&
        module_read(info, &m))
        change_bound(w, &m);
    module_close(&w->pages);
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
        module_write(&w.pages, &w.allocator, (uint64_t)&w.symbols[i]->st_value,
                     (uint64_t)list[i].to - base);
    }
    module_close(&w.pages);
    if (!w.pages.failed)
        dl_iterate_phdr(redirect_module, &w);
    return w.pages.failed ? REDIRECT_REFUSED : REDIRECT_DONE;
}
