/* where.c - parses a condition into a tree, and lays the tree out as comparisons that lead forward
 * to each other. See where.h. */
#include "probe/where.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "probe/kind.h"

enum { NODES_MAX = 4 * PROBE_TERMS_MAX, DEPTH_MAX = 32, WORD_BYTES = 64 };

enum type { NUMBER, SIZE, TIME, ADDRESS, TEXT, EVENT, NO_FIELD };

struct field {
    const char *name;
    uint8_t field;
    enum type type;
    uint32_t key; /* the part of a key that it reads, as enum probe_by; 0: none */
};

/* Numbers of threads and the like are fields of every kind, up to PROBE_FIELD_WHO_END. */
/* clang-format off */
#define KEY(name, other, by, field, type) {name, other, PROBE_BY_##by, PROBE_FIELD_##field, type}
#define ROWS(name, other, by) {name, other, PROBE_BY_##by, 0, NO_FIELD}
const struct probe_key_name probe_key_names[] = {
    KEY("process", "pid", PROCESS, PID, NUMBER), KEY("command", "comm", COMMAND, COMMAND, TEXT),
    KEY("thread", "tid", THREAD, TID, NUMBER), ROWS("stack", "ustack", STACK),
    ROWS("kstack", NULL, KSTACK), ROWS("size", NULL, SIZE),
    KEY("address", NULL, ADDRESS, ADDRESS, ADDRESS), KEY("access", NULL, ACCESS, WHAT, EVENT),
    KEY("function", NULL, FUNCTION, WHAT, EVENT), KEY("mapping", NULL, MAPPING, NAME, TEXT),
    KEY("cache", NULL, CACHE, NAME, TEXT), ROWS("caller", NULL, CALLER),
    KEY("cpu", NULL, CPU, CPU, NUMBER), KEY("user", "uid", USER, UID, NUMBER),
    KEY("parent", "ppid", PARENT, PARENT, NUMBER), {0}};
/* clang-format on */

static bool is_word(const char *word, const char *text, size_t bytes)
{
    return word && strlen(word) == bytes && !memcmp(word, text, bytes);
}

const struct probe_key_name *probe_key_find(const char *text, size_t bytes)
{
    const struct probe_key_name *k = probe_key_names;
    while (k->name && !is_word(k->name, text, bytes) && !is_word(k->other, text, bytes))
        k++;
    return k->name ? k : NULL;
}

enum shape { LEAF, AND, OR, NOT };

struct node {
    enum shape shape;
    uint8_t left, right;
    struct probe_term term;
};

struct parser {
    const struct probe_kind *kind;
    const char *at;
    struct node node[NODES_MAX];
    unsigned count, leaves, depth;
    uint32_t keys;
    bool looks; /* at more than who the thread is */
    struct error *err;
};

/* A place in the text, cut for a message. */
static int rest_bytes(const char *p)
{
    const size_t n = strlen(p);
    return n < WORD_BYTES ? (int)n : WORD_BYTES;
}

static int refuse_rest(struct parser *p, const char *why)
{
    if (!*p->at)
        return error_set(p->err, ERROR_USAGE, ": %s at the end", why);
    return error_set(p->err, ERROR_USAGE, ": %s at '%.*s'", why, rest_bytes(p->at), p->at);
}

static void skip_blanks(struct parser *p) { p->at += strspn(p->at, " \t\n"); }

