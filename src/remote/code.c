/* code.c - Searches the mapped code of a process for the instructions that a borrowed thread
 * needs: a system call, a return from a signal handler, and an end. libc is searched first, and
 * the number of bytes is bounded because the process may stand still meanwhile. */
#include "remote/code.h"

#include <stdlib.h>
#include <string.h>

#include "arch/code.h"

/* LIBRARY_MOST: of one file that is named like a C library. Its code is smaller, and a program can
 * give any file that name. */
enum { WINDOW = 1 << 16, OVERLAP = 16, CODE_MOST = 1 << 26, LIBRARY_MOST = 1 << 23 };

static void look_for(const uint8_t *code, size_t n, uint64_t at, struct code_pieces *p)
{
    const uint8_t *found;
    if (!p->call && (found = memmem(code, n, arch_code_call, sizeof arch_code_call)))
        p->call = at + (uint64_t)(found - code);
    if (!p->sigreturn && (found = memmem(code, n, arch_code_sigreturn, sizeof arch_code_sigreturn)))
        p->sigreturn = at + (uint64_t)(found - code);
    for (int i = 0; i < 2; i++)
        if (!p->exit && (found = memmem(code, n, arch_code_ends[i], sizeof arch_code_ends[i])))
            p->exit = at + (uint64_t)(found - code);
}

/* In one mapping. Pages that cannot be read hold nothing. */
static bool find_in(struct target *t, const struct target_region *r, bool all, uint8_t *code,
                    uint64_t *left, struct code_pieces *p)
{
    *p = (struct code_pieces){0};
    for (uint64_t at = r->start; at < r->end && *left; at += WINDOW) {
        *left -= WINDOW;
        const uint64_t want = r->end - at < WINDOW + OVERLAP ? r->end - at : WINDOW + OVERLAP;
        const size_t have = target_read_past(t, at, code, want);
        if (have && (*code || memcmp(code, code + 1, have - 1) != 0)) /* memmem is slow on zeros */
            look_for(code, have, at, p);
        if (p->sigreturn && (!all || (p->call && p->exit)))
            return true;
    }
    *p = (struct code_pieces){0};
    return false;
}

/* Libraries are not looked into one by one: the process may stand still meanwhile, and a program
 * can have 100 MB of code. */
static bool find(struct target *t, bool all, struct code_pieces *p)
{
    uint8_t *code = malloc(WINDOW + OVERLAP);
    uint64_t left = CODE_MOST;
    bool found = false;
    for (int pass = 0; code && pass < 1 + all && !found; pass++)
        for (size_t i = 0; i < t->region_count && !found; i++) {
            const struct target_region *r = &t->regions[i];
            const char *slash = r->file ? strrchr(r->file, '/') : NULL;
            const bool libc =
                slash && (!strncmp(slash, "/libc.", 6) || !strncmp(slash, "/libc-", 6));
            if (!(r->flags & REGION_EXEC) || !slash || libc != !pass || strstr(slash, "ld-linux"))
                continue;
            const uint64_t most = libc && left > LIBRARY_MOST ? LIBRARY_MOST : left;
            uint64_t here = most;
            found = find_in(t, r, all, code, &here, p);
            left -= most - here;
        }
    free(code);
    return found;
}

bool code_find_return(struct target *t, struct code_pieces *p) { return find(t, false, p); }

bool code_find_all(struct target *t, struct code_pieces *p)
{
    return (p->sigreturn && p->call && p->exit) || find(t, true, p);
}
