/* unseen.c - ways past us in this process, for the notes of its recording.
 *
 * Looked for when the process joins, before a module goes, and at the end: nothing in a call. The
 * dynamic linker's list for debuggers has all namespaces; it is read without its lock, which a
 * thread may hold that never gives it back. So what it leads to is copied by the kernel, which
 * refuses memory that has gone. */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "recorder.h"
#include "preload/guest/bindings.h"

/* The linker's list for debuggers, as glibc 2.35 and later have it. */
struct namespaces {
    int version;
    struct link_map *first;
    uint64_t to_break;
    int state;
    uint64_t linker;
    const struct namespaces *next; /* with version 2 */
};

static const struct namespaces *own_namespace;

static bool copy(void *to, const void *from, size_t n)
{
    struct iovec here = {(void *)(uintptr_t)from, n}, there = {to, n};
    return sys_process_vm_writev((int)sys_gettid(), &here, 1, &there, 1) == (long)n;
}

/* A text that may go at any moment; cut. */
static void copy_text(char *to, size_t room, const char *from)
{
    size_t n = 0;
    while (n + 1 < room && copy(to + n, from + n, 1) && to[n])
        n++;
    to[n] = 0;
}

static void look_at_namespaces(struct mlw_process *p)
{
    enum { NAMESPACES_MOST = 16 };
    const struct namespaces *n = own_namespace;
    for (unsigned i = 0; n && n->version >= 2 && n->next && i < NAMESPACES_MOST; i++) {
        struct link_map first;
        n = n->next;
        if (!n->first || p->unseen & 1u << MLW_UNSEEN_NAMESPACE)
            continue;
        if (copy(&first, n->first, sizeof first) && first.l_name)
            copy_text(p->unseen_module, sizeof p->unseen_module, first.l_name);
        __atomic_fetch_or(&p->unseen, 1u << MLW_UNSEEN_NAMESPACE, __ATOMIC_RELEASE);
    }
}

void unseen_begin(void)
{
    struct mlw_process *p = recorder.process;
    const struct namespaces *n = dlsym(RTLD_DEFAULT, "_r_debug");
    if (n && (n->version == 1 || n->version == 2) && n->to_break)
        own_namespace = n;
    strcpy(p->unseen_allocator, next_facts.name);
    if (!recorder.attached)
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
