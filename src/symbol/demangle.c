/* demangle.c - readable names from mangled ones.
 *
 * Owns: the choice of the language and the bounds. The grammars of C++, Rust and D change with
 * their compilers, so the work is done by GNU libiberty (libiberty-dev, linked statically), which
 * the compilers' own project maintains and which knows all three. Licence: its demanglers
 * (cp-demangle.c, rust-demangle.c, d-demangle.c, cplus-dem.c) are LGPL 2 or later with the
 * exception that compiled versions may be linked into other programs and distributed with them
 * without any restriction coming from them; mallow stays MIT.
 *
 * Bounds, since a short name can stand for an exponentially long text (each substitution can double
 * it): names longer than NAME_BYTES_MAX stay as they are. C++ and Rust text goes through a callback
 * that leaves the library at TEXT_BYTES_MAX; these variants of libiberty's keep their state on the
 * stack (but for the letters of one punycode identifier of Rust), so that leaving them is safe.
 * Searching a C++ name for its argument packs takes work that makes no text, as does skipping a
 * part of a Rust name, and D has no callback: there the work is estimated from above first. Names
 * over a bound stay mangled. */
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/symbol.h"

/* ---- the work of a Rust name ----
 *
 * One part of such a name costs libiberty time without making text. A binder (`for<'a, 'b>` in the
 * type of a function or a trait object) is a number in the name. Where libiberty only skips, as it
 * does over the path of an impl, it counts up to that number, which may be 2^64. Places are read
 * from a list and each once, so this parser takes bounded time and no recursion. */

enum {
    BINDER_MAX = 1000,          /* lifetimes that a type is for */
    DEPTH_MAX = 1200,           /* libiberty ends at 1024 */
    STEPS_MAX = 2 * 1000 * 1000 /* steps of reading, from all places together */
};

/* The grammar of a place; back references lead to places of one grammar. */
enum grammar { PATH, TYPE, CONSTANT, GRAMMARS };

struct name {
    const char *text; /* behind "_R" */
    size_t length, at;
    unsigned depth, steps;
    bool bad; /* it is no name, or over a bound */
    struct place {
        size_t at;
        enum grammar what;
    } * places; /* to be read; each once */
    size_t count, room;
    uint8_t *seen; /* bits of enum grammar, by place */
};

static void read_path(struct name *n);
static void read_type(struct name *n);

static char peek_name(const struct name *n) { return n->at < n->length ? n->text[n->at] : 0; }

static bool eat(struct name *n, char c)
{
    if (n->bad || peek_name(n) != c)
        return false;
    n->at++;
    return true;
}

