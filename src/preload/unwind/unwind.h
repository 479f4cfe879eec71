/* unwind.h - the call stack of an allocation, as the id of a node, at the price of a few loads.
 *
 * Owns: unwind rules read from .eh_frame (through _dl_find_object: no lock, async-signal-safe), the
 * per-thread caches, and the process-wide trie of (parent, pc, module) -> id. Runs inside another
 * program, on the path of an allocation, possibly in a signal handler: no libc call that locks or
 * allocates, no large locals (a 64 KiB alternate signal stack is all that some hosts have), no read
 * of an address that is not known to be mapped, no errno. Behind the closed door of sys.h, memory
 * that is not known already is not read: the stack ends there, truncated. Threads: unwind_stack is
 * called by many threads at once, each with its own struct unwind_thread and never re-entered for
 * one (the caller sees to it). A fork needs no call: the tables are private memory, ids go on, and
 * an entry that another thread had half-written is not there. Method: a cache of whole stacks over
 * a cache of prefixes over a guess over table unwinding (docs/design/recorder.md). */
#ifndef MALLOW_PRELOAD_UNWIND_UNWIND_H
#define MALLOW_PRELOAD_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unwind_thread; /* per-thread caches; lives in memory from unwind_host_map */

/* Once per process, before any thread unwinds. `dl_find_object` is the address of glibc's
 * _dl_find_object or NULL (older glibc): then only modules that are mapped now are known.
 * stack_end: value of __libc_stack_end. Returns 0, or -1 when no memory could be had. */
int unwind_init(void *dl_find_object, void *stack_end);

/* Forgets all that was announced, for a recording that knows nothing of it; unwind_init is to
 * follow. While no thread unwinds. */
void unwind_forget(void);

/* The file of the executable, with a NUL; returns its length, 0 when it is not known. Not that of
 * /proc/PID/exe where the dynamic linker was started to run it. Any thread, any signal handler. */
size_t unwind_program_path(char *to, size_t room);

/* State for the calling thread, or NULL when no memory could be had. A state may be handed to
 * another thread after its owner ended (unwind_thread_reset). */
struct unwind_thread *unwind_thread_new(void);
void unwind_thread_reset(struct unwind_thread *t);
/* The same for one that was left in the middle of a call: forgets what may be half-written, too. */
void unwind_thread_clear(struct unwind_thread *t);

/* The stack whose innermost frame is the return address at *sp (sp = rsp at the entry of the
 * interposed function, bp = rbp then). Returns the id of its innermost node, from 1; 0 when there
 * is no memory for one. New nodes and modules are announced through unwind_host_* before it
 * returns. ctx is passed on to them. */
uint32_t unwind_stack(struct unwind_thread *t, uint64_t sp, uint64_t bp, void *ctx);

/* The same for one frame only: the caller. */
uint32_t unwind_caller(struct unwind_thread *t, uint64_t sp, void *ctx);

/* After the program's dlclose has returned (any thread): modules that vanished are announced, and
 * every cache that knew them is void. Also to be called when the program unmaps memory that may
 * have held a stack: `start`..`end` (0, 0 for dlclose). */
void unwind_unmapped(uint64_t start, uint64_t end, void *ctx);

/* ---- What the host of the unwinder provides (stream.c; watch/stack.c) ---- */

/* Zero-filled private memory for ever, page-aligned; NULL when refused. Async-signal-safe. */
void *unwind_host_map(size_t bytes);
void unwind_host_unmap(void *p, size_t bytes);

/* Writes a NODE row into the stream of ctx. flags: enum mlw_node_flags. */
void unwind_host_node(void *ctx, uint32_t id, uint32_t parent, uint64_t pc, uint32_t module,
                      unsigned flags);

/* Writes a MODULE row. path: of the file, "" when unknown (vdso: "[vdso]"). */
void unwind_host_module(void *ctx, uint32_t id, uint64_t start, uint64_t end, uint64_t bias,
                        const uint8_t *build_id, size_t build_id_bytes, const char *path);
void unwind_host_module_gone(void *ctx, uint32_t id);

/* One stack ended with a TRUNCATED node: counted in the session. */
void unwind_host_truncated(void);

#endif
