/* spelling.h - how a demangled name is put together, and shorter spellings of it.
 *
 * Owns: where the parts of a name of C++, Rust or D begin and end. Pure functions of their
 * arguments, in time proportional to the name's length times its nesting. Any thread. */
#ifndef MALLOW_SYMBOL_SPELLING_H
#define MALLOW_SYMBOL_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Offsets into a name: [0, name) is the return type with its space, or empty; [name, end) the
 * qualified name; [end, ...) the parameters with what follows them, or empty. */
struct spelling {
    size_t name, end;
};

struct spelling spelling_parts(const char *text);

/* Appends the qualified name without template arguments and the parameters of functions around it:
 * "std::vector::push_back" for "void std::vector<int, A>::push_back(int&&)". */
void spelling_path(const char *text, struct buffer *path);

/* Appends a shorter spelling of a C++ name that means the same: without the return type of a
 * template's instance, without versions (std::__cxx11::, [abi:cxx11]), without arguments that a
 * standard template has by default, with the names of the standard's own aliases (std::string).
 * Names of other languages stay as they are. Returns false, and appends nothing, when the name is
 * too deeply nested to be read; out of memory, the buffer has failed. */
bool spelling_short(const char *text, struct buffer *out);

/* Appends the name, cut to at most `columns` where a reader can do without: first the parameters,
 * then template arguments from the innermost outwards, then namespaces from the left, each
 * replaced by `dots`. Only the last part of a name is ever cut in its middle. */
void spelling_fit(const char *text, size_t columns, const char *dots, struct buffer *out);

#endif
