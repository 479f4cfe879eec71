/* dwarfindex.c - Finds the functions, inlined calls and source line at an address through libdw.
 * Units, functions and inlined calls are read when an address first needs them. No walk takes
 * more steps than its unit has bytes, so a damaged file costs bounded time. */
#include "symbol/dwarfindex.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbol/interval.h"

enum { SCAN_DEPTH_MAX = 48 };

/* A call that was inlined into a function, or into another one that was. */
struct inlined {
    Dwarf_Off die;
    uint32_t parent; /* index of the enclosing one, or NO_PARENT */
    uint32_t call_file, call_line;
};

#define NO_PARENT UINT32_MAX

struct inlined_range {
    uint64_t lo, hi;
    uint32_t inlined;
};

struct function {
    Dwarf_Off die;
    bool ready; /* the inlined calls have been read */
    struct inlined *inlined;
    struct inlined_range *range; /* in the order of the tree: inner ones come later */
    uint32_t inlines, ranges;
};

/* A namespace, a type or a function, for names with scopes. */
struct scope {
    Dwarf_Off die;
    uint32_t parent; /* index of the enclosing one, or NO_PARENT */
};

struct unit {
    Dwarf_Off die;       /* the die of the unit, in .debug_info */
    uint64_t size_bytes; /* no walk in the unit takes more steps than it has bytes */
    bool scanned, scanned_deep, lines_read, scopes_read;
    struct interval_map map; /* value: index into function */
    struct function *function;
    uint32_t functions, room;
    struct scope *scope; /* in the order of their offsets */
    uint32_t scopes, scope_room;
};

struct dwarf_index {
    Dwarf *dwarf;
    uint64_t bias;
    bool split; /* split units are opened */
    struct unit *unit;
    size_t units, room;
    struct interval_map map;  /* value: index into unit */
    struct interval_map late; /* the same for units that do not say which code is theirs */
    bool late_ready;
    size_t size_bytes;
};

/* ------------------------------------------------------------------ units */

static int add_unit(struct dwarf_index *x, Dwarf_Off die, uint64_t size_bytes)
{
    if (!ARRAY_ROOM(x->unit, x->units + 1, x->room))
        return -1;
    x->unit[x->units++] = (struct unit){.die = die, .size_bytes = size_bytes};
    x->size_bytes += sizeof(struct unit) + 256; /* and what libdw keeps */
    return 0;
}

/* Adds the ranges of a DIE to a map; at most `budget` of them. Returns their number, or -1 when out
 * of memory. Code at address 0 is what a linker threw away. */
static long add_ranges(struct interval_map *map, Dwarf_Die *die, uint32_t value, uint64_t budget)
{
    Dwarf_Addr base, lo, hi;
    long count = 0;
    ptrdiff_t offset = 0;
    while (budget-- && (offset = dwarf_ranges(die, offset, &base, &lo, &hi)) > 0) {
        if (lo == 0 || lo >= hi)
            continue;
        if (interval_add(map, lo, hi, value) != 0)
            return -1;
        count++;
    }
    return count;
}

/* The unit whose DIE is at an offset, or NULL. Units are in the order of their offsets. */
static struct unit *unit_at(struct dwarf_index *x, Dwarf_Off die)
{
    size_t lo = 0, hi = x->units;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (x->unit[mid].die < die)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < x->units && x->unit[lo].die == die ? &x->unit[lo] : NULL;
}

/* Units that give no ranges of their own may be in .debug_aranges. */
static int add_aranges(struct dwarf_index *x)
{
    Dwarf_Aranges *aranges;
    size_t count;
    if (dwarf_getaranges(x->dwarf, &aranges, &count) != 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        Dwarf_Addr start;
        Dwarf_Word length;
        Dwarf_Off die;
        if (dwarf_getarangeinfo(dwarf_onearange(aranges, i), &start, &length, &die) != 0 ||
            start == 0 || start + length < start)
            continue;
        struct unit *u = unit_at(x, die);
        if (u && interval_add(&x->map, start, start + length, (uint32_t)(u - x->unit)) != 0)
            return -1;
    }
    return 0;
}

