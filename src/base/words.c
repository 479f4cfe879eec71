/* words.c - Appends 64-bit numbers to a list and reads them back in the same order. Reading past
 * the end yields zeros and marks the list as failed. */
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void words_put_all(struct words *w, const uint64_t *v, size_t n)
{
    if (w->failed || !ARRAY_ROOM(w->v, w->n + n + 1, w->room)) {
        w->failed = true;
        return;
    }
    if (n)
        memcpy(w->v + w->n, v, n * sizeof *v);
    w->n += n;
}

void words_put(struct words *w, uint64_t v) { words_put_all(w, &v, 1); }

void words_take_all(struct words *w, uint64_t *v, size_t n)
{
    if (w->failed || n > w->n - w->at) {
        w->failed = true;
        if (n)
            memset(v, 0, n * sizeof *v);
        return;
    }
    if (n)
        memcpy(v, w->v + w->at, n * sizeof *v);
    w->at += n;
}

uint64_t words_take(struct words *w)
{
    uint64_t v;
    words_take_all(w, &v, 1);
    return v;
}

uint64_t words_take_at_most(struct words *w, uint64_t most)
{
    const uint64_t v = words_take(w);
    if (v <= most)
        return v;
    w->failed = true;
    return 0;
}

bool words_make(struct words *w, size_t n)
{
    w->n = w->at = 0;
    if (!ARRAY_ROOM(w->v, n + 1, w->room))
        return false;
    memset(w->v, 0, n * sizeof *w->v);
    w->n = n;
    return true;
}

bool words_done(const struct words *w) { return !w->failed && w->at == w->n; }

void words_release(struct words *w)
{
    free(w->v);
    memset(w, 0, sizeof *w);
}
