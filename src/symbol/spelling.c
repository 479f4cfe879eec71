/* spelling.c - Parses demangled names of C++, Rust and D, and shortens them: default template
 * arguments, allocators and inline namespaces go. Nesting is bounded; a name that nests deeper
 * keeps its full form. */
#include "symbol/spelling.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { NESTED_MAX = 96, ARGUMENTS_MAX = 64 };

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c < 0; }

/* Length of the symbol of an operator at s, which stands behind "operator"; 0 for one in words. */
static size_t operator_symbol(const char *s)
{
    static const char *const brackets[] = {"()", "[]", "<=>", "<<=", ">>=", "->*", "->",
                                           "<<", ">>", "<=",  ">=",  "<",   ">",   NULL};
    for (size_t i = 0; brackets[i]; i++)
        if (!strncmp(s, brackets[i], strlen(brackets[i])))
            return strlen(brackets[i]);
    return 0;
}

static bool is_operator(const char *text, size_t i)
{
    return !strncmp(text + i, "operator", 8) && (i == 0 || !in_word(text[i - 1])) &&
           !in_word(text[i + 8]);
}

/* A walk along a name that knows which brackets are open. */
struct walk {
    const char *text;
    size_t at;
    unsigned depth;
    char open[NESTED_MAX];
    bool lost; /* nested too deeply */
};

/* Goes over one character, or over the symbol of an operator; false at the end. */
static bool walk_step(struct walk *w)
{
    const char c = w->text[w->at];
    if (!c || w->lost)
        return false;
    if (c == 'o' && is_operator(w->text, w->at)) {
        w->at += 8;
        w->at += operator_symbol(w->text + w->at);
        return true;
    }
    w->at++;
    if (c == '<' || c == '(' || c == '[' || c == '{') {
        w->lost = w->depth == NESTED_MAX;
        if (!w->lost)
            w->open[w->depth++] = c;
    } else if (c == '>') {
        const bool arrow = w->at > 1 && w->text[w->at - 2] == '-';
        if (!arrow && w->depth && w->open[w->depth - 1] == '<')
            w->depth--;
    } else if (c == ')' || c == ']' || c == '}') {
        const char opened = c == ')' ? '(' : c == ']' ? '[' : '{';
        while (w->depth && w->open[w->depth - 1] == '<') /* it was "less than" */
            w->depth--;
        if (w->depth && w->open[w->depth - 1] == opened)
            w->depth--;
    }
    return true;
}

static void cut_to(struct buffer *b, size_t size_bytes)
{
    if (buffer_failed(b) || !b->data)
        return;
    b->size_bytes = size_bytes;
    b->data[size_bytes] = '\0';
}

/* True if only qualifiers follow, as behind the parameters of a function. */
static bool only_qualifiers(const char *s)
{
    static const char *const known[] = {" const", " volatile", " &&", " &", " noexcept", NULL};
    for (bool more = true; more && *s;) {
        more = false;
        for (size_t i = 0; known[i]; i++)
            if (!strncmp(s, known[i], strlen(known[i]))) {
                s += strlen(known[i]);
                more = true;
                break;
            }
    }
    return !*s || !strncmp(s, " [clone", 7) || !strncmp(s, " [", 2) || !strncmp(s, "@plt", 4) ||
           !strncmp(s, " (.", 3);
}

struct spelling spelling_parts(const char *text)
{
    struct spelling s = {0, strlen(text)};
    struct walk w = {.text = text};
    size_t opened = 0, blank = 0;
    bool group = false;
    while (w.depth || !group || !only_qualifiers(text + w.at)) {
        const size_t from = w.at;
        const unsigned depth = w.depth;
        group = false;
        if (!walk_step(&w))
            break;
        const char c = text[from];
        if (!depth && c == '(' && w.at == from + 1)
            opened = from;
        if (depth == 1 && !w.depth && c == ')')
            group = strncmp(text + opened, "(anonymous namespace)", 21) != 0;
        if (!depth && c == ' ' && !strncmp(text + from, " [clone", 7)) {
            s.end = from;
            break;
        }
        if (!depth && w.at - from >= 8 && c == 'o') { /* an operator's name may hold blanks */
            while (text[w.at] && text[w.at] != '(' && text[w.at] != '<' && walk_step(&w))
                ;
        } else if (!depth && c == ' ')
            blank = w.at;
    }
    if (w.lost)
        return s;
    if (group)
        s.end = opened;
    if (blank < s.end)
        s.name = blank;
    return s;
}

