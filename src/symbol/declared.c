/* declared.c - Reads from DWARF where each global variable is declared and which type it has.
 * The walk over the entries uses no recursion and has a bound on its steps, because a file may
 * nest to any depth. */
#include "symbol/declared.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbol/program.h"

enum { DEPTH_MAX = 24, TYPE_DEPTH_MAX = 8, STEPS_MAX = 5000000, TYPE_ROOM = 256 };

struct walking {
    struct declarations *d;
    uint64_t steps;
    bool failed;
};

static bool attribute_die(Dwarf_Die *die, unsigned name, Dwarf_Die *into)
{
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, name, &attribute) && dwarf_formref_die(&attribute, into);
}

/* Puts a type together from the variable inwards: pointers and arrays behind the name. */
static void write_type(Dwarf_Die *variable, char text[TYPE_ROOM])
{
    Dwarf_Die type, next;
    char behind[4 * TYPE_DEPTH_MAX + 1] = "";
    const char *name = NULL, *before = "";
    text[0] = 0;
    if (!attribute_die(variable, DW_AT_type, &type))
        return;
    for (int i = 0; i < TYPE_DEPTH_MAX; i++) {
        const int tag = dwarf_tag(&type);
        name = dwarf_diename(&type);
        before = tag == DW_TAG_structure_type ? "struct "
                 : tag == DW_TAG_union_type   ? "union "
                                              : "";
        const char *mark = tag == DW_TAG_pointer_type     ? "*"
                           : tag == DW_TAG_reference_type ? "&"
                           : tag == DW_TAG_array_type     ? "[]"
                           : tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
                                   tag == DW_TAG_atomic_type || tag == DW_TAG_restrict_type
                               ? ""
                               : NULL;
        if (!mark || name)
            break;
        char more[sizeof behind];
        snprintf(more, sizeof more, "%s%.*s", mark, 4 * TYPE_DEPTH_MAX - 2, behind);
        memcpy(behind, more, sizeof more);
        if (!attribute_die(&type, DW_AT_type, &next)) {
            name = "void";
            break;
        }
        type = next;
    }
    Dwarf_Die unit;
    const int language =
        dwarf_diecu(variable, &unit, NULL, NULL) ? dwarf_srclang(&unit) : DW_LANG_C;
    const bool c = language == DW_LANG_C || language == DW_LANG_C89 || language == DW_LANG_C99 ||
                   language == DW_LANG_C11;
    if (name)
        snprintf(text, TYPE_ROOM, "%s%s%s%s", c ? before : "", name, *behind ? " " : "", behind);
}

/* The fixed address of a variable; false: it has none. */
static bool variable_address(Dwarf_Die *die, uint64_t *address)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *op;
    size_t count;
    if (!dwarf_attr(die, DW_AT_location, &attribute) ||
        dwarf_getlocation(&attribute, &op, &count) || count != 1)
        return false;
    if (op->atom == DW_OP_addr) {
        *address = op->number;
        return true;
    }
    Dwarf_Attribute result;
    return op->atom == DW_OP_addrx && !dwarf_getlocation_attr(&attribute, op, &result) &&
           !dwarf_formaddr(&result, address);
}

/* The file of the declaration; NULL: not said. In DWARF 5 number 0 is a file, that of the unit
 * itself, which elfutils 0.188 takes for none. */
static const char *declared_file(Dwarf_Die *die)
{
    const char *const file = dwarf_decl_file(die);
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Die unit;
    Dwarf_Half version;
    Dwarf_Files *files;
    size_t count;
    if (file || !dwarf_attr_integrate(die, DW_AT_decl_file, &attribute) ||
        dwarf_formudata(&attribute, &number) || number ||
        !dwarf_cu_die(attribute.cu, &unit, &version, NULL, NULL, NULL, NULL, NULL) || version < 5 ||
        dwarf_getsrcfiles(&unit, &files, &count) || !count)
        return file;
    return dwarf_filesrc(files, 0, NULL, NULL);
}

static void add_variable(struct walking *w, Dwarf_Die *die)
{
    struct declarations *d = w->d;
    struct declared found = {0};
    char type[TYPE_ROOM];
    int line = 0;
    if (!variable_address(die, &found.address))
        return;
    const char *file = declared_file(die);
    write_type(die, type);
    if (!dwarf_decl_line(die, &line) && line > 0)
        found.line = (unsigned)line;
    found.file = intern_string(&d->texts, file ? file : "");
    found.type = intern_string(&d->texts, type);
    if (!found.file || !found.type || !ARRAY_ROOM(d->at, d->count + 1, d->room)) {
        w->failed = true;
        return;
    }
    d->at[d->count++] = found;
}

static bool may_hold_variables(int tag) { return tag == DW_TAG_namespace || tag == DW_TAG_module; }

/* Without recursion: a file can nest as deep as it is long. */
static void walk_unit(struct walking *w, Dwarf_Die *unit)
{
    Dwarf_Die path[DEPTH_MAX];
    int depth = 0;
    if (dwarf_child(unit, &path[0]))
        return;
    while (depth >= 0 && !w->failed && w->steps++ < STEPS_MAX) {
        const int tag = dwarf_tag(&path[depth]);
        if (tag == DW_TAG_variable)
            add_variable(w, &path[depth]);
        if (depth + 1 < DEPTH_MAX && may_hold_variables(tag) &&
            !dwarf_child(&path[depth], &path[depth + 1])) {
            depth++;
            continue;
        }
        while (depth >= 0 && dwarf_siblingof(&path[depth], &path[depth]))
            depth--;
    }
}

static int compare_variable_addresses(const void *a, const void *b)
{
    const struct declared *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (y->line != 0) - (x->line != 0);
}

int declarations_read(struct declarations *d, int fd)
{
    *d = (struct declarations){0};
    struct walking w = {.d = d};
    Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
    const bool used = dwarf && !(program_is_of_another(fd) && program_leads_elsewhere(dwarf));
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    uint8_t type;
    while (used && !w.failed && w.steps < STEPS_MAX &&
           !dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL))
        if (type == DW_UT_compile)
            walk_unit(&w, &die);
    if (dwarf)
        dwarf_end(dwarf);
    if (d->count > 1)
        qsort(d->at, d->count, sizeof *d->at, compare_variable_addresses);
    if (w.failed)
        declarations_release(d);
    return w.failed ? -1 : 0;
}

void declarations_release(struct declarations *d)
{
    free(d->at);
    intern_free(&d->texts);
    *d = (struct declarations){0};
}

const struct declared *declarations_find(const struct declarations *d, uint64_t address)
{
    size_t low = 0, high = d->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->at[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->count && d->at[low].address == address ? &d->at[low] : NULL;
}