static int read_units(struct dwarf_index *x)
{
    Dwarf_CU *cu = NULL;
    bool some_without = false;
    enum { UNITS_MAX = 1 << 22, UNIT_RANGES_MAX = 1 << 20 };
    Dwarf_Off last = 0;

    for (size_t n = 0; n < UNITS_MAX; n++) {
        Dwarf_Die die, split;
        Dwarf_Half version;
        uint8_t type;
        if (dwarf_get_units(x->dwarf, cu, &cu, &version, &type, &die, x->split ? &split : NULL))
            break; /* the end, or damage: what came before it stays good */
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        Dwarf_Off offset = dwarf_dieoffset(&die);
        if (offset == (Dwarf_Off)-1 || (x->units && offset <= last))
            continue;
        last = offset;
        if (x->units) /* the size of a unit is known when the next begins */
            x->unit[x->units - 1].size_bytes = offset - x->unit[x->units - 1].die;
        if (add_unit(x, offset, UINT32_MAX) != 0)
            return -1;
        long found = add_ranges(&x->map, &die, (uint32_t)(x->units - 1), UNIT_RANGES_MAX);
        if (found < 0)
            return -1;
        some_without |= found == 0;
    }
    if (some_without && add_aranges(x) != 0)
        return -1;
    x->size_bytes += x->map.count * sizeof(struct interval);
    return interval_flatten(&x->map);
}

struct dwarf_index *dwarf_index_new(Dwarf *dwarf, uint64_t bias, bool split)
{
    struct dwarf_index *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->dwarf = dwarf;
    x->bias = bias;
    x->split = split;
    if (read_units(x) != 0) {
        dwarf_index_free(x);
        return NULL;
    }
    return x;
}

void dwarf_index_free(struct dwarf_index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->units; i++) {
        struct unit *u = &x->unit[i];
        for (uint32_t j = 0; j < u->functions; j++) {
            free(u->function[j].inlined);
            free(u->function[j].range);
        }
        free(u->function);
        free(u->scope);
        interval_free(&u->map);
    }
    free(x->unit);
    interval_free(&x->map);
    interval_free(&x->late);
    free(x);
}

size_t dwarf_index_size_bytes(const struct dwarf_index *x) { return x->size_bytes; }

/* The DIE that holds the functions of a unit: in the split file when there is one. */
static bool unit_die(struct dwarf_index *x, const struct unit *u, Dwarf_Die *skeleton,
                     Dwarf_Die *body)
{
    Dwarf_Half version;
    uint8_t type;
    Dwarf_Die die, split;
    if (!dwarf_offdie(x->dwarf, u->die, skeleton))
        return false;
    *body = *skeleton;
    memset(&split, 0, sizeof split);
    if (x->split &&
        dwarf_cu_info(skeleton->cu, &version, &type, &die, &split, NULL, NULL, NULL) == 0 &&
        type == DW_UT_skeleton && split.addr && dwarf_tag(&split) == DW_TAG_compile_unit)
        *body = split;
    return true;
}

/* ------------------------------------------------------------------ functions of a unit */

static int add_dwarf_function(struct dwarf_index *x, struct unit *u, Dwarf_Die *die)
{
    enum { FUNCTION_RANGES_MAX = 1 << 12 };
    long found = add_ranges(&u->map, die, u->functions, FUNCTION_RANGES_MAX);
    if (found <= 0)
        return (int)found;
    if (!ARRAY_ROOM(u->function, u->functions + 1, u->room))
        return -1;
    u->function[u->functions++] = (struct function){.die = dwarf_dieoffset(die)};
    x->size_bytes += sizeof(struct function) + (size_t)found * sizeof(struct interval);
    return 0;
}

/* Moves to the next sibling; false at the end. A sibling that is not behind its elder is damage. */
static bool next_sibling(Dwarf_Die *die, uint64_t *steps)
{
    const void *at = die->addr;
    if (*steps == 0)
        return false;
    --*steps;
    return dwarf_siblingof(die, die) == 0 && (const char *)die->addr > (const char *)at;
}

/* Collects the functions with code below a DIE. deep: also those inside function bodies (nested
 * functions of GNU C, Ada, D), which are rare and cost a walk of everything. */
static int scan_functions(struct dwarf_index *x, struct unit *u, Dwarf_Die *parent, bool deep,
                          unsigned depth, uint64_t *steps)
{
    Dwarf_Die die;
    if (depth > SCAN_DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return 0;
    do {
        bool descend = false;
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
            if (add_dwarf_function(x, u, &die) != 0)
                return -1;
            descend = deep;
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_inlined_subroutine: descend = deep; break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_enumeration_type:
        case DW_TAG_interface_type: descend = true; break;
        default: break;
        }
        if (descend && scan_functions(x, u, &die, deep, depth + 1, steps) != 0)
            return -1;
    } while (next_sibling(&die, steps));
    return 0;
}

