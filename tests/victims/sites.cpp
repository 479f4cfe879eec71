// sites.cpp - blocks that leak, through functions that the compiler inlines, in threads, templates
// and lambdas. Truth: tests/truth/test_sites.py finds the lines by the words behind "SITE".
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "apart.h"

#define INLINE   inline __attribute__((always_inline))

void *volatile keep[100000];
static volatile int kept;

namespace store
{

static INLINE void *innermost(size_t n)
{
    return malloc(n); // SITE innermost
}

static INLINE void *middle(size_t n)
{
    return innermost(n + 1); // SITE middle
}

APART void leak_inlined()
{
    for (int i = 0; i < 7; i++)
        keep[kept++] = middle(1110); // SITE leak_inlined
}

template <class T> struct Box {
    T *value;
    APART void fill(int n)
    {
        value = static_cast<T *>(calloc(static_cast<size_t>(n), sizeof(T))); // SITE fill
        keep[kept++] = value;
    }
};

struct Item {
    char bytes[48];
};

APART void leak_template()
{
    for (int i = 0; i < 3; i++) {
        Box<Item> b;
        b.fill(10); // SITE leak_template
    }
}

APART Item *make_item()
{
    Item *p = new Item; // SITE make_item
    memset(p->bytes, 0, sizeof p->bytes);
    return p;
}

APART void leak_new()
{
    for (int i = 0; i < 5; i++)
        keep[kept++] = make_item(); // SITE leak_new
}

} // namespace store

APART static void one_path(size_t n)
{
    keep[kept++] = malloc(n); // SITE one_path
}

APART static void caller_one()
{
    one_path(100); // SITE caller_one
    asm volatile("");
}

APART static void caller_two()
{
    one_path(200); // SITE caller_two
    asm volatile("");
}

// Not leaked: freed before the end, but live at the peak.
APART static void *at_the_peak()
{
    void *p = malloc(1000000); // SITE at_the_peak
    keep[0] = p;
    return p;
}

APART static void in_a_thread()
{
    keep[kept++] = malloc(3333); // SITE in_a_thread
}

int main()
{
    store::leak_inlined();
    store::leak_template();
    store::leak_new();
    for (int i = 0; i < 4; i++)
        caller_one();
    for (int i = 0; i < 6; i++)
        caller_two();
    auto lambda = [](size_t n) APART {
        keep[kept++] = malloc(n); // SITE lambda
    };
    lambda(555);
    std::thread t(in_a_thread);
    t.join();
    void *p = at_the_peak(); // SITE main_peak
    free(p);
    return 0;
}