static bool take_token(struct parser *p, const char *token)
{
    const size_t n = strlen(token);
    skip_blanks(p);
    if (strncmp(p->at, token, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* A node, or -1. */
static int add_node(struct parser *p, enum shape shape, int left, int right)
{
    if (left < 0 || right < 0)
        return -1;
    if (p->count == NODES_MAX)
        return error_set(p->err, ERROR_USAGE, ": it is too long");
    p->node[p->count] =
        (struct node){.shape = shape, .left = (uint8_t)left, .right = (uint8_t)right};
    return (int)p->count++;
}

static int add_leaf(struct parser *p, const struct probe_term *term)
{
    if (p->leaves == PROBE_TERMS_MAX)
        return error_set(p->err, ERROR_USAGE, ": at most %d comparisons fit", PROBE_TERMS_MAX);
    const int made = add_node(p, LEAF, 0, 0);
    if (made >= 0) {
        p->node[made].term = *term;
        p->leaves++;
    }
    return made;
}

/* ---- fields ---- */

static enum type type_of_value(char unit)
{
    return unit == 'b' ? SIZE : unit == 't' ? TIME : NUMBER;
}

/* True: the name of a figure, whole or without its unit: grown_bytes, grown. */
static bool names_value(const char *value, const char *name)
{
    static const char *const units[] = {"_bytes", "_ns", "_pages", "_calls"};
    const size_t n = strlen(name);
    if (!value || strncmp(value, name, n) != 0)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(value + n, units[i]))
            return true;
    return !value[n];
}

/* Kinds whose events are levels, or the steps of an allocator, belong to a process as a whole. */
static bool knows_process_alone(const struct probe_kind *k)
{
    return k->gauge || k == &probe_kind_arenas;
}

static bool is_who(const struct probe_key_name *n) { return n->field < PROBE_FIELD_WHO_END; }

/* Numbers of functions are given when the functions are found, which comes later. */
static bool has_key(const struct probe_kind *k, const struct probe_key_name *n)
{
    if (n->type == NO_FIELD)
        return false;
    if (is_who(n))
        return !knows_process_alone(k) ||
               (n->field != PROBE_FIELD_TID && n->field != PROBE_FIELD_CPU);
    return k->may_by & n->by && !knows_process_alone(k) && (n->type != EVENT || k->names);
}

static bool find_field(const struct probe_kind *k, const char *name, struct field *found)
{
    const struct probe_key_name *n = probe_key_find(name, strlen(name));
    if (n && has_key(k, n)) {
        *found = (struct field){strcmp(n->name, name) ? n->other : n->name, n->field,
                                (enum type)n->type, is_who(n) ? 0 : n->by};
        return true;
    }
    for (unsigned i = 0; i < PROBE_VALUES && !knows_process_alone(k); i++)
        if (names_value(k->layout.value[i], name)) {
            *found = (struct field){k->layout.value[i], (uint8_t)(PROBE_FIELD_VALUE + i),
                                    type_of_value(k->layout.unit[i]), 0};
            return true;
        }
    return false;
}

static int refuse_field(struct parser *p, const char *name)
{
    char names[256];
    size_t n = (size_t)snprintf(names, sizeof names, "pid, ppid, uid, comm%s",
                                knows_process_alone(p->kind) ? "" : ", tid, cpu");
    for (const struct probe_key_name *k = probe_key_names; k->name && n < sizeof names; k++)
        if (!is_who(k) && has_key(p->kind, k))
            n += (size_t)snprintf(names + n, sizeof names - n, ", %s", k->name);
    for (unsigned i = 0; i < PROBE_VALUES && !knows_process_alone(p->kind) && n < sizeof names; i++)
        if (p->kind->layout.value[i])
            n += (size_t)snprintf(names + n, sizeof names - n, ", %s", p->kind->layout.value[i]);
    return error_set(p->err, ERROR_USAGE, ": '%s' is not one of %s, which '%s' knows", name, names,
                     p->kind->name);
}

/* ---- values ---- */

static void put_term_text(struct probe_term *t, const char *text, size_t room, bool is_prefix)
{
    unsigned char value[PROBE_NAME_BYTES] = {0}, mask[PROBE_NAME_BYTES];
    const size_t n = strnlen(text, room - 1); /* as the kernel keeps it: cut, and with a NUL */
    memcpy(value, text, n);
    memset(mask, 0xff, sizeof mask);
    if (is_prefix)
        memset(mask + n, 0, sizeof mask - n);
    memcpy(t->value, value, sizeof value);
    memcpy(t->mask, mask, sizeof mask);
}

static int put_term_event(struct parser *p, struct probe_term *t, const char *text)
{
    char names[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < p->kind->name_count; i++) {
        if (!p->kind->names[i])
            continue;
        if (!strcmp(p->kind->names[i], text)) {
            t->value[0] = i;
            return 0;
        }
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s\"%s\"", n ? ", " : "",
                                  p->kind->names[i]);
    }
    return error_set(p->err, ERROR_USAGE, ": \"%s\" is not one of %s", text, names);
}

static bool parse_hexadecimal(const char *text, uint64_t *value)
{
    char *end;
    if (strncmp(text, "0x", 2) != 0 || !isxdigit((unsigned char)text[2]) || strlen(text) > 18)
        return false;
    *value = strtoull(text + 2, &end, 16);
    return !*end;
}

static int put_term_number(struct parser *p, struct probe_term *t, const struct field *f,
                           const char *text)
{
    uint64_t value = 0;
    const bool good = parse_hexadecimal(text, &value) || human_parse_count(text, &value) ||
                      (f->type == SIZE && human_parse_size(text, &value)) ||
                      (f->type == TIME && human_parse_duration(text, &value));
    if (!good)
        return error_set(p->err, ERROR_USAGE, ": '%s' is not a %s, for %s", text,
                         f->type == SIZE   ? "size"
                         : f->type == TIME ? "duration"
                                           : "number",
                         f->name);
    t->value[0] = value;
    return 0;
}

/* A word without quotes, or a text in them. -1 with the error set. */
static int take_value(struct parser *p, char value[WORD_BYTES], bool *is_quoted)
{
    skip_blanks(p);
    const char quote = *p->at == '"' || *p->at == '\'' ? *p->at : 0;
    const char *from = p->at + (quote != 0);
    size_t n = 0;
    if (quote) {
        const char *end = strchr(from, quote);
        if (!end)
            return error_set(p->err, ERROR_USAGE, ": the quote of %.*s is not closed",
                             rest_bytes(p->at), p->at);
        n = (size_t)(end - from);
    } else
        while (isalnum((unsigned char)from[n]) || (from[n] && strchr("._-*[]", from[n])))
            n++;
    if ((!n && !quote) || n >= WORD_BYTES)
        return refuse_rest(p, n ? "a value is too long" : "a value is missing");
    memcpy(value, from, n);
    value[n] = 0;
    *is_quoted = quote;
    p->at = from + n + (quote != 0);
    return 0;
}

/* ---- comparisons ---- */

/* "64", "2k" */
static bool parse_blocks(const char *text, uint64_t *bytes)
{
    char digits[WORD_BYTES];
    const size_t n = strspn(text, "0123456789");
    const bool is_k = text[n] == 'k';
    snprintf(digits, sizeof digits, "%.*s", (int)n, text);
    if (!human_parse_count(digits, bytes) || text[n + is_k] || *bytes >= 1 << 20)
        return false;
    *bytes <<= is_k ? 10 : 0;
    return true;
}

/* kmalloc's caches have no name in the kernel's event: it is empty, and the size is the block's. */
static int add_kmalloc(struct parser *p, const struct probe_term *named, const char *text,
                       bool is_prefix)
{
    static const char kmalloc[] = "kmalloc-";
    const size_t length = strlen(text), common = length < 8 ? length : 8;
    struct probe_term empty = {.field = PROBE_FIELD_NAME}, size = {.field = PROBE_FIELD_WHAT};
    uint64_t bytes = 0;
    put_term_text(&empty, "", PROBE_NAME_BYTES, false);
    if (strncmp(text, kmalloc, common) != 0 || (!is_prefix && length < 9))
        return add_leaf(p, named);
    if (is_prefix && length <= 8)
        return add_node(p, OR, add_leaf(p, named), add_leaf(p, &empty));
    if (is_prefix)
        return error_set(p->err, ERROR_USAGE, ": name one cache of kmalloc whole, or kmalloc-*");
    if (!parse_blocks(text + 8, &bytes))
        return add_leaf(p, named); /* "kmalloc-cg-64" */
    size.value[0] = bytes;
    return add_node(p, AND, add_leaf(p, &empty), add_leaf(p, &size));
}

static int add_text_term(struct parser *p, const struct field *f, const char *operator,
                         const char * value)
{
    char text[WORD_BYTES];
    struct probe_term t = {.field = f->field};
    const size_t n = strlen(value), plain = strcspn(value, "*?[");
    const bool is_pattern = strchr(operator, '~') != NULL, is_prefix = is_pattern && plain < n;
    if (is_pattern && plain + 1 < n)
        return error_set(p->err, ERROR_USAGE, ": '%s': a pattern may end with *, and that is all",
                         value);
    snprintf(text, sizeof text, "%.*s", (int)(is_prefix ? plain : n), value);
    put_term_text(&t, text,
                  f->field == PROBE_FIELD_COMMAND ? PROBE_COMMAND_BYTES : PROBE_NAME_BYTES,
                  is_prefix);
    return f->key == PROBE_BY_CACHE ? add_kmalloc(p, &t, text, is_prefix) : add_leaf(p, &t);
}

/* The comparison of a field, before `!` of != and its like is looked at. */
static int add_comparison(struct parser *p, const struct field *f, const char *operator)
{
    char value[WORD_BYTES];
    bool is_quoted = false;
    struct probe_term t = {.field = f->field, .compare = PROBE_EQUAL};
    if (take_value(p, value, &is_quoted))
        return -1;
    const bool is_order = strchr("<>", *operator) != NULL;
    if (f->type == TEXT && !is_order)
        return add_text_term(p, f, operator, value);
    if (f->type == TEXT || f->type == EVENT ? is_order : false)
        return error_set(p->err, ERROR_USAGE, ": %s is a text, which %s does not compare",
                         f->name, operator);
    if (strchr(operator, '~') || (f->type != EVENT && is_quoted))
        return error_set(p->err, ERROR_USAGE, ": %s is not a text", f->name);
    if (f->type == EVENT ? put_term_event(p, &t, value) : put_term_number(p, &t, f, value))
        return -1;
    /* a <= b is !(a > b) */
    t.compare = !is_order                           ? PROBE_EQUAL
                : (*operator== '<') ^ !!operator[1] ? PROBE_BELOW
                                                    : PROBE_ABOVE;
    return add_leaf(p, &t);
}

static int parse_comparison(struct parser *p)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "!~", "<", ">", "~"};
    char name[WORD_BYTES];
    struct field f;
    size_t n = 0;
    skip_blanks(p);
    while (n + 1 < sizeof name && (islower((unsigned char)p->at[n]) || p->at[n] == '_'))
        n++;
    if (!n)
        return refuse_rest(p, "a field is missing");
    memcpy(name, p->at, n);
    name[n] = 0;
    p->at += n;
    if (!find_field(p->kind, name, &f))
        return refuse_field(p, name);
    p->keys |= f.key;
    p->looks = p->looks || f.field >= PROBE_FIELD_WHO_END;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (take_token(p, operators[i])) {
            const char *o = operators[i];
            const int made = add_comparison(p, &f, o);
            const bool is_not = *o == '!' || (strchr("<>", *o) && o[1]);
            return is_not ? add_node(p, NOT, made, 0) : made;
        }
    if (f.type == TEXT || f.type == EVENT)
        return error_set(p->err, ERROR_USAGE, ": %s needs a comparison: %s == \"...\"", f.name,
                         f.name);
    return add_node(p, NOT, add_leaf(p, &(struct probe_term){.field = f.field}), 0);
}