static int scan_unit(struct dwarf_index *x, struct unit *u, bool deep)
{
    Dwarf_Die skeleton, body;
    uint64_t steps = u->size_bytes;
    if (deep ? u->scanned_deep : u->scanned)
        return 0;
    u->scanned = true;
    u->scanned_deep |= deep;
    for (uint32_t i = 0; i < u->functions; i++) {
        free(u->function[i].inlined);
        free(u->function[i].range);
    }
    u->functions = 0;
    interval_free(&u->map);
    if (!unit_die(x, u, &skeleton, &body))
        return 0;
    if (body.addr != skeleton.addr)
        steps = UINT32_MAX;
    if (scan_functions(x, u, &body, deep, 0, &steps) != 0)
        return -1;
    return interval_flatten(&u->map);
}

/* ------------------------------------------------------------------ inlined calls of a function */

struct inlined_scan {
    struct function *f;
    uint32_t inlined_room, range_room;
    uint64_t steps;
};

static uint32_t unsigned_attribute(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0 ||
        value > UINT32_MAX)
        return 0;
    return (uint32_t)value;
}

static int add_inlined(struct inlined_scan *s, Dwarf_Die *die, uint32_t parent)
{
    enum { INLINED_RANGES_MAX = 1 << 12 };
    struct function *f = s->f;
    Dwarf_Addr base, lo, hi;
    ptrdiff_t offset = 0;

    if (!ARRAY_ROOM(f->inlined, f->inlines + 1, s->inlined_room))
        return -1;
    f->inlined[f->inlines] =
        (struct inlined){.die = dwarf_dieoffset(die),
                         .parent = parent,
                         .call_file = unsigned_attribute(die, DW_AT_call_file),
                         .call_line = unsigned_attribute(die, DW_AT_call_line)};
    for (int n = 0; n < INLINED_RANGES_MAX; n++) {
        offset = dwarf_ranges(die, offset, &base, &lo, &hi);
        if (offset <= 0)
            break;
        if (lo >= hi)
            continue;
        if (!ARRAY_ROOM(f->range, f->ranges + 1, s->range_room))
            return -1;
        f->range[f->ranges++] = (struct inlined_range){lo, hi, f->inlines};
    }
    f->inlines++;
    return 0;
}

static int scan_inlined(struct inlined_scan *s, Dwarf_Die *parent_die, uint32_t parent,
                        unsigned depth)
{
    Dwarf_Die die;
    if (depth > 4 * SCAN_DEPTH_MAX || dwarf_child(parent_die, &die) != 0)
        return 0;
    do {
        uint32_t inside = parent;
        switch (dwarf_tag(&die)) {
        case DW_TAG_inlined_subroutine:
            inside = s->f->inlines;
            if (add_inlined(s, &die, parent) != 0)
                return -1;
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block:
        case DW_TAG_with_stmt: break;
        default: continue;
        }
        if (scan_inlined(s, &die, inside, depth + 1) != 0)
            return -1;
    } while (next_sibling(&die, &s->steps));
    return 0;
}

/* ------------------------------------------------------------------ the answer */

static const char *linkage_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    if (!name && dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    return name && *name ? name : NULL;
}

static bool is_scope(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
           tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type || tag == DW_TAG_subprogram;
}

static int scan_scopes(struct dwarf_index *x, struct unit *u, Dwarf_Die *parent_die,
                       uint32_t parent, unsigned depth, uint64_t *steps)
{
    Dwarf_Die die;
    if (depth > SCAN_DEPTH_MAX || dwarf_child(parent_die, &die) != 0)
        return 0;
    do {
        uint32_t inside = parent;
        int tag = dwarf_tag(&die);
        if (is_scope(tag)) {
            if (!ARRAY_ROOM(u->scope, u->scopes + 1, u->scope_room))
                return -1;
            inside = u->scopes;
            u->scope[u->scopes++] = (struct scope){dwarf_dieoffset(&die), parent};
            x->size_bytes += sizeof(struct scope);
        } else if (tag != DW_TAG_lexical_block) {
            continue;
        }
        if (scan_scopes(x, u, &die, inside, depth + 1, steps) != 0)
            return -1;
    } while (next_sibling(&die, steps));
    return 0;
}

