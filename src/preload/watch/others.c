/* others.c - functions of tcmalloc and mimalloc that take a block of any allocator; C++'s.
 *
 * A program may give a block of malloc's to mi_free or tc_realloc: a sample ends there, and a
 * guarded block is no block of the allocator's. Those functions are not exported (programs ask by
 * weak references which allocator they have) but redirected (redirect.c), and pass other blocks on.
 * The blocks that they make are not sampled. */
#include "arch/entry.h"
#include "watcher.h"

/* RELEASES(name): of any arguments behind the block, which are not looked at. */
#define ALL_RELEASES                                                                               \
    RELEASES(mi_free)                                                                              \
    RELEASES(mi_cfree)                                                                             \
    RELEASES(mi_free_size)                                                                         \
    RELEASES(mi_free_size_aligned)                                                                 \
    RELEASES(mi_free_aligned)                                                                      \
    RELEASES(tc_free)                                                                              \
    RELEASES(tc_cfree)                                                                             \
    RELEASES(tc_free_sized)                                                                        \
    RELEASES(tc_delete)                                                                            \
    RELEASES(tc_delete_nothrow)                                                                    \
    RELEASES(tc_delete_sized)                                                                      \
    RELEASES(tc_delete_aligned)                                                                    \
    RELEASES(tc_delete_aligned_nothrow)                                                            \
    RELEASES(tc_delete_sized_aligned)                                                              \
    RELEASES(tc_deletearray)                                                                       \
    RELEASES(tc_deletearray_nothrow)                                                               \
    RELEASES(tc_deletearray_sized)                                                                 \
    RELEASES(tc_deletearray_aligned)                                                               \
    RELEASES(tc_deletearray_aligned_nothrow)                                                       \
    RELEASES(tc_deletearray_sized_aligned)
/* MEASURES(name): the usable size of the block. */
#define ALL_MEASURES                                                                               \
    MEASURES(mi_usable_size)                                                                       \
    MEASURES(mi_malloc_size)                                                                       \
    MEASURES(mi_malloc_usable_size)                                                                \
    MEASURES(tc_malloc_size)                                                                       \
    MEASURES(MallocExtension_GetAllocatedSize)
/* RESIZES(name): as realloc. */
#define ALL_RESIZES                                                                                \
    RESIZES(mi_realloc)                                                                            \
    RESIZES(mi_new_realloc)                                                                        \
    RESIZES(tc_realloc)
/* MOVES(name, number of the argument that is the block, whether failure releases it). */
#define ALL_MOVES                                                                                  \
    MOVES(mi_reallocf, 0, true)                                                                    \
    MOVES(mi_reallocn, 0, false)                                                                   \
    MOVES(mi_reallocarray, 0, false)                                                               \
    MOVES(mi_new_reallocn, 0, false)                                                               \
    MOVES(mi_rezalloc, 0, false)                                                                   \
    MOVES(mi_recalloc, 0, false)                                                                   \
    MOVES(mi_aligned_recalloc, 0, false)                                                           \
    MOVES(mi_aligned_offset_recalloc, 0, false)                                                    \
    MOVES(mi_realloc_aligned, 0, false)                                                            \
    MOVES(mi_realloc_aligned_at, 0, false)                                                         \
    MOVES(mi_rezalloc_aligned, 0, false)                                                           \
    MOVES(mi_rezalloc_aligned_at, 0, false)                                                        \
    MOVES(mi_recalloc_aligned, 0, false)                                                           \
    MOVES(mi_recalloc_aligned_at, 0, false)                                                        \
    MOVES(mi_heap_realloc, 1, false)                                                               \
    MOVES(mi_heap_reallocn, 1, false)                                                              \
    MOVES(mi_heap_reallocf, 1, true)                                                               \
    MOVES(mi_heap_rezalloc, 1, false)                                                              \
    MOVES(mi_heap_recalloc, 1, false)                                                              \
    MOVES(mi_heap_realloc_aligned, 1, false)                                                       \
    MOVES(mi_heap_realloc_aligned_at, 1, false)                                                    \
    MOVES(mi_heap_rezalloc_aligned, 1, false)                                                      \
    MOVES(mi_heap_rezalloc_aligned_at, 1, false)                                                   \
    MOVES(mi_heap_recalloc_aligned, 1, false)                                                      \
    MOVES(mi_heap_recalloc_aligned_at, 1, false)
