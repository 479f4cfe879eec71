/* refuse.h - what must not be attached to. Reads /proc and the memory of the process; stops
 * nothing. One thread. */
#ifndef MALLOW_INJECT_REFUSE_H
#define MALLOW_INJECT_REFUSE_H

#include "remote/image.h"

/* Before its mappings are read. 0; -1 with *err: there is no such process, it may not be traced, or
 * must not be. */
int refuse_process(pid_t pid, struct error *err);

/* Reads its mappings (anew). */
int refuse_mappings(struct injected *t, struct error *err);

/* By its mappings. beginning: the library of that name is to be put to work. */
int refuse_image(const struct injected *t, bool beginning, const char *library, struct error *err);

/* Why the kernel refused to trace it (errno). Returns -1. */
int refuse_trace(pid_t pid, int number, struct error *err);

#endif
