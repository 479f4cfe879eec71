/* rust_work.h - how long libiberty would work at a Rust name.
 *
 * Owns: finding the one thing in such a name that costs time without making text. A binder
 * (`for<'a, 'b>` in the type of a function or a trait object) is a number in the name; where
 * libiberty only skips, as it does over the path of an impl, it counts up to that number, which may
 * be 2^64. Any thread; no state. */
#ifndef MALLOW_SYMBOL_RUST_WORK_H
#define MALLOW_SYMBOL_RUST_WORK_H

#include <stdbool.h>
#include <stddef.h>

/* True if no binder of the name (of version 0, "_R...", NUL-terminated, length_bytes long) is
 * larger than any compiler makes. Names that are none are not bounded either. Follows the
 * name as libiberty does, back references included, in time about length_bytes squared at most. */
bool rust_work_is_bounded(const char *name, size_t length_bytes);

#endif