static int parse_or(struct parser *p);

static int parse_not(struct parser *p)
{
    int made;
    if (++p->depth > DEPTH_MAX)
        return error_set(p->err, ERROR_USAGE, ": the parentheses are too deep");
    if (take_token(p, "!"))
        made = add_node(p, NOT, parse_not(p), 0);
    else if (take_token(p, "(")) {
        made = parse_or(p);
        if (made >= 0 && !take_token(p, ")"))
            return refuse_rest(p, "a ) is missing");
    } else
        made = parse_comparison(p);
    p->depth--;
    return made;
}

static int parse_and(struct parser *p)
{
    int made = parse_not(p);
    while (made >= 0 && take_token(p, "&&"))
        made = add_node(p, AND, made, parse_not(p));
    return made;
}

static int parse_or(struct parser *p)
{
    int made = parse_and(p);
    while (made >= 0 && take_token(p, "||"))
        made = add_node(p, OR, made, parse_and(p));
    return made;
}

/* ---- the layout ---- */

static unsigned leaves_of(const struct parser *p, unsigned n)
{
    const struct node *node = &p->node[n];
    switch (node->shape) {
    case LEAF: return 1;
    case NOT: return leaves_of(p, node->left);
    default: return leaves_of(p, node->left) + leaves_of(p, node->right);
    }
}

