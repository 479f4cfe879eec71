/* script.h - the functions of scripts, as interpreters name them in /tmp/perf-PID.map.
 *
 * Owns: what such a name is made of, and where a Python function is defined: the name holds its
 * file alone, so the file is read, if it can be. Not thread-safe. */
#ifndef MALLOW_SYMBOL_SCRIPT_H
#define MALLOW_SYMBOL_SCRIPT_H

#include <stdbool.h>

#include "symbol/intern.h"
#include "symbol/symbol.h"

struct scripts { /* zero-filled at first */
    struct script_source *sources;
    unsigned count, room;
};

/* Fills in function, file, line and module of a frame from a name like "py::Class.method:/dir/FILE"
 * (CPython with -X perf) or "JS:~method /dir/FILE:10:5" (V8 with --perf-basic-prof). Returns false,
 * and changes nothing, for any other name, or out of memory. */
bool script_frame(struct scripts *s, struct intern *strings, const char *name,
                  struct symbol_frame *frame);

void scripts_free(struct scripts *s);

#endif