void spelling_path(const char *text, struct buffer *path)
{
    const struct spelling s = spelling_parts(text);
    struct walk w = {.text = text, .at = s.name};
    while (w.at < s.end) {
        const size_t from = w.at;
        const unsigned depth = w.depth;
        if (!walk_step(&w))
            break;
        const char c = text[from];
        if (depth || (w.depth && c != '{' && c != '('))
            continue;
        if (c == '!' && text[w.at] == '(') /* a template of D */
            continue;
        if (w.depth) { /* a lambda or the unnamed namespace, as a whole */
            const bool keep = c == '{' || !strncmp(text + from, "(anonymous namespace)", 21);
            while (w.depth && walk_step(&w))
                ;
            if (!keep)
                continue;
        }
        if (c != ' ' || text[w.at] != '<') /* operator< <int> */
            buffer_append(path, text + from, w.at - from);
    }
}

/* ---- shorter ---- */

static bool shorten(const char *text, size_t length, unsigned depth, struct buffer *out);

static bool equals(const struct buffer *b, const char *text)
{
    return !strcmp(buffer_text(b), text);
}

static bool text_begins_with(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* True if argument i is `name<what>`. */
static bool argument_is_of(const struct buffer *argument, const char *name, const char *what)
{
    const char *t = buffer_text(argument);
    const size_t n = strlen(name), m = strlen(what);
    return text_begins_with(t, name) && t[n] == '<' && !strncmp(t + n + 1, what, m) &&
           !strcmp(t + n + 1 + m, ">");
}

/* True if a standard template has this last argument by default: those before it are given. */
static bool is_default(const char *template, const struct buffer *argument, size_t i)
{
    static const char *const of_first[] = {
        "std::char_traits",    "std::less",         "std::hash", "std::equal_to",
        "std::default_delete", "std::regex_traits", NULL};
    const struct buffer *last = &argument[i];
    const char *first = buffer_text(&argument[0]);
    if (!i)
        return false;
    if (text_begins_with(buffer_text(last), "std::allocator<"))
        return true;
    for (size_t k = 0; of_first[k]; k++)
        if (argument_is_of(last, of_first[k], first))
            return true;
    if (!strcmp(template, "std::priority_queue"))
        return argument_is_of(last, "std::vector", first);
    if (!strcmp(template, "std::stack") || !strcmp(template, "std::queue"))
        return argument_is_of(last, "std::deque", first);
    if (!strcmp(template, "std::_Rb_tree"))
        return text_begins_with(buffer_text(last), "std::_Select1st<") ||
               text_begins_with(buffer_text(last), "std::_Identity<");
    return false;
}

/* Arguments of the internal templates behind the unordered containers. */
static bool is_policy(const struct buffer *argument, const char *first)
{
    const char *t = buffer_text(argument);
    return text_begins_with(t, "std::__detail::") || text_begins_with(t, "std::allocator<") ||
           argument_is_of(argument, "std::hash", first) ||
           argument_is_of(argument, "std::equal_to", first) || !strcmp(t, "std::hash") ||
           !strcmp(t, "std::equal_to");
}

/* Drops arguments that say nothing; returns how many are left. */
static size_t drop_defaults(const char *template, struct buffer *argument, size_t n)
{
    if (!text_begins_with(template, "std::") && !text_begins_with(template, "__gnu_cxx::"))
        return n;
    if (text_begins_with(template, "std::_Hash") ||
        text_begins_with(template, "std::__detail::_Hash")) {
        size_t kept = 1;
        for (size_t i = 1; i < n; i++)
            if (!is_policy(&argument[i], buffer_text(&argument[0]))) {
                const struct buffer kept_one = argument[i];
                argument[i] = argument[kept];
                argument[kept++] = kept_one;
            }
        return kept;
    }
    while (n && is_default(template, argument, n - 1))
        n--;
    return n;
}

/* The alias of the standard for a template of characters, "" when there is none. */
static void alias_of(const char *template, const char *character, struct buffer *alias)
{
    static const char *const streams[] = {
        "string",    "string_view",   "streambuf",     "istream",      "ostream", "iostream",
        "stringbuf", "istringstream", "ostringstream", "stringstream", "filebuf", "ifstream",
        "ofstream",  "fstream",       "ios",           "regex",        NULL};
    static const struct {
        const char *character, *prefix;
        size_t first; /* how many have the first of the list */
    } kinds[] = {{"char", "", 16},
                 {"wchar_t", "w", 16},
                 {"char8_t", "u8", 2},
                 {"char16_t", "u16", 2},
                 {"char32_t", "u32", 2}};
    if (!text_begins_with(template, "std::basic_"))
        return;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < kinds[k].first && !strcmp(character, kinds[k].character); i++)
            if (!strcmp(template + 11, streams[i]))
                buffer_printf(alias, "std::%s%s", kinds[k].prefix, streams[i]);
}

