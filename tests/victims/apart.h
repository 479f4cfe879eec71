/* apart.h - functions that stay what the source says, one frame and one name each, with every
 * compiler. */
#ifndef APART_H
#define APART_H

/* Neither inlined, nor cloned, nor joined with another, nor left by a jump, and nothing is known of
 * it to its callers. clang has no such attribute, but it clones no function, and joins functions
 * only by an option. */
#if __has_attribute(noipa)
#define APART __attribute__((noipa))
#else
#define APART __attribute__((noinline, disable_tail_calls))
#endif

#endif
