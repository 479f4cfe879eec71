/* bindings.h - the program's calls are made to lead to our functions, by whatever way it finds the
 * allocator's.
 *
 * A preloaded library stands first in the search order. That leaves the ways past it: dlsym on the
 * allocator's own handle, a module loaded with RTLD_DEEPBIND, glibc's __libc_free and its family. A
 * library that comes into a running process has no place in the search order at all. Both change
 * the bindings that exist and the symbol table that those to come are found in.
 *
 * For one thread, which holds no lock of the allocator's. The library's own next_symbol finds the
 * allocator's functions afterwards; a plain dlsym would find ours. */
#ifndef MALLOW_PRELOAD_GUEST_BINDINGS_H
#define MALLOW_PRELOAD_GUEST_BINDINGS_H

#include "preload/guest.h"

struct binding {
    const char *name;
    const void *to;  /* ours, by a name that no program can define */
    void **original; /* a member of `next`; NULL: we do not call it */
    bool needed;     /* without it nothing is changed */
};

/* Asked of the library: two names may be one function; the first of them is what its callers are
 * led to. At most BINDINGS_MAX elements. */
HIDDEN const struct binding *entry_bindings(unsigned *count);
#define BINDINGS_MAX 48u

/* An entry, declared for its address. */
#define ENTRY_ADDRESS(name)                 extern const char entry_##name[] HIDDEN;
#define ENTRY_ADDRESS_OF(result, name, ...) ENTRY_ADDRESS(name)
/* An element of that list, of a function of the allocator: its entry is entry_NAME. One for which
 * ours may stand is not compared with what the program's calls lead to. */
#define BINDING_OF(result, name, parameters, arguments, kind, found, boot, missing)                \
    {#name, entry_##name, (found) >= NEXT_NEW ? 0 : (void **)&next.name, (found) == NEXT_FIRST},

enum bindings_where {
    BINDINGS_FIRST,  /* the first definitions in the search order: of a library that has no place in
                        it */
    BINDINGS_BEHIND, /* the first behind us: of a preloaded library. The allocator's own words and
                        the dynamic linker's stay: they were bound with us in place */
    BINDINGS_LIBC    /* the C library's, in the same way */
};
/* Finds what the program's calls lead to. False: a needed one is missing, or it is not what `next`
 * has, and blocks would be two allocators'. */
HIDDEN bool bindings_find(enum bindings_where where);
/* Makes them lead to ours, or back. How many bindings were changed; -1: some could not be. */
HIDDEN long bindings_change(bool to_ours);
/* The function that the program's calls of that name led to; NULL: not one of ours. */
HIDDEN void *bindings_original(const char *name);

/* Leads the program's bindings to ours, once, at the start of the process, after next_resolve and
 * after redirect() of guest.h. */
enum bindings_led {
    BINDINGS_LED,
    BINDINGS_BETWEEN, /* an allocator or a wrapper that we do not know stands between */
    BINDINGS_REFUSED  /* the kernel refused the change; all is as it was */
};
HIDDEN enum bindings_led bindings_lead(void);
/* After that, where another allocator than glibc's stands behind us: the C library's own functions,
 * for modules that call them in spite of it. Each `original` (not NULL, and needed) is filled in
 * before the first word leads to ours; where they cannot be found or changed, nothing is. */
HIDDEN void bindings_lead_libc(const struct binding *list, unsigned count);

#endif
