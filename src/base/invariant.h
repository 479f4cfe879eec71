/* invariant.h - what must hold in mallow's own state, checked as it runs.
 *
 * INVARIANT(condition) ends the program with the condition and its place when that is false. It is
 * for faults of mallow only: a file, a process or a system call that is not as it should be gives a
 * struct error. Debug and sanitizer builds check (MALLOW_INVARIANTS); in others the condition is
 * compiled and not evaluated, so it must have no effects. Never in preload/, which runs inside
 * other programs. */
#ifndef MALLOW_BASE_INVARIANT_H
#define MALLOW_BASE_INVARIANT_H

#ifdef MALLOW_INVARIANTS
#define INVARIANT(condition)                                                                       \
    ((condition) ? (void)0 : invariant_broken(#condition, __FILE__, __LINE__))
#else
#define INVARIANT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

/* Prints a line to stderr and aborts. */
void invariant_broken(const char *condition, const char *file, int line) __attribute__((noreturn));

#endif
