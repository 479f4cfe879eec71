/* rust_work.c - Parses a mangled Rust name to see how much work libiberty would do for it.
 * Places are read from a list and each once, so the parser itself takes bounded time and no
 * recursion. */
#include "symbol/rust_work.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

bool rust_work_is_bounded(const char *name, size_t length_bytes)
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
