/* same.h - what makes two frames of different builds the same. Any thread. */
#ifndef MALLOW_FRAMES_SAME_H
#define MALLOW_FRAMES_SAME_H

#include <stddef.h>

/* Length of a function's name without ".isra.0", ".cold", " [clone .part.0]" and the like. */
size_t same_function(const char *name);
/* Length of a library's name without its version: libssl.so.3 and libssl.so.1.1 are the same. */
size_t same_module(const char *module);

#endif
