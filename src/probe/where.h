/* where.h - conditions on the events of a probe, as the programs in the kernel judge them.
 *
 *     EXPR    = EXPR && EXPR | EXPR || EXPR | !EXPR | (EXPR) | FIELD OP VALUE | FIELD
 *     OP      = == != < <= > >= ~ !~
 *
 * FIELD is one of pid, tid, ppid, uid, cpu and comm, a key of the kind (address, access, mapping,
 * cache, function), or a figure by its name in JSON. A VALUE is a number with a unit of
 * base/human.h, a hexadecimal number, or a text in quotes; ~ takes a text that may end with *. &&
 * binds tighter than ||. A FIELD alone is a number that is not 0. */
#ifndef MALLOW_PROBE_WHERE_H
#define MALLOW_PROBE_WHERE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bpf/key.h"

struct probe_kind;

/* A part of a key, by both its spellings: of --by, and of a condition that reads it. */
struct probe_key_name {
    const char *name, *other; /* other: NULL for none */
    uint32_t by;              /* enum probe_by */
    uint8_t field, type;      /* enum type of where.c */
};
extern const struct probe_key_name probe_key_names[]; /* up to one without a name */
/* The one that is called so; NULL: none is. */
const struct probe_key_name *probe_key_find(const char *text, size_t bytes);

/* Fills *where, all of it. -1 with *err, whose text continues the name of the option: ": 'x' is
 * none of ...". Any thread. */
int where_compile(const struct probe_kind *kind, const char *text, struct probe_where *where,
                  struct error *err);

#endif