static char next(struct name *n)
{
    const char c = peek_name(n);
    if (!c || ++n->steps > STEPS_MAX)
        n->bad = true;
    n->at++;
    return n->bad ? 0 : c;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Base 62, closed by an underscore. What does not fit is as large as there is. */
static uint64_t read_number(struct name *n)
{
    uint64_t v = 0;
    if (eat(n, '_'))
        return 0;
    while (!n->bad && !eat(n, '_')) {
        const char c = next(n);
        const unsigned digit = is_digit(c)            ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 10
                               : c >= 'A' && c <= 'Z' ? (unsigned)(c - 'A') + 36
                                                      : 62;
        n->bad |= digit == 62;
        v = v >> 57 ? UINT64_MAX >> 1 : v * 62 + digit;
    }
    return v + 1;
}

static void read_disambiguator(struct name *n)
{
    if (eat(n, 's'))
        read_number(n);
}

static void read_binder(struct name *n)
{
    if (eat(n, 'G') && read_number(n) >= BINDER_MAX)
        n->bad = true;
}

static void read_identifier(struct name *n)
{
    size_t length = 0;
    eat(n, 'u');
    char c = next(n);
    if (!is_digit(c))
        n->bad = true;
    length = (size_t)(c - '0');
    while (!n->bad && c != '0' && is_digit(peek_name(n)))
        if ((length = length * 10 + (size_t)(next(n) - '0')) > n->length)
            n->bad = true;
    eat(n, '_');
    if (n->bad || length > n->length - n->at)
        n->bad = true;
    else
        n->at += length;
}

/* Read later, from there. */
static void read_reference(struct name *n, enum grammar what)
{
    const uint64_t to = read_number(n);
    if (n->bad || to >= n->length) {
        n->bad = true;
        return;
    }
    if (n->seen[to] >> what & 1)
        return;
    n->seen[to] |= (uint8_t)(1u << what);
    if (n->count == n->room) {
        const size_t room = n->room ? 2 * n->room : 16;
        struct place *more = reallocarray(n->places, room, sizeof *more);
        if (!more) {
            n->bad = true;
            return;
        }
        n->places = more;
        n->room = room;
    }
    n->places[n->count++] = (struct place){to, what};
}

static void read_constant(struct name *n)
{
    if (eat(n, 'B')) {
        read_reference(n, CONSTANT);
        return;
    }
    const char c = next(n);
    if (c == 'p')
        return;
    if (!c || !strchr("htmyojaslxnibc", c))
        n->bad = true;
    eat(n, 'n');
    while (!n->bad && !eat(n, '_'))
        next(n);
}

static void read_argument(struct name *n)
{
    if (eat(n, 'L'))
        read_number(n);
    else if (eat(n, 'K'))
        read_constant(n);
    else
        read_type(n);
}

static void read_function(struct name *n)
{
    read_binder(n);
    eat(n, 'U');
    if (eat(n, 'K') && !eat(n, 'C'))
        read_identifier(n);
    while (!n->bad && !eat(n, 'E'))
        read_type(n);
    read_type(n);
}

static void read_traits(struct name *n)
{
    read_binder(n);
    while (!n->bad && !eat(n, 'E')) {
        read_path(n);
        while (eat(n, 'p')) {
            read_identifier(n);
            read_type(n);
        }
    }
    if (!eat(n, 'L'))
        n->bad = true;
    read_number(n);
}

static void read_type(struct name *n)
{
    const char c = next(n);
    if (n->bad || ++n->depth > DEPTH_MAX) {
        n->bad = true;
        return;
    }
    switch (c) {
    case 'R':
    case 'Q':
        if (eat(n, 'L'))
            read_number(n);
        read_type(n);
        break;
    case 'P':
    case 'O':
    case 'S': read_type(n); break;
    case 'A':
        read_type(n);
        read_constant(n);
        break;
    case 'T':
        while (!n->bad && !eat(n, 'E'))
            read_type(n);
        break;
    case 'F': read_function(n); break;
    case 'D': read_traits(n); break;
    case 'B': read_reference(n, TYPE); break;
    default:
        if (c < 'a' || c > 'z') { /* else a basic one */
            n->at--;
            read_path(n);
        }
    }
    n->depth--;
}

static void read_path(struct name *n)
{
    const char c = next(n);
    if (n->bad || ++n->depth > DEPTH_MAX) {
        n->bad = true;
        return;
    }
    switch (c) {
    case 'C':
        read_disambiguator(n);
        read_identifier(n);
        break;
    case 'N':
        next(n);
        read_path(n);
        read_disambiguator(n);
        read_identifier(n);
        break;
    case 'M':
    case 'X':
        read_disambiguator(n);
        read_path(n);
        read_type(n);
        if (c == 'X')
            read_path(n);
        break;
    case 'Y':
        read_type(n);
        read_path(n);
        break;
    case 'I':
        read_path(n);
        while (!n->bad && !eat(n, 'E'))
            read_argument(n);
        break;
    case 'B': read_reference(n, PATH); break;
    default: n->bad = true;
    }
    n->depth--;
}

/* True if no binder of the name (of version 0, "_R...", NUL-terminated, length_bytes long) is
 * larger than any compiler makes. Names that are none are not bounded either. Follows the
 * name as libiberty does, back references included, in time about length_bytes squared at most. */
static bool rust_work_is_bounded(const char *name, size_t length_bytes)
{
    static void (*const read[GRAMMARS])(struct name *) = {read_path, read_type, read_constant};
    struct name n = {.text = name + 2, .length = length_bytes - 2};
    const char *suffix = memchr(n.text, '.', n.length); /* a suffix of the linker's */
    if (suffix)
        n.length = (size_t)(suffix - n.text);
    n.seen = calloc(n.length + 1, 1);
    n.bad = !n.seen;
    read_path(&n);
    if (!n.bad && n.at < n.length) /* the crate that it was made for */
        read_path(&n);
    for (size_t i = 0; i < n.count && !n.bad; i++) {
        n.at = n.places[i].at;
        n.depth = 0;
        read[n.places[i].what](&n);
    }
    free(n.places);
    free(n.seen);
    return !n.bad;
}

/* ---- */

enum {
    NAME_BYTES_MAX = 8192,       /* keeps the library's recursion within some MB of stack */
    PLAIN_NAME_BYTES_MAX = 1024, /* up to here the library's own recursion limit serves */
    TEXT_BYTES_MAX = 256 * 1024,
    WORK_MAX = 20 * 1000 * 1000 /* nodes or letters visited: some tenths of a second */
};

struct text {
    char *bytes;
    size_t used, room;
    jmp_buf out;
};

static void append_demangled(const char *bytes, size_t size_bytes, void *opaque)
{
    struct text *t = opaque;
    if (size_bytes == 0)
        return;
    if (size_bytes >= TEXT_BYTES_MAX - t->used)
        longjmp(t->out, 1);
    if (t->room - t->used <= size_bytes) {
        size_t room = t->room ? t->room : 256;
        while (room - t->used <= size_bytes)
            room *= 2;
        char *more = realloc(t->bytes, room);
        if (!more)
            longjmp(t->out, 1);
        t->bytes = more;
        t->room = room;
    }
    memcpy(t->bytes + t->used, bytes, size_bytes);
    t->used += size_bytes;
    t->bytes[t->used] = '\0';
}

typedef int (*demangler)(const char *name, int options, demangle_callbackref callback,
                         void *opaque);

static char *run_demangler(demangler with, const char *name, int options)
{
    struct text *t = calloc(1, sizeof *t); /* not on the stack: it is changed before a longjmp */
    char *result = NULL;
    if (!t)
        return NULL;
    if (setjmp(t->out) == 0 && with(name, options, append_demangled, t) && t->used) {
        result = t->bytes;
        t->bytes = NULL;
    }
    free(t->bytes);
    free(t);
    return result;
}

/* ------------------------------------------------------------------ C++ */

/* The parsed name is a graph in one block of nodes; its size as a tree is the bound. */
struct graph {
    const struct demangle_component *node;
    size_t nodes;
    uint32_t *cost; /* 0: not known yet */
};

static uint32_t tree_cost(struct graph *g, const void *child)
{
    uintptr_t begin = (uintptr_t)g->node, at = (uintptr_t)child;
    if (at < begin || (at - begin) % sizeof *g->node != 0)
        return 0; /* not a node: a text, a number */
    size_t i = (at - begin) / sizeof *g->node;
    if (i >= g->nodes)
        return 0;
    if (g->cost[i] == 0) {
        g->cost[i] = 1; /* for cycles, which the library breaks by itself */
        uint64_t sum = 1 + (uint64_t)tree_cost(g, g->node[i].u.s_binary.left) +
                       tree_cost(g, g->node[i].u.s_binary.right);
        g->cost[i] = sum > WORK_MAX ? WORK_MAX + 1 : (uint32_t)sum;
    }
    return g->cost[i];
}

/* True if a name with packs is small enough to be searched for them. */
static bool packs_are_bounded(const char *name, size_t length, int options)
{
    enum { FEW = 24 }; /* substitutions and parameters, which all end with an underscore */
    size_t underscores = 0;
    void *block = NULL;
    bool bounded = false;

    if (!strstr(name, "Dp") && !strstr(name, "sp") && !strstr(name, "sP") && !strstr(name, "sZ"))
        return true;
    for (size_t i = 0; i < length; i++)
        underscores += name[i] == '_';
    if (underscores <= FEW)
        return true;
    const struct demangle_component *root = cplus_demangle_v3_components(name, options, &block);
    if (!root)
        return false;
    struct graph g = {.node = block, .nodes = 2 * length}; /* libiberty's own estimate of them */
    g.cost = calloc(g.nodes, sizeof *g.cost);
    if (g.cost)
        bounded = tree_cost(&g, root) <= WORK_MAX;
    free(g.cost);
    free(block);
    return bounded;
}

static char *demangle_cxx(const char *name, size_t length)
{
    int options = DMGL_PARAMS | DMGL_ANSI;
    if (length > PLAIN_NAME_BYTES_MAX)
        options |= DMGL_NO_RECURSE_LIMIT;
    return packs_are_bounded(name, length, options)
               ? run_demangler(cplus_demangle_v3_callback, name, options)
               : NULL;
}

/* ------------------------------------------------------------------ D */

/* A back reference is Q and a distance in base 26 (capitals, then a small letter last). What it
 * stands for begins there and ends before it, so it costs at most all between; one to an identifier
 * (a digit is there) at most that. */
static uint64_t d_back_reference(const char *name, size_t length, size_t at, const uint64_t *sum)
{
    uint64_t distance = 0;
    size_t i = at + 1;
    while (i < length && name[i] >= 'A' && name[i] <= 'Z' && distance <= length)
        distance = distance * 26 + (uint64_t)(name[i++] - 'A');
    if (i == length || name[i] < 'a' || name[i] > 'z')
        return 1;
    distance = distance * 26 + (uint64_t)(name[i] - 'a');
    if (distance == 0 || distance > at)
        return 1;
    size_t from = at - (size_t)distance, to = at, digits = from;
    uint64_t identifier = 0;
    while (digits < at && name[digits] >= '0' && name[digits] <= '9' && identifier <= length)
        identifier = identifier * 10 + (uint64_t)(name[digits++] - '0');
    if (digits > from && digits + identifier < to)
        to = digits + (size_t)identifier;
    /* Prefixes (array, pointer, qualifiers) and a basic type: that is all of it. */
    size_t type = from + strspn(name + from, "APxyO");
    if (type < to && name[type] && strchr("vghstkmlifdejropqcabuwn", name[type]))
        to = type + 1;
    return sum[to] - sum[from] + 1;
}

static char *demangle_d(const char *name, size_t length)
{
    uint64_t *sum = malloc((length + 1) * sizeof *sum); /* the cost of all before each letter */
    char *text = NULL;
    if (!sum)
        return NULL;
    sum[0] = 0;
    for (size_t i = 0; i < length && sum[i] <= WORK_MAX; i++) {
        sum[i + 1] = sum[i] + (name[i] == 'Q' ? d_back_reference(name, length, i, sum) : 1);
        if (i + 1 == length && sum[length] <= WORK_MAX)
            text = dlang_demangle(name, DMGL_PARAMS | DMGL_ANSI);
    }
    free(sum);
    if (text && strlen(text) > TEXT_BYTES_MAX) {
        free(text);
        text = NULL;
    }
    return text;
}

char *symbol_demangle(const char *name)
{
    const int options = DMGL_PARAMS | DMGL_ANSI;
    size_t length;
    char *text = NULL;

    if (!name || name[0] != '_' || (length = strlen(name)) > NAME_BYTES_MAX)
        return NULL;
    switch (name[1]) {
    case 'R':
        return rust_work_is_bounded(name, length)
                   ? run_demangler(rust_demangle_callback, name, options)
                   : NULL;
    case 'D': return demangle_d(name, length);
    case 'Z':
        if (name[2] == 'N')
            text = run_demangler(rust_demangle_callback, name, options);
        if (!text)
            text = demangle_cxx(name, length);
        return text;
    case 'G': /* _GLOBAL__I_a and the like */
        return run_demangler(cplus_demangle_v3_callback, name, options);
    default: return NULL;
    }
}
