/* elfnames.c - Builds a sorted index of a module's code symbols and PLT stubs, with the best
 * name for each address. A symbol without a size ends where the next one begins. */
#include "symbol/elfnames.h"

#include "arch/system.h"
#include "base/array.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

/* A symbol on its way into the index. */
struct candidate {
    uint64_t lo, size, limit; /* limit: end of its section */
    const char *text;
    bool is_plt;
    unsigned rank; /* higher is better */
};

struct candidates {
    struct candidate *at;
    size_t count, room;
};

static int add_name_candidate(struct candidates *c, struct candidate one)
{
    if (!ARRAY_ROOM(c->at, c->count + 1, c->room))
        return -1;
    c->at[c->count++] = one;
    return 0;
}

static unsigned underscores(const char *text)
{
    unsigned n = 0;
    while (text[n] == '_' && n < 7)
        n++;
    return n;
}

static unsigned rank_symbol(const GElf_Sym *sym, const char *text, bool is_plt)
{
    unsigned type = GELF_ST_TYPE(sym->st_info), bind = GELF_ST_BIND(sym->st_info);
    unsigned rank = type == STT_NOTYPE ? 0 : 1;
    rank = rank * 2 + (bind != STB_LOCAL);
    rank = rank * 2 + !is_plt;
    rank = rank * 2 + (sym->st_size != 0);
    rank = rank * 8 + 7 - underscores(text);
    return rank * 2 + (bind == STB_GLOBAL);
}

/* By address, the best first. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    size_t n = strlen(x->text), m = strlen(y->text);
    if (n != m)
        return n < m ? -1 : 1;
    return strcmp(x->text, y->text);
}

static int collect_symbols(struct candidates *c, Dwfl_Module *module)
{
    int count = dwfl_module_getsymtab(module);
    for (int i = 1; i < count; i++) {
        GElf_Sym sym;
        GElf_Addr value;
        GElf_Word section_index;
        GElf_Shdr header;
        Elf *elf = NULL;
        Dwarf_Addr bias;
        const char *text =
            dwfl_module_getsym_info(module, i, &sym, &value, &section_index, &elf, &bias);
        if (!text || !*text || section_index == SHN_UNDEF || section_index == SHN_ABS ||
            section_index == SHN_COMMON)
            continue;
        unsigned type = GELF_ST_TYPE(sym.st_info);
        if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
            continue;
        uint64_t limit = value < UINT64_MAX - 4096 ? value + 4096 : UINT64_MAX;
        Elf_Scn *section = elf ? elf_getscn(elf, section_index) : NULL;
        if (section && gelf_getshdr(section, &header)) {
            if (!(header.sh_flags & SHF_EXECINSTR))
                continue;
            limit = header.sh_addr + header.sh_size + bias;
        } else if (type == STT_NOTYPE) {
            continue;
        } else if (sym.st_size) {
            limit = UINT64_MAX;
        }
        if (limit <= value)
            continue;
        struct candidate one = {.lo = value,
                                .size = sym.st_size,
                                .limit = limit,
                                .text = text,
                                .rank = rank_symbol(&sym, text, false)};
        if (add_name_candidate(c, one) != 0)
            return -1;
    }
    return 0;
}

static Elf_Scn *section_by_name(Elf *elf, const char *name, GElf_Shdr *header)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    while ((section = elf_nextscn(elf, section))) {
        const char *is =
            gelf_getshdr(section, header) ? elf_strptr(elf, names, header->sh_name) : NULL;
        if (is && strcmp(is, name) == 0)
            return section;
    }
    return NULL;
}

/* x86-64: the stub of the n-th relocation of .rela.plt is the n-th entry of .plt.sec, or, where
 * there is none, entry n + 1 of .plt; all are of 16 bytes. */