/* Puts the template's arguments behind its name, which `out` ends with from `template` on. */
static void put_arguments(struct buffer *out, size_t template, struct buffer *argument, size_t n)
{
    struct buffer name = {0}, alias = {0};
    buffer_append_text(&name, buffer_text(out) + template);
    const size_t left = drop_defaults(buffer_text(&name), argument, n);
    if (left == 1)
        alias_of(buffer_text(&name), buffer_text(&argument[0]), &alias);
    if (left == 2 && equals(&name, "__gnu_cxx::__normal_iterator")) {
        const char *pointer = buffer_text(&argument[0]);
        const bool constant =
            strlen(pointer) > 7 && !strcmp(pointer + strlen(pointer) - 7, " const*");
        buffer_append(&alias, argument[1].data, argument[1].size_bytes);
        buffer_append_text(&alias, constant ? "::const_iterator" : "::iterator");
    }
    if (alias.size_bytes) {
        cut_to(out, template);
        buffer_append(out, alias.data, alias.size_bytes);
    } else {
        buffer_append_char(out, '<');
        for (size_t i = 0; i < left; i++) {
            buffer_append_text(out, i ? ", " : "");
            buffer_append_text(out, buffer_text(&argument[i]));
        }
        buffer_append_char(out, '>');
    }
    if (buffer_failed(&name) || buffer_failed(&alias))
        out->failed = true;
    buffer_release(&name);
    buffer_release(&alias);
}

/* Shortens the list behind the '<' at text + *at, and goes behind its '>'. */
static bool arguments(const char *text, size_t length, size_t *at, unsigned depth, size_t template,
                      struct buffer *out)
{
    struct buffer argument[ARGUMENTS_MAX] = {{0}};
    struct walk w = {.text = text, .at = *at};
    size_t n = 0, from = *at + 1;
    bool fine = walk_step(&w);
    while (fine && w.depth && w.at < length) {
        const size_t here = w.at;
        const unsigned before = w.depth;
        fine = walk_step(&w);
        const bool ends = !w.depth, comma = before == 1 && text[here] == ',';
        if (!fine || (!ends && !comma) || (ends && here == from && !n))
            continue;
        fine = n < ARGUMENTS_MAX;
        if (fine)
            fine = shorten(text + from, here - from, depth + 1, &argument[n++]);
        from = here + 1;
        while (text[from] == ' ')
            from++;
    }
    fine = fine && !w.depth && w.at <= length;
    if (fine) {
        put_arguments(out, template, argument, n);
        *at = w.at;
    }
    for (size_t i = 0; i < n; i++) {
        out->failed |= buffer_failed(&argument[i]);
        buffer_release(&argument[i]);
    }
    return fine;
}

/* Length of an inline namespace of a library's version at s. */
static size_t version(const char *s)
{
    static const char *const known[] = {
        "__cxx11::", "__1::", "__2::", "__ndk1::", "_V2::", "__n4861::", "__8::", NULL};
    for (size_t i = 0; known[i]; i++)
        if (text_begins_with(s, known[i]))
            return strlen(known[i]);
    return 0;
}

/* Where the qualified name begins that `out` ends with. */
static size_t name_start(const struct buffer *out, size_t since)
{
    size_t i = out->size_bytes;
    while (i > since && (in_word(out->data[i - 1]) || out->data[i - 1] == ':'))
        i--;
    return i;
}

static bool shorten(const char *text, size_t length, unsigned depth, struct buffer *out)
{
    const size_t since = out->size_bytes;
    if (depth > NESTED_MAX)
        return false;
    while (length && text[length - 1] == ' ')
        length--;
    for (size_t i = 0; i < length && !buffer_failed(out);) {
        size_t skip;
        if (text[i] == 'o' && is_operator(text, i)) {
            size_t n = 8 + operator_symbol(text + i + 8);
            n = n < length - i ? n : length - i;
            buffer_append(out, text + i, n);
            i += n;
        } else if (i >= 2 && text[i - 1] == ':' && text[i - 2] == ':' &&
                   (skip = version(text + i)) && skip <= length - i) {
            i += skip;
        } else if (text_begins_with(text + i, "[abi:") &&
                   (skip = strcspn(text + i, "]")) < length - i) {
            i += skip + 1;
        } else if (text[i] == '<' && out->size_bytes > since &&
                   in_word(out->data[out->size_bytes - 1])) {
            if (!arguments(text, length, &i, depth, name_start(out, since), out))
                return false;
        } else {
            buffer_append_char(out, text[i++]);
        }
    }
    return true;
}

/* A name of C++: it has parameters, which those of Rust have not (DWARF's have none either, but are
 * known by what they are made of), and D writes templates with !(). */
static bool is_cxx(const char *text, const struct spelling *s)
{
    static const char *const signs[] = {"::__cxx11::", "::__1::", "std::allocator<", "> >", NULL};
    if (text[s->end] == '(')
        return !strstr(text, "!(");
    for (size_t i = 0; signs[i]; i++)
        if (strstr(text, signs[i]))
            return true;
    return false;
}

