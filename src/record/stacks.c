/* stacks.c - Walks glibc's ring of thread descriptors in another process's memory, and reports
 * the bounds of each stack. A descriptor counts only if it points to itself and its neighbors
 * point back. The walk has a bound, because the memory is hostile. */
#include "record/stacks.h"

#include <stdbool.h>

#include "arch/page.h"
#include "base/present.h"
#include "glibc/versions.h"
#include "remote/handle.h"

enum { THREADS_MOST = 32768, HEADS_AWAY = GLIBC_RING_HEADS - 1, HEAD_BYTES = 16 };

struct walk {
    const struct handle *handle;
    const struct present *present;
    void (*found)(void *arg, uint64_t start, uint64_t end, bool in_block);
    void *arg;
    unsigned left; /* threads that may be looked at */
};

struct ring {
    uint64_t next, previous; /* addresses of others */
};

static bool read_there(const struct walk *w, uint64_t at, void *to, size_t bytes)
{
    return at >= ARCH_PAGE_BYTES && at < ARCH_ADDRESS_END - bytes && !(at & 7) &&
           present_all(w->present, at, bytes) && handle_read(w->handle, at, to, bytes);
}

/* The first and the third word of a descriptor are its own address. */
static bool is_thread(const struct walk *w, uint64_t at)
{
    uint64_t word[3];
    return read_there(w, at, word, sizeof word) && word[0] == at && word[2] == at;
}

/* True: the program gave the stack, out of a block with a mapping of its own, which is counted as a
 * block: it begins at the stack, or on the page before an address that was rounded up. */
static bool is_in_block(const struct walk *w, const struct glibc_thread_stack *stack)
{
    enum { IS_MAPPED = 2, FLAGS = 7, HEADER = 16 };
    const uint64_t first = (stack->start - 1) & ~(ARCH_PAGE_BYTES - 1),
                   tried[] = {stack->start - HEADER, first};
    for (size_t i = 0; i < sizeof tried / sizeof *tried && !stack->guard_bytes; i++) {
        uint64_t header[2];
        if (!read_there(w, tried[i], header, sizeof header) || (header[1] & FLAGS) != IS_MAPPED)
            continue;
        const uint64_t begin = tried[i] - (header[0] & ~(uint64_t)1),
                       end = tried[i] + (header[1] & ~(uint64_t)FLAGS) + HEADER;
        if (!(begin & (ARCH_PAGE_BYTES - 1)) && end >= stack->start + stack->bytes &&
            end < ARCH_ADDRESS_END)
            return true;
    }
    return false;
}

static void take_thread_stack(const struct walk *w, uint64_t at)
{
    struct glibc_thread_stack stack;
    if (!read_there(w, at + GLIBC_THREAD_STACK, &stack, sizeof stack) || !stack.start ||
        stack.start >= at || stack.bytes >= ARCH_ADDRESS_END || stack.guard_bytes >= stack.bytes ||
        stack.bytes <= at - stack.start)
        return; /* the first thread has none */
    const uint64_t page = ARCH_PAGE_BYTES - 1;
    w->found(w->arg, (stack.start + page) & ~page, (stack.start + stack.bytes) & ~page,
             is_in_block(w, &stack));
}

/* From a place in a ring onwards to its head, which is no descriptor's; stacks of all before it are
 * taken. 0: there is none, or a neighbor does not point back. */
static uint64_t walk_on(struct walk *w, uint64_t at)
{
    struct ring here, there;
    if (!read_there(w, at, &here, sizeof here))
        return 0;
    for (; w->left; w->left--) {
        if (!read_there(w, here.next, &there, sizeof there) || there.previous != at)
            return 0;
        at = here.next;
        here = there;
        if (at < GLIBC_THREAD_RING || !is_thread(w, at - GLIBC_THREAD_RING))
            return at;
        take_thread_stack(w, at - GLIBC_THREAD_RING);
    }
    return 0;
}

void stacks_find(const struct handle *handle, const struct present *present, uint64_t first,
                 const uint64_t *pointers, size_t n,
                 void (*found)(void *arg, uint64_t start, uint64_t end, bool in_block), void *arg)
{
    struct walk w = {handle, present, found, arg, THREADS_MOST};
    bool walked = false;
    for (size_t i = 0; i <= n; i++) {
        const uint64_t pointer = i ? pointers[i - 1] : first;
        if (!is_thread(&w, pointer))
            continue;
        take_thread_stack(&w, pointer);
        if (walked)
            continue;
        walked = true;
        const uint64_t head = walk_on(&w, pointer + GLIBC_THREAD_RING);
        /* which of the heads it is does not matter: a word that is none leads nowhere */
        for (int away = -HEADS_AWAY; head && away <= HEADS_AWAY; away++)
            walk_on(&w, head + (uint64_t)((int64_t)away * HEAD_BYTES));
    }
}
