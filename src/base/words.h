/* words.h - a list of numbers that is written and read in one order.
 *
 * Owns: the rule that a failure is sticky, as in trace/bytes.h: a list that ran out of memory, or
 * out of numbers, stays failed and is asked once, at the end. Tools only; any thread, no state. */
#ifndef MALLOW_BASE_WORDS_H
#define MALLOW_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words { /* zeroed at first */
    uint64_t *v;
    size_t n, room;
    size_t at; /* the next to be taken */
    bool failed;
};

void words_put(struct words *w, uint64_t v);
void words_put_all(struct words *w, const uint64_t *v, size_t n);
/* A structure that consists of numbers of 64 bits alone, or an array of such. */
#define WORDS_PUT(w, p, count)                                                                     \
    words_put_all(w, (const uint64_t *)(const void *)(p),                                          \
                  (count) * (sizeof *(p) / sizeof(uint64_t)))

/* The next number; 0 when there is none. */
uint64_t words_take(struct words *w);
/* The same, which is an index or a count: at most `most`. */
uint64_t words_take_at_most(struct words *w, uint64_t most);
void words_take_all(struct words *w, uint64_t *v, size_t n);
#define WORDS_TAKE(w, p, count)                                                                    \
    words_take_all(w, (uint64_t *)(void *)(p), (count) * (sizeof *(p) / sizeof(uint64_t)))
/* n zeros, to be filled. False without memory. */
bool words_make(struct words *w, size_t n);
/* True if nothing failed and all was taken. */
bool words_done(const struct words *w);
void words_release(struct words *w);

#endif