bool spelling_short(const char *text, struct buffer *out)
{
    const struct spelling s = spelling_parts(text);
    const size_t since = out->size_bytes;
    size_t from = s.name;
    if (!is_cxx(text, &s)) {
        buffer_append_text(out, text);
        return true;
    }
    if ((from >= 4 && !strncmp(text + from - 4, " to ", 4)) ||
        (from >= 5 && !strncmp(text + from - 5, " for ", 5)))
        from = 0; /* "virtual thunk to f()" is not f */
    /* The halves of a coroutine have its frame as their only parameter. */
    const char *half = strstr(text + s.end, " [clone .actor]");
    half = half ? half : strstr(text + s.end, " [clone .destroy]");
    if (shorten(text + from, half ? s.end - from : strlen(text + from), 0, out)) {
        buffer_append_text(out, half ? half : "");
        return true;
    }
    cut_to(out, since);
    return false;
}

/* ---- fitting ---- */

/* The name from `from` on, with `dots` in place of the content of template arguments deeper than
 * `depth` and, if they are not wanted, of the parameters. */
static void outline(const char *text, size_t from, size_t end, unsigned depth, bool parameters,
                    const char *dots, struct buffer *out)
{
    struct walk w = {.text = text, .at = from};
    unsigned angles = 0; /* how many brackets are open */
    bool silent = false;
    while (w.at < end) {
        const size_t here = w.at;
        const unsigned before = w.depth;
        const char top = before ? w.open[before - 1] : 0;
        if (!walk_step(&w))
            break;
        const bool opens = w.depth > before && text[here] == '<' && here > from;
        const bool closes = w.depth < before && top == '<' && text[here] == '>';
        if (closes && angles && --angles == depth && silent) {
            silent = false;
            buffer_append_text(out, dots);
        }
        if (!silent)
            buffer_append(out, text + here, w.at - here);
        if (opens && angles++ == depth)
            silent = true;
    }
    if (parameters)
        buffer_append_text(out, text + end);
    else if (text[end] == '(') {
        buffer_append_char(out, '(');
        buffer_append_text(out, dots);
        buffer_append_char(out, ')');
    }
}

/* Where the next part of a qualified name begins; `end` behind the last. */
static size_t next_name_part(const char *text, size_t from, size_t end)
{
    struct walk w = {.text = text, .at = from};
    while (w.at < end) {
        const unsigned depth = w.depth;
        const char c = text[w.at];
        if (!walk_step(&w))
            break;
        if (!depth && c == ':' && text[w.at] == ':')
            return w.at + 1;
        if (!depth && c == '.')
            return w.at;
    }
    return end;
}

/* Tries one outline; true when it fits. */
static bool outline_fits(const char *text, size_t from, size_t end, unsigned depth, bool parameters,
                         const char *dots, size_t columns, struct buffer *out)
{
    const size_t since = out->size_bytes;
    if (from > 0)
        buffer_append_text(out, dots);
    outline(text, from, end, depth, parameters, dots, out);
    if (text_columns(buffer_text(out) + since) <= columns)
        return true;
    cut_to(out, since);
    return false;
}

void spelling_fit(const char *text, size_t columns, const char *dots, struct buffer *out)
{
    enum { DEPTH = 8 };
    const struct spelling s = spelling_parts(text);
    if (text_columns(text) <= columns) {
        buffer_append_text(out, text);
        return;
    }
    if (s.end && outline_fits(text, 0, s.end, NESTED_MAX, false, dots, columns, out))
        return;
    for (unsigned depth = DEPTH; depth-- > 0;)
        if (outline_fits(text, 0, s.end, depth, false, dots, columns, out))
            return;
    size_t last = s.name;
    for (size_t from = s.name; from < s.end; from = next_name_part(text, from, s.end)) {
        last = from;
        if (from && outline_fits(text, from, s.end, 0, false, dots, columns, out))
            return;
    }
    /* Not even the last part fits. */
    struct buffer part = {0};
    outline(text, last, s.end, 0, false, dots, &part);
    const char *t = buffer_text(&part);
    size_t used = last > 0 ? text_columns(dots) : 0;
    buffer_append_text(out, last > 0 ? dots : "");
    for (const size_t room = columns > text_columns(dots) ? columns - text_columns(dots) : 0; *t;) {
        struct text_shown c;
        const size_t n = text_shown(t, &c);
        if (used + c.columns > room)
            break;
        buffer_append(out, t, n);
        used += c.columns;
        t += n;
    }
    buffer_append_text(out, dots);
    out->failed |= buffer_failed(&part);
    buffer_release(&part);
}
