/* attach.h - the parts of libmallow-attach.so, which is put into a process that runs already.
 *
 * It samples as libmallow-watch.so does, with the same code (../watch), but guards nothing: every
 * block is the allocator's. So the library can come and go at any moment. It exports nothing that a
 * program binds to.
 *
 *   entry.c      the functions that the program's bindings lead to
 *   unguarded.c  no block is guarded
 *   locked.c     work that is done under the dynamic linker's lock (redirect.h)
 *   confine.c    seccomp: nothing more is done behind a filter
 *   process.c    beginning, fork, exec, the end
 *
 * Threads: as ../watch/watcher.h says. After the end the entries stay: threads may be inside them,
 * and pointers to them may have been kept. They only pass calls on then. */
#ifndef MALLOW_PRELOAD_ATTACH_ATTACH_H
#define MALLOW_PRELOAD_ATTACH_ATTACH_H

#include "../watch/watcher.h"
#include "redirect.h"

#endif
