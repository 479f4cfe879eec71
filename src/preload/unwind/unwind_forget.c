/* unwind_forget.c - modules and nodes of one recording are unknown to the next. */
#include "unwind_impl.h"

void unwind_forget(void)
{
    uw_trie_forget();
    uw_modules_forget();
    __atomic_add_fetch(&uw_generation, 1, __ATOMIC_RELEASE);
}
