/* unseen.c - ways past us in this process, for the notes of its recording.
 *
 * Looked for when the process joins, before a module goes, and at the end: nothing in a call. The
 * dynamic linker's list for debuggers has all namespaces; it is read without its lock, which a
 * thread may hold that never gives it back. So what it leads to is copied by the kernel, which
 * refuses memory that has gone. */
#include <link.h>
#include <string.h>

#include "recorder.h"
#include "preload/guest/bindings.h"

static bool copy_readable(void *to, const void *from, size_t n)
{
    struct iovec here = {(void *)(uintptr_t)from, n}, there = {to, n};
    return sys_process_vm_writev((int)sys_gettid(), &here, 1, &there, 1) == (long)n;
}

/* A text that may go at any moment; cut. */
static void copy_readable_text(char *to, size_t room, const char *from)
{
    size_t n = 0;
    while (n + 1 < room && copy_readable(to + n, from + n, 1) && to[n])
        n++;
    to[n] = 0;
}

static void look_at_namespaces(struct mlw_process *p)
{
    enum { NAMESPACES_MOST = 16 }; /* the linker's own bound */
    const struct r_debug *n = guest_next_namespace(0);
    struct link_map module;
    for (unsigned i = 0; n && !n->r_map && i < NAMESPACES_MOST; i++) /* one that was closed */
        n = guest_next_namespace(n);
    if (!n || !n->r_map || p->unseen & 1u << MLW_UNSEEN_NAMESPACE)
        return;
    if (copy_readable(&module, n->r_map, sizeof module) && module.l_name)
        copy_readable_text(p->unseen_module, sizeof p->unseen_module, module.l_name);
    __atomic_fetch_or(&p->unseen, 1u << MLW_UNSEEN_NAMESPACE, __ATOMIC_RELEASE);
}

void unseen_begin(void)
{
    struct mlw_process *p = recorder.process;
    const bool first =
        !recorder.forked_from; /* in a fork, the linker's lock may be held for good */
    if (first)
        guest_namespaces_begin();
    strcpy(p->unseen_allocator, next_facts.name);
    p->attached = recorder.attached;
    p->before = recorder.before[1];
    if (first && !recorder.attached)
        past_begin();
    if (recorder.misses_jemalloc)
        p->unseen |= 1u << MLW_UNSEEN_JEMALLOC;
    if (!recorder.attached && recorder.led == BINDINGS_REFUSED)
        p->unseen |= 1u << MLW_UNSEEN_BINDINGS;
    if (!recorder.attached && recorder.led == BINDINGS_BETWEEN)
        p->unseen |= 1u << MLW_UNSEEN_BETWEEN;
}

void unseen_look(void)
{
    if (recorder.process && !recorder.off && !sys_closed)
        look_at_namespaces(recorder.process);
}

bool unseen_note(unsigned reason, char note[UNSEEN_NOTE_BYTES])
{
    static const char *const begin[] = {
#define BEGIN(name, reason, ...) MLW_UNSEEN_BEGIN(reason),
        MLW_UNSEEN(BEGIN)
#undef BEGIN
    };
    const struct mlw_process *p = recorder.process;
    if (!(p->unseen & 1u << reason))
        return false;
    const char *module = reason == MLW_UNSEEN_NAMESPACE     ? p->unseen_module
                         : reason == MLW_UNSEEN_LIBC_BEHIND ? MLW_UNSEEN_LIBC
                                                            : p->unseen_allocator;
    const size_t n = strlen(begin[reason]);
    memcpy(note, begin[reason], n);
    memcpy(note + n, module, strlen(module) + 1);
    return true;
}
