/* cxx.c - C++'s `new` and `delete`, seen once whatever library implements them.
 *
 * libstdc++'s call malloc and would be seen there; jemalloc's and tcmalloc's do not. So we stand
 * for all of them: a block comes from malloc behind us, and only the failure is left to the C++
 * library, which knows how to throw. Compiled with frame pointers, which is how the caller's stack
 * is found. */
#include "preload/guest.h"

#define CALLER_SP ((uint64_t)__builtin_frame_address(0) + 8)
#define CALLER_BP (*(uint64_t *)__builtin_frame_address(0))

typedef void *new_function(size_t, const void *);

/* The operator's way to say that there is no memory: the one of the C++ library that is loaded,
 * found even where its user loaded it privately. It asks the new-handler, then throws, or returns
 * NULL when it is a nothrow one. */
static void *new_failed(const char *name, size_t size, const void *nothrow_tag)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};
    new_function *f = (new_function *)(uintptr_t)next_symbol(name);
    for (unsigned i = 0; !f && i < 2; i++)
        f = (new_function *)(uintptr_t)next_loaded(libraries[i], name);
    return f ? f(size, nothrow_tag) : 0;
}

#define OPERATOR_NEW(symbol)                                                                       \
    EXPORT void *symbol(size_t size);                                                              \
    void *symbol(size_t size)                                                                      \
    {                                                                                              \
        void *p = guest_new(size ? size : 1, CALLER_SP, CALLER_BP);                                \
        return likely(p != 0) ? p : new_failed(#symbol, size, 0);                                  \
    }
OPERATOR_NEW(_Znwm)
OPERATOR_NEW(_Znam)

/* These too ask the program's new-handler before they give up, and catch what it throws. */
#define OPERATOR_NEW_NOTHROW(symbol)                                                               \
    EXPORT void *symbol(size_t size, const void *tag);                                             \
    void *symbol(size_t size, const void *tag)                                                     \
    {                                                                                              \
        void *p = guest_new(size ? size : 1, CALLER_SP, CALLER_BP);                                \
        return likely(p != 0) ? p : new_failed(#symbol, size, tag);                                \
    }
OPERATOR_NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
OPERATOR_NEW_NOTHROW(_ZnamRKSt9nothrow_t)

#define OPERATOR_NEW_ALIGNED(symbol, plain, nothrow)                                               \
    EXPORT void *symbol(size_t size, size_t align);                                                \
    void *symbol(size_t size, size_t align)                                                        \
    {                                                                                              \
        void *p = guest_new_aligned(align, size ? size : 1, CALLER_SP, CALLER_BP);                 \
        return likely(p != 0) || (nothrow) ? p : new_failed(plain, SIZE_MAX / 2, 0);               \
    }
OPERATOR_NEW_ALIGNED(_ZnwmSt11align_val_t, "_Znwm", 0)
OPERATOR_NEW_ALIGNED(_ZnamSt11align_val_t, "_Znam", 0)
OPERATOR_NEW_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t, "", 1)
OPERATOR_NEW_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t, "", 1)

#define OPERATOR_DELETE(symbol)                                                                    \
    EXPORT void symbol(void *p);                                                                   \
    void symbol(void *p)                                                                           \
    {                                                                                              \
        if (!p)                                                                                    \
            return; /* the C++ library's own does not call free for it either */                   \
        guest_delete(p, CALLER_SP, CALLER_BP);                                                     \
    }
OPERATOR_DELETE(_ZdlPv)
OPERATOR_DELETE(_ZdaPv)
OPERATOR_DELETE(_ZdlPvm)
OPERATOR_DELETE(_ZdaPvm)
OPERATOR_DELETE(_ZdlPvRKSt9nothrow_t)
OPERATOR_DELETE(_ZdaPvRKSt9nothrow_t)
OPERATOR_DELETE(_ZdlPvSt11align_val_t)
OPERATOR_DELETE(_ZdaPvSt11align_val_t)
OPERATOR_DELETE(_ZdlPvmSt11align_val_t)
OPERATOR_DELETE(_ZdaPvmSt11align_val_t)
OPERATOR_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t)
OPERATOR_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t)
