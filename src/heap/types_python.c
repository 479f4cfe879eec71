/* types_python.c - CPython's types; see types.h. A type object is itself an object: its second
 * word leads, in a few steps, to the object `type`, whose type is itself. */
#include <stdio.h>
#include <string.h>

#include "heap/types.h"

enum { OB_TYPE = 8, TP_NAME = 24, TP_BASICSIZE = 32, STEPS = 4, SIZE_MAX_BYTES = 1 << 20 };

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