static void append_answer_name(struct dwarf_answer *a, const char *text)
{
    size_t n = strlen(text);
    if (n >= sizeof a->text - a->text_bytes)
        n = sizeof a->text - a->text_bytes - 1;
    memcpy(a->text + a->text_bytes, text, n);
    a->text_bytes += n;
}

/* Puts the scopes before a name that has no linkage name: `(anonymous namespace)::Type::name`.
 * Only within the unit of the function; where that fails the bare name stays. */
static void qualify(struct dwarf_index *x, struct unit *of, Dwarf_Die function,
                    struct dwarf_answer *a, struct dwarf_frame *frame)
{
    enum { LINKS_MAX = 8, SCOPES_MAX = 16 };
    uint32_t chain[SCOPES_MAX], depth = 0;
    Dwarf_Attribute attribute;
    Dwarf_Die unit, next;

    for (int i = 0; i < LINKS_MAX; i++) { /* to the declaration, which stands in its scope */
        if (!dwarf_attr(&function, DW_AT_abstract_origin, &attribute) &&
            !dwarf_attr(&function, DW_AT_specification, &attribute))
            break;
        if (!dwarf_formref_die(&attribute, &next))
            break;
        function = next;
    }
    if (!dwarf_diecu(&function, &unit, NULL, NULL))
        return;
    Dwarf *dwarf = dwarf_cu_getdwarf(unit.cu);
    struct unit *u = unit_at(x, dwarf_dieoffset(&unit));
    if (dwarf != x->dwarf) { /* a split unit refers to nothing but itself */
        Dwarf_Die skeleton, body;
        if (!unit_die(x, of, &skeleton, &body) || dwarf_cu_getdwarf(body.cu) != dwarf)
            return;
        u = of;
    }
    if (!u)
        return;
    if (!u->scopes_read) {
        uint64_t steps = dwarf == x->dwarf ? u->size_bytes : UINT32_MAX;
        u->scopes_read = true;
        if (scan_scopes(x, u, &unit, NO_PARENT, 0, &steps) != 0)
            return;
    }
    Dwarf_Off wanted = dwarf_dieoffset(&function);
    uint32_t lo = 0, hi = u->scopes;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (u->scope[mid].die < wanted)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == u->scopes || u->scope[lo].die != wanted)
        return;
    for (uint32_t at = u->scope[lo].parent; at != NO_PARENT && depth < SCOPES_MAX;
         at = u->scope[at].parent)
        chain[depth++] = at;
    if (depth == 0 || a->text_bytes + 1 >= sizeof a->text)
        return;
    char *begin = a->text + a->text_bytes;
    while (depth-- > 0) {
        Dwarf_Die scope;
        if (!dwarf_offdie(dwarf, u->scope[chain[depth]].die, &scope))
            continue;
        const char *name = dwarf_diename(&scope);
        int tag = dwarf_tag(&scope);
        if (!name || !*name)
            name = tag == DW_TAG_namespace                  ? "(anonymous namespace)"
                   : strcmp(frame->name, "operator()") == 0 ? "{lambda}"
                                                            : "(unnamed)";
        append_answer_name(a, name);
        append_answer_name(a, "::");
    }
    append_answer_name(a, frame->name);
    a->text[a->text_bytes++] = '\0';
    if (a->text_bytes < sizeof a->text) /* else it was cut */
        frame->name = begin;
}

static void name_frame(struct dwarf_index *x, struct unit *u, Dwarf_Die *die,
                       struct dwarf_answer *a, struct dwarf_frame *frame)
{
    frame->linkage_name = linkage_name(die);
    frame->name = dwarf_diename(die);
    if (frame->name && !*frame->name)
        frame->name = NULL;
    if (frame->name && !frame->linkage_name && a->scoped && strcmp(frame->name, "main") != 0)
        qualify(x, u, *die, a, frame);
}

static bool has_scopes(Dwarf_Die *unit)
{
    switch (dwarf_srclang(unit)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case 0x2b: /* DW_LANG_C_plus_plus_17, not in every dwarf.h */
    case 0x2c: /* DW_LANG_C_plus_plus_20 */
    case DW_LANG_ObjC_plus_plus:
    case DW_LANG_D:
    case DW_LANG_Rust: return true;
    default: return false;
    }
}