/* EXPANDS(name): in place only. */
#define ALL_EXPANDS                                                                                \
    EXPANDS(mi_expand)                                                                             \
    EXPANDS(mi__expand)

/* The allocator's own, where it has them. */
#define DECLARE(name)  void *other_##name HIDDEN;
#define RELEASES(name) DECLARE(name)
#define MEASURES(name) DECLARE(name)
#define RESIZES(name)  DECLARE(name)
ALL_RELEASES ALL_MEASURES ALL_RESIZES
#undef RELEASES
#undef MEASURES
#undef RESIZES

/* A jump to the allocator's own; or, with a block that may be sampled, to ours. */
#define RELEASES(name) ARCH_ENTRY_ASKS(name, "calls_release")
#define MEASURES(name) ARCH_ENTRY_PASSES(name, "watch_malloc_usable_size", 1)
#define RESIZES(name)  ARCH_ENTRY_PASSES(name, "watch_realloc", 2)
    ALL_RELEASES ALL_MEASURES ALL_RESIZES
#undef RELEASES
#undef MEASURES
#undef RESIZES

    /* releases: a call that fails has released the block. */
    static void *
    moves(watch_move *real, unsigned at, bool releases, uint64_t argument[6], uint64_t sp,
          uint64_t bp)
{
    void *const old = (void *)argument[at], *p;
    uint32_t index;
    if (guard_maybe(old) && guarded_moves(real, at, releases, argument, sp, bp, &p))
        return p;
    struct sample *s = calls_take(old, &index);
    p = real(argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    if (s && !p && !releases)
        calls_stays(index, s, old);
    else if (s)
        calls_taken(index, s, old, MLW_WATCH_REALLOC, p ? next.malloc_usable_size(p) : 0, sp, bp);
    return p;
}

/* In C, with all the registers that arguments may be in. */
#define WORDS  uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f
#define CALLER (uint64_t) __builtin_frame_address(0) + 8, *(uint64_t *)__builtin_frame_address(0)
#define MOVES(name, at, releases)                                                                  \
    static watch_move *other_##name;                                                               \
    static void *entry_##name(WORDS)                                                               \
    {                                                                                              \
        return moves(other_##name, at, releases, (uint64_t[6]){a, b, c, d, e, f}, CALLER);         \
    }
#define EXPANDS(name)                                                                              \
    static watch_move *other_##name;                                                               \
    static void *entry_##name(WORDS)                                                               \
    {                                                                                              \
        size_t have;                                                                               \
        if (guard_maybe((void *)a) && guarded_usable((void *)a, &have))                            \
            return b <= have ? (void *)a : 0;                                                      \
        return other_##name(a, b, c, d, e, f);                                                     \
    }
ALL_MOVES ALL_EXPANDS
#undef MOVES
#undef EXPANDS

    bool
    others_redirect(void)
{
#define TO_OURS(name)                                                                              \
    {                                                                                              \
#name, (const void *)entry_##name, (void **)&other_##name                                  \
    }
#define RELEASES(name)            TO_OURS(name),
#define MEASURES(name)            TO_OURS(name),
#define RESIZES(name)             TO_OURS(name),
#define MOVES(name, at, releases) TO_OURS(name),
#define EXPANDS(name)             TO_OURS(name),
    static const struct redirection list[] = {
        ALL_RELEASES ALL_MEASURES ALL_RESIZES ALL_MOVES ALL_EXPANDS};
    _Static_assert(sizeof list / sizeof *list <= REDIRECTIONS_MAX, "redirect has room for them");
    return redirect(list, sizeof list / sizeof *list) != REDIRECT_REFUSED;
}

/* ---- for cxx.c ---- */

void *guest_new(size_t size, uint64_t sp, uint64_t bp)
{
    return call_spend(size) ? watch_malloc(size, sp, bp) : next.malloc(size);
}

void *guest_new_aligned(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    size = (size + align - 1) & ~(align - 1);
    return call_spend(size) ? watch_aligned_alloc(align, size, sp, bp)
                            : next.aligned_alloc(align, size);
}

void guest_delete(void *p, uint64_t sp, uint64_t bp)
{
    if (guard_maybe(p) || held_maybe(p))
        watch_free(p, sp, bp);
    else
        next.free(p);
}