static int collect_stubs(struct candidates *c, Dwfl_Module *module)
{
    enum { STUB_BYTES = 16 };
    GElf_Addr bias;
    GElf_Ehdr file;
    GElf_Shdr plt, relocations, symbols;
    Elf *elf = dwfl_module_getelf(module, &bias);
    size_t first = 0;

    if (!elf || !gelf_getehdr(elf, &file) || file.e_machine != ARCH_ELF_MACHINE)
        return 0;
    if (!section_by_name(elf, ".plt.sec", &plt)) {
        if (!section_by_name(elf, ".plt", &plt))
            return 0;
        first = 1;
    }
    Elf_Scn *section = section_by_name(elf, ".rela.plt", &relocations);
    Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
    if (!data || relocations.sh_entsize == 0 || relocations.sh_type != SHT_RELA ||
        plt.sh_type != SHT_PROGBITS)
        return 0;
    Elf_Scn *symbol_section = elf_getscn(elf, relocations.sh_link);
    Elf_Data *symbol_data = symbol_section ? elf_getdata(symbol_section, NULL) : NULL;
    if (!symbol_data || !gelf_getshdr(symbol_section, &symbols))
        return 0;
    size_t count = data->d_size / relocations.sh_entsize;
    size_t stubs = plt.sh_size / STUB_BYTES;
    for (size_t i = 0; i < count && i + first < stubs && i < INT32_MAX; i++) {
        GElf_Rela rela;
        GElf_Sym sym;
        if (!gelf_getrela(data, (int)i, &rela) ||
            !gelf_getsym(symbol_data, (int)GELF_R_SYM(rela.r_info), &sym))
            continue;
        const char *text = elf_strptr(elf, symbols.sh_link, sym.st_name);
        if (!text || !*text)
            continue;
        uint64_t at = plt.sh_addr + bias + (i + first) * STUB_BYTES;
        struct candidate one = {.lo = at,
                                .size = STUB_BYTES,
                                .limit = at + STUB_BYTES,
                                .text = text,
                                .is_plt = true,
                                .rank = rank_symbol(&sym, text, true)};
        if (add_name_candidate(c, one) != 0)
            return -1;
    }
    return 0;
}

static int put_name_range(struct elf_names *names, const struct candidate *one, uint64_t hi)
{
    if (names->count == UINT32_MAX)
        return 0;
    if (!ARRAY_ROOM(names->at, names->count + 1, names->room))
        return -1;
    if (interval_add(&names->ranges, one->lo, hi, (uint32_t)names->count) != 0)
        return -1;
    names->at[names->count++] = (struct elf_name){one->text, one->lo, one->is_plt};
    return 0;
}

int elf_names_build(struct elf_names *names, Dwfl_Module *module)
{
    struct candidates c = {0};
    uint64_t covered = 0; /* the furthest end of a symbol with a size so far */
    int rc = -1;

    memset(names, 0, sizeof *names);
    if (collect_symbols(&c, module) != 0 || collect_stubs(&c, module) != 0)
        goto out;
    if (c.count)
        qsort(c.at, c.count, sizeof *c.at, compare_candidates);
    for (size_t i = 0, next; i < c.count; i = next) {
        const struct candidate *one = &c.at[i];
        for (next = i + 1; next < c.count && c.at[next].lo == one->lo;)
            next++;
        uint64_t hi = one->limit;
        if (one->size) {
            if (one->size < hi - one->lo)
                hi = one->lo + one->size;
            if (hi > covered)
                covered = hi;
        } else {
            if (one->lo < covered)
                continue; /* a label inside a function */
            if (next < c.count && c.at[next].lo < hi)
                hi = c.at[next].lo;
        }
        if (put_name_range(names, one, hi) != 0)
            goto out;
    }
    rc = interval_flatten(&names->ranges);
out:
    free(c.at);
    if (rc != 0)
        elf_names_free(names);
    return rc;
}

const struct elf_name *elf_names_find(const struct elf_names *names, uint64_t address)
{
    const struct interval *found = interval_find(&names->ranges, address);
    return found ? &names->at[found->value] : NULL;
}

void elf_names_free(struct elf_names *names)
{
    free(names->at);
    interval_free(&names->ranges);
    memset(names, 0, sizeof *names);
}