static const char *unit_folder(Dwarf_Die *unit)
{
    Dwarf_Attribute attribute;
    return dwarf_attr(unit, DW_AT_comp_dir, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

static void find_line(struct dwarf_index *x, struct unit *u, Dwarf_Die *skeleton, uint64_t address,
                      struct dwarf_frame *frame)
{
    Dwarf_Lines *lines;
    size_t count;
    int line;
    if (!u->lines_read) {
        u->lines_read = true;
        if (dwarf_getsrclines(skeleton, &lines, &count) == 0)
            x->size_bytes += count * 64; /* libdw's memory for them */
    }
    Dwarf_Line *at = dwarf_getsrc_die(skeleton, address);
    if (!at)
        return;
    frame->file = dwarf_linesrc(at, NULL, NULL);
    if (dwarf_lineno(at, &line) == 0 && line > 0)
        frame->line = (unsigned)line;
}

static bool find_in_unit(struct dwarf_index *x, struct unit *u, uint64_t address,
                         struct dwarf_answer *a)
{
    Dwarf_Die skeleton, body, die;
    Dwarf_Files *files = NULL;
    size_t file_count = 0;

    if (scan_unit(x, u, false) != 0)
        return false;
    const struct interval *piece = interval_find(&u->map, address);
    if (!piece && !u->scanned_deep) {
        if (scan_unit(x, u, true) != 0)
            return false;
        piece = interval_find(&u->map, address);
    }
    if (!unit_die(x, u, &skeleton, &body))
        return false;
    a->scoped = has_scopes(&body);
    a->directory = unit_folder(&skeleton);
    find_line(x, u, &skeleton, address, &a->frame[0]);
    if (!piece)
        return a->frame[0].file != NULL;

    struct function *f = &u->function[piece->value];
    Dwarf *dwarf = dwarf_cu_getdwarf(body.cu);
    if (!dwarf_offdie(dwarf, f->die, &die))
        return a->frame[0].file != NULL;
    if (!f->ready) {
        struct inlined_scan s = {.f = f, .steps = dwarf == x->dwarf ? u->size_bytes : UINT32_MAX};
        f->ready = true;
        if (scan_inlined(&s, &die, NO_PARENT, 0) != 0)
            return false;
        x->size_bytes += f->inlines * sizeof(struct inlined);
        x->size_bytes += f->ranges * sizeof(struct inlined_range);
    }
    uint32_t inside = NO_PARENT;
    for (uint32_t i = f->ranges; i-- > 0;) {
        if (f->range[i].lo <= address && address < f->range[i].hi) {
            inside = f->range[i].inlined;
            break;
        }
    }
    while (inside != NO_PARENT && a->frames + 1 < DWARF_FRAMES_MAX) {
        const struct inlined *call = &f->inlined[inside];
        Dwarf_Die call_die;
        if (dwarf_offdie(dwarf, call->die, &call_die))
            name_frame(x, u, &call_die, a, &a->frame[a->frames]);
        a->frames++;
        if (!files && dwarf_getsrcfiles(&body, &files, &file_count) != 0)
            files = NULL;
        a->frame[a->frames] = (struct dwarf_frame){.line = call->call_line};
        if (files && call->call_file < file_count)
            a->frame[a->frames].file = dwarf_filesrc(files, call->call_file, NULL, NULL);
        inside = call->parent;
    }
    name_frame(x, u, &die, a, &a->frame[a->frames]);
    a->frames++;
    a->start = piece->lo;
    return true;
}

/* Functions of units that neither give ranges nor stand in .debug_aranges: all are read, once. */
static const struct interval *find_late(struct dwarf_index *x, uint64_t address)
{
    if (!x->late_ready) {
        x->late_ready = true;
        bool *has = calloc(x->units + 1, sizeof *has);
        for (size_t i = 0; has && i < x->map.count; i++)
            has[x->map.at[i].value] = true;
        for (size_t i = 0; has && i < x->units; i++) {
            if (has[i] || scan_unit(x, &x->unit[i], false) != 0)
                continue;
            for (size_t j = 0; j < x->unit[i].map.count; j++) {
                const struct interval *piece = &x->unit[i].map.at[j];
                if (interval_add(&x->late, piece->lo, piece->hi, (uint32_t)i) != 0)
                    break;
            }
        }
        free(has);
        if (interval_flatten(&x->late) != 0)
            return NULL;
    }
    return interval_find(&x->late, address);
}

bool dwarf_index_find(struct dwarf_index *x, uint64_t address, struct dwarf_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    uint64_t at = address - x->bias;
    const struct interval *found = interval_find(&x->map, at);
    if (!found)
        found = find_late(x, at);
    if (!found || !find_in_unit(x, &x->unit[found->value], at, answer))
        return false;
    answer->start += x->bias;
    return true;
}