/* Lays a node out from place `at` on. It ends at `yes` or at `no`. */
static void lay_out(const struct parser *p, unsigned n, struct probe_where *w, unsigned at,
                    uint8_t yes, uint8_t no)
{
    const struct node *node = &p->node[n];
    if (node->shape == LEAF) {
        w->term[at] = node->term;
        w->term[at].yes = yes;
        w->term[at].no = no;
        return;
    }
    if (node->shape == NOT) {
        lay_out(p, node->left, w, at, no, yes);
        return;
    }
    const uint8_t then = (uint8_t)(at + leaves_of(p, node->left));
    const bool is_and = node->shape == AND;
    lay_out(p, node->left, w, at, is_and ? then : yes, is_and ? no : then);
    lay_out(p, node->right, w, then, yes, no);
}

int where_compile(const struct probe_kind *kind, const char *text, struct probe_where *where,
                  struct error *err)
{
    struct parser p = {.kind = kind, .at = text, .err = err};
    *where = (struct probe_where){0};
    const int root = parse_or(&p);
    if (root < 0)
        return -1;
    skip_blanks(&p);
    if (*p.at)
        return refuse_rest(&p, "&& or || is missing");
    where->count = p.leaves;
    where->keys = p.keys;
    where->early = !p.looks;
    lay_out(&p, (unsigned)root, where, 0, PROBE_KEEPS, PROBE_LEAVES_OUT);
    return 0;
}
