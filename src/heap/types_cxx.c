/* types_cxx.c - C++ classes without symbols; see types.h. The Itanium C++ ABI puts a pointer to a
 * type_info before the functions of a virtual table, and in it the mangled name; the type_info's
 * own virtual table leads to one of the run-time library's classes, which proves the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/types.h"
#include "symbol/symbol.h"

enum { NAME_MAX_BYTES = 4096, TOP_OFFSET_MAX = 1 << 24 };

/* The mangled name that the virtual table at this address leads to; 0: it is none. */
static size_t mangled(struct target *t, const struct modules *modules, uint64_t table, char *name,
                      size_t room, uint64_t *info)
{
    uint64_t top, text;
    if (!target_peek(t, table - 16, &top) || !target_peek(t, table - 8, info))
        return 0;
    if ((int64_t)top > 0 || (int64_t)top < -(int64_t)TOP_OFFSET_MAX || *info & 7 ||
        !modules_at(modules, *info) || !target_peek(t, *info + 8, &text) ||
        !modules_at(modules, text))
        return 0;
    size_t n = target_text(t, text, name, room);
    if (!n || (name[0] != '*' && name[0] != 'N' && name[0] != 'S' && name[0] != 'Z' &&
               name[0] != 'F' && name[0] != 'P' && (name[0] < '0' || name[0] > '9')))
        return 0;
    return n;
}

static void put_demangled(const char *symbol, const char *prefix, char *name, size_t room)
{
    char *text = symbol_demangle(symbol);
    if (text && !strncmp(text, prefix, strlen(prefix)))
        snprintf(name, room, "%s", text + strlen(prefix));
    else
        snprintf(name, room, "%s", symbol + 4);
    free(text);
}

bool types_cxx_name(struct target *t, const struct modules *modules, struct variables *variables,
                    uint64_t address, char *name, size_t room)
{
    char raw[NAME_MAX_BYTES], of_info[64], symbol[NAME_MAX_BYTES + 8];
    uint64_t info, table, info_of_info;
    if (mangled(t, modules, address, raw, sizeof raw, &info) && target_peek(t, info, &table) &&
        modules_at(modules, table) &&
        mangled(t, modules, table, of_info, sizeof of_info, &info_of_info) &&
        !strncmp(of_info, "N10__cxxabiv1", 13)) {
        snprintf(symbol, sizeof symbol, "_ZTI%s", raw + (raw[0] == '*'));
        put_demangled(symbol, "typeinfo for ", name, room);
        return true;
    }
    const struct module *m = modules_at(modules, address); /* without run-time type information */
    const struct variable *v = m ? variables_find(variables, m, address) : NULL;
    if (v && !strncmp(v->name, "_ZTV", 4) && address - v->start == 16) {
        put_demangled(v->name, "vtable for ", name, room);
        return true;
    }
    return false;
}
