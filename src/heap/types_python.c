/* types_python.c - CPython's types; see types.h. A type object is itself an object: its second
 * word leads, in a few steps, to the object `type`, whose type is itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/spill.h"
#include "heap/types.h"

enum {
    KNOWN_TYPES = 4096,
    OB_TYPE = 8,
    GC_HEAD = 16,
    TP_NAME = 24,
    TP_BASICSIZE = 32,
    STEPS = 4,
    SIZE_MAX_BYTES = 1 << 20
};

/* Instances of classes that were made at run time: their type is a block of the heap, found as an
 * instance of `type` before. */
struct instances {
    struct types *y;
    uint32_t *type;
    struct target *t;
    const struct walk *w;
    uint32_t of_type; /* the number of `type` itself */
    uint32_t *made;   /* by block that is a type: the number of its name; 0: not yet looked for */
};

/* The word of a block that would be its type, if its type is a block of the heap. */
static int instance_of(struct instances *s, uint32_t block, uint64_t bytes)
{
    static const uint8_t words[] = {OB_TYPE, GC_HEAD + OB_TYPE, 2 * GC_HEAD + OB_TYPE};
    const struct blocks *b = &s->w->blocks;
    char name[320];
    for (size_t i = 0; i < sizeof words && words[i] + 8U <= bytes; i++) {
        uint64_t word;
        if (!target_peek(s->t, b->address[block] + words[i], &word) || word & 7)
            continue;
        uint32_t other = blocks_pointed(b, word);
        if (other == BLOCK_NONE || other == block || !s->made[other])
            continue;
        if (s->made[other] == UINT32_MAX) {
            s->made[other] = TYPE_UNKNOWN + 1;
            if (types_python_name(s->t, word, name, sizeof name) &&
                !(s->made[other] = types_number(s->y, name)))
                return -1;
        }
        if (s->made[other] > TYPE_OWN) {
            s->type[block] = s->made[other];
            return 0;
        }
    }
    return 0;
}

int types_python_instances(struct types *y, uint32_t *type, struct target *t, const struct walk *w)
{
    struct instances s = {.y = y, .type = type, .t = t, .w = w};
    for (uint32_t i = 1; i < y->count; i++)
        if (!strcmp(y->name[i], "type (Python)"))
            s.of_type = i;
    if (!s.of_type)
        return 0;
    s.made = spill_zeros((size_t)w->blocks.count + 1, sizeof *s.made);
    if (!s.made)
        return -1;
    for (uint32_t i = 0; i < w->blocks.count; i++)
        if (type[i] == s.of_type)
            s.made[i] = UINT32_MAX;
    int status = 0;
    for (uint32_t i = 0; !status && i < w->blocks.count; i++)
        if (type[i] == TYPE_UNKNOWN && blocks_is_used(&w->blocks, i))
            status = instance_of(&s, i, blocks_bytes(&w->blocks, i));
    spill_free(s.made);
    return status;
}

/* --- the collector's list --- */

struct linking {
    struct types *y;
    const uint32_t *type;
    struct target *t;
    const struct blocks *b;
    struct scan *scan;
    bool *is_python; /* by type */
    struct known_type {
        uint64_t address;
        uint32_t type;
    } * known; /* KNOWN_TYPES, by address: the last ones looked at */
};

static bool is_type(struct linking *l, uint64_t address, uint32_t type)
{
    char name[320];
    struct known_type *k = &l->known[address / 16 % KNOWN_TYPES];
    if (k->address != address) {
        *k = (struct known_type){.address = address};
        if (types_python_name(l->t, address, name, sizeof name))
            k->type = types_number(l->y, name);
    }
    return k->type == type;
}

/* Where in a block the two links stand; false: it has none. Objects with a dictionary have two
 * words more before them, since 3.11. */
static bool links_at(struct linking *l, uint32_t block, uint64_t bytes, uint32_t *at)
{
    for (*at = 0; *at <= GC_HEAD && *at + GC_HEAD + OB_TYPE + 8 <= bytes; *at += GC_HEAD) {
        uint64_t word, next;
        if (target_peek(l->t, l->b->address[block] + *at + GC_HEAD + OB_TYPE, &word) && word &&
            !(word & 7) && is_type(l, word, l->type[block]))
            return target_peek(l->t, l->b->address[block] + *at, &next) && next;
    }
    return false;
}

/* The references of a block in the order in which the scan found them. */
static void mark_links(struct linking *l, uint32_t block)
{
    uint64_t bytes = blocks_bytes(l->b, block), word;
    uint32_t k = l->scan->first[block], end = l->scan->first[block + 1], links, last = BLOCK_NONE;
    if (k == end || !links_at(l, block, bytes, &links))
        return;
    for (uint64_t at = 0; at + 8 <= bytes; at += 8) {
        uint32_t target;
        if (!target_peek(l->t, l->b->address[block] + at, &word) ||
            (target = blocks_pointed(l->b, word)) == BLOCK_NONE || target == block)
            continue;
        bool weak = at == links || at == links + 8;
        if (target == last) { /* the scan noted it once */
            if (!weak)
                l->scan->weak[(k - 1) / 64] &= ~((uint64_t)1 << (k - 1) % 64);
            continue;
        }
        if (k == end || l->scan->target[k] != target)
            return;
        if (weak)
            l->scan->weak[k / 64] |= (uint64_t)1 << k % 64;
        last = target;
        k++;
    }
}

static bool ends_in_python(const char *name)
{
    static const char tail[] = " (Python)";
    size_t n = strlen(name);
    return n >= sizeof tail && !strcmp(name + n - (sizeof tail - 1), tail);
}

int types_python_links(struct types *y, const uint32_t *type, struct target *t,
                       const struct walk *w, struct scan *scan)
{
    struct linking l = {.y = y, .type = type, .t = t, .b = &w->blocks, .scan = scan};
    bool any = false;
    uint32_t known = y->count;
    l.is_python = calloc((size_t)known + 1, sizeof *l.is_python);
    l.known = calloc(KNOWN_TYPES, sizeof *l.known);
    scan->weak = spill_zeros((size_t)scan->references / 64 + 1, sizeof *scan->weak);
    int status = l.is_python && l.known && scan->weak ? 0 : -1;
    for (uint32_t i = 1; !status && i < known; i++)
        any |= l.is_python[i] = ends_in_python(y->name[i]);
    for (uint32_t i = 0; !status && any && i < w->blocks.count; i++)
        if (type[i] < known && l.is_python[type[i]] && blocks_is_used(&w->blocks, i))
            mark_links(&l, i);
    free(l.is_python);
    free(l.known);
    if (status || !any) {
        spill_free(scan->weak);
        scan->weak = NULL;
    }
    return status;
}

bool types_python_name(struct target *t, uint64_t address, char *name, size_t room)
{
    uint64_t type, own = address, text, size;
    char root[8], read[256];
    unsigned steps = 0;
    if (!target_peek(t, address + OB_TYPE, &type))
        return false;
    while (type != own && steps++ < STEPS) {
        own = type;
        if (!own || own & 7 || !target_peek(t, own + OB_TYPE, &type))
            return false;
    }
    if (type != own || !target_peek(t, own + TP_NAME, &text) ||
        target_text(t, text, root, sizeof root) != 4 || strcmp(root, "type") != 0)
        return false;
    if (!target_peek(t, address + TP_NAME, &text) ||
        !target_peek(t, address + TP_BASICSIZE, &size) || !size || size > SIZE_MAX_BYTES ||
        !target_text(t, text, read, sizeof read))
        return false;
    snprintf(name, room, "%s (Python)", read);
    return true;
}
